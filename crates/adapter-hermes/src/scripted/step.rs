//! What a scripted gateway does, as data.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Faults, Gateway, state};

/// What a scripted gateway does, one after another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Step {
    /// Waits until it has answered this many requests.
    AwaitRequests(usize),
    /// Waits until it has been asked for a method this often.
    AwaitAsked(String, usize),
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
    /// Writes this without a line end; over a WebSocket, in a binary message.
    Text(String),
    /// Writes a line of this many bytes that is a frame.
    Huge(usize),
    /// From now on it does this wrong, and nothing else.
    Misbehave(Faults),
    /// The process writes a line to standard error.
    Complain(String),
    /// The process leaves another running that outlives it.
    LeaveBehind,
    /// Cuts all connections in the middle of this line.
    CutWithin(String),
    /// The process ends with this exit code.
    Exit(i32),
    /// The process ends by SIGKILL, as with `kill -9`.
    Kill,
}

impl Gateway {
    /// Does this, one after another, on a thread of its own; it ends with the last step, or when
    /// nobody else has the gateway any more. What it does wrong from the start, it does on return.
    /// Steps of a process do nothing.
    ///
    /// ```
    /// use headcount_adapter_hermes::scripted::{Gateway, Step, Version};
    /// let gateway = Gateway::new(Version::V0_22);
    /// gateway.act(vec![Step::Start("look around".to_owned())]).join().unwrap();
    /// assert_eq!(gateway.running().len(), 1);
    /// ```
    pub fn act(&self, steps: Vec<Step>) -> std::thread::JoinHandle<()> {
        let gateway = self.clone();
        let steps = self.begin(steps);
        std::thread::spawn(move || {
            for step in steps {
                gateway.perform(step, || gateway.is_alone());
            }
        })
    }

    /// Misbehaves as the first steps say, before anybody can ask; returns the others.
    pub(super) fn begin(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut steps = steps.into_iter().peekable();
        while let Some(step) = steps.next_if(|step| matches!(step, Step::Misbehave(_))) {
            self.perform(step, || false);
        }
        steps.collect()
    }

    /// Does one step, unless that is one of a process. Waits no longer once it is of no use.
    pub(super) fn perform(&self, step: Step, is_useless: impl Fn() -> bool) {
        let wait_until = |come: &dyn Fn(&state::State) -> bool| {
            while !come(&self.lock()) && !is_useless() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        match step {
            Step::AwaitRequests(times) => wait_until(&|state| state.asked.len() >= times),
            Step::AwaitAsked(method, times) => {
                wait_until(&|state| state.times_asked(&method) >= times);
            }
            Step::Play(recording) => {
                if let Err(error) = self.play(&recording) {
                    self.line(format!("{}: {error}", recording.display()));
                }
            }
            Step::Start(goal) => {
                self.start("s1", None, &goal);
            }
            Step::Complete { goal, status } => {
                let id = self.lock().with_goal(&goal);
                if let Some(id) = id {
                    self.complete(&id, &status);
                }
            }
            Step::Line(line) => self.line(line),
            Step::Text(text) => self.bytes(text),
            Step::Huge(bytes) => self.line(frame_of(bytes)),
            Step::Misbehave(faults) => self.misbehave(faults),
            Step::CutWithin(line) => self.hang_up_within(&line),
            Step::Complain(_) | Step::LeaveBehind | Step::Exit(_) | Step::Kill => {}
        }
    }
}

/// A frame of this many bytes.
fn frame_of(bytes: usize) -> String {
    let head = r#"{"jsonrpc":"2.0","method":"event","params":{"type":"message.delta","session_id":"s1","payload":{"text":""#;
    let tail = r#""}}}"#;
    let filler = "x".repeat(bytes.saturating_sub(head.len() + tail.len()));
    format!("{head}{filler}{tail}")
}
