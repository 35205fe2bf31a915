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

fn error(message: &str) -> RunEvent {
    RunEvent::Error {
        message: message.to_owned(),
        timestamp: Timestamp::UNIX_EPOCH,
        details: Details::EMPTY,
    }
}

fn taken(stream: &mut RunEventStream) -> Vec<RunEvent> {
    std::iter::from_fn(|| stream.next().now_or_never().flatten()).collect()
}

#[test]
fn what_is_missed_is_two_numbers_however_it_comes() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.subscribe();
    assert!(hub.push_log(batch(HIGH_WATER + 1)));
    hub.give_up_laggards();
    for _ in 0..1000 {
        let _ = hub.push_log(batch(1));
        let _ = hub.push_child(&error("stands for a child's event"), 1);
    }
    let missed = &taken(&mut stream)[1..];
    assert!(
        matches!(
            missed,
            [RunEvent::LogMissed(1000), RunEvent::ChildEventsMissed(1000)]
        ),
        "{missed:?}"
    );
}

#[test]
fn large_events_of_children_are_bounded_by_their_bytes() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.subscribe();
    let behind: Vec<bool> = (0..5)
        .map(|_| hub.push_child(&error("stands for a child's event"), QUEUE_BYTES / 2))
        .collect();
    assert_eq!(behind, [true; 5]);
    let kept = taken(&mut stream);
    assert!(
        matches!(kept[..], [_, _, RunEvent::ChildEventsMissed(3)]),
        "{kept:?}"
    );
}

#[test]
fn diagnostics_are_kept_beside_much_output_and_say_when_they_are_not() {
    let hub = Arc::new(Hub::default());
    let mut stream = hub.subscribe();
    for _ in 0..QUEUE_EVENTS {
        assert!(!hub.push_log(batch(1)));
    }
    for at in 0..2 * QUEUE_EVENTS {
        hub.push(&error(&at.to_string()));
    }
    let kept = taken(&mut stream);
    let said = kept.iter().filter_map(|event| match event {
        RunEvent::Error { message, .. } => Some(message.as_str()),
        _ => None,
    });
    let said: Vec<_> = said.collect();
    assert_eq!(said.len(), QUEUE_EVENTS);
    assert!(said.last().unwrap().contains("is not kept"));
    hub.push(&error("again"));
    assert_eq!(taken(&mut stream).len(), 1);
}

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
