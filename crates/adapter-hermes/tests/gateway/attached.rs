//! Gateways that run, reached over a WebSocket.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_adapter_hermes::scripted::{Faults, Gateway, Version};
use headcount_contract::{ChildLifecycleAdapter, ChildState, Signal, Snapshot};
use libtest_mimic::Trial;
use serde_json::json;

use crate::support::live::{
    Watched, attached, attached_with, config, detail, state_of, token_file, trial,
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
        trial(
            "attached::sequences_go_on_after_the_adapter_came_back",
            came_back,
        ),
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

async fn came_back() {
    let (gateway, served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, RUNNING).await;
    let (epoch, last) = {
        let last = *watched.events(&a).last().unwrap();
        (last.source_epoch().clone(), last.sequence().unwrap())
    };
    drop(watched);
    // Positions begin at the time of the connection, in microseconds: no event takes less.
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
