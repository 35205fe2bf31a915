//! A host that owns the connection, and the contract's foundation: flat records.

use headcount_adapter_hermes::{Feed, HermesAdapter};
use headcount_contract::{
    AdapterErrorKind, ChildLifecycleAdapter, ChildState, Signal, Snapshot, Urgency,
};
use libtest_mimic::Trial;
use serde_json::{Value, json};

use crate::support::live::{Watched, config, detail, source, state_of, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("feed::the_aliases_of_ids_mean_the_same", aliases),
        trial("feed::kinds_and_statuses_move_a_child", kinds),
        trial("feed::an_incomplete_snapshot_omits_nobody", incomplete),
        trial("feed::a_listing_with_a_state_corrects", correction),
        trial(
            "feed::one_session_does_not_move_anothers_children",
            isolation,
        ),
        trial("feed::bytes_may_be_cut_anywhere", bytes),
        trial("feed::a_lost_connection_is_told", disconnected),
        trial("feed::a_closed_adapter_takes_no_more", closed),
    ]
}

/// A feed whose requests nobody passes on, as with a host that only hands in what it sees.
fn fed() -> (Watched, Feed) {
    let mut config = config();
    config.request_timeout = std::time::Duration::from_millis(50);
    let (adapter, feed) = HermesAdapter::feed(source(), config);
    (Watched::on(adapter), feed)
}

async fn hand_in(feed: &mut Feed, records: &[Value]) {
    for record in records {
        feed.frame(record.clone()).await.unwrap();
    }
}

async fn aliases() {
    let (mut watched, mut feed) = fed();
    hand_in(
        &mut feed,
        &[
            json!({"child_id": "a", "session_id": "s", "kind": "active", "goal": "one"}),
            json!({"subagent_id": "b", "child_session_id": "s", "kind": "active"}),
            json!({"subagent_id": "a", "child_session_id": "s", "kind": "complete"}),
            json!({"child_id": "b", "session_id": "s", "kind": "failed"}),
        ],
    )
    .await;
    watched.until_state("b", ChildState::FAILED).await;
    assert_eq!(state_of(&watched.seen, "a"), Some(ChildState::COMPLETED));
    assert_eq!(detail(&watched.seen, "a", "goal").unwrap(), "one");
    assert_eq!(detail(&watched.seen, "b", "sessionId").unwrap(), "s");
}

async fn kinds() {
    let cases = [
        (json!({"kind": "active"}), ChildState::RUNNING),
        (json!({"kind": "subagent.start"}), ChildState::RUNNING),
        (json!({"status": "running"}), ChildState::RUNNING),
        (
            json!({"type": "progress", "text": "x"}),
            ChildState::RUNNING,
        ),
        (json!({"type": "heartbeat"}), ChildState::RUNNING),
        (json!({"status": "pending"}), ChildState::CREATED),
        (json!({"status": "queued"}), ChildState::CREATED),
        (json!({"status": "starting"}), ChildState::STARTING),
        (json!({"status": "waiting"}), ChildState::WAITING),
        (json!({"kind": "complete"}), ChildState::COMPLETED),
        (
            json!({"kind": "complete", "status": "failed"}),
            ChildState::FAILED,
        ),
        (
            json!({"event": "subagent.complete", "status": "interrupted"}),
            ChildState::CANCELLED,
        ),
        (json!({"kind": "failed"}), ChildState::FAILED),
        (json!({"kind": "timeout"}), ChildState::FAILED),
        (json!({"kind": "cancelled"}), ChildState::CANCELLED),
        (json!({"kind": "dreaming"}), ChildState::FAILED),
        (
            json!({"kind": "complete", "status": "who knows"}),
            ChildState::FAILED,
        ),
    ];
    let (mut watched, mut feed) = fed();
    for (n, (mut record, expected)) in cases.into_iter().enumerate() {
        let child = format!("child-{n}");
        record["child_id"] = json!(child);
        record["session_id"] = json!("s");
        hand_in(&mut feed, std::slice::from_ref(&record)).await;
        watched.until_state(&child, expected).await;
        let state = state_of(&watched.seen, &child);
        assert_eq!(state, Some(expected), "{record}");
    }
    assert_eq!(watched.count("statuses_unknown"), 2);
}

async fn incomplete() {
    let (mut watched, mut feed) = fed();
    let running = |id: &str| json!({"child_id": id, "session_id": "s", "status": "running"});
    hand_in(
        &mut feed,
        &[
            running("a"),
            running("b"),
            json!({"delegations": [running("b")]}),
            json!({"delegations": [running("b")], "complete": false}),
            json!({"delegations": [running("b")], "complete": true}),
        ],
    )
    .await;
    let snapshots = |seen: &[Signal]| -> Vec<bool> {
        seen.iter()
            .filter_map(|signal| match signal {
                Signal::Snapshot(snapshot) => Some(matches!(snapshot, Snapshot::Complete(_))),
                _ => None,
            })
            .collect()
    };
    watched
        .until("three snapshots", |seen| snapshots(seen).len() == 3)
        .await;
    assert_eq!(snapshots(&watched.seen), [false, false, true]);
    assert_eq!(state_of(&watched.seen, "a"), Some(ChildState::RUNNING));
}

async fn correction() {
    let (mut watched, mut feed) = fed();
    let told =
        |id: &str, status: &str| json!({"child_id": id, "session_id": "s", "status": status});
    hand_in(&mut feed, &[
        told("a", "running"),
        told("b", "running"),
        json!({"delegations": [told("a", "waiting"), told("b", "completed"), told("c", "queued")], "complete": true}),
        json!({"delegations": [told("a", "running"), told("b", "running"), told("c", "running")], "complete": true}),
    ])
    .await;
    watched.until_state("c", ChildState::RUNNING).await;
    let states = |child: &str| -> Vec<String> {
        watched
            .events(child)
            .iter()
            .filter_map(|e| e.state())
            .map(|s| s.to_string())
            .collect()
    };
    assert_eq!(
        states("a"),
        ["created", "starting", "running", "waiting", "running"]
    );
    assert_eq!(
        states("b"),
        ["created", "starting", "running", "completed"],
        "an end is final"
    );
    assert_eq!(states("c"), ["created", "starting", "running"]);
}

async fn isolation() {
    let (mut watched, mut feed) = fed();
    let told = |id: &str, session: &str, kind: &str| json!({"child_id": id, "session_id": session, "kind": kind});
    hand_in(
        &mut feed,
        &[
            told("a", "one", "active"),
            told("a", "two", "failed"),
            told("b", "one", "active"),
        ],
    )
    .await;
    watched.until_state("b", ChildState::RUNNING).await;
    assert_eq!(state_of(&watched.seen, "a"), Some(ChildState::RUNNING));
    assert_eq!(state_of(&watched.seen, "a@two"), Some(ChildState::FAILED));
}

async fn bytes() {
    let (mut watched, mut feed) = fed();
    let text = "{\"jsonrpc\":\"2.0\",\"method\":\"event\",\"params\":{\"type\":\"subagent.start\",\"session_id\":\"s\",\"payload\":{\"subagent_id\":\"sa-é\",\"goal\":\"x\"}}}\n";
    for byte in text.as_bytes() {
        feed.bytes(&[*byte]).await.unwrap();
    }
    watched.until_state("sa-é", ChildState::RUNNING).await;
}

async fn disconnected() {
    let (mut watched, mut feed) = fed();
    hand_in(
        &mut feed,
        &[
            json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "gateway.ready",
        "payload": {"replay_epoch": "e1"}}}),
        ],
    )
    .await;
    let request = feed.request().await.unwrap();
    let request: Value = serde_json::from_str(&request).unwrap();
    assert_eq!(request["method"], "subagent.interrupt");
    let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": {"found": false}});
    hand_in(
        &mut feed,
        &[
            answer,
            json!({"child_id": "a", "session_id": "s", "status": "running"}),
        ],
    )
    .await;
    watched.until_state("a", ChildState::RUNNING).await;
    assert_eq!(watched.adapter.identity().epoch.as_str(), "e1");
    feed.disconnected();
    watched
        .until_discontinuity("Disconnected, gap Possible")
        .await;
    hand_in(
        &mut feed,
        &[
            json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "gateway.ready",
        "payload": {"replay_epoch": "e2"}}}),
        ],
    )
    .await;
    watched
        .until_discontinuity("SourceRestarted, gap Possible")
        .await;
    watched.until_state("a", ChildState::LOST).await;
}

async fn closed() {
    let (watched, mut feed) = fed();
    hand_in(
        &mut feed,
        &[json!({"child_id": "a", "session_id": "s", "status": "running"})],
    )
    .await;
    watched.adapter.close(Urgency::Graceful).await.unwrap();
    let error = loop {
        // What was on its way when it closed may still be taken.
        if let Err(error) = feed
            .frame(json!({"child_id": "b", "status": "running"}))
            .await
        {
            break error;
        }
    };
    assert_eq!(error.kind(), AdapterErrorKind::Closed);
}
