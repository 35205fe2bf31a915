//! Processes that are found: by matchers and by PID files.

use headcount_contract::{ChildLifecycleAdapter, EventKind, HealthStatus};
use serde_json::json;

use crate::support::{Foster, Observed, until};

#[tokio::test]
async fn matches_are_adopted_as_they_appear_and_once_each() {
    let mark = format!("headcount-match-{}", std::process::id());
    let script = format!("exec sh -c 'while read x; do :; done <&3' {mark}");
    let first = Foster::run(&script);
    let config = json!({
        "match": [{"command_contains": mark, "own_descendants": "adopt", "name": "sh"}],
        "scan_interval": "100ms",
    });
    let mut observed = Observed::open(config);
    // The collecting shell carries the mark in its own command line, so it fits as well.
    let created = observed.created(first.pid).await;
    assert_eq!(
        created.details().get("foundBy"),
        Some(json!("match name sh, command"))
    );
    let second = Foster::run(&script);
    observed.created(second.pid).await;
    until("some scans", || {
        observed.adapter.health().counts.get("scans") >= Some(&5)
    })
    .await;
    assert_eq!(
        observed.adapter.health().counts["adopted"],
        4,
        "two shells with a parent each, once each"
    );
}

#[tokio::test]
async fn the_hosts_own_processes_are_left_to_who_started_them() {
    let mark = format!("headcount-own-{}", std::process::id());
    let _process = Foster::run(&format!("exec sh -c 'while read x; do :; done <&3' {mark}"));
    let observed =
        Observed::open(json!({"match": [{"command_contains": mark}], "scan_interval": "100ms"}));
    until("some scans", || {
        observed.adapter.health().counts.get("scans") >= Some(&3)
    })
    .await;
    assert_eq!(observed.adapter.health().counts.get("adopted"), None);
}

#[tokio::test]
async fn a_matcher_that_fits_too_much_is_bounded_and_says_so() {
    let mark = format!("headcount-many-{}", std::process::id());
    let script = format!("exec sh -c 'while read x; do :; done <&3' {mark}");
    let processes: Vec<_> = (0..4).map(|_| Foster::run(&script)).collect();
    let config = json!({
        "match": [{"command_contains": mark, "own_descendants": "adopt"}],
        "scan_interval": "100ms",
        "max_processes": 3,
    });
    let mut observed = Observed::open(config);
    until("degraded", || {
        observed.adapter.health().status == HealthStatus::Degraded
    })
    .await;
    let message = observed.adapter.health().message.unwrap();
    assert!(
        message.contains(
            "match command: 3 processes are observed already, the limit (`max_processes`)"
        ),
        "{message}"
    );
    assert_eq!(observed.adapter.health().counts["adopted"], 3);
    // Room again: those that waited are adopted.
    drop(processes);
    observed
        .event("an end", |event| {
            matches!(
                event.kind(),
                EventKind::Terminal(_) | EventKind::Diagnostic(_)
            )
        })
        .await;
}

#[tokio::test]
async fn a_pid_file_leads_to_its_process_and_to_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.pid");
    let mut observed = Observed::open(json!({"pid_files": [path], "scan_interval": "100ms"}));
    until("waiting for the file", || {
        observed
            .adapter
            .health()
            .message
            .is_some_and(|message| message.contains("there is no such file yet"))
    })
    .await;
    for _ in 0..2 {
        let process = Foster::sleeping();
        std::fs::write(&path, format!("{}\n", process.pid)).unwrap();
        let created = observed.created(process.pid).await;
        assert_eq!(
            created.details().get("foundBy"),
            Some(json!(format!("pid file {}", path.display())))
        );
        until("healthy", || {
            observed.adapter.health().status == HealthStatus::Healthy
        })
        .await;
    }
}
