//! A gateway that we start: frames on its standard input and output.

use std::collections::VecDeque;
use std::fmt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use headcount_contract::{AdapterError, AdapterErrorKind, SourceEpoch, Timestamp};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot, watch};

use super::{BATCHES, End, Link, REQUESTS};
use crate::config::HermesConfig;
use crate::frame::FrameDecoder;

/// How much of standard error is kept: the last lines, each cut.
const STDERR_LINES: usize = 40;
const STDERR_LINE: usize = 400;
/// How long standard output may stay open after the process has ended: a process that it left
/// behind may hold it.
const DRAIN: Duration = Duration::from_millis(500);
/// The variable by which processes are known that a gateway left behind.
pub(crate) const MARK: &str = "HEADCOUNT_GATEWAY";

/// The gateway process.
#[derive(Debug)]
pub(crate) struct Process {
    /// In the environment of everything that it starts, unless that was scrubbed.
    pub(crate) mark: String,
    stop: watch::Sender<Option<Stop>>,
}

/// How to stop it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stop {
    Ask(Duration),
    Kill,
}

/// How the gateway process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) pid: u32,
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    /// It was asked to, or killed by us.
    pub(crate) stopped: bool,
    /// The last line that it wrote to standard error.
    pub(crate) last_words: Option<String>,
}

impl Exit {
    /// As details of the children that ended with it.
    pub(crate) fn facts(&self) -> Map<String, Value> {
        let mut facts = Map::from_iter([("gatewayPid".to_owned(), json!(self.pid))]);
        if let Some(code) = self.code {
            facts.insert("gatewayExitCode".to_owned(), json!(code));
        }
        if let Some(signal) = self.signal {
            facts.insert("gatewaySignal".to_owned(), json!(signal));
        }
        if self.stopped {
            facts.insert("gatewayStopRequested".to_owned(), json!(true));
        }
        facts
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "the gateway ended with exit code {code}")?,
            (None, Some(signal)) => write!(f, "the gateway was ended by signal {signal}")?,
            (None, None) => f.write_str("the gateway ended")?,
        }
        match &self.last_words {
            Some(words) if !self.stopped => write!(f, "; its last words: {words}"),
            _ => Ok(()),
        }
    }
}

impl Process {
    /// Asks it to end, and kills it after `grace`.
    pub(crate) fn ask_to_end(&self, grace: Duration) {
        self.escalate(Stop::Ask(grace));
    }

    /// Kills it.
    pub(crate) fn kill(&self) {
        self.escalate(Stop::Kill);
    }

    fn escalate(&self, to: Stop) {
        self.stop.send_if_modified(|stop| {
            let more = stop.is_none_or(|before| to > before);
            if more {
                *stop = Some(to);
            }
            more
        });
    }
}

/// Starts the gateway.
pub(crate) fn open(config: &HermesConfig) -> Result<Link, AdapterError> {
    let (program, args) = config.command.split_first().ok_or_else(|| {
        AdapterError::new(AdapterErrorKind::InvalidConfig, "a gateway needs a program")
    })?;
    let began = Timestamp::from(SystemTime::now());
    let mark = format!("{:016x}", fastrand::u64(..));
    let mut command = Command::new(program);
    command
        .args(args)
        .env_clear()
        .envs(config.environment(|name| std::env::var_os(name)))
        .env(MARK, &mark)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    if let Some(cwd) = &config.cwd {
        command.current_dir(cwd);
    }
    // Its own group: a Ctrl-C at the terminal is for us, and we tell it in order.
    #[cfg(unix)]
    command.process_group(0);
    let mut child = command.spawn().map_err(|error| {
        AdapterError::new(
            AdapterErrorKind::Unavailable,
            "the gateway cannot be started: is Hermes installed, and `command` right?",
        )
        .with_context("program", program)
        .with_source(error)
    })?;
    let pid = child.id().unwrap_or(0);
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(AdapterError::new(
            AdapterErrorKind::Internal,
            "the gateway has no pipes",
        ));
    };
    let (frames, incoming) = mpsc::channel(BATCHES);
    let (outgoing, lines) = mpsc::channel(REQUESTS);
    let (stop, stops) = watch::channel(None);
    let (end, ended) = oneshot::channel();
    let words = Arc::new(LastWords::default());
    let decoder = FrameDecoder::new(config.max_frame_bytes);
    let reading = tokio::spawn(read(stdout, decoder, frames));
    tokio::spawn(write(stdin, lines));
    let listening = tokio::spawn(listen(stderr, words.clone()));
    tokio::spawn(async move {
        let (status, stopped) = supervise(child, stops).await;
        // What it wrote before its end is still in the pipe.
        let mut reading = reading;
        if tokio::time::timeout(DRAIN, &mut reading).await.is_err() {
            reading.abort();
        }
        let _ = tokio::time::timeout(DRAIN, listening).await;
        let exit = Exit {
            pid,
            code: status.and_then(|status| status.code()),
            signal: status.and_then(signal),
            stopped,
            last_words: words.last(),
        };
        let _ = end.send(End::Exited(exit));
    });
    let epoch = format!("{began}-pid-{pid}");
    let epoch = SourceEpoch::new(epoch).map_err(|error| {
        AdapterError::new(AdapterErrorKind::Internal, "no epoch").with_source(error)
    })?;
    let process = Some(Process { mark, stop });
    Ok(Link {
        incoming,
        outgoing,
        ended,
        epoch,
        process,
    })
}

/// Waits for the end of the process, and brings it about when asked to, or when nobody is left who
/// could ask.
async fn supervise(
    mut child: Child,
    mut stops: watch::Receiver<Option<Stop>>,
) -> (Option<ExitStatus>, bool) {
    let mut deadline: Option<tokio::time::Instant> = None;
    let mut stopped = false;
    let mut watched = true;
    loop {
        let too_long = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            status = child.wait() => return (status.ok(), stopped),
            changed = stops.changed(), if watched => {
                let stop = if changed.is_ok() {
                    *stops.borrow_and_update()
                } else {
                    watched = false;
                    Some(Stop::Ask(Duration::from_secs(5)))
                };
                match stop {
                    Some(Stop::Ask(grace)) if !stopped => {
                        stopped = true;
                        ask(&child);
                        deadline = Some(tokio::time::Instant::now() + grace);
                    }
                    Some(Stop::Kill) => {
                        stopped = true;
                        let _ = child.start_kill();
                    }
                    _ => {}
                }
            }
            () = too_long => {
                let _ = child.start_kill();
                deadline = None;
            }
        }
    }
}

/// SIGTERM: a gateway that gets it interrupts its children and tells of each end.
#[cfg(unix)]
fn ask(child: &Child) {
    // Not reaped as long as there is an id, so the number is still its own.
    let pid = child.id().and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
    }
}

/// There is no gentle way here.
#[cfg(not(unix))]
fn ask(_: &Child) {}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}

#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}

async fn read(
    mut from: impl AsyncRead + Unpin,
    mut decoder: FrameDecoder,
    frames: mpsc::Sender<Vec<crate::frame::Decoded>>,
) {
    let mut chunk = vec![0; 64 << 10];
    loop {
        let mut batch = Vec::new();
        let read = from.read(&mut chunk).await.unwrap_or(0);
        match read {
            0 => decoder.finish(&mut batch),
            read => decoder.push(&chunk[..read], &mut batch),
        }
        if !batch.is_empty() && frames.send(batch).await.is_err() {
            return;
        }
        if read == 0 {
            return;
        }
    }
}

/// Writes requests until nobody sends any more or the gateway reads none. Then its input ends.
async fn write(mut to: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if to.write_all(line.as_bytes()).await.is_err() || to.flush().await.is_err() {
            // The input stays open: an end of it would end the gateway.
            while lines.recv().await.is_some() {}
        }
    }
}

/// The end of what the gateway wrote to standard error.
#[derive(Debug, Default)]
struct LastWords(Mutex<VecDeque<String>>);

impl LastWords {
    fn push(&self, line: &[u8]) {
        let text = String::from_utf8_lossy(&line[..line.len().min(STDERR_LINE)]);
        let text: String = text.trim().chars().filter(|c| !c.is_control()).collect();
        if text.is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }

    fn last(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .back()
            .cloned()
    }
}

async fn listen(mut from: impl AsyncRead + Unpin, words: Arc<LastWords>) {
    let mut chunk = vec![0; 8 << 10];
    let mut line = Vec::new();
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        for byte in &chunk[..read] {
            if *byte == b'\n' {
                words.push(&line);
                line.clear();
            } else if line.len() < STDERR_LINE {
                line.push(*byte);
            }
        }
    }
    words.push(&line);
}
