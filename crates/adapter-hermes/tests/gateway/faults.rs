//! Gateways that misbehave, over both ways.

use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_hermes::replay;
use headcount_adapter_hermes::scripted::{Faults, Step, Version};
use headcount_contract::{
    AdapterErrorKind, CancelOutcome, Capabilities, ChildLifecycleAdapter, ChildState, HealthStatus,
    Signal, Snapshot, SnapshotReason, Timestamp,
};
use libtest_mimic::Trial;

use crate::support::fixtures;
use crate::support::live::{
    PATIENCE, Watched, Way, account, config, events, id, source, state_of, trial,
};

const V0_22: Version = Version::V0_22;
const RUNNING: ChildState = ChildState::RUNNING;
/// The first child that a scripted gateway starts, and the second.
const ONE: &str = "sa-0-00000000";
const TWO: &str = "sa-0-00000001";

pub(crate) fn trials() -> Vec<Trial> {
    let over = |way: Way| {
        let name = |what: &str| format!("faults::{way:?}::{what}").to_lowercase();
        vec![
            trial(&name("garbage_is_counted_and_passed_over"), move || {
                garbage(way)
            }),
            trial(
                &name("a_frame_that_is_cut_loses_nobody_unproven"),
                move || cut_within_a_frame(way),
            ),
            trial(&name("methods_that_it_does_not_know_are_said"), move || {
                not_knowing(way)
            }),
            trial(&name("refused_parameters_are_an_answer"), move || {
                refusing(way)
            }),
            trial(&name("sessions_of_others_are_denied"), move || {
                owning_nothing(way)
            }),
            trial(&name("byte_by_byte_nothing_is_lost"), move || {
                trickling(way)
            }),
            trial(&name("late_answers_are_waited_for"), move || late(way)),
            trial(
                &name("answers_after_the_limit_are_passed_over"),
                move || too_late(way),
            ),
        ]
    };
    Way::ALL.into_iter().flat_map(over).collect()
}

async fn garbage(way: Way) {
    let steps = [
        Step::AwaitRequests(2),
        Step::Line("Traceback (most recent call last):".into()),
        Step::Line(r#"{"no": "frame"}"#.into()),
        Step::Line(r#"{"jsonrpc":"2.0","id":"q1","method":"clarify.request","params":{"question":"?"}}"#.into()),
        Step::Line(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"weather.changed"}}"#.into()),
        Step::Line(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"subagent.dreams","session_id":"s1","payload":{"subagent_id":"sa-7"}}}"#.into()),
        Step::Line(r#"{"jsonrpc":"2.0","id":"nobody","result":{}}"#.into()),
        Step::Huge(10 << 20),
        Step::Start("after all that".into()),
    ];
    let (mut watched, _served) = way.to(V0_22, steps.into(), config()).await;
    watched.until_state(ONE, RUNNING).await;
    let counts = [
        ("frames_malformed", 1),
        ("frames_unrecognised", 1),
        ("frames_oversized", 1),
        ("requests_of_the_gateway", 1),
        ("event_types_unknown", 1),
        ("subagent_types_unknown", 1),
        ("responses_unexpected", 1),
    ];
    for (name, expected) in counts {
        assert_eq!(watched.count(name), expected, "{name}");
    }
    assert_eq!(state_of(&watched.seen, "sa-7"), Some(RUNNING));
    assert_eq!(watched.adapter.health().status, HealthStatus::Degraded);
    assert_eq!(watched.discontinuities(), [] as [String; 0]);
}

/// Over a pipe it is the gateway's death; over a socket the connection is made again.
async fn cut_within_a_frame(way: Way) {
    let half = r#"{"jsonrpc":"2.0","method":"event","params":{"type":"subagent.complete""#;
    let ended = |goal: &str| Step::Complete {
        goal: goal.to_owned(),
        status: "failed".to_owned(),
    };
    let mut steps = vec![
        Step::AwaitRequests(2),
        Step::Start("one".into()),
        Step::Start("two".into()),
        ended("one"),
        Step::CutWithin(half.repeat(2)),
    ];
    match way {
        Way::Pipe => steps.push(Step::Kill),
        Way::Socket => steps.push(ended("two")),
    }
    let (mut watched, _served) = way.to(V0_22, steps, config()).await;
    match way {
        Way::Pipe => {
            watched.until_state(TWO, ChildState::LOST).await;
            assert_eq!(watched.count("frames_truncated"), 1);
            assert_eq!(watched.discontinuities(), ["Disconnected, gap Possible"]);
        }
        Way::Socket => {
            watched.until_state(TWO, ChildState::FAILED).await;
            assert_eq!(
                watched.discontinuities(),
                ["Disconnected, gap Possible", "Reconnected, gap RuledOut"]
            );
        }
    }
    assert_eq!(state_of(&watched.seen, ONE), Some(ChildState::FAILED));
}

/// One child that ends and one that goes on, at a gateway that misbehaves from the start.
async fn misbehaving(way: Way, faults: Faults) -> (Watched, impl Sized) {
    let steps = [
        Step::Misbehave(faults),
        Step::AwaitRequests(1),
        Step::Start("one".into()),
        Step::Start("two".into()),
        Step::Complete {
            goal: "one".into(),
            status: "completed".into(),
        },
    ];
    let (mut watched, served) = way.to(V0_22, steps.into(), config()).await;
    watched.until_state(ONE, ChildState::COMPLETED).await;
    watched.until_state(TWO, RUNNING).await;
    (watched, served)
}

async fn not_knowing(way: Way) {
    let faults = Faults::not_knowing([
        "delegation.status",
        "subagent.interrupt",
        "subagent.list",
        "session.events.since",
    ]);
    let (watched, _served) = misbehaving(way, faults).await;
    let reason = SnapshotReason::Periodic;
    let error = watched.adapter.snapshot(reason).await.unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::Unsupported);
    let cancelled = watched.adapter.cancel(&id(TWO), None).await.unwrap();
    let CancelOutcome::Denied { reason } = cancelled else {
        panic!("{cancelled:?}")
    };
    assert!(reason.contains("cannot interrupt"), "{reason}");
    let known = watched.events(TWO).last().unwrap().capabilities();
    assert_eq!(known, Capabilities::UNKNOWN);
    let limitations = watched.adapter.health().limitations;
    assert!(
        limitations.iter().any(|l| l.contains("cannot interrupt")),
        "{limitations:?}"
    );
}

async fn refusing(way: Way) {
    let faults = Faults::refusing(["delegation.status", "subagent.interrupt"]);
    let (watched, _served) = misbehaving(way, faults).await;
    let reason = SnapshotReason::Periodic;
    let listing = watched.adapter.snapshot(reason).await.unwrap_err();
    let cancel = watched.adapter.cancel(&id(TWO), None).await.unwrap_err();
    for error in [listing, cancel] {
        assert_eq!(error.kind(), AdapterErrorKind::Protocol);
        assert!(error.to_string().contains("4000"), "{error}");
    }
    // It answers, so it lives: nothing is given up.
    assert_eq!(watched.discontinuities(), [] as [String; 0]);
    assert_eq!(watched.adapter.health().status, HealthStatus::Healthy);
}

async fn owning_nothing(way: Way) {
    let faults = Faults {
        owns_nothing: true,
        ..Faults::default()
    };
    let (watched, _served) = misbehaving(way, faults).await;
    let cancelled = watched.adapter.cancel(&id(TWO), None).await.unwrap();
    let CancelOutcome::Denied { reason } = cancelled else {
        panic!("{cancelled:?}")
    };
    assert!(reason.contains("another connection"), "{reason}");
    let known = watched.events(TWO).last().unwrap().capabilities();
    assert!(!known.cancel.is_known() && !known.history.is_known());
    // Its listing is not bound to a session.
    let reason = SnapshotReason::Periodic;
    let snapshots = watched.adapter.snapshot(reason).await.unwrap();
    assert!(matches!(&snapshots[..], [Snapshot::Complete(s)] if s.children().len() == 1));
}

async fn trickling(way: Way) {
    let recording = fixtures().join("v0.22.2-iot/06_nested_depth2.jsonl");
    let steps = [
        Step::Misbehave(Faults {
            trickles: true,
            ..Faults::default()
        }),
        Step::AwaitRequests(2),
        Step::Play(recording.clone()),
        Step::Start("the last".into()),
    ];
    let mut config = config();
    config.request_timeout = PATIENCE;
    let (mut watched, _served) = way.to(V0_22, steps.into(), config).await;
    watched.until_state(ONE, RUNNING).await;
    let snapshots = watched.adapter.snapshot(SnapshotReason::Periodic).await;
    assert!(matches!(&snapshots.unwrap()[..], [Snapshot::Complete(s)] if s.children().len() == 1));
    let replayed = replay::adapter_at(&recording, source(), || Timestamp::UNIX_EPOCH).unwrap();
    let replayed: Vec<_> = replayed.subscribe().unwrap().collect().await;
    let mut live = account(&watched.seen);
    live.remove(ONE);
    assert_eq!(live, account(&replayed));
    assert_eq!(watched.discontinuities(), [] as [String; 0]);
    let counts = watched.adapter.health().counts;
    let faults: Vec<_> = counts.keys().filter(|n| n.starts_with("frames_")).collect();
    assert!(faults.is_empty(), "{counts:?}");
}

/// A gateway whose answers come late from the end of its session's opening on, until the step that
/// is not here.
fn late_from_the_first_listing() -> [Step; 3] {
    [
        Step::AwaitAsked("delegation.status".into(), 1),
        Step::Misbehave(Faults {
            late: true,
            ..Faults::default()
        }),
        Step::Start("one".into()),
    ]
}

async fn late(way: Way) {
    let mut steps = Vec::from(late_from_the_first_listing());
    steps.extend([
        Step::AwaitAsked("delegation.status".into(), 2),
        // Events pass by the answer that waits.
        Step::Start("two".into()),
        Step::Complete {
            goal: "one".into(),
            status: "completed".into(),
        },
        Step::Misbehave(Faults::default()),
    ]);
    let mut config = config();
    config.poll_interval = Duration::ZERO;
    config.request_timeout = PATIENCE;
    let (mut watched, _served) = way.to(V0_22, steps, config).await;
    watched.until_state(ONE, RUNNING).await;
    let snapshots = watched.adapter.snapshot(SnapshotReason::Periodic).await;
    let snapshots = snapshots.unwrap();
    let [Snapshot::Complete(snapshot)] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    // What ended meanwhile is not brought to life again, and who began meanwhile is not omitted.
    let listed = snapshot.children();
    let listed: Vec<_> = listed
        .iter()
        .map(|c| (c.id().as_str(), c.state()))
        .collect();
    assert_eq!(listed, [(ONE, ChildState::COMPLETED)]);
    assert!(!snapshot.covers(&id(TWO)), "{snapshot:?}");
    watched.until_state(ONE, ChildState::COMPLETED).await;
    watched.until_state(TWO, RUNNING).await;
    assert_eq!(watched.count("children_omitted"), 0);
    assert_eq!(watched.count("responses_unexpected"), 0);
    let limitations = watched.adapter.health().limitations;
    assert!(
        !limitations.iter().any(|l| l.contains("turn isolation")),
        "{limitations:?}"
    );
}

async fn too_late(way: Way) {
    let mut steps = Vec::from(late_from_the_first_listing());
    steps.extend([
        Step::AwaitAsked("delegation.status".into(), 3),
        Step::Misbehave(Faults::default()),
        Step::Complete {
            goal: "one".into(),
            status: "completed".into(),
        },
    ]);
    let mut config = config();
    config.poll_interval = Duration::ZERO;
    config.request_timeout = Duration::from_millis(300);
    let (mut watched, _served) = way.to(V0_22, steps, config).await;
    watched.until_state(ONE, RUNNING).await;
    let reason = SnapshotReason::Periodic;
    let error = watched.adapter.snapshot(reason).await.unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::TimedOut);
    assert!(error.is_retryable());
    // Asked again, it answers both questions: the first answer is nobody's any more.
    let answered = loop {
        match watched.adapter.snapshot(reason).await {
            Ok(answered) => break answered,
            Err(error) => assert_eq!(error.kind(), AdapterErrorKind::TimedOut),
        }
    };
    assert!(matches!(answered[..], [Snapshot::Complete(_)]));
    assert!(watched.count("responses_unexpected") >= 1);
    watched.until_state(ONE, ChildState::COMPLETED).await;
    assert_eq!(events(&watched.seen, ONE).len(), {
        let told = |signal: &&Signal| matches!(signal, Signal::Event(_));
        watched.seen.iter().filter(told).count()
    });
    assert_eq!(watched.discontinuities(), [] as [String; 0]);
}
