//! What the tests of this crate share: starting a command, and a readable transcript of its run.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_process::{ProcessOptions, ProcessRuntime};
use headcount_contract::*;

/// A deadline for conditions: generous, since nothing here depends on speed.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// A shell that runs this script, with the host's PATH.
pub(crate) fn shell(script: &str) -> ProcessOptions {
    let mut options = ProcessOptions::new("sh");
    options.args = vec!["-c".into(), script.into()];
    options.inherit = vec!["PATH".into()];
    options
}

pub(crate) async fn start(options: ProcessOptions) -> Arc<dyn RunHandle> {
    start_with(options, StartInput::new("")).await.unwrap()
}

pub(crate) async fn start_with(
    options: ProcessOptions,
    input: StartInput,
) -> Result<Arc<dyn RunHandle>, StartError> {
    ProcessRuntime::new(options).unwrap().start(input).await
}

/// Everything a run told until its end.
pub(crate) async fn events(handle: &Arc<dyn RunHandle>) -> Vec<RunEvent> {
    within(handle.subscribe().collect()).await
}

/// Runs a command to its end.
pub(crate) async fn run(options: ProcessOptions) -> Vec<RunEvent> {
    let handle = start(options).await;
    events(&handle).await
}

pub(crate) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, future)
        .await
        .expect("within the deadline")
}

/// Waits until `condition` holds.
pub(crate) async fn until(mut condition: impl FnMut() -> bool) {
    within(async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    })
    .await;
}

/// The events, one a line, without what differs from run to run.
pub(crate) fn transcript(events: &[RunEvent]) -> String {
    let lines = events.iter().flat_map(|event| match event {
        RunEvent::Log(batch) => batch.lines().map(log_line).collect(),
        RunEvent::Status(change) => vec![status_line(change)],
        RunEvent::Error { message, .. } => vec![format!("error: {message}")],
        RunEvent::LogMissed(lines) => vec![format!("missed {lines} lines")],
        RunEvent::Activity { text, .. } => vec![format!("activity: {text}")],
        _ => vec![],
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn log_line(line: LogLine<'_>) -> String {
    let cut = if line.truncated { " (cut)" } else { "" };
    let lossy = if line.lossy { " (lossy)" } else { "" };
    let (stream, number) = (line.stream.as_str(), line.number);
    format!("{stream} {number}: {}{cut}{lossy}", line.text)
}

fn status_line(change: &StatusChange) -> String {
    let mut details = change.details.to_map();
    for varies in ["pid", "startTicks", "bootId", "leftovers"] {
        details.remove(varies);
    }
    let outcome = change.outcome.map_or(String::new(), |outcome| {
        format!(" ({})", ChildState::Terminal(outcome).as_str())
    });
    let details = if details.is_empty() {
        String::new()
    } else {
        format!(" {}", Details::from(details).as_json())
    };
    format!("{}{outcome}{details}", change.status.as_str())
}

/// The end of the run: its last event, which must be its only terminal one.
pub(crate) fn end(events: &[RunEvent]) -> StatusChange {
    let ends: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            RunEvent::Status(change) if change.status.is_terminal() => Some(change),
            _ => None,
        })
        .collect();
    assert_eq!(ends.len(), 1, "one terminal event: {events:?}");
    let Some(RunEvent::Status(last)) = events.last() else {
        panic!("something follows the end: {events:?}")
    };
    assert!(last.status.is_terminal(), "something follows the end");
    last.clone()
}

/// The text of all output, line by line.
pub(crate) fn output(events: &[RunEvent], stream: OutputStream) -> Vec<String> {
    let batches = events.iter().filter_map(|event| match event {
        RunEvent::Log(batch) if batch.stream() == stream => Some(batch),
        _ => None,
    });
    batches
        .flat_map(|batch| {
            batch
                .lines()
                .map(|line| line.text.to_owned())
                .collect::<Vec<_>>()
        })
        .collect()
}

/// Whether a process lives; a zombie does not.
pub(crate) fn lives(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim().chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// The statuses, in order.
pub(crate) fn statuses(events: &[RunEvent]) -> Vec<RunStatus> {
    let status = |event: &RunEvent| match event {
        RunEvent::Status(change) => Some(change.status),
        _ => None,
    };
    events.iter().filter_map(status).collect()
}

/// Waits for the first line.
pub(crate) async fn until_output(stream: &mut RunEventStream) {
    within(async {
        while !matches!(
            stream.next().await.expect("the run goes on"),
            RunEvent::Log(_)
        ) {}
    })
    .await;
}

pub(crate) fn pid_of(handle: &Arc<dyn RunHandle>) -> u32 {
    let pid = handle.facts().get("pid").and_then(|pid| pid.as_u64());
    u32::try_from(pid.expect("a run has a pid")).expect("a pid")
}

/// Kills a process that a test has left behind on purpose.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid.cast_signed()) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// How many descriptors this process has open.
pub(crate) fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Runs an ignored test of this program in a process of its own: for tests of what the whole
/// process holds, such as descriptors.
pub(crate) async fn in_a_process_of_its_own(test: &str) {
    let own = std::env::current_exe().expect("this program");
    let mut options = ProcessOptions::new(own.to_str().expect("a path"));
    options.args = ["--exact", test, "--ignored", "--nocapture"]
        .map(Into::into)
        .to_vec();
    options.inherit_all = true;
    let events = run(options).await;
    assert_eq!(
        end(&events).details.get("exitCode"),
        Some(0.into()),
        "{}",
        transcript(&events)
    );
    assert!(transcript(&events).contains("1 passed"), "no test {test}");
}
