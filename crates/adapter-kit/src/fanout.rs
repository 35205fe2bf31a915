//! One stream of signals to many subscribers: one order, bounded memory, nothing lost in silence.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::{
    AdapterError, AdapterErrorKind, ChildId, Discontinuity, DiscontinuityCause, EventKind, Gap,
    Observation, Signal, SignalStream,
};
use tokio::sync::Notify;

/// Hands each signal to every subscriber, in one order.
///
/// # Behavior
///
/// - [`send`](Self::send) waits until every subscriber has room: for a source that can be paused.
/// - [`publish`](Self::publish) never waits: a subscriber without room misses the signal and finds
///   a [`Discontinuity`] (or, for output, [`Observation::OutputMissed`]) in its place that says how
///   many. An event that ends a child is never missed, and one that carries a state only beyond
///   four times the capacity.
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

#[derive(Debug, Default)]
struct Subscriber {
    queue: VecDeque<Signal>,
    waker: Option<Waker>,
}

impl Shared {
    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fanout {
    /// A fan-out that keeps up to `capacity` signals for each subscriber (at least 1).
    pub fn new(capacity: usize) -> Self {
        let shared = Shared {
            capacity: capacity.max(1),
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

    /// Hands on signals without waiting, under one lock.
    pub fn publish_all(&self, signals: impl IntoIterator<Item = Signal>) {
        let capacity = self.shared.capacity;
        self.deliver(signals, |queue, signal| {
            if queue.len() < capacity.saturating_mul(weight(&signal)) {
                queue.push_back(signal);
            } else {
                note_missed(queue, &signal);
            }
        });
    }

    /// Hands on a signal once every subscriber has room.
    pub async fn send(&self, signal: Signal) {
        self.send_all([signal]).await;
    }

    /// Hands on signals once every subscriber has room for one; together they may overshoot the
    /// capacity by their number.
    pub async fn send_all(&self, signals: impl IntoIterator<Item = Signal>) {
        self.ready().await;
        self.deliver(signals, VecDeque::push_back);
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
                    .any(|s| s.queue.len() >= self.shared.capacity)
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
        let wakers: Vec<_> = {
            let mut state = self.shared.lock();
            state.closed = true;
            state
                .subscribers
                .values_mut()
                .filter_map(|s| s.waker.take())
                .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
        self.shared.room.notify_waiters();
    }

    fn deliver(
        &self,
        signals: impl IntoIterator<Item = Signal>,
        push: impl Fn(&mut VecDeque<Signal>, Signal),
    ) {
        let wakers: Vec<_> = {
            let mut state = self.shared.lock();
            if state.closed {
                return;
            }
            for signal in signals {
                // The last subscriber takes the signal itself, the others a clone.
                let mut subscribers = state.subscribers.values_mut().peekable();
                while let Some(subscriber) = subscribers.next() {
                    if subscribers.peek().is_none() {
                        push(&mut subscriber.queue, signal);
                        break;
                    }
                    push(&mut subscriber.queue, signal.clone());
                }
            }
            state
                .subscribers
                .values_mut()
                .filter_map(|s| s.waker.take())
                .collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Fanout {
    fn drop(&mut self) {
        self.close();
    }
}

/// How many times the capacity a signal may fill: the end of a child, of which there is one, any.
fn weight(signal: &Signal) -> usize {
    let Signal::Event(event) = signal else {
        return 1;
    };
    match event.kind() {
        EventKind::Terminal(_) => usize::MAX,
        EventKind::StateChanged(state) if state.is_terminal() => usize::MAX,
        EventKind::Created | EventKind::StateChanged(_) => 4,
        _ => 1,
    }
}

/// Counts a missed signal in the marker at the queue's end, or adds a marker.
fn note_missed(queue: &mut VecDeque<Signal>, missed: &Signal) {
    if let Signal::Observation(child, observation) = missed {
        let lines = match observation {
            Observation::Output(batch) => batch.len() as u64,
            Observation::OutputMissed(lines) => *lines,
            // The next sample says more than the one that was missed.
            _ => return,
        };
        return note_missed_lines(queue, child, lines);
    }
    // A marker must follow every event that was kept, so that the hole stands where it was.
    for kept in queue.iter_mut().rev() {
        match kept {
            Signal::Discontinuity(Discontinuity {
                cause: DiscontinuityCause::Lagged { missed },
                ..
            }) => {
                *missed += 1;
                return;
            }
            Signal::Observation(..) => {}
            _ => break,
        }
    }
    queue.push_back(Signal::Discontinuity(Discontinuity {
        cause: DiscontinuityCause::Lagged { missed: 1 },
        gap: Gap::Possible,
    }));
}

/// Markers stand only at the queue's end, one a child, so their number is bounded by that of the
/// children.
fn note_missed_lines(queue: &mut VecDeque<Signal>, child: &ChildId, lines: u64) {
    for kept in queue.iter_mut().rev() {
        match kept {
            Signal::Observation(of, Observation::OutputMissed(missed)) if of == child => {
                *missed += lines;
                return;
            }
            Signal::Observation(_, Observation::OutputMissed(_)) | Signal::Discontinuity(_) => {}
            _ => break,
        }
    }
    queue.push_back(Signal::Observation(
        child.clone(),
        Observation::OutputMissed(lines),
    ));
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
        let mut state = this.shared.lock();
        let closed = state.closed;
        let Some(subscriber) = state.subscribers.get_mut(&this.id) else {
            return Poll::Ready(None);
        };
        if subscriber.queue.is_empty() {
            if closed {
                return Poll::Ready(None);
            }
            subscriber.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        std::mem::swap(&mut this.taken, &mut subscriber.queue);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;
    use futures_util::{FutureExt, StreamExt};
    use headcount_contract::{LineFlags, LogBatch, Outcome, OutputStream, Timestamp};

    fn drain(stream: &mut SignalStream) -> Vec<String> {
        std::iter::from_fn(|| stream.next().now_or_never().flatten())
            .map(|s| describe(&s))
            .collect()
    }

    fn describe(signal: &Signal) -> String {
        match signal {
            Signal::Event(event) => event.event_id().to_string(),
            Signal::Discontinuity(d) => format!("{:?}", d.cause),
            Signal::Observation(child, Observation::OutputMissed(n)) => format!("{child} -{n}"),
            other => format!("{other:?}"),
        }
    }

    fn heartbeat(n: u64) -> Signal {
        Signal::Event(event("a", n, EventKind::Heartbeat))
    }

    fn line(child: &str) -> Signal {
        let mut batch = LogBatch::new(OutputStream::Stdout, Timestamp::UNIX_EPOCH, 1);
        batch.push("x", LineFlags::default());
        let child = ChildId::new(child).unwrap();
        Signal::Observation(child, Observation::Output(Arc::new(batch)))
    }

    #[test]
    fn all_subscribers_see_one_order() {
        let fanout = Fanout::new(8);
        let (mut a, mut b) = (fanout.subscribe().unwrap(), fanout.subscribe().unwrap());
        fanout.publish_all((1..=3).map(heartbeat));
        let seen = drain(&mut a);
        assert_eq!(seen, ["a-1", "a-2", "a-3"]);
        assert_eq!(drain(&mut b), seen);
    }

    #[test]
    fn a_slow_subscriber_is_told_how_much_it_missed_and_where() {
        let fanout = Fanout::new(2);
        let mut slow = fanout.subscribe().unwrap();
        fanout.publish_all((1..=5).map(heartbeat));
        fanout.publish(Signal::Event(event(
            "a",
            6,
            EventKind::Terminal(Outcome::Failed),
        )));
        fanout.publish(heartbeat(7));
        assert_eq!(
            drain(&mut slow),
            [
                "a-1",
                "a-2",
                "Lagged { missed: 3 }",
                "a-6",
                "Lagged { missed: 1 }"
            ]
        );
        fanout.publish(heartbeat(8));
        assert_eq!(drain(&mut slow), ["a-8"]);
    }

    #[test]
    fn missed_output_is_counted_by_child_and_makes_no_discontinuity() {
        let fanout = Fanout::new(1);
        let mut slow = fanout.subscribe().unwrap();
        fanout.publish(heartbeat(1));
        fanout.publish_all(["a", "b", "a", "a"].map(line));
        assert_eq!(drain(&mut slow), ["a-1", "a -3", "b -1"]);
    }

    #[test]
    fn a_dropped_stream_unsubscribes() {
        let fanout = Fanout::new(1);
        drop(fanout.subscribe().unwrap());
        assert_eq!(fanout.subscribers(), 0);
    }

    #[test]
    fn streams_end_after_what_they_hold_once_the_fanout_is_gone() {
        let fanout = Fanout::new(8);
        let mut stream = fanout.subscribe().unwrap();
        fanout.publish(heartbeat(1));
        drop(fanout);
        assert!(stream.next().now_or_never().flatten().is_some());
        assert!(matches!(stream.next().now_or_never(), Some(None)));
    }

    #[test]
    fn a_closed_fanout_refuses_subscribers() {
        let fanout = Fanout::new(8);
        fanout.close();
        let error = fanout.subscribe().err().unwrap();
        assert_eq!(error.kind(), AdapterErrorKind::Closed);
    }

    #[tokio::test]
    async fn send_waits_for_the_slowest() {
        let fanout = Fanout::new(1);
        let mut stream = fanout.subscribe().unwrap();
        fanout.send(heartbeat(1)).await;
        let mut second = std::pin::pin!(fanout.send(heartbeat(2)));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(stream.next().await.is_some());
        second.await;
        assert_eq!(drain(&mut stream), ["a-2"]);
    }
}
