//! The stream of changes: one order for all, bounded for each, nothing lost in silence.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::{ChildId, Health, LifecycleEvent, Observation, SourceId};
use headcount_projector::AuditEntry;
use tokio::sync::Notify;

use crate::ChildView;

/// Something that changed, in the order in which it did.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Change {
    /// An event that was accepted, or that the projection derived; the journal, if there is one,
    /// has it. Written as JSON lines these are a lifecycle stream of their own.
    Event(Arc<LifecycleEvent>),
    /// A child's record, or what is shown beside it, is now this. Several changes of one moment
    /// come as one.
    Child(Arc<ChildView>),
    /// A child that had ended was given up for room.
    Forgotten {
        /// Whose child.
        source: SourceId,
        /// Which one.
        child: ChildId,
    },
    /// Something that whoever checks the projection later must be able to see.
    Audit(Arc<AuditEntry>),
    /// Something to show beside a child: its output, what it uses.
    Observation {
        /// Whose child.
        source: SourceId,
        /// Which one.
        child: ChildId,
        /// What was seen.
        observation: Observation,
    },
    /// An adapter's health is now this.
    Health {
        /// The adapter's source.
        source: SourceId,
        /// Its health, with what the host itself has to say of it.
        health: Arc<Health>,
    },
    /// The journal is no longer appended to, or is again.
    Journal(Arc<crate::JournalHealth>),
    /// Whether an adapter's source can bring more: it has finished.
    Finished {
        /// The adapter's source.
        source: SourceId,
    },
    /// The subscriber was too slow, and missed this many changes here.
    Lagged(u64),
}

/// What happens when a subscriber does not keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// It misses changes, and is told how many: for something to look at.
    #[default]
    Lossy,
    /// The host reads its adapters no further until it has room: for something that must have every
    /// event, as a pipe. A subscriber that stops taking stops the whole host.
    Lossless,
}

/// A subscription to [`Change`]s. Dropping it unsubscribes. It ends when the host has stopped.
#[derive(Debug)]
pub struct ChangeStream {
    hub: Arc<Hub>,
    id: u64,
    taken: VecDeque<Change>,
}

/// All subscribers.
#[derive(Debug)]
pub(crate) struct Hub {
    bounds: Bounds,
    state: Mutex<State>,
    /// Told whenever a lossless subscriber has taken what it had, or is gone.
    room: Notify,
}

/// How much is kept for one subscriber.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    changes: usize,
    bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    subscribers: BTreeMap<u64, Subscriber>,
    next_id: u64,
    closed: bool,
    missed: u64,
}

#[derive(Debug)]
struct Subscriber {
    delivery: Delivery,
    queue: VecDeque<Change>,
    /// How large they are together, about.
    bytes: usize,
    /// How many were missed after what is in the queue.
    missed: u64,
    waker: Option<Waker>,
}

impl Hub {
    pub(crate) fn new(capacity: usize, max_bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            bounds: Bounds {
                changes: capacity.max(1),
                bytes: max_bytes,
            },
            state: Mutex::default(),
            room: Notify::new(),
        })
    }

    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(self: &Arc<Self>, delivery: Delivery) -> ChangeStream {
        let mut state = self.lock();
        let id = state.next_id;
        state.next_id += 1;
        if !state.closed {
            let subscriber = Subscriber {
                delivery,
                queue: VecDeque::new(),
                bytes: 0,
                missed: 0,
                waker: None,
            };
            state.subscribers.insert(id, subscriber);
        }
        drop(state);
        ChangeStream {
            hub: self.clone(),
            id,
            taken: VecDeque::new(),
        }
    }

    /// Whether anybody listens: without, changes need not be made.
    pub(crate) fn is_deserted(&self) -> bool {
        self.lock().subscribers.is_empty()
    }

    /// How many changes subscribers have missed, all together.
    pub(crate) fn missed(&self) -> u64 {
        self.lock().missed
    }

    pub(crate) fn publish(&self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let wakers: Vec<_> = {
            let mut state = self.lock();
            let State {
                subscribers,
                missed,
                ..
            } = &mut *state;
            let mut rest = subscribers.values_mut().peekable();
            let mut changes = Some(changes);
            while let Some(subscriber) = rest.next() {
                // The last subscriber takes the changes themselves, the others clones.
                let own = if rest.peek().is_none() {
                    changes.take()
                } else {
                    changes.clone()
                };
                *missed += subscriber.push(own.unwrap_or_default(), self.bounds);
            }
            state
                .subscribers
                .values_mut()
                .filter_map(|s| s.waker.take())
                .collect()
        };
        wake_all(wakers);
    }

    /// Whether a lossless subscriber has no room.
    pub(crate) fn is_full(&self) -> bool {
        self.lock()
            .subscribers
            .values()
            .any(|s| s.delivery == Delivery::Lossless && !s.has_room(0, self.bounds))
    }

    /// Completes when every lossless subscriber has room.
    pub(crate) async fn ready(&self) {
        loop {
            let room = self.room.notified();
            if !self.is_full() {
                return;
            }
            room.await;
        }
    }

    /// Ends all streams after what they still hold.
    pub(crate) fn close(&self) {
        let wakers: Vec<_> = {
            let mut state = self.lock();
            state.closed = true;
            state
                .subscribers
                .values_mut()
                .filter_map(|s| s.waker.take())
                .collect()
        };
        wake_all(wakers);
        self.room.notify_one();
    }
}

/// Wakes them all; a waker that panics keeps no other from being woken, nor the host from going on.
fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        // What a subscriber does when it is woken is its own affair, and so is its panic.
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

/// About how large a change is in memory, in bytes.
fn size(change: &Change) -> usize {
    /// For what is of one size, such as ids and times.
    const ALLOWANCE: usize = 512;
    let more = match change {
        Change::Event(event) => {
            let activity = event.activity().map_or(0, |text| text.as_str().len());
            event.details().as_json().len() + activity
        }
        Change::Observation {
            observation: Observation::Output(batch),
            ..
        } => batch.text_bytes(),
        _ => 0,
    };
    ALLOWANCE + more
}

impl Subscriber {
    /// Whether there is room for `more` bytes. Where nothing waits there is room for any.
    fn has_room(&self, more: usize, bounds: Bounds) -> bool {
        self.queue.is_empty()
            || self.queue.len() < bounds.changes && self.bytes.saturating_add(more) <= bounds.bytes
    }

    /// Adds changes, or counts them as missed; returns how many were.
    fn push(&mut self, changes: Vec<Change>, bounds: Bounds) -> u64 {
        let mut newly_missed = 0;
        for change in changes {
            let size = size(&change);
            if self.delivery == Delivery::Lossy && !self.has_room(size, bounds) {
                newly_missed += 1;
                continue;
            }
            let missed = std::mem::take(&mut self.missed);
            if missed > 0 {
                self.queue.push_back(Change::Lagged(missed));
            }
            self.bytes = self.bytes.saturating_add(size);
            self.queue.push_back(change);
        }
        self.missed += newly_missed;
        newly_missed
    }
}

impl Stream for ChangeStream {
    type Item = Change;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Change>> {
        if let Some(change) = self.taken.pop_front() {
            return Poll::Ready(Some(change));
        }
        let this = &mut *self;
        // A waker is code of others: it is cloned and dropped when the lock is not held.
        let waker = cx.waker().clone();
        let mut state = this.hub.lock();
        let closed = state.closed;
        let Some(subscriber) = state.subscribers.get_mut(&this.id) else {
            return Poll::Ready(None);
        };
        std::mem::swap(&mut subscriber.queue, &mut this.taken);
        let taken = std::mem::take(&mut subscriber.bytes);
        if let Some(change) = this.taken.pop_front() {
            let Bounds { changes, bytes } = this.hub.bounds;
            let was_full = this.taken.len() + 1 >= changes || taken >= bytes;
            drop(state);
            if was_full {
                this.hub.room.notify_one();
            }
            return Poll::Ready(Some(change));
        }
        let missed = std::mem::take(&mut subscriber.missed);
        if missed > 0 {
            return Poll::Ready(Some(Change::Lagged(missed)));
        }
        if closed {
            return Poll::Ready(None);
        }
        let before = subscriber.waker.replace(waker);
        drop(state);
        drop(before);
        Poll::Pending
    }
}

impl Drop for ChangeStream {
    fn drop(&mut self) {
        let gone = self.hub.lock().subscribers.remove(&self.id);
        // Dropped outside of the lock: a waker may run code of others.
        drop(gone);
        self.hub.room.notify_one();
    }
}
