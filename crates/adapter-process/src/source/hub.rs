//! What one run tells, to all who subscribed: nothing lost in silence, bounded memory.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::{Details, LogBatch, RunEvent, RunEventStream, RunStatus, StatusChange};

use super::waker::{remember, wake};

/// How much output is kept for a subscriber that is behind, and one batch more.
const QUEUE_BYTES: usize = 1 << 20;
/// From here on the reader waits for a subscriber, for as long as its patience lasts.
const HIGH_WATER: usize = QUEUE_BYTES / 2;
/// How many events are kept beyond which only output, statuses and children's events are, and how
/// many diagnostics.
const QUEUE_EVENTS: usize = 1024;
/// What a child's event takes besides its text.
const CHILD_EVENT_BYTES: usize = 1024;

/// Hands the events of one run to its subscribers.
///
/// The first subscriber gets everything since the start; a later one the present status first.
#[derive(Debug)]
pub(crate) struct Hub {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    status: Option<StatusChange>,
    /// The queue that the first subscriber takes over.
    waiting: Option<Queue>,
    subscribers: Vec<(u64, Queue)>,
    next_id: u64,
    closed: bool,
    /// Waits until nobody is behind.
    supervisor: Option<Waker>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<RunEvent>,
    /// Of output and of children's events.
    bytes: usize,
    /// How many diagnostics it was given since it was last emptied.
    diagnostics: usize,
    /// It was waited for in vain: output is counted, not kept, until it has caught up.
    lagging: bool,
    waker: Option<Waker>,
}

impl Default for Hub {
    fn default() -> Self {
        let state = State {
            status: None,
            waiting: Some(Queue::default()),
            subscribers: Vec::new(),
            next_id: 0,
            closed: false,
            supervisor: None,
        };
        Self {
            state: Mutex::new(state),
        }
    }
}

impl Hub {
    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last status event said.
    pub(crate) fn status(&self) -> RunStatus {
        let state = self.lock();
        state
            .status
            .as_ref()
            .map_or(RunStatus::Starting, |change| change.status)
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> RunEventStream {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        let queue = state.waiting.take().unwrap_or_else(|| {
            let mut queue = Queue::default();
            queue
                .events
                .extend(state.status.clone().map(RunEvent::Status));
            queue
        });
        // Mostly there is one; room for more would be held by every run.
        state.subscribers.reserve_exact(1);
        state.subscribers.push((id, queue));
        drop(state);
        Box::pin(Subscription {
            hub: self.clone(),
            id,
            taken: VecDeque::new(),
        })
    }

    /// Hands on an event; a status becomes the present one.
    pub(crate) fn push(&self, event: &RunEvent) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        if let RunEvent::Status(change) = event {
            state.status = Some(change.clone());
        }
        let wakers = state.each(|queue| queue.push(event));
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Hands on an event of a child of the run, of so many bytes on the wire. Returns whether a subscriber that is not given up
    /// has fallen behind.
    #[must_use]
    pub(crate) fn push_child(&self, event: &RunEvent, bytes: usize) -> bool {
        let mut behind = false;
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        let wakers = state.each(|queue| {
            queue.push_child(event, bytes);
            behind |= queue.is_behind();
        });
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        behind
    }

    /// Hands on the last event: nothing follows it.
    pub(crate) fn end(&self, change: StatusChange) {
        let event = RunEvent::Status(change.clone());
        let mut state = self.lock();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        state.status = Some(change);
        let wakers = state.each(|queue| queue.push(&event));
        let supervisor = state.supervisor.take();
        drop(state);
        drop(supervisor);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Hands on output. Returns whether a subscriber that is not given up has fallen behind.
    #[must_use]
    pub(crate) fn push_log(&self, batch: LogBatch) -> bool {
        let batch = Arc::new(batch);
        let mut behind = false;
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        let wakers = state.each(|queue| {
            queue.push_log(&batch);
            behind |= queue.is_behind();
        });
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
        behind
    }

    /// Ready when no subscriber that is not given up is behind. For the one supervisor.
    pub(super) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if !state.queues().any(|queue| queue.is_behind()) {
            return Poll::Ready(());
        }
        remember(&mut state.supervisor, context);
        Poll::Pending
    }

    /// Gives up waiting for those who are behind.
    pub(crate) fn give_up_laggards(&self) {
        for queue in self.lock().queues() {
            queue.lagging |= queue.is_behind();
        }
    }

    /// Ends all streams after what they still hold.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        let wakers = state.each(|_| {});
        let supervisor = state.supervisor.take();
        drop(state);
        drop(supervisor);
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn queues(&mut self) -> impl Iterator<Item = &mut Queue> {
        self.subscribers
            .iter_mut()
            .map(|(_, queue)| queue)
            .chain(&mut self.waiting)
    }

    fn each(&mut self, mut apply: impl FnMut(&mut Queue)) -> Vec<Waker> {
        let queues = self.queues();
        queues
            .filter_map(|queue| {
                apply(queue);
                queue.waker.take()
            })
            .collect()
    }
}

impl Queue {
    fn push(&mut self, event: &RunEvent) {
        match event {
            RunEvent::Status(_) => {}
            RunEvent::Error { timestamp, .. } => {
                self.diagnostics += 1;
                if self.diagnostics > QUEUE_EVENTS {
                    return;
                }
                if self.diagnostics == QUEUE_EVENTS {
                    let message = "what more is to be said is not kept until this was read";
                    return self.events.push_back(RunEvent::Error {
                        message: message.to_owned(),
                        timestamp: *timestamp,
                        details: Details::EMPTY,
                    });
                }
            }
            // The next heartbeat or sample says more than one that nobody takes.
            _ if self.events.len() >= QUEUE_EVENTS => return,
            _ => {}
        }
        self.events.push_back(event.clone());
    }

    fn push_log(&mut self, batch: &Arc<LogBatch>) {
        let bytes = cost(batch);
        if self.lagging || self.bytes > QUEUE_BYTES {
            return self.count_missed(RunEvent::LogMissed(batch.len() as u64));
        }
        self.bytes += bytes;
        self.events.push_back(RunEvent::Log(batch.clone()));
    }

    fn push_child(&mut self, event: &RunEvent, bytes: usize) {
        if self.lagging || self.bytes > QUEUE_BYTES {
            return self.count_missed(RunEvent::ChildEventsMissed(1));
        }
        self.bytes += CHILD_EVENT_BYTES + bytes;
        self.events.push_back(event.clone());
    }

    /// Adds to what was missed at the end of the queue: one entry of either kind, whatever order
    /// they come in.
    fn count_missed(&mut self, more: RunEvent) {
        for last in self.events.iter_mut().rev() {
            match (last, &more) {
                (RunEvent::LogMissed(missed), RunEvent::LogMissed(more))
                | (RunEvent::ChildEventsMissed(missed), RunEvent::ChildEventsMissed(more)) => {
                    *missed += more;
                    return;
                }
                (RunEvent::LogMissed(_) | RunEvent::ChildEventsMissed(_), _) => {}
                _ => break,
            }
        }
        self.events.push_back(more);
    }

    fn is_behind(&self) -> bool {
        !self.lagging && self.bytes > HIGH_WATER
    }
}

/// The memory of a batch.
fn cost(batch: &LogBatch) -> usize {
    128 + batch.text_bytes() + 5 * batch.len()
}

/// A subscriber's end. Takes the whole queue at once, so that a busy run locks once a batch.
#[derive(Debug)]
struct Subscription {
    hub: Arc<Hub>,
    id: u64,
    taken: VecDeque<RunEvent>,
}

impl Stream for Subscription {
    type Item = RunEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        if let Some(event) = self.taken.pop_front() {
            return Poll::Ready(Some(event));
        }
        let this = &mut *self;
        let mut state = this.hub.lock();
        let closed = state.closed;
        let Some((_, queue)) = state.subscribers.iter_mut().find(|(id, _)| *id == this.id) else {
            return Poll::Ready(None);
        };
        std::mem::swap(&mut queue.events, &mut this.taken);
        queue.bytes = 0;
        queue.diagnostics = 0;
        queue.lagging = false;
        if let Some(event) = this.taken.pop_front() {
            let supervisor = state.supervisor.take();
            drop(state);
            wake(supervisor);
            return Poll::Ready(Some(event));
        }
        if closed {
            return Poll::Ready(None);
        }
        remember(&mut queue.waker, cx);
        // An idle subscriber holds no room.
        queue.events = VecDeque::new();
        this.taken = VecDeque::new();
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut state = self.hub.lock();
        state.subscribers.retain(|(id, _)| *id != self.id);
        let supervisor = state.supervisor.take();
        drop(state);
        wake(supervisor);
    }
}

#[cfg(test)]
mod tests;
