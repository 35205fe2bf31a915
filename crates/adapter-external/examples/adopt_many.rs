//! Adopts many sleeping processes, and measures what they cost while nothing happens and how soon
//! an end is told: `cargo run --release -p headcount-adapter-external --example adopt_many -- 10000 20`
//! (processes, idle seconds). Linux only.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // a measurement that fails says so; it prints

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use headcount_adapter_external::{ExternalAdapter, ExternalConfig};
use headcount_contract::{ChildLifecycleAdapter, EventKind, Signal};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().unwrap());
    let count = arguments.next().unwrap_or(1000);
    let idle = Duration::from_secs(arguments.next().unwrap_or(20));
    let script = format!(
        "i=0; while [ $i -lt {count} ]; do sleep 3000 & echo $!; i=$((i+1)); done; exec 1>&-; wait"
    );
    let mut parent = Command::new("sh")
        .args(["-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
    let pids: Vec<u32> = lines
        .take(usize::try_from(count).unwrap())
        .map(|line| line.unwrap().parse().unwrap())
        .collect();

    let before = (cpu(), resident());
    let began = Instant::now();
    let config: ExternalConfig =
        serde_json::from_value(serde_json::json!({ "pids": pids })).unwrap();
    let adapter = ExternalAdapter::builder().config(config).build().unwrap();
    let mut signals = adapter.subscribe().unwrap();
    let mut children = HashMap::new();
    while children.len() < pids.len() {
        if let Some(Signal::Event(event)) = signals.next().await
            && event.kind() == EventKind::Created
        {
            let pid = event.details().get("pid").and_then(|pid| pid.as_u64());
            children.insert(event.child_id().clone(), pid);
        }
    }
    println!(
        "adopted {count} in {:?}, {} ms CPU, {} KiB more memory",
        began.elapsed(),
        cpu() - before.0,
        resident().saturating_sub(before.1)
    );

    let (before, mut beats) = (cpu(), 0_u64);
    let end = Instant::now() + idle;
    while let Ok(Some(signal)) = tokio::time::timeout_at(end.into(), signals.next()).await {
        beats += u64::from(matches!(signal, Signal::Event(_)));
    }
    println!(
        "idle for {idle:?}: {} ms CPU, {beats} heartbeats",
        cpu() - before
    );

    let mut delays: Vec<Duration> = Vec::new();
    let some: Vec<_> = pids
        .iter()
        .step_by((pids.len() / 200).max(1))
        .take(200)
        .collect();
    for &&pid in &some {
        Command::new("kill")
            .args(["-KILL", &pid.to_string()])
            .status()
            .unwrap();
        let sent = Instant::now();
        while let Some(signal) = signals.next().await {
            if let Signal::Event(event) = signal
                && matches!(event.kind(), EventKind::Terminal(_))
            {
                assert_eq!(children[event.child_id()], Some(u64::from(pid)));
                delays.push(sent.elapsed());
                break;
            }
        }
    }
    delays.sort();
    println!(
        "end told after: median {:?}, 99th of 100 {:?} ({} ends)",
        delays[delays.len() / 2],
        delays[delays.len() * 99 / 100],
        delays.len()
    );
    drop(adapter);
    for some in pids.chunks(500) {
        let left = some
            .iter()
            .filter(|pid| std::path::Path::new(&format!("/proc/{pid}")).exists());
        let _ = Command::new("kill")
            .arg("-KILL")
            .args(left.map(u32::to_string))
            .stderr(Stdio::null())
            .status();
    }
    parent.wait().unwrap();
}

/// Processor time of this process in milliseconds, to the clock tick of 10 ms.
fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text[text.rfind(')').unwrap() + 2..].split(' ').collect();
    (fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()) * 10
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
