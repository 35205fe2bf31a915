//! An event stream with snapshots.

use std::io::Write;
use std::time::SystemTime;

use headcount_contract::{
    Capability, ChildLifecycleAdapter, ChildState, DiscontinuityCause, EventKind, Outcome, Signal,
    Timestamp,
};
use serde_json::{Value, json};

use crate::support::{self, Foster, Observed, until};

/// An event of the runtime's own stream.
fn own(sequence: u64, rest: &str) -> String {
    format!(
        r#"{{"schemaVersion":1,"eventId":"own-{sequence}","source":"agent","sourceEpoch":"a1","childId":"main","lineage":{{"rootChildId":"main","attempt":0,"external":false}},"observedAt":"{}","sequence":{sequence},{rest}}}"#,
        now()
    ) + "\n"
}

fn own_snapshot(state: &str, sequence: u64) -> Value {
    json!({
        "source": "agent", "sourceEpoch": "a1", "snapshotId": format!("s{sequence}"), "observedAt": now().to_string(), "complete": true,
        "coverage": "all", "children": [{"childId": "main", "state": state, "sequence": sequence}],
    })
}

struct Stream {
    folder: tempfile::TempDir,
}

impl Stream {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("events.jsonl"),
            own(1, r#""kind":"state_changed","state":"starting""#),
        )
        .unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn append(&self, text: &str) {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .open(self.path("events.jsonl"))
            .unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn put_snapshot(&self, snapshot: &Value) {
        std::fs::write(self.path("new"), snapshot.to_string()).unwrap();
        std::fs::rename(self.path("new"), self.path("snapshot.json")).unwrap();
    }

    fn config(&self, pid: u32) -> Value {
        json!({"process": [{
            "pid": pid,
            "events": {"path": self.path("events.jsonl"), "child": "main", "poll_interval": "20ms", "snapshot": {"path": self.path("snapshot.json")}},
        }]})
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_stream_plus_a_complete_snapshot_are_visible_from_the_adoption_on() {
    let stream = Stream::new();
    let mut process = Foster::run("read x <&3; exit 0");
    stream.put_snapshot(&own_snapshot("running", 4));
    let mut observed = Observed::open(stream.config(process.pid));
    let created = observed.created(process.pid).await;
    // The snapshot that lies there is older than the adoption: it tells of the past.
    until("degraded", || {
        observed
            .adapter
            .health()
            .message
            .is_some_and(|message| message.contains("older than the adoption"))
    })
    .await;
    assert_eq!(
        observed.state(created.child_id()).await,
        Some(ChildState::CREATED)
    );
    stream.put_snapshot(&own_snapshot("running", 4));
    let running = observed.next_but_heartbeats().await;
    assert_eq!(running.kind(), EventKind::StateChanged(ChildState::RUNNING));
    assert_eq!(running.capabilities().history, Capability::Unknown);

    stream.append(&own(5, r#""kind":"activity","activity":"reading""#));
    let activity = observed.next_but_heartbeats().await;
    assert_eq!(activity.activity().unwrap().as_str(), "reading");
    stream.append("no event\n");
    until("said", || {
        observed
            .adapter
            .health()
            .message
            .is_some_and(|message| message.contains("1 lines were no lifecycle events"))
    })
    .await;

    // A gap: the snapshot is asked again, and tells what the missing event would have.
    stream.put_snapshot(&own_snapshot("waiting", 9));
    stream.append(&own(9, r#""kind":"heartbeat""#));
    let waiting = observed.next_but_heartbeats().await;
    assert_eq!(waiting.kind(), EventKind::StateChanged(ChildState::WAITING));

    // Its last words, written just before it ends, say more than its exit code.
    stream.append(&own(10, r#""kind":"terminal","state":"cancelled""#));
    process.tell("go");
    let end = observed.next_but_heartbeats().await;
    assert_eq!(end.kind(), EventKind::Terminal(Outcome::Cancelled));
    assert_eq!(end.details().get("basis"), Some(json!("event_stream")));
    assert_eq!(
        observed.state(created.child_id()).await,
        Some(ChildState::CANCELLED)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_ends_without_last_words_ends_with_its_code() {
    let stream = Stream::new();
    let mut process = Foster::run_uncollected("read x <&3; exit 3");
    let mut observed = Observed::open(stream.config(process.pid));
    let created = observed.created(process.pid).await;
    process.tell("go");
    let end = observed.end(created.child_id()).await;
    assert_eq!(end.details().get("exitCode"), Some(json!(3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_is_replaced_is_a_discontinuity_and_read_from_its_start() {
    let stream = Stream::new();
    let process = Foster::sleeping();
    let mut observed = Observed::open(stream.config(process.pid));
    observed.created(process.pid).await;
    stream.put_snapshot(&own_snapshot("running", 4));
    observed.next_but_heartbeats().await;
    std::fs::write(
        stream.path("next"),
        own(5, r#""kind":"state_changed","state":"waiting""#),
    )
    .unwrap();
    stream.put_snapshot(&own_snapshot("running", 4));
    std::fs::rename(stream.path("next"), stream.path("events.jsonl")).unwrap();
    let broken = async {
        loop {
            match futures_util::StreamExt::next(&mut observed.signals)
                .await
                .unwrap()
            {
                Signal::Discontinuity(broken) => return broken.cause,
                Signal::Event(event) => assert_eq!(event.kind(), EventKind::Heartbeat),
                _ => {}
            }
        }
    };
    let cause = tokio::time::timeout(support::DEADLINE, broken)
        .await
        .unwrap();
    assert_eq!(cause, DiscontinuityCause::SourceTruncated);
    let waiting = observed.next_but_heartbeats().await;
    assert_eq!(waiting.kind(), EventKind::StateChanged(ChildState::WAITING));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_may_be_a_socket() {
    let stream = Stream::new();
    let listener = std::os::unix::net::UnixListener::bind(stream.path("socket")).unwrap();
    let process = Foster::sleeping();
    let mut config = stream.config(process.pid);
    config["process"][0]["events"]["path"] = json!(stream.path("socket"));
    let mut observed = Observed::open(config);
    let (mut connection, _) = tokio::task::spawn_blocking(move || listener.accept())
        .await
        .unwrap()
        .unwrap();
    observed.created(process.pid).await;
    // Written before the snapshot is there: it waits.
    connection
        .write_all(own(5, r#""kind":"state_changed","state":"waiting""#).as_bytes())
        .unwrap();
    stream.put_snapshot(&own_snapshot("running", 4));
    let running = observed.next_but_heartbeats().await;
    assert_eq!(running.kind(), EventKind::StateChanged(ChildState::RUNNING));
    let waiting = observed.next_but_heartbeats().await;
    assert_eq!(waiting.kind(), EventKind::StateChanged(ChildState::WAITING));
}

fn now() -> Timestamp {
    SystemTime::now().into()
}
