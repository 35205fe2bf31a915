//! What a gateway lists of its children, and where those are looked for that it does not list.

use std::time::Duration;

use headcount_adapter_hermes::scripted::{Faults, Version};
use headcount_contract::{
    ChildLifecycleAdapter, ChildState, EventKind, Signal, Snapshot, SnapshotReason,
};
use libtest_mimic::Trial;
use serde_json::json;

use crate::support::live::{
    attached, attached_with, config, detail, events, state_of, trial, write_transcript,
};

const RUNNING: ChildState = ChildState::RUNNING;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("listing::a_hundred_snapshots_make_one_request", hundred),
        trial(
            "listing::an_omitted_child_is_looked_for_in_the_gateways_memory",
            omitted,
        ),
        trial(
            "listing::an_omitted_child_without_a_trace_is_not_concluded_upon",
            omitted_without_trace,
        ),
        trial("listing::an_empty_listing_against_events_is_partial", blind),
        trial(
            "listing::children_that_tell_nothing_are_met_in_the_listing",
            unseen,
        ),
        trial(
            "listing::events_of_one_session_move_no_child_of_another",
            isolation,
        ),
        trial(
            "listing::what_a_gateway_can_is_proven_by_its_answers",
            capabilities,
        ),
        trial("listing::waiting_for_approval_is_inferred", approval),
        trial(
            "listing::an_omitted_child_is_looked_for_among_the_events_that_were_missed",
            omitted_and_unheard,
        ),
        trial(
            "listing::an_omitted_child_is_looked_for_in_its_transcript",
            omitted_with_transcript,
        ),
    ]
}

async fn hundred() {
    let mut config = config();
    config.poll_interval = Duration::ZERO;
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    // The adapter's own question, when the session opens, is not one of these.
    let asked = |seen: &[Signal]| seen.iter().any(|s| matches!(s, Signal::Snapshot(_)));
    watched.until("the first snapshot", asked).await;
    let before = gateway.asked("delegation.status");
    let callers = (0..100).map(|_| watched.adapter.snapshot(SnapshotReason::Periodic));
    let answers = futures_util::future::join_all(callers).await;
    assert_eq!(gateway.asked("delegation.status") - before, 1);
    let ids: std::collections::BTreeSet<_> = answers
        .into_iter()
        .map(|answer| answer.unwrap()[0].id().to_string())
        .collect();
    assert_eq!(ids.len(), 1, "one answer for all");
}

async fn omitted() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    watched.until_state(&b, RUNNING).await;
    watched
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap();
    gateway.vanish(&a, "interrupted");
    watched.until_state(&a, ChildState::CANCELLED).await;
    assert_eq!(detail(&watched.seen, &a, "basis").unwrap(), "subagent_list");
    assert_eq!(
        detail(&watched.seen, &a, "rawStatus").unwrap(),
        "interrupted"
    );
}

async fn omitted_without_trace() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    watched.until_state(&b, RUNNING).await;
    gateway.vanish(&a, "completed");
    let omits = |snapshots: &[Snapshot]| matches!(snapshots, [Snapshot::Complete(s)] if s.children().len() == 1);
    for _ in 0..3 {
        let snapshots = watched
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .unwrap();
        assert!(omits(&snapshots), "{snapshots:?}");
    }
    gateway.complete(&b, "completed");
    watched.until_state(&b, ChildState::COMPLETED).await;
    assert_eq!(
        state_of(&watched.seen, &a),
        Some(RUNNING),
        "an omission proves no end"
    );
}

async fn blind() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    gateway.misbehave(Faults {
        blind: true,
        ..Faults::default()
    });
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    let snapshots = watched
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap();
    assert!(matches!(&snapshots[..], [Snapshot::Partial(s)] if s.children().is_empty()));
    let limitations = watched.adapter.health().limitations;
    assert!(
        limitations.iter().any(|l| l.contains("turn isolation")),
        "{limitations:?}"
    );
    gateway.tool(&a, "terminal", "ls");
    watched
        .until("an activity", |seen| {
            events(seen, &a).iter().any(|e| e.activity().is_some())
        })
        .await;
    let known = watched.events(&a).last().unwrap().capabilities();
    assert!(!known.snapshot.is_known() && !known.heartbeat.is_known() && !known.cancel.is_known());
}

async fn unseen() {
    let (gateway, _served, mut watched) = attached(Version::V0_19).await;
    let a = gateway.start_unseen("s1", "works in silence");
    watched.until_state(&a, RUNNING).await;
    watched
        .until("a sign of life", |seen| {
            events(seen, &a)
                .iter()
                .any(|e| e.kind() == EventKind::Heartbeat)
        })
        .await;
    assert_eq!(detail(&watched.seen, &a, "history").unwrap(), "unknown");
    assert_eq!(
        detail(&watched.seen, &a, "goal").unwrap(),
        "works in silence"
    );
    let inferred: Vec<_> = watched.events(&a)[..2]
        .iter()
        .map(|e| {
            (
                e.state().unwrap().to_string(),
                e.details().get("inferred").is_some(),
            )
        })
        .collect();
    assert_eq!(
        inferred,
        [("starting".into(), true), ("running".into(), false)]
    );
}

async fn isolation() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    gateway.start_as("sa-0-twin", "s1", "mine");
    watched.until_state("sa-0-twin", RUNNING).await;
    // Another session says that a child of this name ends.
    let payload = json!({"subagent_id": "sa-0-twin", "status": "failed", "goal": "theirs"});
    gateway.event("subagent.start", "s2", &payload);
    gateway.event("subagent.complete", "s2", &payload);
    watched
        .until_state("sa-0-twin@s2", ChildState::FAILED)
        .await;
    assert_eq!(state_of(&watched.seen, "sa-0-twin"), Some(RUNNING));
    gateway.complete("sa-0-twin", "completed");
    watched
        .until_state("sa-0-twin", ChildState::COMPLETED)
        .await;
    assert_eq!(detail(&watched.seen, "sa-0-twin", "goal").unwrap(), "mine");
    assert!(watched.count("ids_in_two_sessions") >= 2);
}

async fn capabilities() {
    for (version, faults, expected) in [
        (
            Version::V0_19,
            Faults::default(),
            "heartbeat snapshot cancel",
        ),
        (
            Version::V0_22,
            Faults::default(),
            "history heartbeat snapshot cancel",
        ),
        (
            Version::V0_22,
            Faults {
                owns_nothing: true,
                ..Faults::default()
            },
            "heartbeat snapshot",
        ),
        (
            Version::V0_22,
            Faults::not_knowing(["subagent.interrupt"]),
            "history heartbeat snapshot",
        ),
        (
            Version::V0_22,
            Faults::refusing(["subagent.interrupt"]),
            "history heartbeat snapshot",
        ),
        (
            Version::V0_22,
            Faults {
                forgetful: true,
                ..Faults::default()
            },
            "heartbeat snapshot cancel",
        ),
    ] {
        let (gateway, _served, mut watched) = attached(version).await;
        gateway.misbehave(faults.clone());
        // A session that is met only now, and so is probed now.
        let a = gateway.start("s2", None, "a");
        let known = |seen: &[Signal]| {
            let c = events(seen, &a)
                .last()
                .map(|e| e.capabilities())
                .unwrap_or_default();
            let all = [
                ("history", c.history),
                ("heartbeat", c.heartbeat),
                ("snapshot", c.snapshot),
                ("cancel", c.cancel),
                ("terminalCause", c.terminal_cause),
            ];
            let known: Vec<_> = all
                .iter()
                .filter(|(_, c)| c.is_known())
                .map(|(n, _)| *n)
                .collect();
            known.join(" ")
        };
        watched
            .until(&format!("{expected} ({faults:?})"), |seen| {
                known(seen) == expected
            })
            .await;
        // It does not change again by itself.
        for _ in 0..2 {
            watched
                .adapter
                .snapshot(SnapshotReason::Periodic)
                .await
                .unwrap();
        }
        gateway.tool(&a, "terminal", "ls");
        watched
            .until("an activity", |seen| {
                events(seen, &a).iter().any(|e| e.activity().is_some())
            })
            .await;
        let told = known(&watched.seen);
        assert!(
            told == expected || told == format!("history {expected}"),
            "{told}, {faults:?}"
        );
    }
}

async fn approval() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    gateway.tool(&a, "terminal", "rm -rf nothing");
    gateway.tool(&b, "terminal", "ls");
    gateway.approval("s1", "rm -rf nothing");
    watched.until_state(&a, ChildState::WAITING).await;
    assert_eq!(detail(&watched.seen, &a, "inferred").unwrap(), true);
    assert_eq!(state_of(&watched.seen, &b), Some(RUNNING));
    // The gateway's listing calls it running; that does not end the waiting.
    let snapshots = watched
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap();
    let states: Vec<_> = snapshots[0]
        .children()
        .iter()
        .map(headcount_contract::SnapshotChild::state)
        .collect();
    assert_eq!(states, [ChildState::WAITING, RUNNING]);
    gateway.thinking(&a, "(¬_¬) mulling...");
    watched.until_state(&a, RUNNING).await;
    // Two that were given the same: neither is said to wait.
    gateway.tool(&a, "terminal", "ls");
    gateway.approval("s1", "ls");
    gateway.approval("s2", "rm -rf nothing");
    gateway.approval("s1", "echo nobody");
    gateway.complete(&b, "completed");
    watched.until_state(&b, ChildState::COMPLETED).await;
    assert_eq!(state_of(&watched.seen, &a), Some(RUNNING));
    assert_eq!(
        detail(&watched.seen, &a, "problem").unwrap(),
        "approval_of_one_of_several"
    );
    assert_eq!(watched.count("approvals_of_no_known_child"), 2);
    assert_eq!(watched.count("approvals_of_several_children"), 1);
}

async fn omitted_and_unheard() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    // The session's history has been read, so that is not what will tell of it.
    watched
        .until("its history", |seen| {
            let known = |child| {
                let last = events(seen, child).last().copied();
                last.is_some_and(|event| event.capabilities().history.is_known())
            };
            known(&a) && known(&b)
        })
        .await;
    // It completes, so the gateway's list of recent ends does not name it: its events do.
    gateway.complete_unheard(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
    assert!(detail(&watched.seen, &a, "rawSeq").is_some());
    assert_eq!(detail(&watched.seen, &a, "basis"), None);
    assert_eq!(state_of(&watched.seen, &b), Some(RUNNING));
    assert!(watched.count("children_omitted") >= 1);
}

async fn omitted_with_transcript() {
    let home = tempfile::tempdir().unwrap();
    let mut config = config();
    config.hermes_home = Some(home.path().to_owned());
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    watched.until_state(&b, RUNNING).await;
    write_transcript(home.path(), &format!("deleg_{a}"), "completed");
    // The gateway remembers no child that completed, and the gateway itself lives on.
    gateway.vanish(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
    assert_eq!(detail(&watched.seen, &a, "basis").unwrap(), "transcript");
    assert_eq!(detail(&watched.seen, &a, "rawStatus").unwrap(), "completed");
    assert_eq!(state_of(&watched.seen, &b), Some(RUNNING));
}
