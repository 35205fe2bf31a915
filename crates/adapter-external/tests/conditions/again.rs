//! What this program does when it is run again under other conditions. It fails by panicking.
#![allow(clippy::print_stdout)] // how it tells the test

use std::io::Write;
use std::process::{Child, Command, Stdio};

use headcount_adapter_external::{AdoptError, Look, look};
use headcount_contract::{ChildLifecycleAdapter, EventKind, HealthStatus, LifecycleEvent};
use rustix::process::{Pid, Resource, getrlimit, setrlimit, test_kill_process};
use serde_json::json;

use crate::probe::block_on;
use crate::support::{Foster, KillOnDrop, Observed, until};

pub(crate) fn play(role: &str) {
    let pid = std::env::var("HEADCOUNT_PID").unwrap().parse().unwrap();
    match role {
        "other_user" => block_on(other_user(pid)),
        "own_zombies" => block_on(own_zombies()),
        "anothers_zombie" => block_on(anothers_zombie(pid)),
        "namespace" => block_on(namespace(pid)),
        "hidden" => block_on(hidden(pid)),
        "hidden_kernel_thread" => block_on(hidden_kernel_thread()),
        "few_descriptors" => few_descriptors(),
        other => panic!("no role {other}"),
    }
    tell("seen");
}

fn tell(line: &str) {
    println!("{line}");
    std::io::stdout().flush().unwrap();
}

/// The process is another user's, who alone may signal it.
async fn other_user(pid: u32) {
    assert_eq!(test_kill_process(number(pid)), Err(rustix::io::Errno::PERM));
    assert!(matches!(look(pid), Look::Lives(_)));
    let mut observed = open(pid);
    let created = observed.created(pid).await;
    assert!(created.details().get("startTicks").is_some());
    assert_eq!(created.details().get("user"), Some(json!("root")));
    lives_then_is_killed(&mut observed, &created).await;
}

/// Nobody but the kernel could tell their status otherwise: they are never collected.
async fn own_zombies() {
    for code in [0, 3] {
        let mut process = Foster::run_uncollected(&format!("read x <&3; exit {code}"));
        let mut observed = open(process.pid);
        let created = observed.created(process.pid).await;
        process.tell("go");
        until("it is a zombie", || !process.lives()).await;
        let ended = |event: &LifecycleEvent| event.kind() != EventKind::Heartbeat;
        let end = observed.event("its end", ended).await;
        assert_eq!(end.child_id(), created.child_id());
        assert_eq!(end.details().get("exitCode"), Some(json!(code)), "{end:?}");
        assert_eq!(end.details().get("readFrom"), Some(json!("proc_stat")));
    }
}

/// A status of 0 is shown to those who may not know it.
async fn anothers_zombie(pid: u32) {
    let mut observed = open(pid);
    let created = observed.created(pid).await;
    tell("adopted");
    let end = observed.end(created.child_id()).await;
    assert_eq!(end.kind(), EventKind::Diagnostic(None), "{end:?}");
    let told = end.details().get("observation");
    let expected = if observed.tells_exit_status() {
        "zombie"
    } else {
        "vanished"
    };
    assert_eq!(told, Some(json!(expected)), "{end:?}");
}

/// The process is outside of this namespace.
async fn namespace(outside: u32) {
    let inside = Foster::sleeping();
    let mut observed = open(inside.pid);
    observed.created(inside.pid).await;
    assert_eq!(
        observed.adapter.adopt(i64::from(outside)).await,
        Err(AdoptError::NoSuchProcess)
    );
    assert_eq!(look(outside), Look::Nobody);
    is_limited(
        &observed,
        "this is a PID namespace (a container): processes outside of it cannot be seen, and numbers mean others there",
    );

    // Two are named so, one of them here.
    let matching = Observed::open(json!({
        "match": [{"name": "sleep", "own_descendants": "adopt"}], "scan_interval": "100ms",
    }));
    let count = |what: &str| {
        let counts = matching.adapter.health().counts;
        counts.get(what).copied().unwrap_or(0)
    };
    until("some scans", || count("scans") >= 3).await;
    assert_eq!(count("adopted"), 1);
}

/// The process is another user's, and `/proc` shows nothing of it.
async fn hidden(pid: u32) {
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    let mut observed = open(pid);
    let created = observed.created(pid).await;
    for fact in ["startTicks", "command", "user", "startedAt"] {
        assert_eq!(created.details().get(fact), None, "{fact} was not seen");
    }
    is_limited(
        &observed,
        "/proc hides processes of other users: their start, command and status cannot be seen",
    );
    lives_then_is_killed(&mut observed, &created).await;
}

async fn hidden_kernel_thread() {
    let observed = Observed::open(json!({}));
    let refused = observed.adapter.adopt(2).await.unwrap_err().to_string();
    assert!(
        refused.contains("in no process group: a kernel thread"),
        "{refused}"
    );
}

/// Forty descriptors, of which a quarter is left to the rest of the host.
fn few_descriptors() {
    let mut processes: Vec<_> = (0..60).map(|_| KillOnDrop(sleep())).collect();
    let pids: Vec<u32> = processes.iter().map(|process| process.0.id()).collect();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(40);
    setrlimit(Resource::Nofile, limit).unwrap();
    block_on(async {
        let mut observed = Observed::open(json!({"pids": pids, "poll_interval": "50ms"}));
        for _ in &pids {
            let created = |event: &LifecycleEvent| event.kind() == EventKind::Created;
            observed.event("created", created).await;
        }
        let health = observed.adapter.health();
        let without = health.counts["without_descriptor"];
        assert!((20..60).contains(&without), "{without}");
        let message = format!(
            "{without} processes are looked at every 50 ms instead of waited for, and how they end may stay unknown: the limit of 40 open files is nearly reached (raise `ulimit -n`)"
        );
        assert_eq!(health.message.as_deref(), Some(&*message));
        assert_eq!(health.status, HealthStatus::Degraded);
        let left: Vec<_> = (0..8).map(|_| std::fs::File::open("/dev/null")).collect();
        assert!(left.iter().all(Result::is_ok), "the host has none left");

        for process in &mut processes {
            process.0.kill().unwrap();
        }
        for _ in &pids {
            let ended = |event: &LifecycleEvent| matches!(event.kind(), EventKind::Terminal(_));
            let end = observed.event("an end", ended).await;
            assert_eq!(end.details().get("signal"), Some(json!(9)));
        }
        assert_eq!(observed.adapter.health().status, HealthStatus::Healthy);
    });
}

fn sleep() -> Child {
    let mut command = Command::new("sleep");
    command.arg("1000").stdin(Stdio::null());
    command.spawn().unwrap()
}

fn open(pid: u32) -> Observed {
    Observed::open(json!({"pids": [pid], "heartbeat_interval": "100ms"}))
}

fn number(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

fn is_limited(observed: &Observed, limitation: &str) {
    let told = observed.adapter.health().limitations;
    assert!(told.iter().any(|told| &**told == limitation), "{told:?}");
}

async fn lives_then_is_killed(observed: &mut Observed, created: &LifecycleEvent) {
    observed
        .event("heartbeat", |event| event.kind() == EventKind::Heartbeat)
        .await;
    tell("adopted");
    if observed.tells_exit_status() {
        // It may first be seen as a zombie, whose status only its own user may read.
        let ended = |event: &LifecycleEvent| matches!(event.kind(), EventKind::Terminal(_));
        let end = observed.event("its end", ended).await;
        assert_eq!(end.details().get("signal"), Some(json!(9)), "{end:?}");
    } else {
        let end = observed.end(created.child_id()).await;
        assert!(matches!(end.kind(), EventKind::Diagnostic(_)), "{end:?}");
    }
}
