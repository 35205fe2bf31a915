//! What is kept for one subscriber is bounded, and nobody harms another.

use std::task::Wake;

use futures_util::{FutureExt, StreamExt};
use headcount_contract::{
    Capabilities, ChildIdentity, Details, EventId, EventKind, SourceEpoch, SourceIdentity,
    Timestamp,
};
use serde_json::json;

use super::*;

/// An event of about a kilobyte.
fn event(n: u32) -> Change {
    let id = ChildId::new("a").unwrap();
    let source = SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap());
    let event = LifecycleEvent::new(
        EventId::new(n.to_string()).unwrap(),
        source,
        ChildIdentity::root(id),
        EventKind::Heartbeat,
        Timestamp::UNIX_EPOCH,
        Capabilities::UNKNOWN,
    );
    let details = Details::from_iter([("said", json!("x".repeat(500)))]);
    Change::Event(Arc::new(event.with_details(details)))
}

fn drain(stream: &mut ChangeStream) -> Vec<String> {
    std::iter::from_fn(|| stream.next().now_or_never().flatten())
        .map(|change| match change {
            Change::Event(event) => event.event_id().to_string(),
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn what_waits_is_bounded_in_bytes_too() {
    let hub = Hub::new(100, 2500);
    let mut slow = hub.subscribe(Delivery::Lossy);
    let mut small = Hub::new(100, 0).subscribe(Delivery::Lossy);
    hub.publish((1..=5).map(event).collect());
    assert_eq!(drain(&mut slow), ["1", "2", "Lagged(3)"]);
    hub.publish(vec![event(6)]);
    assert_eq!(drain(&mut slow), ["6"]);
    small.hub.publish(vec![event(1), event(2)]);
    assert_eq!(drain(&mut small), ["1", "Lagged(1)"]);
}

#[test]
fn a_lossless_subscriber_stops_the_host_by_bytes_too() {
    let hub = Hub::new(100, 1500);
    let mut stream = hub.subscribe(Delivery::Lossless);
    hub.publish((1..=3).map(event).collect());
    let mut ready = std::pin::pin!(hub.ready());
    assert!(ready.as_mut().now_or_never().is_none());
    assert!(stream.next().now_or_never().is_some());
    assert!(ready.now_or_never().is_some());
    assert_eq!(drain(&mut stream), ["2", "3"]);
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        // Not told by the panic hook: the test's output stays clean.
        std::panic::resume_unwind(Box::new("woken"));
    }
}

#[test]
fn a_subscriber_that_panics_when_it_is_woken_harms_nobody() {
    let hub = Hub::new(100, 1 << 20);
    let (mut bad, mut good) = (
        hub.subscribe(Delivery::Lossy),
        hub.subscribe(Delivery::Lossy),
    );
    let waker = Waker::from(Arc::new(Panics));
    let mut cx = Context::from_waker(&waker);
    assert!(bad.poll_next_unpin(&mut cx).is_pending());
    hub.publish(vec![event(1)]);
    assert_eq!(drain(&mut good), ["1"]);
    assert_eq!(drain(&mut bad), ["1"]);
}
