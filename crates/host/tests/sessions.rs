//! The session protocol: what is held back, when snapshots are taken, what follows when they fail
//! (rules N8, N9, L3, L4). Time is paused: it passes only while everybody waits.

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount_contract::*;
use support::*;

use ChildState as S;
use EventKind as K;

fn running() -> Answer {
    Answer::Complete(vec![("a", S::RUNNING)])
}

#[tokio::test(start_paused = true)]
async fn n9_takes_snapshots_at_session_open_and_periodically() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([], running());
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert_eq!(
        adapter.reasons(),
        [
            SnapshotReason::SessionOpen,
            SnapshotReason::Periodic,
            SnapshotReason::Periodic,
            SnapshotReason::Periodic,
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn n9_at_most_one_snapshot_is_in_flight() {
    let mut settings = settings();
    settings.snapshot_period = Duration::from_millis(100);
    settings.snapshot_timeout = Duration::from_mins(1);
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([], running());
    adapter.gate.forget_permits(1 << 20);
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    for _ in 0..5 {
        adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(adapter.snapshots.load(Ordering::SeqCst), 1);
    adapter.gate.add_permits(1 << 20);
    until_shown(&host, "s", "a", "running").await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(adapter.most_in_flight.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn n8_holds_events_after_a_discontinuity_until_a_snapshot_was_applied() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers(
        [running()],
        Answer::Complete(vec![("a", S::WAITING), ("b", S::RUNNING)]),
    );
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    adapter.gate.forget_permits(1 << 20);
    adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
    adapter.emit("b", 7, K::Terminal(Outcome::Completed));
    host.wait_until(|view| view.adapters()[0].holding).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(shown(&host, "s", "b"), "unknown", "it is held back");
    adapter.gate.add_permits(1 << 20);
    until_shown(&host, "s", "b", "completed").await;
    assert_eq!(shown(&host, "s", "a"), "waiting", "the snapshot came first");
    assert!(!host.view().adapters()[0].holding);
    assert_eq!(adapter.reasons()[1], SnapshotReason::Reconnect);
}

#[tokio::test(start_paused = true)]
async fn n8_holds_nothing_when_a_gap_is_ruled_out() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([running()], Answer::Hang);
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    adapter.break_off(DiscontinuityCause::Reconnected, Gap::RuledOut);
    adapter.emit("b", 0, K::Created);
    until_shown(&host, "s", "b", "created").await;
    assert_eq!(adapter.snapshots.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn n8_lets_events_go_on_unproven_once_snapshots_failed_as_often_as_told() {
    let mut settings = settings();
    settings.reconnect_attempts = 4;
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers(
        [Answer::Complete(vec![("a", S::RUNNING), ("c", S::RUNNING)])],
        Answer::Fail("gone"),
    );
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    adapter.break_off(DiscontinuityCause::Disconnected, Gap::Possible);
    adapter.emit("a", 9, K::StateChanged(S::WAITING));
    until_shown(&host, "s", "a", "waiting").await;
    assert_eq!(shown(&host, "s", "c"), "running unproven");
    assert_eq!(
        adapter.snapshots.load(Ordering::SeqCst),
        1 + 4,
        "not one attempt less or more"
    );
    let health = host.view().adapters()[0].health.clone();
    assert_eq!(health.status, HealthStatus::Degraded);
    assert!(
        health.message.as_deref().unwrap().contains("gone"),
        "{health:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn n8_a_snapshot_asked_for_before_the_stream_broke_again_does_not_suffice() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers(
        [running(), running()],
        Answer::Complete(vec![("a", S::WAITING)]),
    );
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    adapter.gate.forget_permits(1 << 20);
    adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
    host.wait_until(|view| view.adapters()[0].holding).await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert_eq!(
        adapter.snapshots.load(Ordering::SeqCst),
        2,
        "the second is under way"
    );
    adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
    adapter.emit("b", 0, K::Created);
    tokio::time::sleep(Duration::from_millis(10)).await;
    adapter.gate.add_permits(1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(
        shown(&host, "s", "b"),
        "unknown",
        "still held: events may be missing after it"
    );
    adapter.gate.add_permits(1 << 20);
    until_shown(&host, "s", "b", "created").await;
    assert_eq!(shown(&host, "s", "a"), "waiting");
}

#[tokio::test(start_paused = true)]
async fn n8_stops_reading_beyond_the_bound() {
    let mut settings = settings();
    settings.held_signals = 10;
    settings.batch = 4;
    settings.snapshot_timeout = Duration::from_mins(10);
    let adapter = Scripted::with("s", &settings.clock, ALL_KNOWN, 8);
    adapter.answers([running()], running());
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    until_shown(&host, "s", "a", "running").await;
    adapter.gate.forget_permits(1 << 20);
    adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
    host.wait_until(|view| view.adapters()[0].holding).await;
    // An adapter that waits for room gets stuck: nobody reads on.
    let sender = adapter.clone();
    let sending = tokio::spawn(async move {
        for n in 0..200 {
            let event = sender.event("b", n, K::Heartbeat);
            sender.fanout.send(Signal::Event(event)).await;
        }
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!sending.is_finished(), "back-pressure reaches the source");
    adapter.gate.add_permits(1 << 20);
    sending.await.unwrap();
    let view = host
        .wait_until(|view| {
            view.child(&source("s"), &child("b"))
                .is_some_and(|b| b.record.last_sequence.is_some_and(|n| n.get() == 199))
        })
        .await;
    assert_eq!(view.stats().gaps, 0, "nothing was lost for it");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_comes_after_the_events_that_were_sent_before_it() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([], Answer::Complete(vec![("a", S::RUNNING)]));
    adapter.gate.forget_permits(1 << 20);
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    while adapter.snapshots.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    // In one breath, so that both are ready when the session wakes.
    adapter.emit("a", 0, K::Created);
    adapter.gate.add_permits(1 << 20);
    until_shown(&host, "s", "a", "running").await;
    let view = host.view();
    let a = view.child(&source("s"), &child("a")).unwrap();
    assert!(a.record.history.is_known(), "its creation was seen first");
}

/// Heartbeats are verified, so a child is stale after the heartbeat deadline.
async fn stale_child(answer: Answer) -> (headcount::Host, std::sync::Arc<Scripted>) {
    let mut settings = settings();
    settings.projector.heartbeat_deadline = Duration::from_secs(20);
    settings.projector.reconcile_backoff = Duration::from_secs(2);
    settings.snapshot_period = Duration::from_secs(100_000);
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([Answer::Partial(vec![])], answer);
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    adapter.emit("a", 0, K::Created);
    adapter.emit("a", 1, K::StateChanged(S::RUNNING));
    until_shown(&host, "s", "a", "running").await;
    (host, adapter)
}

#[tokio::test(start_paused = true)]
async fn l4_a_search_that_finds_the_child_ends_staleness() {
    let (host, adapter) = stale_child(running()).await;
    tokio::time::sleep(Duration::from_secs(21)).await;
    until_shown(&host, "s", "a", "running").await;
    assert_eq!(host.view().stats().stale, 1);
    assert_eq!(adapter.snapshots.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn l4_a_child_is_lost_after_as_many_failed_searches_as_told_and_not_before() {
    for (answer, attempts) in [
        (Answer::Fail("gone"), 3),
        (Answer::Partial(vec![]), 3),
        (Answer::Panic, 3),
        // A complete one that omits it is proof enough.
        (Answer::Complete(vec![]), 1),
    ] {
        let (host, adapter) = stale_child(answer).await;
        until_shown(&host, "s", "a", "lost").await;
        assert_eq!(host.view().stats().stale, 1, "it was stale before");
        assert_eq!(adapter.snapshots.load(Ordering::SeqCst), 1 + attempts);
        assert_eq!(host.view().stats().lost, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn l4_a_source_that_never_answers_loses_its_children_in_bounded_time() {
    let (host, _adapter) = stale_child(Answer::Hang).await;
    let began = tokio::time::Instant::now();
    until_shown(&host, "s", "a", "lost").await;
    assert!(
        began.elapsed() < Duration::from_mins(3),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_finished_adapter_leaves_its_children_unproven_not_ended() {
    let (host, adapter) = stale_child(Answer::Fail("gone")).await;
    adapter.finished.store(true, Ordering::SeqCst);
    adapter.emit("a", 2, K::Heartbeat);
    until_shown(&host, "s", "a", "running unproven").await;
    assert!(host.view().is_finished() && !host.view().is_idle());
    until_shown(&host, "s", "a", "lost").await;
    assert!(host.view().is_idle());
}
