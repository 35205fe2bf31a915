//! What a supervisor tells and does while a process runs.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use headcount_adapter_process::{
    ActivityFrom, Orphan, ProcessOptions, ProcessRuntime, REGISTRATION, RestartOptions,
    RestartWhen, adapter,
};
use headcount_contract::*;
use serde_json::json;

use crate::support::*;

/// The signals of an adapter until `enough` says so.
async fn signals_until(
    stream: &mut SignalStream,
    mut enough: impl FnMut(&Signal) -> bool,
) -> Vec<Signal> {
    let mut seen = Vec::new();
    loop {
        let signal = within(stream.next()).await.unwrap();
        let last = enough(&signal);
        seen.push(signal);
        if last {
            return seen;
        }
    }
}

/// The child's id without what makes it one life's of its source: `job-d764fb96d6-1` is `job-1`.
fn name(child: &ChildId) -> String {
    let is_life = |part: &&str| part.len() == 10 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let of_run = |run: &str| {
        let parts: Vec<_> = run.split('-').filter(|part| !is_life(part)).collect();
        parts.join("-")
    };
    let parts: Vec<_> = child.as_str().split('/').map(of_run).collect();
    parts.join("/")
}

fn line(event: &LifecycleEvent) -> String {
    let state = event.state().map_or("-", ChildState::as_str);
    let attempt = event.lineage().attempt();
    let child = name(event.child_id());
    format!("{child} {attempt} {} {state}", event.kind().as_str())
}

fn lines(signals: &[Signal]) -> Vec<String> {
    let events = signals.iter().filter_map(|signal| match signal {
        Signal::Event(event) => Some(line(event)),
        _ => None,
    });
    events.collect()
}

fn is_end_of(signal: &Signal, child: &str) -> bool {
    matches!(signal, Signal::Event(event)
        if name(event.child_id()) == child && event.state().is_some_and(ChildState::is_terminal))
}

#[tokio::test]
async fn heartbeats_usage_and_activity_come_from_a_process_that_lives() {
    let mut options = shell("while :; do echo working; sleep 0.01; done");
    options.heartbeat_interval = Duration::from_millis(20);
    options.sample_interval = Duration::from_millis(20);
    options.activity = ActivityFrom::Output;
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    let (mut beats, mut samples, mut activities) = (0, Vec::new(), Vec::new());
    while beats < 3 || samples.len() < 3 || activities.is_empty() {
        match within(stream.next()).await.unwrap() {
            RunEvent::Heartbeat(_) => beats += 1,
            RunEvent::Usage(usage) => samples.push(usage),
            RunEvent::Activity { text, timestamp } => activities.push((text, timestamp)),
            _ => {}
        }
    }
    assert!(
        samples
            .iter()
            .all(|usage| usage.processes >= 1 && usage.memory_bytes > 0)
    );
    assert_eq!(activities[0].0, "working");
    within(handle.stop()).await.unwrap();
    let rest: Vec<_> = within(stream.collect()).await;
    activities.extend(rest.iter().filter_map(|event| match event {
        RunEvent::Activity { text, timestamp } => Some((text.clone(), *timestamp)),
        _ => None,
    }));
    for pair in activities.windows(2) {
        let apart = pair[1].1.saturating_since(pair[0].1);
        assert!(
            apart >= Duration::from_millis(900),
            "at most one a second: {apart:?}"
        );
    }
}

#[tokio::test]
async fn a_process_that_leaves_the_group_is_told_of_and_not_hunted() {
    let mut options = shell("setsid sleep 30 >/dev/null 2>&1 & echo up; wait");
    options.sample_interval = Duration::from_millis(20);
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    let escaped = loop {
        if let RunEvent::Error { details, .. } = within(stream.next()).await.unwrap()
            && let Some(escaped) = details.get("escaped")
        {
            break escaped;
        }
    };
    let pid = u32::try_from(escaped[0].as_u64().unwrap()).unwrap();
    within(handle.stop()).await.unwrap();
    assert!(lives(pid), "it was not ours to end");
    kill(pid);
}

#[tokio::test]
async fn restarts_are_new_children_of_one_root_with_delays_and_a_limit() {
    let mut options = ProcessOptions::new("false");
    options.name = Some("job".into());
    options.restart = RestartOptions::new(RestartWhen::OnFailure);
    options.restart.delay = Duration::from_millis(2);
    options.restart.limit = 2;
    let adapter = adapter(options, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    let signals = signals_until(&mut stream, |signal| {
        matches!(signal, Signal::Health(health) if health.status == HealthStatus::Degraded)
    })
    .await;
    let seen: Vec<_> = lines(&signals)
        .into_iter()
        .filter(|line| !line.contains("running"))
        .collect();
    assert_eq!(
        seen,
        [
            "job 0 created created",
            "job 0 state_changed starting",
            "job 0 terminal failed",
            "job-1 1 created created",
            "job-1 1 state_changed starting",
            "job-1 1 terminal failed",
            "job-2 2 created created",
            "job-2 2 state_changed starting",
            "job-2 2 terminal failed",
        ]
    );
    let second = signals.iter().find_map(|signal| match signal {
        Signal::Event(event) if name(event.child_id()) == "job-1" => Some(event.clone()),
        _ => None,
    });
    let second = second.unwrap();
    let before = second.details().get("restartOf").unwrap();
    assert_eq!(before, second.lineage().root().as_str());
    assert!(second.details().get("restartDelayMs").is_some());
    let health = adapter.health();
    assert_eq!(health.counts["restarts"], 2);
    assert!(
        health
            .message
            .unwrap()
            .contains("given up after 2 restarts within 10m")
    );
    assert!(adapter.is_finished());
}

#[tokio::test]
async fn a_restart_on_request_stops_the_run_and_starts_the_next() {
    let handle = start(shell("sleep 30")).await;
    let first = pid_of(&handle);
    let next = within(handle.restart()).await.unwrap();
    assert!(!lives(first));
    assert_eq!(handle.status(), RunStatus::Stopped);
    assert_ne!(next.run_id(), handle.run_id());
    assert!(lives(pid_of(&next)));
    assert!(handle.restart().await.is_err(), "its place is taken");
    within(next.stop()).await.unwrap();
}

#[tokio::test]
async fn a_restart_that_failed_or_was_given_up_can_be_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let cwd = folder.path().join("here");
    std::fs::create_dir(&cwd).unwrap();
    let mut options = shell("trap '' TERM; echo up; while :; do sleep 0.01; done");
    options.cwd = Some(cwd.clone());
    options.grace = Duration::from_millis(50);
    let handle = start(options).await;
    until_output(&mut handle.subscribe()).await;
    assert!(
        handle.restart().now_or_never().is_none(),
        "given up at once"
    );
    std::fs::remove_dir(&cwd).unwrap();
    let error = within(handle.restart()).await.unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::InvalidInput, "{error}");
    std::fs::create_dir(&cwd).unwrap();
    let next = within(handle.restart()).await.unwrap();
    within(next.kill()).await.unwrap();
}

#[tokio::test]
async fn durations_that_no_clock_can_tell_mean_never() {
    let mut options = shell("echo up; exit 3");
    options.drain_timeout = Duration::MAX;
    options.grace = Duration::MAX;
    options.stop_deadline = Duration::MAX;
    options.heartbeat_interval = Duration::MAX;
    options.sample_interval = Duration::MAX;
    assert_eq!(
        end(&run(options.clone()).await).details.get("exitCode"),
        Some(3.into())
    );
    options.args[1] = "echo up; sleep 30".into();
    let handle = start(options).await;
    within(handle.stop()).await.unwrap();
}

#[test]
fn a_start_without_a_tokio_runtime_is_refused_and_starts_nothing() {
    let runtime = ProcessRuntime::new(ProcessOptions::new("true")).unwrap();
    let started = runtime.start(StartInput::new("")).now_or_never();
    let error = started.unwrap().unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[tokio::test]
async fn children_of_the_process_join_under_it_and_are_unproven_after_it() {
    let event = |child: &str, n: u32, kind: &str, state: &str| {
        let state = if state.is_empty() {
            String::new()
        } else {
            format!(r#""state":"{state}","#)
        };
        format!(
            r#"{{"schemaVersion":1,"eventId":"{child}-{n}","source":"inner","sourceEpoch":"1","childId":"{child}","lineage":{{"rootChildId":"{child}","attempt":0,"external":false}},"kind":"{kind}",{state}"observedAt":"2026-01-01T00:00:00Z","sequence":{n},"capabilities":{{"history":"known","heartbeat":"unknown","snapshot":"known","cancel":"known","terminalCause":"known"}}}}"#
        )
    };
    let script = [
        event("a", 0, "created", "created"),
        event("a", 1, "state_changed", "running"),
        "not json".to_owned(),
        event("b", 0, "created", "created"),
        event("a", 2, "terminal", "completed"),
    ]
    .map(|line| format!("echo '{line}' >&7"))
    .join("; ");
    let config = json!({
        "command": "sh", "args": ["-c", format!("{script}; exec 7>&-; sleep 0.05")],
        "inherit": ["PATH"], "name": "agent", "lifecycle_fd": 7, "heartbeat_interval": "0s",
    });
    let adapter = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    let signals = signals_until(&mut stream, |signal| matches!(signal, Signal::Snapshot(_))).await;
    assert_eq!(
        lines(&signals),
        [
            "agent 0 created created",
            "agent 0 state_changed starting",
            "agent 0 state_changed running",
            "agent/a 0 created created",
            "agent/a 0 state_changed running",
            "agent 0 diagnostic -",
            "agent/b 0 created created",
            "agent/a 0 terminal completed",
            "agent 0 terminal completed",
            "agent/b 0 diagnostic -",
        ]
    );
    let told = signals.iter().find_map(|signal| match signal {
        Signal::Event(event) if name(event.child_id()) == "agent/a" => Some(event.clone()),
        _ => None,
    });
    let told = told.unwrap();
    let lineage = told.lineage();
    assert_eq!(lineage.parent().map(name).unwrap(), "agent");
    assert_eq!(name(lineage.root()), "agent/a");
    assert!(!told.capabilities().cancel.is_known());
    let Some(Signal::Snapshot(Snapshot::Complete(snapshot))) = signals.last() else {
        panic!("the last one is a snapshot")
    };
    assert!(
        snapshot
            .children()
            .iter()
            .all(|child| name(child.id()) != "agent/b")
    );
}

#[tokio::test]
async fn the_lifecycle_descriptor_may_be_one_that_the_host_uses_itself() {
    use std::os::fd::AsRawFd;
    let taken = std::fs::File::open("/dev/null").unwrap();
    let fd = u16::try_from(taken.as_raw_fd()).unwrap();
    let mut options = ProcessOptions::new("sh");
    // Not every shell redirects to a descriptor above 9.
    options.args = vec!["-c".into(), format!("echo garbage > /dev/fd/{fd}")];
    options.lifecycle_fd = Some(fd);
    let events = run(options).await;
    assert!(transcript(&events).contains("error: a line of the lifecycle stream was refused"));
    assert_eq!(end(&events).outcome, Some(Outcome::Completed));
}

/// A subscriber that reads nothing while 64 MiB are written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_subscriber_neither_blocks_the_process_nor_grows_memory_and_learns_what_it_missed() {
    let options = shell(
        "yes 0123456789012345678901234567890123456789012345678901234567890 | head -n 1000000",
    );
    let handle = start(options).await;
    let slow = handle.subscribe();
    let quick = handle.subscribe();
    let count = |events: Vec<RunEvent>| {
        let (mut got, mut missed, mut bytes) = (0, 0, 0);
        for event in &events {
            match event {
                RunEvent::Log(batch) => {
                    got += batch.len() as u64;
                    bytes += batch.text_bytes();
                }
                RunEvent::LogMissed(lines) => missed += lines,
                _ => {}
            }
        }
        end(&events);
        (got, missed, bytes)
    };
    let (got, missed, _) = count(within(quick.collect()).await);
    assert_eq!(got + missed, 1_000_000);
    let (got, missed, bytes) = count(within(slow.collect()).await);
    assert!(missed > 0, "it took nothing for all that time");
    assert_eq!(got + missed, 1_000_000);
    assert!(bytes <= 2 << 20, "{bytes} bytes were kept for it");
}

#[test]
fn dropping_the_tokio_runtime_kills_the_group() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (handle, member) = runtime.block_on(async {
        let handle = start(shell("trap '' TERM; sleep 30 & echo $!; wait")).await;
        let mut stream = handle.subscribe();
        let mut events = Vec::new();
        while output(&events, OutputStream::Stdout).is_empty() {
            events.push(within(stream.next()).await.unwrap());
        }
        let member = output(&events, OutputStream::Stdout)[0]
            .parse::<u32>()
            .unwrap();
        (handle, member)
    });
    drop(runtime);
    let leader = pid_of(&handle);
    let deadline = std::time::Instant::now() + DEADLINE;
    while lives(leader) || lives(member) {
        assert!(
            std::time::Instant::now() < deadline,
            "the group outlived its supervisor"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
#[ignore = "it is the child of another test"]
async fn starts_a_sleeper_and_dies() {
    let mut options = ProcessOptions::new("sleep");
    options.args = vec!["30".into()];
    if std::env::var("HELPER_ORPHAN").unwrap() == "terminate" {
        options.orphan = Orphan::Terminate;
    }
    let handle = start(options).await;
    println!("sleeper {}", pid_of(&handle));
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)
        .unwrap();
}

/// A host that is killed with no chance to clean up.
#[tokio::test]
async fn a_host_that_dies_takes_its_processes_along_only_if_it_was_told_to() {
    for (policy, survives) in [("leave", true), ("terminate", false)] {
        let own = std::env::current_exe().unwrap();
        let mut host = ProcessOptions::new(own.to_str().unwrap());
        host.args = [
            "--exact",
            "supervision::starts_a_sleeper_and_dies",
            "--ignored",
            "--nocapture",
        ]
        .map(Into::into)
        .to_vec();
        host.inherit_all = true;
        host.env.insert("HELPER_ORPHAN".into(), policy.into());
        let events = run(host).await;
        assert_eq!(
            end(&events).details.get("signalName"),
            Some("SIGKILL".into())
        );
        let told = output(&events, OutputStream::Stdout);
        let pid = told
            .iter()
            .find_map(|line| line.rsplit_once("sleeper ")?.1.parse().ok())
            .unwrap();
        if survives {
            assert!(lives(pid));
            kill(pid);
        } else {
            until(|| !lives(pid)).await;
        }
    }
}

#[tokio::test]
async fn cancel_is_verified_and_a_snapshot_is_complete() {
    let config = json!({"command": "sleep", "args": ["30"]});
    let adapter = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    signals_until(&mut stream, |signal| {
        matches!(signal, Signal::Event(event) if event.state() == Some(ChildState::RUNNING))
    })
    .await;
    let snapshots = adapter.snapshot(SnapshotReason::Periodic).await.unwrap();
    let [Snapshot::Complete(snapshot)] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    assert_eq!(*snapshot.coverage(), Coverage::All);
    let [child] = snapshot.children() else {
        panic!("one child: {snapshot:?}")
    };
    let child = child.id().clone();
    assert!(adapter.capabilities().cancel.is_known());
    assert_eq!(
        adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::Accepted
    );
    let end = signals_until(&mut stream, |signal| is_end_of(signal, "sleep")).await;
    assert_eq!(lines(&end).last().unwrap(), "sleep 0 terminal cancelled");
}
