//! Many children of mixed behaviour at once: nothing is lost, wrong, left or leaked.

use std::collections::BTreeMap;
use std::ops::Range;
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
    /// Live ones that bear the mark of the load, and ended ones that nobody has collected.
    pub(crate) left_processes: Vec<u32>,
}

/// What a child does, and what must be told of it.
struct Behaviour {
    name: &'static str,
    script: &'static str,
    stopped: Stopped,
    /// The last line, the same for every child that is not stopped.
    last_line: Option<&'static str>,
    /// What the details of its end must contain.
    cause: &'static str,
    /// It leaves its group, which must be told.
    escapes: bool,
}

/// When a child is stopped: at a random moment of these milliseconds.
#[derive(Clone)]
enum Stopped {
    Never,
    /// Counted from its first line.
    AfterALine(Range<u64>),
    /// Counted from its start, so that it may have come to nothing yet.
    AfterItsStart(Range<u64>),
}

const MARK: &str = "HEADCOUNT_STRESS";

/// A child that ends by itself.
const fn ending(name: &'static str, script: &'static str, cause: &'static str) -> Behaviour {
    Behaviour {
        name,
        script,
        stopped: Stopped::Never,
        last_line: Some("last"),
        cause,
        escapes: false,
    }
}

/// A child that is stopped.
const fn stopped(
    name: &'static str,
    script: &'static str,
    stopped: Stopped,
    cause: &'static str,
) -> Behaviour {
    Behaviour {
        name,
        script,
        stopped,
        last_line: None,
        cause,
        escapes: false,
    }
}

const BEHAVIOURS: [Behaviour; 11] = [
    ending(
        "instant exit",
        "echo first; printf last; exit 7",
        r#""exitCode":7"#,
    ),
    ending(
        "crash",
        "echo last; kill -SEGV $$",
        r#""signalName":"SIGSEGV""#,
    ),
    stopped(
        "fork bomb of 50",
        "i=0; while [ $i -lt 50 ]; do sleep 60 & i=$((i+1)); done; echo up; wait",
        Stopped::AfterALine(0..20),
        r#""signalName":"SIGTERM""#,
    ),
    stopped(
        "ignores the stop signal",
        "trap '' TERM; echo up; while :; do sleep 60; done",
        Stopped::AfterALine(0..20),
        r#""escalated":true"#,
    ),
    ending(
        "output flood",
        "yes 'a line of no great length' | head -n 20000; echo last",
        r#""exitCode":0"#,
    ),
    ending(
        "closed outputs",
        "echo last; exec >&- 2>&-; sleep 0.1; exit 5",
        r#""exitCode":5"#,
    ),
    ending(
        "setsid",
        "setsid sleep 1 >/dev/null 2>&1 & echo last",
        r#""exitCode":0"#,
    ),
    Behaviour {
        escapes: true,
        ..stopped(
            "setsid, then stopped",
            "setsid sh -c 'echo up; exec sleep 60 >/dev/null 2>&1' & wait",
            // A stop looks at a table of processes that is at most 100 ms old.
            Stopped::AfterALine(110..140),
            r#""signalName":"SIGTERM""#,
        )
    },
    ending(
        "double fork",
        "(sleep 60 & echo) >/dev/null; (sleep 0.1; echo last) & exit 0",
        r#""leftovers":["#,
    ),
    stopped(
        "stopped while it writes",
        "i=0; while :; do echo $i; i=$((i+1)); done",
        Stopped::AfterALine(0..30),
        r#""stopRequested":true"#,
    ),
    stopped(
        "stopped at any moment",
        "i=0; while [ $i -lt 5 ]; do sleep 60 & echo $i; i=$((i+1)); done; wait",
        Stopped::AfterItsStart(0..15),
        r#""stopRequested":true"#,
    ),
];

/// Starts the load and judges every child.
pub(crate) async fn stress(load: Load) -> Report {
    let mark = format!("{}-{}", std::process::id(), load.seed);
    let before = descriptors();
    let mut random = fastrand::Rng::with_seed(load.seed);
    let children = (0..load.children).map(|at| (at, random.u64(..)));
    let children: Vec<_> = children.collect();
    let judged: Vec<_> = stream::iter(children)
        .map(|(at, random)| {
            let behaviour = &BEHAVIOURS[at % BEHAVIOURS.len()];
            let mark = format!("{mark}-{at}.");
            // Each in a task of its own: nobody is slow to read because another is looked at.
            async move {
                let judged = tokio::spawn(one(behaviour, random, mark)).await;
                judged.unwrap_or_else(|error| (behaviour.name, Some(error.to_string())))
            }
        })
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
        report.left_processes = marked(&format!("{mark}-"));
        report.left_processes.extend(uncollected());
        report.leaked_descriptors = descriptors().saturating_sub(before);
        if report.left_processes.is_empty() && report.leaked_descriptors == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    report
}

/// Runs one child to its end; what was wrong about it.
async fn one(
    behaviour: &'static Behaviour,
    random: u64,
    mark: String,
) -> (&'static str, Option<String>) {
    let mut options = ProcessOptions::new("sh");
    options.args = vec!["-c".into(), behaviour.script.into()];
    options.inherit = vec!["PATH".into()];
    options.env.insert(MARK.into(), mark.clone());
    options.grace = Duration::from_millis(100);
    options.drain_timeout = Duration::from_secs(5);
    let judged = judge(behaviour, options, random, &mark);
    let judged = tokio::time::timeout(Duration::from_mins(2), judged).await;
    let fault = match judged {
        Ok(Ok(())) => None,
        Ok(Err(fault)) => Some(fault),
        Err(_) => Some("it did not end".to_owned()),
    };
    (behaviour.name, fault)
}

async fn judge(
    behaviour: &'static Behaviour,
    options: ProcessOptions,
    random: u64,
    mark: &str,
) -> Result<(), String> {
    let runtime = ProcessRuntime::new(options).map_err(|error| error.to_string())?;
    let handle = runtime
        .start(StartInput::new(""))
        .await
        .map_err(|error| error.to_string())?;
    let mut events = handle.subscribe();
    let mut told = Told::default();
    let moment = match &behaviour.stopped {
        Stopped::Never => None,
        Stopped::AfterItsStart(moment) => Some(moment),
        Stopped::AfterALine(moment) => {
            while told.lines == 0 {
                let event = events.next().await;
                told.take(&event.ok_or("it ended before it was stopped")?)?;
            }
            Some(moment)
        }
    };
    let is_stopped = moment.is_some();
    if let Some(moment) = moment {
        let handle: Arc<dyn RunHandle> = handle.clone();
        let after = Duration::from_millis(moment.start + random % (moment.end - moment.start));
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
    if (end.outcome == Some(Outcome::Cancelled)) != is_stopped {
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
    // Nobody is left of a stopped group; one who left it was told of.
    let escaped = pids(told.escaped.as_ref());
    if is_stopped {
        let mark = mark.to_owned();
        let left = tokio::task::spawn_blocking(move || marked(&mark)).await;
        let left = left.map_err(|error| error.to_string())?;
        if left != escaped || escaped.is_empty() == behaviour.escapes {
            return Err(format!("{left:?} live on, {escaped:?} were told"));
        }
    }
    // What it left behind on purpose, and the supervisor has told of.
    for pid in escaped
        .into_iter()
        .chain(pids(end.details.get("leftovers").as_ref()))
    {
        kill(pid);
    }
    Ok(())
}

fn pids(value: Option<&serde_json::Value>) -> Vec<u32> {
    let listed = value.and_then(serde_json::Value::as_array);
    let pids = listed.into_iter().flatten();
    pids.filter_map(|pid| u32::try_from(pid.as_u64()?).ok())
        .collect()
}

fn kill(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// What one child has told.
#[derive(Default)]
struct Told {
    lines: u64,
    last: Option<String>,
    escaped: Option<serde_json::Value>,
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
            RunEvent::Error { details, .. } => {
                self.escaped = details.get("escaped").or(self.escaped.take());
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

fn processes() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The live processes whose mark begins like this, in order.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{MARK}={mark}");
    let mut marked: Vec<u32> = processes()
        .filter(|pid| {
            let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environment
                .split(|byte| *byte == 0)
                .any(|variable| variable.starts_with(wanted.as_bytes()))
        })
        .collect();
    marked.sort_unstable();
    marked
}

/// Our own children that have ended and were not collected.
fn uncollected() -> Vec<u32> {
    let wanted = format!("Z {} ", std::process::id());
    processes()
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ")
                .is_some_and(|(_, rest)| rest.starts_with(&wanted))
        })
        .collect()
}
