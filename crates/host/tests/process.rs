//! A host over supervised processes: what the process adapter leaves to it, and what it asks of it.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts tests, not the helpers of tests

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount::{AdapterInfo, Change, ChangeStream, ChildView, Delivery, Host, HostSettings, View};
use headcount_adapter_process::REGISTRATION;
use headcount_contract::{
    AdapterSpec, ChildState, EventKind, HealthStatus, LifecycleEvent, Outcome, Urgency,
};
use serde_json::{Value, json};

/// Everything is decided within moments, and nothing but conditions is waited for.
fn settings() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.snapshot_period = Duration::from_millis(50);
    settings.projector.heartbeat_deadline = Duration::from_millis(300);
    settings.projector.activity_deadline = Duration::from_millis(300);
    settings.projector.reconcile_backoff = Duration::from_millis(10);
    settings
}

/// A host of one supervised command, started.
async fn host(config: Value) -> (Host, ChangeStream) {
    let adapter = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let host = Host::builder()
        .settings(settings())
        .adapter_value(AdapterInfo::own("process"), adapter)
        .build()
        .unwrap();
    let changes = host.changes_with(Delivery::Lossless);
    host.start().await.unwrap();
    (host, changes)
}

fn shell(script: &str, more: Value) -> Value {
    let mut config = json!({
        "command": "sh", "args": ["-c", script], "name": "job", "inherit": ["PATH"],
        "heartbeat_interval": "20ms",
    });
    let Value::Object(more) = more else {
        panic!("keys and values: {more}")
    };
    config.as_object_mut().unwrap().extend(more);
    config
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(1), future)
        .await
        .expect("within the deadline")
}

/// The events that move something, until one is as wanted.
async fn events_until(
    changes: &mut ChangeStream,
    mut last: impl FnMut(&LifecycleEvent) -> bool,
) -> Vec<Arc<LifecycleEvent>> {
    let mut events = Vec::new();
    loop {
        let Change::Event(event) = within(changes.next()).await.expect("the changes go on") else {
            continue;
        };
        let over = last(&event);
        if event.kind() != EventKind::Heartbeat {
            events.push(event);
        }
        if over {
            return events;
        }
    }
}

fn transcript(events: &[Arc<LifecycleEvent>], of: impl Fn(&str) -> bool) -> Vec<String> {
    let told = events.iter().filter(|event| of(event.child_id().as_str()));
    told.map(|event| {
        let state = event.state().map_or("-", ChildState::as_str);
        format!("{} {state}", event.kind().as_str())
    })
    .collect()
}

fn ends(event: &LifecycleEvent, outcome: Outcome) -> bool {
    event.state() == Some(ChildState::Terminal(outcome))
}

fn running(view: &View) -> Option<&Arc<ChildView>> {
    view.children()
        .find(|child| child.state() == ChildState::RUNNING)
}

/// The end of the stream is no end of a child; the end of the process leaves its child unproven, and
/// the host finds it lost.
#[tokio::test]
async fn a_child_that_a_process_told_of_is_found_lost_once_the_process_has_ended() {
    let told = |child: &str, n: u32, kind: &str, state: &str| {
        let event = json!({
            "schemaVersion": 1, "eventId": format!("{child}-{n}"), "source": "inner",
            "sourceEpoch": "1", "childId": child,
            "lineage": {"rootChildId": child, "attempt": 0, "external": false},
            "kind": kind, "state": state, "observedAt": "2026-01-01T00:00:00Z", "sequence": n,
            "capabilities": {"history": "known", "heartbeat": "unknown", "snapshot": "unknown",
                "cancel": "unknown", "terminalCause": "known"},
        });
        format!("echo '{event}' >&7")
    };
    let script = [
        told("done", 0, "created", "created"),
        told("done", 1, "terminal", "completed"),
        told("open", 0, "created", "created"),
        told("open", 1, "state_changed", "running"),
        // The stream ends a while before the process does.
        "exec 7>&-; sleep 1".to_owned(),
    ];
    let (host, mut changes) = host(shell(&script.join("; "), json!({"lifecycle_fd": 7}))).await;
    let events = events_until(&mut changes, |event| ends(event, Outcome::Lost)).await;
    assert_eq!(
        transcript(&events, |id| id.ends_with("/open")),
        [
            "created created",
            "state_changed running",
            "diagnostic -",
            "terminal lost"
        ]
    );
    assert_eq!(
        transcript(&events, |id| id.ends_with("/done")),
        ["created created", "terminal completed"]
    );
    // Proven by the snapshots for as long as the process lived.
    let order = transcript(&events, |id| !id.ends_with("/done"));
    let at = |wanted: &str| order.iter().position(|line| line == wanted);
    assert!(at("terminal completed") < at("diagnostic -"), "{order:?}");
    let view = host.idle().await;
    let states: Vec<_> = view.sorted().iter().map(|child| child.state()).collect();
    assert_eq!(states.len(), 3);
    assert!(states.contains(&ChildState::LOST));
    host.shutdown(Urgency::Graceful).await.unwrap();
}

/// The adapter says what it knows; only a reconciliation that fails makes it lost (rule L4).
#[tokio::test]
async fn a_process_whose_exit_status_another_took_is_found_lost() {
    let (host, mut changes) = host(shell("sleep 0.1; exit 3", json!({}))).await;
    let view = host.wait_until(|view| running(view).is_some()).await;
    let child = running(&view).unwrap().record.child_id.clone();
    let created = events_until(&mut changes, |event| event.kind() == EventKind::Created).await;
    let pid = created[0].details().get("pid").unwrap().as_i64().unwrap();
    // This blocks the only thread, so that nobody else can be first.
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap());
    let taken = rustix::process::waitpid(pid, rustix::process::WaitOptions::empty());
    assert_eq!(taken.unwrap().unwrap().1.exit_status(), Some(3));
    let events = events_until(&mut changes, |event| ends(event, Outcome::Lost)).await;
    assert_eq!(
        transcript(&events, |id| id == child.as_str()),
        [
            "state_changed starting",
            "state_changed running",
            "diagnostic -",
            "terminal lost"
        ]
    );
    let told = events[2].details();
    assert_eq!(told.get("observation"), Some("vanished".into()));
    assert_eq!(told.get("terminalCause"), Some("unknown".into()));
    assert!(host.idle().await.is_finished());
    host.shutdown(Urgency::Graceful).await.unwrap();
}

#[tokio::test]
async fn a_restart_on_request_is_the_next_attempt_of_the_same_root() {
    let (host, mut changes) = host(shell("sleep 60", json!({}))).await;
    let view = host.wait_until(|view| running(view).is_some()).await;
    let first = running(&view).unwrap().record.clone();
    let next = host.restart(&first.source, &first.child_id).await.unwrap();
    let view = host
        .wait_until(|view| {
            let next = view.child(&first.source, &next);
            next.is_some_and(|child| child.state() == ChildState::RUNNING)
        })
        .await;
    assert_ne!(next, first.child_id);
    let before = view.child(&first.source, &first.child_id).unwrap();
    assert_eq!(before.state(), ChildState::CANCELLED);
    let created = events_until(&mut changes, |event| {
        *event.child_id() == next && event.kind() == EventKind::Created
    })
    .await;
    let created = created.last().unwrap();
    assert_eq!(created.lineage().attempt(), 1);
    assert_eq!(created.lineage().root(), &first.child_id);
    let of = created.details().get("restartOf");
    assert_eq!(of, Some(first.child_id.as_str().into()));
    host.restart(&first.source, &first.child_id)
        .await
        .unwrap_err();
    host.shutdown(Urgency::Graceful).await.unwrap();
}

#[tokio::test]
async fn the_restart_policy_is_visible_as_events_and_in_health() {
    let restart = json!({
        "when": "on_failure", "delay": "10ms", "max_delay": "15ms", "limit": 3,
        "window": "10m", "min_uptime": "1m",
    });
    // Each ends well, and too soon.
    let (host, mut changes) = host(shell("exit 0", json!({"restart": restart}))).await;
    let mut ended = 0;
    let events = events_until(&mut changes, |event| {
        ended += u32::from(ends(event, Outcome::Completed));
        ended == 4
    })
    .await;
    let created: Vec<_> = events
        .iter()
        .filter(|event| event.kind() == EventKind::Created)
        .collect();
    let root = created[0].child_id();
    for (attempt, pair) in (1..).zip(created.windows(2)) {
        let [before, next] = pair else { unreachable!() };
        assert_eq!(next.lineage().attempt(), attempt);
        assert_eq!(next.lineage().root(), root);
        let of = next.details().get("restartOf").unwrap();
        assert_eq!(of, before.child_id().as_str());
        // 10 ms, then twice that, capped; half of each is random.
        let longest = if attempt == 1 { 10 } else { 15 };
        let delay = next.details().get("restartDelayMs").unwrap();
        let delay = delay.as_u64().unwrap();
        assert!(
            (longest / 2..=longest).contains(&delay),
            "attempt {attempt} after {delay} ms"
        );
    }
    let given_up = |view: &View| view.adapters()[0].health.status == HealthStatus::Degraded;
    let view = host.wait_until(given_up).await;
    let health = &view.adapters()[0].health;
    assert_eq!(health.counts["restarts"], 3);
    let message = health.message.as_deref().unwrap();
    assert!(
        message.contains("given up after 3 restarts within 10m"),
        "{message}"
    );
    assert_eq!(view.len(), 4);
    host.shutdown(Urgency::Graceful).await.unwrap();
}
