//! What one run tells, to all who subscribed: nothing lost in silence, bounded memory.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::{LogBatch, RunEvent, RunEventStream, RunStatus, StatusChange};

use super::waker::{remember, wake};

/// How much output is kept for a subscriber that is behind, and one batch more.
const QUEUE_BYTES: usize = 1 << 20;
/// From here on the reader waits for a subscriber, for as long as its patience lasts.
const HIGH_WATER: usize = QUEUE_BYTES / 2;
/// How many events other than output and status are kept.
const QUEUE_EVENTS: usize = 1024;

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
    log_bytes: usize,
    child_events: usize,
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

    /// Hands on an event of a child of the run. Returns whether a subscriber that is not given up
    /// has fallen behind.
    #[must_use]
    pub(crate) fn push_child(&self, event: &RunEvent) -> bool {
        let mut behind = false;
        let mut state = self.lock();
        if state.closed {
            return false;
        }
        let wakers = state.each(|queue| {
            queue.push_child(event);
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
        // The next heartbeat or sample says more than one that nobody takes.
        if !matches!(event, RunEvent::Status(_)) && self.events.len() >= QUEUE_EVENTS {
            return;
        }
        self.events.push_back(event.clone());
    }

    fn push_log(&mut self, batch: &Arc<LogBatch>) {
        let bytes = cost(batch);
        if self.lagging || self.log_bytes > QUEUE_BYTES {
            let lines = batch.len() as u64;
            match self.events.back_mut() {
                Some(RunEvent::LogMissed(missed)) => *missed += lines,
                _ => self.events.push_back(RunEvent::LogMissed(lines)),
            }
            return;
        }
        self.log_bytes += bytes;
        self.events.push_back(RunEvent::Log(batch.clone()));
    }

    fn push_child(&mut self, event: &RunEvent) {
        if self.lagging || self.child_events >= QUEUE_EVENTS {
            match self.events.back_mut() {
                Some(RunEvent::ChildEventsMissed(missed)) => *missed += 1,
                _ => self.events.push_back(RunEvent::ChildEventsMissed(1)),
            }
            return;
        }
        self.child_events += 1;
        self.events.push_back(event.clone());
    }

    fn is_behind(&self) -> bool {
        !self.lagging && (self.log_bytes > HIGH_WATER || self.child_events > QUEUE_EVENTS / 2)
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
        queue.log_bytes = 0;
        queue.child_events = 0;
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
mod tests {
    use futures_util::{FutureExt, StreamExt};
    use headcount_contract::{OutputStream, Timestamp};

    use super::*;
    use crate::source::waker::tests::Wakers;

    fn batch(bytes: usize) -> LogBatch {
        let mut batch = LogBatch::new(OutputStream::Stdout, Timestamp::UNIX_EPOCH, 1);
        batch.push_lines(&format!("{}\n", "x".repeat(bytes)), bytes);
        batch
    }

    /// What happened, how often it wakes, and how it happens.
    type Way = (&'static str, usize, fn(&Hub, RunEventStream, StatusChange));

    #[test]
    fn whoever_waits_for_room_is_woken_by_it_and_not_kept_after_the_end() {
        let ended = StatusChange::new(RunStatus::Stopped, Timestamp::UNIX_EPOCH);
        let ways: [Way; 4] = [
            ("a subscriber takes what it has", 1, |_, mut stream, _| {
                assert!(stream.next().now_or_never().is_some());
            }),
            ("a subscriber goes", 1, |_, stream, _| drop(stream)),
            ("the run ends", 0, |hub, _, ended| hub.end(ended)),
            ("the supervisor is gone", 0, |hub, _, _| hub.close()),
        ];
        for (name, woken, way) in ways {
            let hub = Arc::new(Hub::default());
            let stream = hub.subscribe();
            assert!(hub.push_log(batch(HIGH_WATER + 1)), "behind");
            let wakers = Wakers::default();
            let waker = wakers.waker();
            assert!(hub.poll_room(&mut Context::from_waker(&waker)).is_pending());
            drop(waker);
            way(&hub, stream, ended.clone());
            assert_eq!(wakers.woken(), woken, "{name}");
            assert_eq!(wakers.kept(), 0, "{name}");
        }
    }
}
