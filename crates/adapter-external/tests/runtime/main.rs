//! What a host can add to presence, against real processes and a real server: each row of
//! "External Adoption Limits" beyond the exit code.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

mod control;
mod server;
mod status;
mod stream;
#[path = "../support/mod.rs"]
mod support;

use headcount_adapter_external::ExternalConfig;
use headcount_contract::{ChildId, ChildState, EventKind};
use serde_json::json;

use self::support::Observed;

impl Observed {
    async fn state(&self, child: &ChildId) -> Option<ChildState> {
        let snapshot = self.snapshot().await;
        let listed = snapshot
            .children()
            .iter()
            .find(|listed| listed.id() == child);
        listed.map(headcount_contract::SnapshotChild::state)
    }

    async fn next_but_heartbeats(&mut self) -> headcount_contract::LifecycleEvent {
        self.event("an event", |event| event.kind() != EventKind::Heartbeat)
            .await
    }
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
