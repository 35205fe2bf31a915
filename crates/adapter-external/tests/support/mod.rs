//! Processes that somebody else started, and reading what the adapter says of them.

#![allow(dead_code)] // each test file uses its part

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_external::{ExternalAdapter, ExternalConfig};
use headcount_contract::{
    AuthoritativeSnapshot, ChildId, ChildLifecycleAdapter, EventKind, LifecycleEvent, Signal,
    SignalStream, Snapshot, SnapshotReason,
};
use serde_json::Value;

/// How long a condition may take before a test gives up. Generous: machines are busy.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A process whose parent is not this test but a shell.
pub(crate) struct Foster {
    parent: Child,
    stdin: Option<ChildStdin>,
    pub(crate) pid: u32,
}

impl Foster {
    /// Runs `script` in a shell under a shell that collects it as soon as it ends. The script's
    /// descriptor 3 is what [`tell`](Self::tell) writes to.
    pub(crate) fn run(script: &str) -> Self {
        Self::under(script, "wait $!; cat <&3 >/dev/null")
    }

    /// The same under a parent that never collects it.
    pub(crate) fn run_uncollected(script: &str) -> Self {
        Self::under(script, "exec sleep 1000")
    }

    /// A process that does nothing until it is killed.
    pub(crate) fn sleeping() -> Self {
        let process = Self::run("exec sleep 1000");
        let comm = format!("/proc/{}/comm", process.pid);
        let deadline = std::time::Instant::now() + DEADLINE;
        // Until then it is a shell that is about to become the program.
        while std::fs::read_to_string(&comm).is_ok_and(|comm| comm.trim() != "sleep") {
            assert!(
                std::time::Instant::now() < deadline,
                "the shell became no sleep"
            );
            std::thread::sleep(Duration::from_millis(1));
        }
        process
    }

    fn under(script: &str, then: &str) -> Self {
        let line = format!("exec 3<&0; ( {script} ) & echo $!; {then}");
        let mut parent = Command::new("sh")
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(parent.stdout.take().unwrap())
            .read_line(&mut first)
            .unwrap();
        let pid = first.trim().parse().unwrap();
        Self {
            stdin: parent.stdin.take(),
            parent,
            pid,
        }
    }

    /// Lets a script that reads from descriptor 3 go on.
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub(crate) fn number(&self) -> i64 {
        i64::from(self.pid)
    }

    pub(crate) fn kill(&self, signal: &str) {
        kill(self.pid, signal);
    }

    /// Whether the process is there and no zombie.
    pub(crate) fn lives(&self) -> bool {
        lives(self.pid)
    }
}

impl Drop for Foster {
    fn drop(&mut self) {
        // By id, and only while it cannot be another's: the parent holds an ended child's number or
        // has collected it, in which case the status is gone.
        if lives(self.pid) && parent_of(self.pid) == Some(self.parent.id()) {
            kill(self.pid, "KILL");
        }
        drop(self.stdin.take());
        let _ = self.parent.kill();
        let _ = self.parent.wait();
    }
}

/// Processes of others that must not outlive the test.
pub(crate) struct Leftovers(Vec<(u32, u64)>);

impl Leftovers {
    /// Remembers which processes these are.
    pub(crate) fn of(pids: &[u32]) -> Self {
        Self(
            pids.iter()
                .filter_map(|&pid| Some((pid, started(pid)?)))
                .collect(),
        )
    }
}

impl Drop for Leftovers {
    fn drop(&mut self) {
        for &(pid, start) in &self.0 {
            if started(pid) == Some(start) && lives(pid) {
                kill(pid, "KILL");
            }
        }
    }
}

fn started(pid: u32) -> Option<u64> {
    stat(pid)?[19].parse().ok()
}

pub(crate) fn kill(pid: u32, signal: &str) {
    let sent = Command::new("kill")
        .args([format!("-{signal}"), pid.to_string()])
        .status()
        .unwrap();
    assert!(sent.success());
}

fn stat(pid: u32) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(
        text[text.rfind(')')? + 2..]
            .split(' ')
            .map(str::to_owned)
            .collect(),
    )
}

pub(crate) fn lives(pid: u32) -> bool {
    stat(pid).is_some_and(|fields| fields[0] != "Z" && fields[0] != "X")
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid)?[1].parse().ok()
}

/// A child of this very process.
pub(crate) struct KillOnDrop(pub(crate) Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(DEADLINE, waiting)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"));
}

/// An open adapter and what it says.
pub(crate) struct Observed {
    pub(crate) adapter: Arc<ExternalAdapter>,
    pub(crate) signals: SignalStream,
}

impl Observed {
    pub(crate) fn open(config: Value) -> Self {
        let config: ExternalConfig = serde_json::from_value(config).unwrap();
        let adapter = ExternalAdapter::builder().config(config).build().unwrap();
        Self::of(adapter)
    }

    pub(crate) fn of(adapter: ExternalAdapter) -> Self {
        let signals = adapter.subscribe().unwrap();
        Self {
            adapter: Arc::new(adapter),
            signals,
        }
    }

    /// What is said of all of them now. Fails if that is partial.
    pub(crate) async fn snapshot(&self) -> AuthoritativeSnapshot {
        let asked = self.adapter.snapshot(SnapshotReason::Periodic).await;
        let Ok([Snapshot::Complete(snapshot)]) = asked.as_deref() else {
            panic!("not one complete snapshot: {asked:?}")
        };
        snapshot.clone()
    }

    /// Whether the kernel tells how others' children end.
    pub(crate) fn tells_exit_status(&self) -> bool {
        self.adapter.capabilities().terminal_cause.is_known()
    }

    /// The next event of which this holds. Fails if there is none in time.
    pub(crate) async fn event(
        &mut self,
        what: &str,
        wanted: impl Fn(&LifecycleEvent) -> bool,
    ) -> LifecycleEvent {
        let search = async {
            while let Some(signal) = self.signals.next().await {
                if let Signal::Event(event) = signal
                    && wanted(&event)
                {
                    return event;
                }
            }
            panic!("the stream has ended: {what}");
        };
        tokio::time::timeout(DEADLINE, search)
            .await
            .unwrap_or_else(|_| panic!("waited in vain: {what}; {:?}", self.adapter.health()))
    }

    /// The start of the process with this number.
    pub(crate) async fn created(&mut self, pid: u32) -> LifecycleEvent {
        self.event("created", |event| {
            event.kind() == EventKind::Created && event.details().get("pid") == Some(pid.into())
        })
        .await
    }

    /// The next end, or word of one.
    pub(crate) async fn end(&mut self, child: &ChildId) -> LifecycleEvent {
        self.event("end", |event| {
            event.child_id() == child
                && !matches!(event.kind(), EventKind::Created | EventKind::Heartbeat)
        })
        .await
    }
}

/// What a person reads: kind, state, and the facts without those that differ from run to run.
pub(crate) fn transcript(event: &LifecycleEvent) -> String {
    let mut facts = event.details().to_map();
    let varying = [
        "pid",
        "startTicks",
        "bootId",
        "pidfdInode",
        "startedAt",
        "parentPid",
        "user",
        "command",
        "foundBy",
        "name",
        "children",
        "containerPid",
    ];
    facts.retain(|key, _| !varying.contains(&key.as_str()));
    let state = event
        .state()
        .map(|state| format!(" {state}"))
        .unwrap_or_default();
    format!(
        "{}{state} {}",
        event.kind().as_str(),
        serde_json::to_string(&facts).unwrap()
    )
}
