//! What one process does that is measured.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use headcount_adapter_external::{ExternalAdapter, ExternalConfig};
use headcount_contract::{ChildLifecycleAdapter, EventKind, LifecycleEvent, Signal, SignalStream};
use rustix::process::{Pid, Resource, getrlimit, kill_process, setrlimit};
use serde_json::json;

use crate::forest::Forest;

/// What a minute without an event costs.
pub(crate) struct IdleFigures {
    /// CPU s while nothing happened.
    pub(crate) cpu: f64,
    pub(crate) heartbeats: f64,
    pub(crate) samples: f64,
    /// Memory that the adopted take, all together.
    pub(crate) kib: f64,
    /// CPU s until all were adopted.
    pub(crate) adopting: f64,
}

impl IdleFigures {
    pub(crate) fn read(line: &str) -> Self {
        let fields: Vec<f64> = line
            .split_whitespace()
            .map(|field| field.parse().unwrap())
            .collect();
        let [cpu, heartbeats, samples, kib, adopting] = fields[..] else {
            panic!("no figures: {line}")
        };
        Self {
            cpu,
            heartbeats,
            samples,
            kib,
            adopting,
        }
    }

    fn print(&self) {
        let Self {
            cpu,
            heartbeats,
            samples,
            kib,
            adopting,
        } = self;
        println!("{cpu} {heartbeats} {samples} {kib} {adopting}");
    }
}

/// Adopts the processes that the first line of the input names, and waits.
pub(crate) fn play(args: &[String]) {
    let config = match args[0].as_str() {
        "default" => json!({}),
        "unsampled" => json!({ "sample_interval": "0ms" }),
        other => panic!("no contestant {other}"),
    };
    let idle = Duration::from_secs(args[1].parse().unwrap());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    let pids: Vec<u32> = line
        .split_whitespace()
        .map(|pid| pid.parse().unwrap())
        .collect();
    runtime().block_on(async {
        let mut adopted = Adopted::all(&pids, config).await;
        println!("ready");
        std::io::stdin().read_line(&mut line).unwrap();
        adopted.idle(idle).await.print();
    });
}

/// How long each of these many ends took to be told, of this many adopted.
pub(crate) fn ends(adopted: usize, ends: usize) -> Vec<Duration> {
    let forest = Forest::grow(adopted);
    runtime().block_on(async {
        let mut adopted = Adopted::all(&forest.pids, json!({})).await;
        let step = forest.pids.len() / ends;
        let mut delays = Vec::with_capacity(ends);
        for &pid in forest.pids.iter().step_by(step).take(ends) {
            delays.push(adopted.end(pid).await);
        }
        delays
    })
}

/// One thread, as a host gives one task of many.
fn runtime() -> tokio::runtime::Runtime {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

/// An adapter with its processes adopted.
struct Adopted {
    adapter: ExternalAdapter,
    signals: SignalStream,
    pids: HashMap<String, u32>,
    kib: f64,
    adopting: f64,
}

impl Adopted {
    async fn all(pids: &[u32], mut config: serde_json::Value) -> Self {
        let (cpu, kib) = (cpu(), resident());
        config["pids"] = json!(pids);
        let config: ExternalConfig = serde_json::from_value(config).unwrap();
        let adapter = ExternalAdapter::builder().config(config).build().unwrap();
        let mut signals = adapter.subscribe().unwrap();
        let mut children = HashMap::new();
        while children.len() < pids.len() {
            let event = next_event(&mut signals).await;
            if event.kind() == EventKind::Created {
                let pid = event.details().get("pid").and_then(|pid| pid.as_u64());
                let pid = u32::try_from(pid.unwrap()).unwrap();
                children.insert(event.child_id().as_str().to_owned(), pid);
            }
        }
        assert_eq!(adapter.health().counts["adopted"], pids.len() as u64);
        Self {
            adopting: self::cpu() - cpu,
            kib: resident() - kib,
            adapter,
            signals,
            pids: children,
        }
    }

    async fn idle(&mut self, idle: Duration) -> IdleFigures {
        let before = cpu();
        let (mut heartbeats, mut samples) = (0.0, 0.0);
        let end = tokio::time::Instant::now() + idle;
        while let Ok(Some(signal)) = tokio::time::timeout_at(end, self.signals.next()).await {
            match signal {
                Signal::Event(event) => {
                    assert_eq!(event.kind(), EventKind::Heartbeat, "something happened");
                    heartbeats += 1.0;
                }
                Signal::Observation(..) => samples += 1.0,
                _ => {}
            }
        }
        IdleFigures {
            cpu: cpu() - before,
            heartbeats,
            samples,
            kib: self.kib,
            adopting: self.adopting,
        }
    }

    /// Ends a process and waits until that is told.
    async fn end(&mut self, pid: u32) -> Duration {
        let process = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
        let sent = Instant::now();
        kill_process(process, rustix::process::Signal::KILL).unwrap();
        loop {
            let event = next_event(&mut self.signals).await;
            // Where the kernel does not tell how, a diagnostic says that it is gone.
            if matches!(
                event.kind(),
                EventKind::Terminal(_) | EventKind::Diagnostic(_)
            ) {
                let delay = sent.elapsed();
                assert_eq!(self.pids[event.child_id().as_str()], pid);
                return delay;
            }
        }
    }
}

impl Drop for Adopted {
    fn drop(&mut self) {
        let health = self.adapter.health();
        assert!(health.message.is_none(), "not as it should be: {health:?}");
    }
}

async fn next_event(signals: &mut SignalStream) -> LifecycleEvent {
    loop {
        if let Signal::Event(event) = signals.next().await.unwrap() {
            return event;
        }
    }
}

/// CPU s of this process.
fn cpu() -> f64 {
    let clock = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    clock.tv_sec as f64 + clock.tv_nsec as f64 / 1e9
}

/// Resident memory in KiB.
fn resident() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
