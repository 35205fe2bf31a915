//! One stream of signals to many subscribers: one order, bounded memory, nothing lost in silence.

mod queue;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::{AdapterError, AdapterErrorKind, Signal, SignalStream};
use tokio::sync::Notify;

use self::queue::{Subscriber, note_missed, size, weight};

/// Hands each signal to every subscriber, in one order.
///
/// # Behavior
///
/// - [`send`](Self::send) waits until every subscriber has room: for a source that can be paused.
/// - [`publish`](Self::publish) never waits: a subscriber without room misses the signal and finds
///   a [`Discontinuity`](headcount_contract::Discontinuity) (or, for output,
///   [`OutputMissed`](headcount_contract::Observation::OutputMissed)) in its place that says how
///   many. An event that ends a child is never missed, and one that carries a state only beyond
///   four times the capacity.
/// - What waits for a subscriber is bounded by the number of signals and by their size
///   ([`with_max_bytes`](Self::with_max_bytes)); what it has begun to take is kept beside that until
///   it has taken it, at most as much again.
/// - A subscriber's waker runs when no lock is held, and may do anything: subscribe, unsubscribe, or
///   panic, which harms nobody else.
/// - Dropping a stream unsubscribes it. Closing or dropping the fan-out ends all streams after what
///   they still hold.
///
/// ```
/// use futures_util::StreamExt;
/// use headcount_adapter_kit::Fanout;
/// use headcount_contract::{Health, HealthStatus, Signal};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let fanout = Fanout::new(64);
/// let mut stream = fanout.subscribe()?;
/// fanout.publish(Signal::Health(Health::new(HealthStatus::Healthy)));
/// fanout.close();
/// assert!(matches!(stream.next().await, Some(Signal::Health(_))));
/// assert!(stream.next().await.is_none());
/// # Ok::<(), headcount_contract::AdapterError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Fanout {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    capacity: usize,
    max_bytes: usize,
    state: Mutex<State>,
    /// Told whenever a subscriber has taken what it had, or is gone.
    room: Notify,
}

#[derive(Debug, Default)]
struct State {
    subscribers: BTreeMap<u64, Subscriber>,
    next_id: u64,
    closed: bool,
}

impl Shared {
    /// Whether a subscriber has room for `more` bytes of signals that may fill the bounds `times`.
    /// One without anything to take has room for any.
    fn has_room(&self, subscriber: &Subscriber, more: usize, times: usize) -> bool {
        subscriber.queue.is_empty()
            || subscriber.queue.len() < self.capacity.saturating_mul(times)
                && subscriber.bytes.saturating_add(more) <= self.max_bytes.saturating_mul(times)
    }

    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom to wake, once no lock is held.
#[must_use = "whoever waits is not woken"]
pub(crate) struct Wakes(Vec<Waker>);

impl Wakes {
    /// Wakes them all; a waker that panics keeps no other from being woken.
    pub(crate) fn wake(self) {
        for waker in self.0 {
            // What a subscriber does when it is woken is its own affair, and so is its panic.
            let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
        }
    }
}

impl Fanout {
    /// How large, about, what waits for one subscriber may be: 16 MiB.
    pub const DEFAULT_MAX_BYTES: usize = 16 << 20;

    /// A fan-out that keeps up to `capacity` signals for each subscriber (at least 1), and up to
    /// [`DEFAULT_MAX_BYTES`](Self::DEFAULT_MAX_BYTES) of them.
    pub fn new(capacity: usize) -> Self {
        Self::with_bounds(capacity, Self::DEFAULT_MAX_BYTES)
    }

    /// The same with another bound in bytes. Texts and details are counted as they are, everything
    /// else by an allowance. What would go beyond it is missed, and told as missed, as what goes
    /// beyond the number is; one signal is kept in any case.
    ///
    /// ```
    /// use headcount_adapter_kit::Fanout;
    /// let fanout = Fanout::new(1024).with_max_bytes(1 << 20);
    /// assert_eq!(fanout.subscribers(), 0);
    /// ```
    #[must_use]
    pub fn with_max_bytes(self, bytes: usize) -> Self {
        // Nobody has subscribed to what is still being made.
        Self::with_bounds(self.shared.capacity, bytes)
    }

    fn with_bounds(capacity: usize, max_bytes: usize) -> Self {
        let shared = Shared {
            capacity: capacity.max(1),
            max_bytes,
            state: Mutex::default(),
            room: Notify::new(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Everything sent or published after the return arrives in this stream.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Closed`] after [`close`](Self::close).
    pub fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(AdapterError::new(
                AdapterErrorKind::Closed,
                "the adapter has been closed",
            ));
        }
        let id = state.next_id;
        state.next_id += 1;
        state.subscribers.insert(id, Subscriber::default());
        drop(state);
        Ok(Box::pin(Subscription {
            shared: self.shared.clone(),
            id,
            taken: VecDeque::new(),
        }))
    }

    /// How many subscribers there are.
    pub fn subscribers(&self) -> usize {
        self.shared.lock().subscribers.len()
    }

    /// Hands on a signal without waiting.
    pub fn publish(&self, signal: Signal) {
        self.publish_all([signal]);
    }

    /// Hands on signals without waiting, with nothing of others in between.
    pub fn publish_all(&self, signals: impl IntoIterator<Item = Signal>) {
        self.enqueue(signals.into_iter().collect()).wake();
    }

    /// As [`publish_all`](Self::publish_all), for a caller who holds a lock of its own: the waking
    /// is left for when it does not.
    pub(crate) fn enqueue(&self, signals: Vec<Signal>) -> Wakes {
        let shared = &self.shared;
        self.deliver(signals, |subscriber, signal| {
            if shared.has_room(subscriber, size(&signal), weight(&signal)) {
                subscriber.push(signal);
            } else {
                note_missed(&mut subscriber.queue, &signal);
            }
        })
    }

    /// Hands on a signal once every subscriber has room.
    pub async fn send(&self, signal: Signal) {
        self.send_all([signal]).await;
    }

    /// Hands on signals once every subscriber has room for one; together they may overshoot the
    /// bounds by their number and size.
    pub async fn send_all(&self, signals: impl IntoIterator<Item = Signal>) {
        let signals: Vec<_> = signals.into_iter().collect();
        self.ready().await;
        self.deliver(signals, Subscriber::push).wake();
    }

    /// Completes when every subscriber has room, or there is none.
    pub async fn ready(&self) {
        loop {
            let room = self.shared.room.notified();
            let full = {
                let state = self.shared.lock();
                state
                    .subscribers
                    .values()
                    .any(|subscriber| !self.shared.has_room(subscriber, 0, 1))
            };
            if !full {
                return;
            }
            room.await;
        }
    }

    /// Whether it has been closed.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    /// Ends all streams after what they still hold, and refuses new subscribers.
    pub fn close(&self) {
        let wakes = {
            let mut state = self.shared.lock();
            state.closed = true;
            state.wakes()
        };
        wakes.wake();
        self.shared.room.notify_waiters();
    }

    fn deliver(&self, signals: Vec<Signal>, push: impl Fn(&mut Subscriber, Signal)) -> Wakes {
        let mut state = self.shared.lock();
        if state.closed {
            return Wakes(Vec::new());
        }
        for signal in signals {
            // The last subscriber takes the signal itself, the others a clone.
            let mut subscribers = state.subscribers.values_mut().peekable();
            while let Some(subscriber) = subscribers.next() {
                if subscribers.peek().is_none() {
                    push(subscriber, signal);
                    break;
                }
                push(subscriber, signal.clone());
            }
        }
        state.wakes()
    }
}

impl State {
    fn wakes(&mut self) -> Wakes {
        let subscribers = self.subscribers.values_mut();
        Wakes(subscribers.filter_map(|s| s.waker.take()).collect())
    }
}

impl Drop for Fanout {
    fn drop(&mut self) {
        self.close();
    }
}

/// A subscriber's end. Takes the whole queue at once, so that a busy stream locks once a batch.
#[derive(Debug)]
struct Subscription {
    shared: Arc<Shared>,
    id: u64,
    taken: VecDeque<Signal>,
}

impl Stream for Subscription {
    type Item = Signal;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Signal>> {
        if let Some(signal) = self.taken.pop_front() {
            return Poll::Ready(Some(signal));
        }
        let this = &mut *self;
        // A waker is code of others: it is cloned and dropped when the lock is not held.
        let waker = cx.waker().clone();
        let mut state = this.shared.lock();
        let closed = state.closed;
        let Some(subscriber) = state.subscribers.get_mut(&this.id) else {
            return Poll::Ready(None);
        };
        if subscriber.queue.is_empty() {
            if closed {
                return Poll::Ready(None);
            }
            let before = subscriber.waker.replace(waker);
            drop(state);
            drop(before);
            return Poll::Pending;
        }
        std::mem::swap(&mut this.taken, &mut subscriber.queue);
        subscriber.bytes = 0;
        drop(state);
        this.shared.room.notify_waiters();
        Poll::Ready(this.taken.pop_front())
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let gone = self.shared.lock().subscribers.remove(&self.id);
        // Dropped outside of the lock: a waker may run code of others.
        drop(gone);
        self.shared.room.notify_waiters();
    }
}
