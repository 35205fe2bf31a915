//! Real processes of other parents: what is said of them, row by row.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

mod support;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_external::{
    AdoptError, ExternalAdapter, ExternalConfig, ProcessIdentity, Readoption, look,
};
use headcount_contract::{
    Capabilities, Capability, ChildId, ChildIdentity, ChildLifecycleAdapter, ChildState, Coverage,
    EventKind, HealthStatus, Lineage, LiveState, Outcome, Signal, Snapshot, SnapshotReason,
    Timestamp, Urgency,
};
use serde_json::json;
use support::{Foster, Leftovers, Observed, transcript, until};

/// Whether the kernel tells how others' children end.
fn tells_exit_status(observed: &Observed) -> bool {
    observed.adapter.capabilities().terminal_cause.is_known()
}

#[tokio::test]
async fn presence_alone_is_an_observed_process_and_nothing_more() {
    let process = Foster::sleeping();
    let mut observed =
        Observed::open(json!({"pids": [process.pid], "heartbeat_interval": "100ms"}));
    let created = observed.created(process.pid).await;
    assert_eq!(created.state(), Some(ChildState::CREATED));
    assert!(created.lineage().is_external() && created.lineage().adopted_at().is_some());
    assert_eq!(created.details().get("basis"), Some(json!("presence")));
    assert_eq!(
        created.details().get("command"),
        Some(json!(["sleep", "1000"]))
    );
    let claimed = Capabilities {
        terminal_cause: observed.adapter.capabilities().terminal_cause,
        ..Capabilities::UNKNOWN
    };
    assert_eq!(
        created.capabilities(),
        Capabilities {
            heartbeat: Capability::Known,
            snapshot: Capability::Known,
            ..claimed
        }
    );
    for _ in 0..3 {
        let next = observed.event("heartbeat", |_| true).await;
        assert_eq!(
            next.kind(),
            EventKind::Heartbeat,
            "state, activity or anything else must not be invented"
        );
        assert_eq!(next.lineage(), created.lineage());
    }
}

#[tokio::test]
async fn an_exit_code_ends_the_process_and_tells_nothing_of_its_task() {
    let cases = [
        (
            "read x <&3; exit 0",
            None,
            Outcome::Completed,
            r#""exitCode":0"#,
        ),
        (
            "read x <&3; exit 3",
            None,
            Outcome::Failed,
            r#""exitCode":3"#,
        ),
        (
            "exec sleep 1000",
            Some("KILL"),
            Outcome::Failed,
            r#""signal":9,"signalName":"SIGKILL","coreDumped":false"#,
        ),
        (
            "exec sleep 1000",
            Some("TERM"),
            Outcome::Failed,
            r#""signal":15,"signalName":"SIGTERM","coreDumped":false"#,
        ),
    ];
    for (script, signal, outcome, facts) in cases {
        let mut process = Foster::run(script);
        let mut observed = Observed::open(json!({"pids": [process.pid]}));
        let child = observed.created(process.pid).await.child_id().clone();
        match signal {
            Some(signal) => process.kill(signal),
            None => process.tell("go"),
        }
        let end = observed.end(&child).await;
        if !tells_exit_status(&observed) && end.kind() == EventKind::Diagnostic(None) {
            eprintln!(
                "SKIPPED in part: this kernel does not tell the exit status of others' children"
            );
            continue;
        }
        assert_eq!(end.kind(), EventKind::Terminal(outcome), "{script}");
        let said = transcript(&end);
        assert!(
            said.contains(facts)
                && said.contains(r#""basis":"process_exit""#)
                && said.contains(r#""taskSuccess":"unknown""#),
            "{said}"
        );
        assert!(end.lineage().is_external());
    }
}

#[tokio::test]
async fn a_zombie_has_ended_with_its_code_though_nobody_collects_it() {
    let mut process = Foster::run_uncollected("read x <&3; exit 7");
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    let child = observed.created(process.pid).await.child_id().clone();
    process.tell("go");
    let end = observed.end(&child).await;
    assert_eq!(
        transcript(&end),
        r#"terminal failed {"exitCode":7,"basis":"process_exit","readFrom":"proc_stat","taskSuccess":"unknown"}"#
    );
    let refused = observed.adapter.adopt(process.number()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "it has ended already (exit code 7) and waits for its parent to collect it"
    );
}

#[tokio::test]
async fn numbers_that_are_nobodys_agent_are_refused_with_the_reason() {
    let observed = Observed::open(json!({}));
    let adapter = &observed.adapter;
    for (number, reason) in [
        (
            -5,
            "process ids are positive; -5 would name a process group",
        ),
        (0, "0 is no process id"),
        (1, "process 1 starts the others and is nobody's agent"),
        (
            i64::from(std::process::id()),
            "this is headcount's own process",
        ),
        (i64::from(i32::MAX), "there is no such process"),
    ] {
        assert_eq!(adapter.adopt(number).await.unwrap_err().to_string(), reason);
    }
}

#[tokio::test]
async fn kernel_threads_are_refused() {
    let kernel_thread = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if kernel_thread.trim() != "kthreadd" {
        skip!("process 2 is no kernel thread here (a container)");
    }
    let observed = Observed::open(json!({}));
    assert_eq!(
        observed.adapter.adopt(2).await,
        Err(AdoptError::KernelThread("kthreadd".into()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_is_refused_and_its_process_named() {
    let Some(python) = Threaded::start("exit 0") else {
        skip!("there is no python3")
    };
    let observed = Observed::open(json!({}));
    let refused = observed
        .adapter
        .adopt(i64::from(python.thread))
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        AdoptError::Thread {
            of: python.process.pid
        }
    );
}

#[tokio::test]
async fn a_process_whose_first_thread_has_ended_lives_on() {
    let Some(mut python) = Threaded::start("exit first") else {
        skip!("there is no python3")
    };
    let pid = python.process.pid;
    until("the first thread has ended", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    })
    .await;
    let mut observed = Observed::open(json!({"pids": [pid], "heartbeat_interval": "100ms"}));
    let child = observed.created(pid).await.child_id().clone();
    observed
        .event("heartbeat", |event| event.kind() == EventKind::Heartbeat)
        .await;
    python.process.tell("go");
    let end = observed.end(&child).await;
    assert_eq!(end.details().get("exitCode"), Some(json!(5)), "{end:?}");
}

/// A process with two threads, that exits with 5 when it is told to.
struct Threaded {
    process: Foster,
    thread: u32,
}

impl Threaded {
    /// With the word `first`, the first thread ends at once and the process lives on.
    fn start(mode: &str) -> Option<Self> {
        let python = std::process::Command::new("python3")
            .arg("--version")
            .output();
        python.ok().filter(|ran| ran.status.success())?;
        let code = "import ctypes,os,sys,threading\ndef run():\n os.read(3,1); os._exit(5)\nt=threading.Thread(target=run); t.start()\nctypes.CDLL(None).syscall(60,0) if \"first\" in sys.argv else t.join()";
        let process = Foster::run(&format!("exec python3 -c '{code}' {mode}"));
        let folder = format!("/proc/{}/task", process.pid);
        let deadline = std::time::Instant::now() + support::DEADLINE;
        loop {
            let threads = std::fs::read_dir(&folder)
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            if let Some(thread) = threads
                .into_iter()
                .find(|&thread: &u32| thread != process.pid)
            {
                return Some(Self { process, thread });
            }
            assert!(
                std::time::Instant::now() < deadline,
                "python started no thread"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[tokio::test]
async fn what_was_named_and_is_not_there_is_said() {
    let process = Foster::sleeping();
    let observed = Observed::open(json!({"pids": [process.pid, i32::MAX]}));
    until("degraded", || {
        observed.adapter.health().status == HealthStatus::Degraded
    })
    .await;
    let message = observed.adapter.health().message.unwrap();
    assert_eq!(
        message,
        "1 not adopted: pid 2147483647: there is no such process"
    );
    let blind = Observed::open(json!({"pids": [i32::MAX]}));
    until("down", || {
        blind.adapter.health().status == HealthStatus::Down
    })
    .await;
}

#[tokio::test]
async fn a_number_that_was_given_out_again_is_another_child() {
    let switch = "/proc/sys/kernel/ns_last_pid";
    if std::fs::OpenOptions::new()
        .write(true)
        .open(switch)
        .is_err()
    {
        skip!("{switch} cannot be written (not root, or no checkpoint support)");
    }
    let first = Foster::sleeping();
    let pid = first.pid;
    let mut observed = Observed::open(json!({"pids": [pid]}));
    let old = observed.created(pid).await;
    first.kill("KILL");
    let end = observed.end(old.child_id()).await;
    until("collected", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    })
    .await;

    // Other tests start processes too: try until the number falls to ours.
    let second = (0..200).find_map(|_| {
        std::fs::write(switch, (pid - 1).to_string()).unwrap();
        let child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let mut child = KillOnDrop(child);
        if child.0.id() == pid {
            return Some(child);
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        None
    });
    let Some(_second) = second else {
        panic!("the number was never free")
    };
    let adopted = observed.adapter.adopt(i64::from(pid)).await.unwrap();
    assert_ne!(&adopted, old.child_id());
    let created = observed.created(pid).await;
    assert_eq!(created.child_id(), &adopted);
    assert_ne!(
        created.details().get("pidfdInode"),
        old.details().get("pidfdInode")
    );

    // The old one stays ended, the new one lives.
    let Snapshot::Complete(snapshot) = observed.snapshot().await else {
        panic!("partial")
    };
    let states: HashMap<_, _> = snapshot
        .children()
        .iter()
        .map(|child| (child.id().clone(), child.state()))
        .collect();
    assert_eq!(states[&adopted], ChildState::CREATED);
    if let EventKind::Terminal(outcome) = end.kind() {
        assert_eq!(states[old.child_id()], ChildState::Terminal(outcome));
    }

    // A journal's record of the old one does not match the new one.
    let found = headcount_adapter_external::match_journal_child(
        old.details(),
        headcount_adapter_external::boot_id().as_deref(),
        look,
    );
    assert_eq!(found, headcount_adapter_external::Readopt::AnotherProcess);
}

struct KillOnDrop(std::process::Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Observed {
    async fn snapshot(&self) -> Snapshot {
        let mut snapshots = self
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .unwrap();
        assert_eq!(snapshots.len(), 1);
        snapshots.remove(0)
    }
}

#[tokio::test]
async fn a_snapshot_covers_exactly_what_was_adopted_and_tells_the_known_ends() {
    let (lives, mut ends) = (
        Foster::sleeping(),
        Foster::run_uncollected("read x <&3; exit 0"),
    );
    let mut observed = Observed::open(json!({"pids": [lives.pid, ends.pid]}));
    let alive = observed.created(lives.pid).await.child_id().clone();
    let ended = observed.created(ends.pid).await.child_id().clone();
    ends.tell("go");
    until("it is a zombie", || !ends.lives()).await;
    // The snapshot looks anew: it needs no event to have been told before.
    let Snapshot::Complete(snapshot) = observed.snapshot().await else {
        panic!("partial")
    };
    let Coverage::Children(covered) = snapshot.coverage() else {
        panic!("claims all processes")
    };
    assert_eq!(
        covered.iter().collect::<HashSet<_>>(),
        HashSet::from([&alive, &ended])
    );
    let states: HashMap<_, _> = snapshot
        .children()
        .iter()
        .map(|child| (child.id(), child.state()))
        .collect();
    assert_eq!(states[&alive], ChildState::CREATED);
    assert_eq!(states[&ended], ChildState::COMPLETED);
    assert!(
        snapshot
            .children()
            .iter()
            .all(|child| child.lineage().is_some_and(Lineage::is_external))
    );
}

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

#[tokio::test]
async fn a_child_of_an_earlier_session_goes_on_under_its_id_and_lineage() {
    let mut process = Foster::run("read x <&3; exit 4");
    let headcount_adapter_external::Look::Lives(found) = look(process.pid) else {
        panic!("not seen")
    };
    let root = ChildId::new("run-0").unwrap();
    let child = ChildIdentity::new(
        ChildId::new("run-1").unwrap(),
        Lineage::new(root).with_attempt(1),
    )
    .unwrap();
    let lost = ChildIdentity::root(ChildId::new("run-2").unwrap());
    let reused = ProcessIdentity::new(process.pid)
        .started_at_tick(1)
        .in_boot(found.boot_id.clone().unwrap());
    let adapter = ExternalAdapter::builder()
        .readopt([
            Readoption::new(child.clone(), LiveState::Running, found),
            Readoption::new(lost.clone(), LiveState::Waiting, reused),
        ])
        .build()
        .unwrap();
    let mut observed = Observed::of(adapter);
    let Snapshot::Complete(snapshot) = observed.snapshot().await else {
        panic!("partial")
    };
    let states: Vec<_> = snapshot
        .children()
        .iter()
        .map(|child| (child.identity().clone(), child.state()))
        .collect();
    assert_eq!(
        states,
        [(child.clone(), ChildState::RUNNING)],
        "what was found keeps its state; what was not is covered and omitted"
    );
    let Coverage::Children(covered) = snapshot.coverage() else {
        panic!("claims all processes")
    };
    assert_eq!(covered.len(), 2);

    let mut said = Vec::new();
    for _ in 0..4 {
        let event = observed.event("event", |_| true).await;
        assert!([child.lineage(), lost.lineage()].contains(&event.lineage()));
        said.push(format!("{} {}", event.child_id(), event.kind().as_str()));
    }
    said.sort();
    assert_eq!(
        said,
        [
            "run-1 diagnostic",
            "run-1 heartbeat",
            "run-2 diagnostic",
            "run-2 diagnostic"
        ]
    );
    process.tell("go");
    let end = observed.end(child.id()).await;
    if tells_exit_status(&observed) {
        assert_eq!(
            (end.kind(), end.details().get("exitCode")),
            (EventKind::Terminal(Outcome::Failed), Some(json!(4)))
        );
    }
}

#[tokio::test]
async fn closing_and_dropping_leave_the_process_alone() {
    let process = Foster::sleeping();
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    observed.created(process.pid).await;
    observed.adapter.close(Urgency::Now).await.unwrap();
    assert!(observed.signals.next().await.is_none());
    assert!(observed.adapter.subscribe().is_err());
    assert_eq!(
        observed.adapter.adopt(process.number()).await,
        Err(AdoptError::NotOpen)
    );
    assert!(
        observed
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .is_err()
    );

    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    observed.created(process.pid).await;
    drop(observed.adapter);
    assert!(observed.signals.next().await.is_none());
    assert!(process.lives());
}

#[tokio::test]
async fn nobody_is_covered_before_the_first_subscription() {
    let process = Foster::sleeping();
    let config: ExternalConfig = serde_json::from_value(json!({"pids": [process.pid]})).unwrap();
    let adapter = ExternalAdapter::builder().config(config).build().unwrap();
    let snapshots = adapter.snapshot(SnapshotReason::SessionOpen).await.unwrap();
    let [Snapshot::Complete(snapshot)] = snapshots.as_slice() else {
        panic!("{snapshots:?}")
    };
    assert_eq!(snapshot.coverage(), &Coverage::Children(vec![]));
    assert!(snapshot.observed_at() > Timestamp::UNIX_EPOCH);
    assert_eq!(
        adapter.adopt(process.number()).await,
        Err(AdoptError::NotOpen)
    );
}

#[tokio::test]
async fn usage_is_shown_of_adopted_processes_and_stands_between_start_and_end() {
    let process = Foster::run("while :; do :; done");
    let mut observed = Observed::open(json!({"pids": [process.pid], "sample_interval": "250ms"}));
    let created = observed.created(process.pid).await;
    let usage = tokio::time::timeout(support::DEADLINE, async {
        loop {
            if let Some(Signal::Observation(child, headcount_contract::Observation::Usage(usage))) =
                observed.signals.next().await
            {
                assert_eq!(&child, created.child_id());
                if usage.cpu_percent > 0.0 {
                    return usage;
                }
            }
        }
    });
    let usage = usage.await.unwrap();
    assert!(usage.memory_bytes > 0 && usage.processes == 1, "{usage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_ends_in_random_order_are_each_noticed_and_none_confused() {
    const COUNT: usize = 1000;
    // One shell that starts them all and collects them in any order.
    let line = format!(
        "i=0; while [ $i -lt {COUNT} ]; do sleep 1000 <&- & echo $!; i=$((i+1)); done; exec 1>&-; wait"
    );
    let mut parent = KillOnDrop(
        std::process::Command::new("sh")
            .args(["-c", &line])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut text = String::new();
    let mut out = std::io::BufReader::new(parent.0.stdout.take().unwrap());
    let mut pids: Vec<u32> = Vec::new();
    while pids.len() < COUNT && std::io::BufRead::read_line(&mut out, &mut text).unwrap() > 0 {
        pids.push(text.trim().parse().unwrap());
        text.clear();
    }
    assert_eq!(pids.len(), COUNT);
    let _leftovers = Leftovers::of(&pids);
    let mut observed = Observed::open(json!({"pids": pids}));
    let mut children = HashMap::new();
    while children.len() < COUNT {
        let created = observed
            .event("created", |event| event.kind() == EventKind::Created)
            .await;
        let pid = created
            .details()
            .get("pid")
            .and_then(|pid| pid.as_u64())
            .unwrap();
        children.insert(created.child_id().clone(), u32::try_from(pid).unwrap());
    }
    assert_eq!(
        children.values().copied().collect::<HashSet<_>>(),
        pids.iter().copied().collect()
    );
    assert_eq!(observed.adapter.health().counts["adopted"], 1000);

    let mut order = pids.clone();
    // A fixed shuffle: neighbours in the order are far apart in number.
    order.sort_by_key(|pid| pid.wrapping_mul(2_654_435_761) >> 7);
    let signals = ["KILL", "TERM", "HUP", "USR1"];
    let expected: HashMap<u32, i64> = order
        .iter()
        .enumerate()
        .map(|(at, &pid)| (pid, [9, 15, 1, 10][at % 4]))
        .collect();
    let killer = {
        let order = order.clone();
        tokio::task::spawn_blocking(move || {
            for (at, signal) in signals.iter().enumerate() {
                let of: Vec<_> = order
                    .iter()
                    .skip(at)
                    .step_by(4)
                    .map(u32::to_string)
                    .collect();
                for some in of.chunks(50) {
                    std::process::Command::new("kill")
                        .arg(format!("-{signal}"))
                        .args(some)
                        .status()
                        .unwrap();
                }
            }
        })
    };
    let mut ended = HashSet::new();
    while ended.len() < COUNT {
        let end = observed
            .event("an end", |event| {
                !matches!(event.kind(), EventKind::Heartbeat)
            })
            .await;
        let pid = children[end.child_id()];
        assert!(ended.insert(end.child_id().clone()), "{pid} ended twice");
        assert_eq!(end.details().get("pid"), Some(json!(pid)));
        if let EventKind::Terminal(outcome) = end.kind() {
            let signal = end
                .details()
                .get("signal")
                .and_then(|signal| signal.as_i64());
            assert_eq!(
                (outcome, signal),
                (Outcome::Failed, Some(expected[&pid])),
                "{pid}"
            );
        } else {
            assert!(!tells_exit_status(&observed), "{end:?}");
        }
    }
    killer.await.unwrap();
}
