//! One order, bounded, and nobody harmed by another.

use super::*;
use crate::testing::event;
use futures_util::{FutureExt, StreamExt};
use headcount_contract::{
    ChildId, EventKind, LineFlags, LogBatch, Observation, Outcome, OutputStream, Timestamp,
};

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

fn saying(text: &str, n: u64) -> Signal {
    let said = event("a", n, EventKind::Activity);
    Signal::Event(said.with_activity(headcount_contract::Activity::new(text)))
}

#[test]
fn what_waits_is_bounded_in_bytes_too() {
    let fanout = Fanout::new(1000).with_max_bytes(1200);
    let mut slow = fanout.subscribe().unwrap();
    let text = "x".repeat(300);
    fanout.publish_all((1..=4).map(|n| saying(&text, n)));
    fanout.publish_all(["a", "a"].map(line));
    assert_eq!(
        drain(&mut slow),
        ["a-1", "a-2", "Lagged { missed: 2 }", "a -2"]
    );
    fanout.publish(saying(&text, 5));
    assert_eq!(drain(&mut slow), ["a-5"], "there is room again");
}

#[test]
fn one_signal_is_kept_whatever_its_size() {
    let fanout = Fanout::new(8).with_max_bytes(0);
    let mut stream = fanout.subscribe().unwrap();
    fanout.publish_all((1..=2).map(heartbeat));
    assert_eq!(drain(&mut stream), ["a-1", "Lagged { missed: 1 }"]);
}

#[tokio::test]
async fn send_waits_for_room_in_bytes() {
    let fanout = Fanout::new(1000).with_max_bytes(1);
    let mut stream = fanout.subscribe().unwrap();
    fanout.send(heartbeat(1)).await;
    let mut second = std::pin::pin!(fanout.send(heartbeat(2)));
    assert!(second.as_mut().now_or_never().is_none());
    assert!(stream.next().await.is_some());
    second.await;
    assert_eq!(drain(&mut stream), ["a-2"]);
}

struct Panics;

impl std::task::Wake for Panics {
    fn wake(self: Arc<Self>) {
        // Not told by the panic hook: the test's output stays clean.
        std::panic::resume_unwind(Box::new("woken"));
    }
}

#[test]
fn a_waker_that_panics_keeps_nobody_from_being_woken() {
    let fanout = Fanout::new(8);
    let (mut bad, mut good) = (fanout.subscribe().unwrap(), fanout.subscribe().unwrap());
    let panics = Waker::from(Arc::new(Panics));
    assert!(
        bad.poll_next_unpin(&mut Context::from_waker(&panics))
            .is_pending()
    );
    let (woken, counter) = counting();
    assert!(
        good.poll_next_unpin(&mut Context::from_waker(&woken))
            .is_pending()
    );
    fanout.publish(heartbeat(1));
    assert_eq!(counter.0.load(std::sync::atomic::Ordering::SeqCst), 1);
    assert!(
        bad.poll_next_unpin(&mut Context::from_waker(&panics))
            .is_ready()
    );
    assert!(
        bad.poll_next_unpin(&mut Context::from_waker(&panics))
            .is_pending()
    );
    fanout.close();
    assert_eq!(drain(&mut good), ["a-1"]);
}

#[derive(Default)]
struct Counts(std::sync::atomic::AtomicUsize);

impl std::task::Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

fn counting() -> (Waker, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Waker::from(counts.clone()), counts)
}

#[test]
fn signals_may_be_made_by_what_uses_the_fanout_itself() {
    let fanout = Fanout::new(8);
    let mut stream = fanout.subscribe().unwrap();
    fanout.publish_all((1..=2).map(|n| {
        assert_eq!(fanout.subscribers(), 1);
        heartbeat(n)
    }));
    assert_eq!(drain(&mut stream), ["a-1", "a-2"]);
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
