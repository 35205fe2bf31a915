//! Adapters that misbehave: each is contained, shown in its health, and harms no other.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount::{AdapterInfo, Change, Host, HostError, HostSettings, RequestError};
use headcount_contract::*;
use support::*;

use ChildState as S;
use EventKind as K;

/// A host with a good adapter beside a bad one.
async fn beside_a_good_one(
    settings: HostSettings,
    prepare: impl FnOnce(&Scripted),
) -> (Host, Arc<Scripted>, Arc<Scripted>) {
    let bad = Scripted::new("bad", &settings.clock);
    let good = Scripted::new("good", &settings.clock);
    good.answers([], Answer::Complete(vec![("g", S::RUNNING)]));
    prepare(&bad);
    let host = host_with(settings, &[bad.clone(), good.clone()]).await;
    (host, bad, good)
}

/// The good one still works, and the bad one's health is as bad as told.
async fn check_contained(host: &Host, good: &Scripted, status: HealthStatus, told: &str) {
    until_shown(host, "good", "g", "running").await;
    good.emit("g", 1, K::StateChanged(S::WAITING));
    until_shown(host, "good", "g", "waiting").await;
    let view = host
        .wait_until(|view| {
            view.adapters()[0]
                .health
                .message
                .as_deref()
                .is_some_and(|said| said.contains(told))
        })
        .await;
    assert_eq!(
        view.adapters()[0].health.status,
        status,
        "{:?}",
        view.adapters()[0].health
    );
    assert_eq!(view.adapters()[1].health.message, None);
}

#[tokio::test(start_paused = true)]
async fn one_that_panics_in_any_call_is_down_and_harms_no_other() {
    for call in ["subscribe", "health", "is_finished"] {
        let prepare = |bad: &Scripted| bad.panic_in.lock().unwrap().push(call);
        let (host, _bad, good) = beside_a_good_one(settings(), prepare).await;
        check_contained(&host, &good, HealthStatus::Down, call).await;
        host.wait_until(|view| view.adapters()[0].finished).await;
    }
}

#[tokio::test(start_paused = true)]
async fn one_whose_snapshots_panic_or_hang_is_degraded() {
    for (answer, told) in [
        (Answer::Panic, "panicked in snapshot"),
        (Answer::Hang, "did not answer within"),
    ] {
        let (host, bad, good) = beside_a_good_one(settings(), |bad| bad.answers([], answer)).await;
        bad.emit("b", 0, K::Created);
        until_shown(&host, "bad", "b", "created").await;
        check_contained(&host, &good, HealthStatus::Degraded, told).await;
        // It recovers as soon as one is had.
        bad.answers([], Answer::Complete(vec![("b", S::RUNNING)]));
        until_shown(&host, "bad", "b", "running").await;
        host.wait_until(|view| view.adapters()[0].health.message.is_none())
            .await;
    }
}

#[tokio::test(start_paused = true)]
async fn events_and_snapshots_of_other_sources_are_refused() {
    let (host, bad, good) =
        beside_a_good_one(settings(), |bad| bad.answers([], Answer::Foreign("good"))).await;
    until_shown(&host, "good", "g", "running").await;
    let now = host.view().at();
    let ends = K::Terminal(Outcome::Failed);
    for (of, id) in [("good", "g"), ("third", "t")] {
        bad.fanout
            .publish(Signal::Event(event_of(of, "1", id, 99, ends, now)));
    }
    check_contained(
        &host,
        &good,
        HealthStatus::Degraded,
        "sources that are not its own",
    )
    .await;
    let view = host
        .wait_until(|view| {
            let counts = &view.adapters()[0].health.counts;
            counts.get("host_foreign_events") == Some(&2)
                && counts.contains_key("host_foreign_snapshots")
        })
        .await;
    assert_eq!(view.len(), 1, "only the good one's child");
    assert_eq!(shown(&host, "third", "t"), "unknown");
}

#[tokio::test(start_paused = true)]
async fn a_carrier_may_speak_of_others_but_not_of_what_is_owned_nor_beyond_its_list() {
    let settings = settings();
    let (owner, carrier) = (
        Scripted::new("owned", &settings.clock),
        Scripted::new("wire", &settings.clock),
    );
    owner.answers([], Answer::Complete(vec![]));
    carrier.answers([], Answer::Partial(vec![]));
    let mut info = AdapterInfo::carrier("wire");
    info.only_sources = Some(vec![source("far"), source("owned")]);
    let host = Host::builder()
        .settings(settings)
        .adapter_value(AdapterInfo::own("scripted"), owner.clone())
        .adapter_value(info, carrier.clone())
        .build()
        .unwrap();
    host.start().await.unwrap();
    while carrier.fanout.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    for of in ["owned", "elsewhere", "far"] {
        let event = event_of(of, "7", "x", 0, K::Created, host.view().at());
        carrier.fanout.publish(Signal::Event(event));
    }
    until_shown(&host, "far", "x", "created").await;
    assert_eq!(host.view().len(), 1);
    assert_eq!(
        host.view().adapters()[1].health.counts["host_foreign_events"],
        2
    );
}

#[tokio::test(start_paused = true)]
async fn capabilities_that_were_not_verified_are_not_shown() {
    let mut settings = settings();
    settings.snapshot_period = Duration::from_secs(10_000);
    let bad = Scripted::with("bad", &settings.clock, Capabilities::UNKNOWN, 64);
    bad.answers([], Answer::Partial(vec![]));
    let host = host_with(settings, std::slice::from_ref(&bad)).await;
    bad.emit("b", 0, K::Created);
    until_shown(&host, "bad", "b", "created").await;
    let view = host.view();
    let shown = view.child(&source("bad"), &child("b")).unwrap();
    assert_eq!(shown.record.capabilities, Capabilities::UNKNOWN);
    assert!(!shown.cancellable);
    let health = &view.adapters()[0].health;
    assert_eq!(health.counts["host_overclaimed_events"], 1);
    let refused = host
        .cancel(&source("bad"), &child("b"), None)
        .await
        .unwrap_err();
    assert!(
        matches!(refused, RequestError::NoAuthority { .. }),
        "{refused}"
    );
    assert_eq!(
        bad.cancels.load(Ordering::SeqCst),
        0,
        "it was not even asked"
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_through_one_that_hangs_or_panics_is_an_error_in_bounded_time() {
    for (hangs, kind) in [
        (true, AdapterErrorKind::TimedOut),
        (false, AdapterErrorKind::Internal),
    ] {
        let (host, bad, _good) = beside_a_good_one(settings(), |bad| {
            bad.answers([], Answer::Complete(vec![]));
            let list = if hangs { &bad.hang_in } else { &bad.panic_in };
            list.lock().unwrap().push("cancel");
        })
        .await;
        while bad.fanout.subscribers() == 0 {
            tokio::task::yield_now().await;
        }
        bad.emit("b", 0, K::Created);
        until_shown(&host, "bad", "b", "created").await;
        match host
            .cancel(&source("bad"), &child("b"), None)
            .await
            .unwrap_err()
        {
            RequestError::Adapter(error) => assert_eq!(error.kind(), kind),
            other => panic!("{other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn shutdown_is_bounded_by_its_time_whatever_an_adapter_does() {
    let mut settings = settings();
    settings.shutdown_timeout = Duration::from_secs(7);
    let (host, _bad, _good) = beside_a_good_one(settings, |bad| {
        bad.answers([], Answer::Hang);
        bad.hang_in.lock().unwrap().push("close");
    })
    .await;
    let began = tokio::time::Instant::now();
    let error = host.shutdown(Urgency::Graceful).await.unwrap_err();
    assert!(
        began.elapsed() <= Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    assert!(error.to_string().contains("bad"), "{error}");
    assert!(host.view().is_stopped());
}

#[tokio::test]
async fn one_that_floods_does_not_starve_another() {
    let mut settings = settings();
    settings.clock = headcount::Clock::default();
    let (host, bad, good) =
        beside_a_good_one(settings, |bad| bad.answers([], Answer::Partial(vec![]))).await;
    let flooding = bad.clone();
    let flood = tokio::spawn(async move {
        for n in 0.. {
            let event = flooding.event("b", n, K::Heartbeat);
            flooding.fanout.send(Signal::Event(event)).await;
        }
    });
    host.wait_until(|view| view.stats().events_in > 20_000)
        .await;
    for n in 1..=5 {
        good.emit("g", n, K::StateChanged(S::WAITING));
        let view = host
            .wait_until(|view| {
                view.child(&source("good"), &child("g"))
                    .is_some_and(|g| g.record.last_sequence.is_some_and(|at| at.get() == n))
            })
            .await;
        assert!(!flood.is_finished() && !view.is_stopped());
    }
    // At every step the flood had no more than its share before the other was seen.
    let view = host.view();
    assert!(view.stats().view_latency.quantile(0.99).unwrap() < Duration::from_secs(5));
    flood.abort();
}

#[tokio::test(start_paused = true)]
async fn two_adapters_of_one_source_are_refused() {
    let clock = tokio_clock();
    let twice = Host::builder()
        .adapter_value(AdapterInfo::own("scripted"), Scripted::new("s", &clock))
        .adapter_value(AdapterInfo::own("scripted"), Scripted::new("s", &clock))
        .build();
    let error = twice.unwrap_err();
    assert!(
        matches!(error, HostError::DuplicateSource { number: 2, .. }),
        "{error}"
    );
    insta::assert_snapshot!(error, @r#"adapter 2 (scripted) has the source name "s", as another one does; give each a name of its own (`source = "…"`)"#);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_told_what_it_missed_and_holds_up_nobody() {
    let mut settings = settings();
    settings.change_buffer = 16;
    settings.snapshot_period = Duration::from_secs(10_000);
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([], Answer::Partial(vec![]));
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    let mut changes = host.changes();
    for n in 0..500 {
        adapter.emit("a", n, K::Heartbeat);
        if n % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    host.wait_until(|view| view.stats().events_accepted == 500)
        .await;
    let mut events = 0;
    let missed = next_that(&mut changes, |change| match change {
        Change::Lagged(missed) => Some(missed),
        other => {
            events += u64::from(matches!(other, Change::Event(_)));
            None
        }
    })
    .await;
    assert!(missed > 0 && events < 500);
    assert_eq!(shown(&host, "s", "a"), "created", "the view is whole");
}

#[tokio::test(start_paused = true)]
async fn a_lossless_subscriber_gets_every_event_and_stops_the_reading_instead() {
    let mut settings = settings();
    settings.change_buffer = 16;
    settings.batch = 8;
    settings.snapshot_period = Duration::from_secs(10_000);
    let adapter = Scripted::with("s", &settings.clock, ALL_KNOWN, 16);
    adapter.answers([], Answer::Partial(vec![]));
    let host = host_with(settings, std::slice::from_ref(&adapter)).await;
    let mut changes = host.changes_with(headcount::Delivery::Lossless);
    let sender = adapter.clone();
    let sending = tokio::spawn(async move {
        for n in 0..5_000 {
            let event = sender.event("a", n, K::Heartbeat);
            sender.fanout.send(Signal::Event(event)).await;
        }
    });
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(!sending.is_finished(), "nobody takes, so nobody reads");
    for n in 0..5_000 {
        let event = next_that(&mut changes, |change| match change {
            Change::Event(event) => Some(event),
            Change::Lagged(missed) => panic!("missed {missed}"),
            _ => None,
        })
        .await;
        assert_eq!(event.sequence().unwrap().get(), n);
    }
    sending.await.unwrap();
}
