//! The scripted gateway as a process, on its standard input and output.

use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Faults, Gateway, Output, Version};

/// The environment variable that holds the steps, as JSON.
pub const STEPS: &str = "HEADCOUNT_SCRIPTED_GATEWAY";

/// What the process does, one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Step {
    /// Waits until it has answered this many requests.
    AwaitRequests(usize),
    /// Plays the events of a recording.
    Play(PathBuf),
    /// A child of session `s1` begins.
    Start(String),
    /// The only child that bears this goal ends.
    Complete {
        /// The goal it began with.
        goal: String,
        /// How it ends.
        status: String,
    },
    /// Writes a line.
    Line(String),
    /// Writes this without a line end.
    Text(String),
    /// Writes a line of this many bytes that is a frame.
    Huge(usize),
    /// Answers no more.
    Silence,
    /// Writes a line to standard error.
    Complain(String),
    /// Leaves a process running that outlives it.
    LeaveBehind,
    /// Ends with this exit code.
    Exit(i32),
    /// Ends by SIGKILL, as with `kill -9`.
    Kill,
}

/// Behaves as the gateway that the environment describes, and never returns. After the last step it
/// goes on until its input ends.
pub fn run_process() -> ! {
    let steps = std::env::var(STEPS).unwrap_or_default();
    let Ok((version, steps)) = serde_json::from_str::<(String, Vec<Step>)>(&steps) else {
        std::process::exit(2);
    };
    let version = if version == "0.19" {
        Version::V0_19
    } else {
        Version::V0_22
    };
    let gateway = Gateway::new(version);
    let (answers, mut outputs) = gateway.client();
    let greeting = gateway.greeting();
    let writing = Arc::new(AtomicBool::new(true));
    let written = writing.clone();
    let out = std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        let mut put = |bytes: &[u8]| {
            stdout
                .write_all(bytes)
                .and_then(|()| stdout.flush())
                .is_ok()
        };
        let mut well = put(format!("{greeting}\n").as_bytes());
        while let (true, Some(output)) = (well, outputs.blocking_recv()) {
            well = match output {
                Output::Line(line) => put(format!("{line}\n").as_bytes()),
                Output::Bytes(bytes) => put(&bytes),
                Output::Hang => false,
            };
        }
        written.store(false, Ordering::Release);
    });
    let asking = gateway.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            asking.answer(&line, &answers);
        }
        // A real one ends when its input does, and says nothing.
        std::process::exit(0);
    });
    for step in steps {
        perform(&gateway, step, || {
            gateway.hang_up();
            while writing.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
        });
    }
    let _ = out.join();
    loop {
        std::thread::park();
    }
}

fn perform(gateway: &Gateway, step: Step, flush: impl Fn()) {
    match step {
        Step::AwaitRequests(wanted) => {
            while gateway.lock().asked.len() < wanted {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        Step::Play(recording) => {
            if gateway.play(&recording).is_err() {
                std::process::exit(3);
            }
        }
        Step::Start(goal) => {
            gateway.start("s1", None, &goal);
        }
        Step::Complete { goal, status } => {
            let id = {
                let state = gateway.lock();
                let mut children = state.children.iter();
                let child =
                    children.find(|(_, child)| child.facts.get("goal").is_some_and(|g| *g == goal));
                child.map(|(id, _)| id.clone())
            };
            if let Some(id) = id {
                gateway.complete(&id, &status);
            }
        }
        Step::Line(line) => gateway.line(line),
        Step::Text(text) => gateway.bytes(text),
        Step::Huge(bytes) => {
            let head = r#"{"jsonrpc":"2.0","method":"event","params":{"type":"message.delta","session_id":"s1","payload":{"text":""#;
            let tail = r#""}}}"#;
            let filler = "x".repeat(bytes.saturating_sub(head.len() + tail.len()));
            gateway.line(format!("{head}{filler}{tail}"));
        }
        Step::Silence => gateway.misbehave(Faults {
            silent: true,
            ..Faults::default()
        }),
        Step::Complain(line) => {
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        Step::LeaveBehind => leave_behind(),
        Step::Exit(code) => {
            flush();
            std::process::exit(code);
        }
        Step::Kill => {
            flush();
            kill_self();
        }
    }
}

/// A process in a group of its own, as the shells of agents are.
fn leave_behind() {
    let mut sleeper = Command::new("sleep");
    sleeper
        .arg("600")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut sleeper, 0);
    if sleeper.spawn().is_err() {
        std::process::exit(4);
    }
}

#[cfg(unix)]
fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(not(unix))]
fn kill_self() {
    std::process::abort();
}
