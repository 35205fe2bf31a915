//! Gateways that run, reached over a WebSocket.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_adapter_hermes::scripted::{Faults, Gateway, Version};
use headcount_contract::{
    AdapterErrorKind, ChildLifecycleAdapter, ChildState, Signal, Snapshot, SnapshotReason,
};
use libtest_mimic::Trial;
use serde_json::json;

use crate::support::live::{
    Watched, attached, attached_with, config, detail, events, state_of, token_file, trial,
};
use crate::support::{fixtures, recordings};

const RUNNING: ChildState = ChildState::RUNNING;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "attached::plays_every_recording_over_a_socket",
            plays_every_recording,
        ),
        trial(
            "attached::what_was_missed_is_replayed_and_the_gap_ruled_out",
            replayed,
        ),
        trial("attached::a_truncated_replay_leaves_a_gap", truncated),
        trial(
            "attached::an_old_gateway_leaves_a_gap_and_its_listing_tells_who_runs",
            old_gateway,
        ),
        trial(
            "attached::another_life_of_the_gateway_loses_the_children_of_the_last",
            another_life,
        ),
        trial(
            "attached::a_wrong_token_is_told_and_a_right_one_tried",
            token,
        ),
        trial("attached::nobody_there_is_told", nobody_there),
        trial(
            "attached::a_message_over_the_limit_is_skipped",
            over_the_limit,
        ),
        trial(
            "attached::a_message_far_over_the_limit_ends_the_connection_only",
            far_over_the_limit,
        ),
        trial(
            "attached::a_silent_connection_is_given_up_and_made_again",
            silent,
        ),
        trial("attached::a_hundred_snapshots_make_one_request", hundred),
        trial(
            "attached::an_omitted_child_is_looked_for_in_the_gateways_memory",
            omitted,
        ),
        trial(
            "attached::an_omitted_child_without_a_trace_is_not_concluded_upon",
            omitted_without_trace,
        ),
        trial(
            "attached::an_empty_listing_against_events_is_partial",
            blind,
        ),
        trial("attached::a_gateway_without_listings_says_so", no_listings),
        trial(
            "attached::children_that_tell_nothing_are_met_in_the_listing",
            unseen,
        ),
        trial(
            "attached::events_of_one_session_move_no_child_of_another",
            isolation,
        ),
        trial(
            "attached::what_a_gateway_can_is_proven_by_its_answers",
            capabilities,
        ),
        trial(
            "attached::sequences_go_on_after_the_adapter_came_back",
            came_back,
        ),
        trial("attached::waiting_for_approval_is_inferred", approval),
    ]
}

fn outcomes(signals: &[Signal]) -> BTreeMap<String, Option<ChildState>> {
    let ids = signals.iter().filter_map(|signal| match signal {
        Signal::Event(event) => Some(event.child_id().to_string()),
        _ => None,
    });
    ids.map(|id| (id.clone(), state_of(signals, &id))).collect()
}

async fn plays_every_recording() {
    for name in recordings().iter().filter(|name| !name.contains("trace")) {
        let version = if name.contains("v0.19") {
            Version::V0_19
        } else {
            Version::V0_22
        };
        let (gateway, _served, mut watched) = attached(version).await;
        gateway.play(&fixtures().join(name)).unwrap();
        let last = gateway.start("s1", None, "the last");
        watched.until_state(&last, RUNNING).await;
        let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
        let ends = text.matches("\"subagent.complete\"").count();
        let starts = text.matches("\"subagent.start\"").count();
        let seen = outcomes(&watched.seen);
        let ended = seen
            .values()
            .flatten()
            .filter(|state| state.is_terminal())
            .count();
        assert_eq!((seen.len(), ended), (starts + 1, ends), "{name}");
    }
}

async fn replayed() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    watched.until_state(&b, RUNNING).await;
    let epoch = watched.adapter.identity().epoch;
    gateway.hang_up();
    gateway.tool(&a, "terminal", "while nobody looked");
    gateway.complete(&a, "failed");
    watched
        .until_discontinuity("Reconnected, gap RuledOut")
        .await;
    watched.until_state(&a, ChildState::FAILED).await;
    let activities: Vec<_> = watched
        .events(&a)
        .iter()
        .filter_map(|e| e.activity())
        .map(|a| a.as_str().to_owned())
        .collect();
    assert_eq!(activities, ["terminal: while nobody looked"]);
    assert_eq!(watched.adapter.identity().epoch, epoch);
    assert_eq!(
        watched.discontinuities(),
        ["Disconnected, gap Possible", "Reconnected, gap RuledOut"]
    );
    gateway.complete(&b, "completed");
    watched.until_state(&b, ChildState::COMPLETED).await;
    // Nothing was told twice, and no position is missing.
    for child in [&a, &b] {
        let sequences: Vec<_> = watched
            .events(child)
            .iter()
            .map(|e| e.sequence().unwrap().get())
            .collect();
        let first = sequences[0];
        let expected: Vec<_> = (first..first + sequences.len() as u64).collect();
        assert_eq!(sequences, expected, "{child}");
        let ends = watched
            .events(child)
            .iter()
            .filter(|e| e.state().is_some_and(ChildState::is_terminal))
            .count();
        assert_eq!(ends, 1);
    }
}

async fn truncated() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    gateway.misbehave(Faults {
        forgetful: true,
        ..Faults::default()
    });
    gateway.hang_up();
    gateway.tool(&a, "terminal", "forgotten");
    gateway.complete(&a, "interrupted");
    watched
        .until_discontinuity("Reconnected, gap Possible")
        .await;
    watched.until_state(&a, ChildState::CANCELLED).await;
}

async fn old_gateway() {
    let (gateway, _served, mut watched) = attached(Version::V0_19).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    watched.until_state(&b, RUNNING).await;
    let epoch = watched.adapter.identity().epoch;
    gateway.hang_up();
    gateway.complete(&a, "completed");
    watched
        .until_discontinuity("Reconnected, gap Possible")
        .await;
    assert_ne!(watched.adapter.identity().epoch, epoch, "a connection each");
    let omits = |seen: &[Signal]| {
        let complete = seen.iter().filter(|signal| {
            matches!(signal, Signal::Snapshot(Snapshot::Complete(s))
                if s.children().iter().map(|c| c.id().as_str()).eq([b.as_str()]))
        });
        complete.count() >= 2
    };
    watched.until("two listings that omit it", omits).await;
    // Its end was not seen, and an old gateway remembers none: that is for who counts the omissions.
    assert_eq!(state_of(&watched.seen, &a), Some(RUNNING));
    gateway.complete(&b, "completed");
    watched.until_state(&b, ChildState::COMPLETED).await;
}

async fn another_life() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    gateway.new_life();
    gateway.hang_up();
    watched
        .until_discontinuity("SourceRestarted, gap Possible")
        .await;
    watched.until_state(&a, ChildState::LOST).await;
    assert_eq!(
        detail(&watched.seen, &a, "basis").unwrap(),
        "gateway_restarted"
    );
}

async fn token() {
    let gateway = Gateway::new(Version::V0_22);
    let served = gateway.serve("sesame").await.unwrap();
    let token = token_file("wrong");
    let mut config = config();
    config.ws = Some(served.url());
    config.token_file = Some(token.to_path_buf());
    let mut watched = Watched::of(config);
    watched.until_down(&["refuses the token"]).await;
    let told = format!("{:?}", watched.seen);
    assert!(!told.contains("wrong"), "a token is never told");
    std::fs::write(&token, "sesame").unwrap();
    let a = gateway.start("s1", None, "a");
    watched
        .until("the connection", |_| gateway.clients() > 0)
        .await;
    watched.until_state(&a, RUNNING).await;
}

async fn nobody_there() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/api/ws", listener.local_addr().unwrap());
    drop(listener);
    let mut config = config();
    config.ws = Some(url);
    let mut watched = Watched::of(config);
    watched.until_down(&["cannot be reached"]).await;
    assert!(!watched.adapter.is_finished(), "it is tried again");
}

async fn over_the_limit() {
    let mut config = config();
    config.max_frame_bytes = 4096;
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    gateway.event("message.delta", "s1", &json!({"text": "x".repeat(8000)}));
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    // A replay that repeats it is over the limit, too.
    assert!(watched.count("frames_oversized") >= 1);
    assert_eq!(watched.discontinuities(), [] as [String; 0]);
}

async fn far_over_the_limit() {
    let mut config = config();
    config.max_frame_bytes = 1 << 20;
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    gateway.event(
        "message.delta",
        "s1",
        &json!({"text": "x".repeat(10 << 20)}),
    );
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    assert!(
        watched
            .discontinuities()
            .contains(&"Disconnected, gap Possible".to_owned())
    );
}

async fn silent() {
    let mut config = config();
    config.request_timeout = Duration::from_millis(200);
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    gateway.misbehave(Faults {
        silent: true,
        ..Faults::default()
    });
    watched
        .until_discontinuity("Disconnected, gap Possible")
        .await;
    gateway.misbehave(Faults::default());
    gateway.complete(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
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

async fn no_listings() {
    let gateway = Gateway::new(Version::V0_22);
    gateway.misbehave(Faults::not_knowing([
        "delegation.status",
        "subagent.interrupt",
        "session.events.since",
        "subagent.list",
    ]));
    let served = gateway.serve("x").await.unwrap();
    let mut config = config();
    config.ws = Some(served.url());
    config.token_file = Some(token_file("x").to_path_buf());
    let mut watched = Watched::of(config);
    let error = watched
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::Unsupported);
    let a = gateway.start("s1", None, "a");
    gateway.tool(&a, "terminal", "ls");
    watched
        .until("an activity", |seen| {
            events(seen, &a).iter().any(|e| e.activity().is_some())
        })
        .await;
    let known = watched.events(&a).last().unwrap().capabilities();
    assert_eq!(known, headcount_contract::Capabilities::UNKNOWN);
    gateway.complete(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
}

async fn unseen() {
    let (gateway, _served, mut watched) = attached(Version::V0_19).await;
    let a = gateway.start_unseen("s1", "works in silence");
    watched.until_state(&a, RUNNING).await;
    watched
        .until("a sign of life", |seen| {
            events(seen, &a)
                .iter()
                .any(|e| e.kind() == headcount_contract::EventKind::Heartbeat)
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

async fn came_back() {
    let (gateway, served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    let (epoch, last) = {
        let last = *watched.events(&a).last().unwrap();
        (last.source_epoch().clone(), last.sequence().unwrap())
    };
    drop(watched);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let mut config = config();
    config.ws = Some(served.url());
    config.token_file = Some(token_file("sesame").to_path_buf());
    config.resume = vec!["stored-s1".to_owned()];
    let mut watched = Watched::of(config);
    watched.until_state(&a, RUNNING).await;
    let first = watched.events(&a)[0];
    assert_eq!(
        *first.source_epoch(),
        epoch,
        "the gateway lives the same life"
    );
    assert!(
        first.sequence().unwrap() > last,
        "no position is used twice"
    );
    // The session was resumed, so its whole history came, and more will.
    assert_eq!(detail(&watched.seen, &a, "history"), None);
    gateway.complete(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
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
