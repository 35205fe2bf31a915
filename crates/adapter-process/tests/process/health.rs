//! What the adapter's health says, each count and each warning from the real thing.

use futures_util::StreamExt;
use headcount_adapter_process::REGISTRATION;
use headcount_contract::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};

use crate::support::*;

fn adapter(config: Value) -> std::sync::Arc<dyn ChildLifecycleAdapter> {
    (REGISTRATION.build)(AdapterSpec::new(config)).unwrap()
}

fn shell_config(script: &str) -> Value {
    json!({
        "command": "sh", "args": ["-c", script], "inherit": ["PATH"], "drain_timeout": "50ms",
        "heartbeat_interval": "20ms", "sample_interval": "20ms",
    })
}

/// Follows an adapter until its health is as wanted.
async fn until_health(
    stream: &mut SignalStream,
    mut wanted: impl FnMut(&Health) -> bool,
) -> Health {
    loop {
        if let Signal::Health(health) = within(stream.next()).await.expect("it goes on")
            && wanted(&health)
        {
            return health;
        }
    }
}

fn count(health: &Health, name: &str) -> u64 {
    health.counts.get(name).copied().unwrap_or_default()
}

#[tokio::test]
async fn counts_starts_that_fail() {
    let adapter = adapter(json!({
        "command": "/nonexistent",
        "restart": {"when": "on_failure", "delay": "1ms", "limit": 2},
    }));
    let mut stream = adapter.subscribe().unwrap();
    let health = until_health(&mut stream, |health| {
        health.status == HealthStatus::Degraded
    })
    .await;
    assert_eq!(count(&health, "start_failures"), 3);
}

#[tokio::test]
async fn counts_members_that_outlive_their_leader() {
    let adapter = adapter(shell_config(
        "sleep 30 >/dev/null 2>&1 & sleep 30 >/dev/null 2>&1 & exit 0",
    ));
    let mut stream = adapter.subscribe().unwrap();
    let mut left = Vec::new();
    while left.is_empty() {
        if let Some(Signal::Event(event)) = within(stream.next()).await
            && let Some(Value::Array(pids)) = event.details().get("leftovers")
        {
            left = pids;
        }
    }
    assert_eq!(left.len(), 2);
    assert_eq!(count(&adapter.health(), "leftovers"), 2);
    for pid in left {
        kill(u32::try_from(pid.as_u64().unwrap()).unwrap());
    }
}

#[tokio::test]
async fn counts_processes_that_leave_their_group() {
    let adapter = adapter(shell_config(
        "setsid sleep 30 >/dev/null 2>&1 & echo $! > /dev/null; wait",
    ));
    let mut stream = adapter.subscribe().unwrap();
    let mut escaped = None;
    while escaped.is_none() {
        if let Some(Signal::Event(event)) = within(stream.next()).await {
            escaped = event.details().get("escaped");
        }
    }
    assert_eq!(count(&adapter.health(), "escaped"), 1);
    let pid = escaped.unwrap()[0].as_u64().unwrap();
    within(adapter.close(Urgency::Now)).await.unwrap();
    kill(u32::try_from(pid).unwrap());
}

#[tokio::test]
async fn tells_what_is_used_of_the_system_and_that_everything_is_reaped() {
    let adapter = adapter(shell_config("sleep 30"));
    let mut stream = adapter.subscribe().unwrap();
    while let Some(signal) = within(stream.next()).await {
        if matches!(signal, Signal::Event(event) if event.kind() == EventKind::Heartbeat) {
            break;
        }
    }
    let health = adapter.health();
    // At least this program and its child.
    assert!(count(&health, "processes") >= 2, "{health:?}");
    assert!(count(&health, "open_files") >= 3, "{health:?}");
    assert_eq!(health.counts.get("unreaped"), Some(&0));
    within(adapter.close(Urgency::Now)).await.unwrap();
}

#[tokio::test]
async fn tells_of_files_that_run_out_and_takes_it_back() {
    in_a_process_of_its_own("health::runs_out_of_files_in_this_process").await;
}

fn limit_files(to: u64) {
    let limit = Rlimit {
        current: Some(to),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).unwrap();
}

fn lowest_free() -> u64 {
    use std::os::fd::AsRawFd;
    let next = std::fs::File::open("/dev/null").unwrap();
    next.as_raw_fd().unsigned_abs().into()
}

#[tokio::test]
async fn a_group_that_cannot_be_looked_at_is_not_taken_to_be_gone() {
    in_a_process_of_its_own("health::stops_without_files_in_this_process").await;
}

/// The leader dies of the stop signal, a member ignores it, and the table of processes cannot be
/// opened: that nobody is seen must not mean that nobody lives.
#[tokio::test]
#[ignore = "it limits the whole process; another test runs it in its own"]
async fn stops_without_files_in_this_process() {
    let mut options = shell("(trap '' TERM; echo up; sleep 30 >/dev/null) & wait");
    let grace = std::time::Duration::from_millis(300);
    options.grace = grace;
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    until_output(&mut stream).await;
    let before = getrlimit(Resource::Nofile).current.unwrap();
    limit_files(lowest_free());
    // The shortage outlasts the grace time.
    let shortage = async {
        tokio::time::sleep(2 * grace).await;
        limit_files(before);
    };
    let (stopped, ()) = within(futures_util::future::join(handle.stop(), shortage)).await;
    stopped.unwrap();
    let end = end(&within(stream.collect::<Vec<_>>()).await);
    assert_eq!(end.details.get("escalated"), Some(true.into()), "{end:?}");
}

#[tokio::test]
#[ignore = "it limits the whole process; another test runs it in its own"]
async fn runs_out_of_files_in_this_process() {
    let mut config = shell_config("sleep 30");
    config["restart"] = json!({
        "when": "on_failure", "delay": "1ms", "max_delay": "5ms", "limit": 100_000,
    });
    let adapter = adapter(config);
    // Nothing can be opened any more: the start fails, and says why.
    let before = getrlimit(Resource::Nofile).current.unwrap();
    let used = lowest_free();
    limit_files(used);
    let mut stream = adapter.subscribe().unwrap();
    let mut failure = None;
    while failure.is_none() {
        if let Some(Signal::Event(event)) = within(stream.next()).await
            && event.state() == Some(ChildState::FAILED)
        {
            failure = Some(event.details().clone());
        }
    }
    let failure = failure.unwrap();
    assert_eq!(failure.get("startError"), Some("exhausted".into()));
    let health = until_health(&mut stream, |health| {
        let message = health.message.as_deref().unwrap_or_default();
        message.contains("no more files can be opened") && count(health, "start_failures") > 0
    })
    .await;
    assert_eq!(health.status, HealthStatus::Degraded);
    // There is room for the run, and then for nothing else: it goes on, and the next is warned of.
    limit_files(used + 20);
    while let Some(signal) = within(stream.next()).await {
        if matches!(signal, Signal::Event(event) if event.state() == Some(ChildState::RUNNING)) {
            break;
        }
    }
    let used = lowest_free();
    limit_files(used);
    let health = until_health(&mut stream, |health| {
        let message = health.message.as_deref().unwrap_or_default();
        message.ends_with(&format!("{used} of {used} open files"))
    })
    .await;
    assert_eq!(health.status, HealthStatus::Degraded);
    assert_eq!(count(&health, "open_files"), used);
    // There is room again.
    limit_files(before);
    until_health(&mut stream, |health| health.status == HealthStatus::Healthy).await;
    within(adapter.close(Urgency::Now)).await.unwrap();
}
