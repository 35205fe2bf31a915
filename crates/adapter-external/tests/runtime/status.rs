//! A status endpoint.

use headcount_contract::{
    Capability, ChildLifecycleAdapter, ChildState, EventKind, HealthStatus, Outcome,
};
use serde_json::json;

use crate::server::Server;
use crate::support::{Foster, Observed, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_status_endpoint_projects_the_exposed_current_state_and_no_missed_history() {
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
    // Nobody is asked about a process that has ended: one request at most was under way.
    let asked = server.seen("GET /s").len();
    let other = Foster::sleeping();
    let config = json!({"process": [{
        "pid": other.pid,
        "status": {"url": server.url("/other"), "state": "/phase", "interval": "50ms", "states": {"busy": "running"}},
    }]});
    let _other = Observed::open(config);
    until("another is asked about", || {
        server.seen("GET /other").len() > 5
    })
    .await;
    assert!(server.seen("GET /s").len() <= asked + 1);
}
