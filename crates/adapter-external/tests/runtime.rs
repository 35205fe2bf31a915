//! What a host can add to presence, against real processes and a real server: each row of
//! "External Adoption Limits" beyond the exit code.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

mod support;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use headcount_adapter_external::{
    CancelAuthority, ExternalAdapter, ExternalConfig, ProcessIdentity,
};
use headcount_contract::{
    AdapterError, CancelOutcome, Capability, ChildId, ChildLifecycleAdapter, ChildState,
    DiscontinuityCause, EventKind, HealthStatus, Outcome, Signal, Snapshot, SnapshotReason,
    Timestamp, async_trait,
};
use serde_json::{Value, json};
use support::{Foster, Observed, until};

/// Answers requests by their method and path, and remembers them.
#[derive(Clone)]
struct Server {
    answers: Arc<Mutex<HashMap<String, (u16, String)>>>,
    seen: Arc<Mutex<Vec<String>>>,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            answers: Arc::default(),
            seen: Arc::default(),
            port: listener.local_addr().unwrap().port(),
        };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
                if stream.read_line(&mut first).is_err() {
                    continue;
                }
                while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().unwrap();
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                stream.read_exact(&mut body).unwrap();
                let asked = first.trim_end().trim_end_matches(" HTTP/1.1").to_owned();
                let (status, text) = shared
                    .answers
                    .lock()
                    .unwrap()
                    .get(&asked)
                    .cloned()
                    .unwrap_or((404, "{}".into()));
                shared
                    .seen
                    .lock()
                    .unwrap()
                    .push(format!("{asked} {}", String::from_utf8_lossy(&body)));
                let _ = write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status} x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
                    text.len()
                );
            }
        });
        server
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    fn answer(&self, asked: &str, status: u16, body: impl Into<Value>) {
        self.answers
            .lock()
            .unwrap()
            .insert(asked.into(), (status, body.into().to_string()));
    }

    fn seen(&self, asked: &str) -> Vec<String> {
        self.seen
            .lock()
            .unwrap()
            .iter()
            .filter(|seen| seen.starts_with(asked))
            .cloned()
            .collect()
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

impl Observed {
    async fn state(&self, child: &ChildId) -> Option<ChildState> {
        let snapshots = self
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .unwrap();
        let [Snapshot::Complete(snapshot)] = snapshots.as_slice() else {
            panic!("{snapshots:?}")
        };
        snapshot
            .children()
            .iter()
            .find(|listed| listed.id() == child)
            .map(headcount_contract::SnapshotChild::state)
    }

    async fn next_but_heartbeats(&mut self) -> headcount_contract::LifecycleEvent {
        self.event("an event", |event| event.kind() != EventKind::Heartbeat)
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_endpoint_is_believed_within_what_the_host_described() {
    let server = Server::start();
    let mut process = Foster::run("read x <&3; exit 0");
    server.answer(
        "GET /s",
        200,
        json!({"phase": "busy", "task": "reading", "pid": process.pid}),
    );
    let mut observed = Observed::open(json!({"process": [{
        "pid": process.pid,
        "status": {
            "url": server.url("/s"), "state": "/phase", "activity": "/task", "pid": "/pid", "interval": "50ms",
            "states": {"busy": "running", "idle": "waiting"},
        },
    }]}));
    let created = observed.created(process.pid).await;
    assert_eq!(created.state(), Some(ChildState::CREATED), "presence first");
    let activity = observed.next_but_heartbeats().await;
    assert_eq!(activity.activity().unwrap().as_str(), "reading");
    let running = observed.next_but_heartbeats().await;
    assert_eq!(running.kind(), EventKind::StateChanged(ChildState::RUNNING));
    assert_eq!(running.capabilities().history, Capability::Unknown);
    assert!(running.lineage().is_external());
    assert_eq!(
        observed.state(created.child_id()).await,
        Some(ChildState::RUNNING)
    );

    // Another process answers at the address: it is not believed, and said.
    server.answer("GET /s", 200, json!({"phase": "idle", "pid": 1}));
    until("degraded", || {
        observed.adapter.health().status == HealthStatus::Degraded
    })
    .await;
    let message = observed.adapter.health().message.unwrap();
    assert_eq!(
        message,
        format!("pid {}, status: it answers for process 1", process.pid)
    );
    assert_eq!(
        observed.state(created.child_id()).await,
        Some(ChildState::RUNNING)
    );

    server.answer("GET /s", 200, json!({"phase": "idle", "pid": process.pid}));
    let waiting = observed.next_but_heartbeats().await;
    assert_eq!(waiting.kind(), EventKind::StateChanged(ChildState::WAITING));
    until("healthy", || {
        observed.adapter.health().status == HealthStatus::Healthy
    })
    .await;
    process.tell("go");
    let end = observed.next_but_heartbeats().await;
    assert_eq!(end.kind(), EventKind::Terminal(Outcome::Completed));
    // Nobody is asked about a process that has ended.
    let asked = server.seen("GET /s").len();
    until("the last request is answered", || {
        server.seen("GET /s").len() <= asked + 1
    })
    .await;
}

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
async fn a_stream_and_a_complete_snapshot_are_visible_from_the_adoption_on() {
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

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_is_offered_where_it_was_verified_and_passed_on_within_its_scope() {
    let server = Server::start();
    let (ours, others) = (Foster::sleeping(), Foster::sleeping());
    let verify = format!("GET /may/{}", ours.pid);
    let cancel = format!("POST /cancel/{}", ours.pid);
    server.answer(&verify, 200, json!({"ok": false, "pid": ours.pid}));
    let mut observed = Observed::open(json!({
        "pids": [others.pid],
        "heartbeat_interval": "100ms",
        "process": [{"pid": ours.pid, "control": {
            "url": server.url("/cancel/{pid}"), "scope": "stops its own runs",
            "verify": {"url": server.url("/may/{pid}"), "allowed": "/ok", "pid": "/pid"},
        }}],
    }));
    assert!(observed.adapter.capabilities().cancel.is_known());
    // One of them, then the other: their order is that of the configuration.
    let other = observed.created(others.pid).await.child_id().clone();
    let child = observed.created(ours.pid).await.child_id().clone();
    until("asked", || !server.seen(&verify).is_empty()).await;
    let denied = observed.adapter.cancel(&child, None).await.unwrap();
    assert!(
        matches!(denied, CancelOutcome::Denied { .. }),
        "not verified yet: {denied:?}"
    );

    server.answer(&verify, 200, json!({"ok": true, "pid": ours.pid}));
    let verified = observed
        .event("verified", |event| event.capabilities().cancel.is_known())
        .await;
    assert_eq!(
        (verified.child_id(), verified.details().get("scope")),
        (&child, Some(json!("stops its own runs")))
    );
    for (status, expected) in [
        (202, CancelOutcome::Accepted),
        (409, CancelOutcome::AlreadyEnded),
        (404, CancelOutcome::UnknownChild),
        (
            403,
            CancelOutcome::Denied {
                reason: "the runtime answered 403 Forbidden".into(),
            },
        ),
    ] {
        server.answer(&cancel, status, "{}");
        assert_eq!(
            observed
                .adapter
                .cancel(&child, Some("no longer needed"))
                .await
                .unwrap(),
            expected
        );
    }
    server.answer(&cancel, 500, "{}");
    assert!(observed.adapter.cancel(&child, None).await.is_err());
    assert_eq!(
        server.seen(&cancel)[0],
        format!(
            r#"{cancel} {{"pid":{},"reason":"no longer needed"}}"#,
            ours.pid
        )
    );
    assert!(ours.lives(), "accepted is not cancelled");

    let outside = observed.adapter.cancel(&other, None).await.unwrap();
    assert!(
        matches!(outside, CancelOutcome::Denied { .. }),
        "{outside:?}"
    );
    let stranger = ChildId::new("stranger").unwrap();
    assert_eq!(
        observed.adapter.cancel(&stranger, None).await.unwrap(),
        CancelOutcome::UnknownChild
    );
    // One that has ended is not asked for, even before its end was told: its number may be another's.
    let asked = server.seen(&cancel).len();
    ours.kill("KILL");
    until("ended", || !ours.lives()).await;
    assert_eq!(
        observed.adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::AlreadyEnded
    );
    assert_eq!(server.seen(&cancel).len(), asked);
}

#[tokio::test]
async fn nobody_is_cancelled_without_an_authority() {
    let process = Foster::sleeping();
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    let child = observed.created(process.pid).await.child_id().clone();
    assert!(!observed.adapter.capabilities().cancel.is_known());
    assert_eq!(
        observed.adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::Unsupported
    );
    assert!(process.lives());
}

/// Covers one process only, and remembers whom it was asked to cancel.
#[derive(Debug)]
struct Authority {
    covered: u32,
    asked: Mutex<Vec<u32>>,
}

#[async_trait]
impl CancelAuthority for Authority {
    fn scope(&self) -> String {
        "one process".into()
    }

    async fn covers(&self, process: &ProcessIdentity) -> Result<bool, AdapterError> {
        Ok(process.pid == self.covered)
    }

    async fn cancel(
        &self,
        process: &ProcessIdentity,
        _: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        self.asked.lock().unwrap().push(process.pid);
        Ok(CancelOutcome::Accepted)
    }
}

#[tokio::test]
async fn a_hosts_own_authority_is_asked_for_what_it_covers() {
    let (covered, other) = (Foster::sleeping(), Foster::sleeping());
    let authority = Arc::new(Authority {
        covered: covered.pid,
        asked: Mutex::default(),
    });
    let config: ExternalConfig =
        serde_json::from_value(json!({"pids": [covered.pid, other.pid]})).unwrap();
    let adapter = ExternalAdapter::builder()
        .config(config)
        .authority(authority.clone())
        .build()
        .unwrap();
    let mut observed = Observed::of(adapter);
    let (mut children, mut verified) = (HashMap::new(), None);
    while children.len() < 2 || verified.is_none() {
        let event = observed
            .event("two starts and a verification", |_| true)
            .await;
        if event.kind() == EventKind::Created {
            let pid = event.details().get("pid").and_then(|pid| pid.as_u64());
            children.insert(pid.unwrap(), event.child_id().clone());
        } else if event.capabilities().cancel.is_known() {
            verified = Some(event.child_id().clone());
        }
    }
    let ours = children[&u64::from(covered.pid)].clone();
    let theirs = children[&u64::from(other.pid)].clone();
    assert_eq!(verified, Some(ours.clone()));
    assert_eq!(
        observed.adapter.cancel(&ours, None).await.unwrap(),
        CancelOutcome::Accepted
    );
    let denied = observed.adapter.cancel(&theirs, None).await.unwrap();
    assert!(matches!(denied, CancelOutcome::Denied { .. }));
    assert_eq!(*authority.asked.lock().unwrap(), [covered.pid]);
}

#[test]
fn what_could_mean_several_processes_or_none_is_refused() {
    let status = |url: &str| json!({"url": url, "state": "/s", "states": {"a": "running"}});
    let cases = [
        (json!({}), "give exactly one of pid, pid_file and match"),
        (
            json!({"pid": 5, "pid_file": "/x"}),
            "give exactly one of pid, pid_file and match",
        ),
        (json!({"pid": 1}), "process 1 starts the others"),
        (
            json!({"match": {"name": "a"}, "status": status("http://127.0.0.1/s")}),
            "write {pid} where each one's number belongs",
        ),
        (
            json!({"pid": 5, "status": status("http://example.org/s")}),
            "an address on this machine",
        ),
        (
            json!({"pid": 5, "status": {"url": "http://127.0.0.1/", "state": "/s", "states": {"a": "lost"}}}),
            "only the host finds a child lost",
        ),
        (
            json!({"pid": 5, "status": {"url": "http://127.0.0.1/", "state": "s", "states": {"a": "running"}}}),
            "a JSON pointer",
        ),
        (
            json!({"pid": 5, "events": {"path": "/x", "child": ""  , "snapshot": {"path": "/y"}}}),
            "an id of 1 to 512 bytes",
        ),
        (
            json!({"pid": 5, "control": {"url": "http://127.0.0.1/", "scope": " ", "verify": {"url": "http://127.0.0.1/", "allowed": "/ok", "pid": "/pid"}}}),
            "say what the authority covers",
        ),
    ];
    for (target, expected) in cases {
        let config: ExternalConfig = serde_json::from_value(json!({"process": [target]})).unwrap();
        let error = config.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{target}: {error}");
    }
    // A stream without a snapshot does not tell what is so now.
    let stream = json!({"process": [{"pid": 5, "events": {"path": "/x", "child": "a"}}]});
    let error = serde_json::from_value::<ExternalConfig>(stream)
        .unwrap_err()
        .to_string();
    assert!(error.contains("missing field `snapshot`"), "{error}");
}
