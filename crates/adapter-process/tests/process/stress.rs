//! Many children of mixed behaviour at once: nothing is lost, wrong, left or leaked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use headcount_adapter_process::{ProcessOptions, ProcessRuntime};
use headcount_contract::{
    AgentRuntime, Outcome, OutputStream, RunEvent, RunHandle, StartInput, StatusChange,
};

/// How much is started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    pub(crate) children: usize,
    pub(crate) at_once: usize,
    pub(crate) seed: u64,
}

/// What went wrong: each is a fault of the supervisor.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) children: usize,
    pub(crate) by_behaviour: BTreeMap<&'static str, usize>,
    pub(crate) faults: Vec<String>,
    pub(crate) leaked_descriptors: usize,
    pub(crate) left_processes: Vec<u32>,
}

/// What a child does, and what must be told of it.
struct Behaviour {
    name: &'static str,
    script: &'static str,
    /// Stopped at a random moment within so many milliseconds after its first line.
    stop_within: Option<u64>,
    /// The last line, the same for every child that is not stopped.
    last_line: Option<&'static str>,
    /// What the details of its end must contain.
    cause: &'static str,
}

const MARK: &str = "HEADCOUNT_STRESS";

const BEHAVIOURS: [Behaviour; 9] = [
    Behaviour {
        name: "instant exit",
        script: "echo first; printf last; exit 7",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""exitCode":7"#,
    },
    Behaviour {
        name: "crash",
        script: "echo last; kill -SEGV $$",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""signalName":"SIGSEGV""#,
    },
    Behaviour {
        name: "fork bomb of 50",
        script: "i=0; while [ $i -lt 50 ]; do sleep 60 & i=$((i+1)); done; echo up; wait",
        stop_within: Some(20),
        last_line: None,
        cause: r#""signalName":"SIGTERM""#,
    },
    Behaviour {
        name: "ignores the stop signal",
        script: "trap '' TERM; echo up; while :; do sleep 60; done",
        stop_within: Some(20),
        last_line: None,
        cause: r#""escalated":true"#,
    },
    Behaviour {
        name: "output flood",
        script: "yes 'a line of no great length' | head -n 20000; echo last",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""exitCode":0"#,
    },
    Behaviour {
        name: "closed outputs",
        script: "echo last; exec >&- 2>&-; sleep 0.1; exit 5",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""exitCode":5"#,
    },
    Behaviour {
        name: "setsid",
        script: "setsid sleep 1 >/dev/null 2>&1 & echo last",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""exitCode":0"#,
    },
    Behaviour {
        name: "double fork",
        script: "(sleep 60 & echo) >/dev/null; (sleep 0.1; echo last) & exit 0",
        stop_within: None,
        last_line: Some("last"),
        cause: r#""leftovers":["#,
    },
    Behaviour {
        name: "stopped while it writes",
        script: "i=0; while :; do echo $i; i=$((i+1)); done",
        stop_within: Some(30),
        last_line: None,
        cause: r#""stopRequested":true"#,
    },
];

/// Starts the load and judges every child.
pub(crate) async fn stress(load: Load) -> Report {
    let mark = format!("{}-{}", std::process::id(), load.seed);
    let before = descriptors();
    let mut random = fastrand::Rng::with_seed(load.seed);
    let children = (0..load.children).map(|at| (at % BEHAVIOURS.len(), random.u64(..)));
    let children: Vec<_> = children.collect();
    let judged: Vec<_> = stream::iter(children)
        .map(|(which, random)| one(&BEHAVIOURS[which], random, &mark))
        .buffer_unordered(load.at_once)
        .collect()
        .await;
    let mut report = Report {
        children: load.children,
        ..Report::default()
    };
    for (name, fault) in judged {
        *report.by_behaviour.entry(name).or_default() += 1;
        report
            .faults
            .extend(fault.map(|fault| format!("{name}: {fault}")));
    }
    // Those that left their group end by themselves.
    for _ in 0..200 {
        report.left_processes = marked(&mark);
        report.leaked_descriptors = descriptors().saturating_sub(before);
        if report.left_processes.is_empty() && report.leaked_descriptors == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    report
}

/// Runs one child to its end; what was wrong about it.
async fn one(behaviour: &Behaviour, random: u64, mark: &str) -> (&'static str, Option<String>) {
    let mut options = ProcessOptions::new("sh");
    options.args = vec!["-c".into(), behaviour.script.into()];
    options.inherit = vec!["PATH".into()];
    options.env.insert(MARK.into(), mark.into());
    options.grace = Duration::from_millis(100);
    options.drain_timeout = Duration::from_secs(5);
    let judged =
        tokio::time::timeout(Duration::from_mins(2), judge(behaviour, options, random)).await;
    let fault = match judged {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => Some("it did not end".to_owned()),
    };
    (behaviour.name, fault)
}

async fn judge(behaviour: &Behaviour, options: ProcessOptions, random: u64) -> Result<(), String> {
    let runtime = ProcessRuntime::new(options).map_err(|error| error.to_string())?;
    let handle = runtime
        .start(StartInput::new(""))
        .await
        .map_err(|error| error.to_string())?;
    let mut events = handle.subscribe();
    let mut told = Told::default();
    if let Some(within) = behaviour.stop_within {
        while told.lines == 0 {
            let event = events
                .next()
                .await
                .ok_or("it ended before it was stopped")?;
            told.take(&event)?;
        }
        let handle: Arc<dyn RunHandle> = handle.clone();
        let after = Duration::from_millis(random % within);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            handle.stop().await
        });
    }
    while let Some(event) = events.next().await {
        told.take(&event)?;
    }
    let end = told.end.ok_or("no terminal event")?;
    if !end.details.as_json().contains(behaviour.cause) {
        return Err(format!("wrong cause: {end:?}"));
    }
    let cancelled = end.outcome == Some(Outcome::Cancelled);
    if cancelled != behaviour.stop_within.is_some() {
        return Err(format!("wrong outcome: {end:?}"));
    }
    if let Some(wanted) = behaviour.last_line
        && told.last.as_deref() != Some(wanted)
    {
        return Err(format!(
            "the last line is lost; the last one seen is {:?}",
            told.last
        ));
    }
    // What it left behind on purpose, and the supervisor has told of.
    if let Some(serde_json::Value::Array(left)) = end.details.get("leftovers") {
        for pid in left.iter().filter_map(serde_json::Value::as_i64) {
            kill(pid);
        }
    }
    Ok(())
}

fn kill(pid: i64) {
    if let Some(pid) = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw)
    {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// What one child has told.
#[derive(Default)]
struct Told {
    lines: u64,
    last: Option<String>,
    end: Option<StatusChange>,
}

impl Told {
    fn take(&mut self, event: &RunEvent) -> Result<(), String> {
        if self.end.is_some() {
            return Err(format!("something follows the end: {event:?}"));
        }
        match event {
            RunEvent::Log(batch) if batch.stream() == OutputStream::Stdout => {
                for line in batch.lines() {
                    self.lines += 1;
                    if line.number != self.lines {
                        return Err(format!("line {} where {} was due", line.number, self.lines));
                    }
                }
                self.last = batch.last().map(|line| line.text.to_owned());
            }
            RunEvent::LogMissed(lines) => return Err(format!("{lines} lines were missed")),
            RunEvent::Status(change) if change.status.is_terminal() => {
                self.end = Some(change.clone());
            }
            _ => {}
        }
        Ok(())
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// The live processes that bear the mark of this load.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == wanted.as_bytes())
    })
    .collect()
}
