//! What to run and how to supervise it. Read and checked before anything is started.

mod ready;
mod restart;
mod signal;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use headcount_adapter_kit::duration;
use headcount_contract::{AdapterError, AdapterErrorKind, ChildId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub use self::ready::{
    ExecCheck, HttpCheck, Listener, LogCheck, OnTimeout, Readiness, ReadyCheck, TcpCheck,
};
pub use self::restart::{RestartOptions, RestartWhen};
pub(crate) use self::signal::signal_name;
pub use self::signal::{StopSignalName, UnknownSignal};

/// The options of one supervised command.
///
/// As configuration, durations are written `250ms`, `5s`, `2m`. Unknown keys are refused.
///
/// ```
/// use headcount_adapter_process::ProcessOptions;
/// let mut options = ProcessOptions::new("cargo");
/// options.args = vec!["build".into()];
/// options.inherit = vec!["PATH".into(), "HOME".into()];
/// options.check()?;
/// # Ok::<(), headcount_contract::AdapterError>(())
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ProcessOptions {
    /// The program: a path, or a name that is looked up in the host's own `PATH`.
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// The id of the first child; by default the program's base name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its working directory, relative to the project root; by default the project root itself,
    /// which is the host's working directory where the host names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<PathBuf>,
    /// Environment variables to set. Those of the start input win.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of the host's own variables that cross over. No other does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inherit: Vec<String>,
    /// Lets the host's whole environment cross over.
    #[serde(default)]
    pub inherit_all: bool,
    /// When the process counts as ready; as soon as it was started, if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<Readiness>,
    /// The signal that asks for the end, such as `SIGTERM` or `INT`.
    #[serde(default)]
    pub stop_signal: StopSignalName,
    /// How long to wait after that signal before the whole group is killed.
    #[serde(default = "default::grace", with = "duration")]
    #[schemars(with = "String")]
    pub grace: Duration,
    /// How long, after the kill, to wait for the group to be gone before the stop is reported as
    /// failed.
    #[serde(default = "default::stop_deadline", with = "duration")]
    #[schemars(with = "String")]
    pub stop_deadline: Duration,
    /// How long, after the exit, to wait for the end of output that others hold open.
    #[serde(default = "default::drain_timeout", with = "duration")]
    #[schemars(with = "String")]
    pub drain_timeout: Duration,
    /// The longest line in bytes; longer ones are cut on a character and marked.
    #[serde(default = "default::max_line_bytes")]
    pub max_line_bytes: usize,
    /// What a carriage return without a newline means.
    #[serde(default)]
    pub carriage_return: CarriageReturn,
    /// Whether it is started again after it ended.
    #[serde(default)]
    pub restart: RestartOptions,
    /// What becomes of the process if the host dies.
    #[serde(default)]
    pub orphan: Orphan,
    /// How often a heartbeat tells that the process was seen alive; zero for never.
    #[serde(default = "default::heartbeat_interval", with = "duration")]
    #[schemars(with = "String")]
    pub heartbeat_interval: Duration,
    /// How often processor and memory use of the whole tree are sampled, and it is looked for
    /// processes that left the group; zero for never.
    #[serde(default = "default::sample_interval", with = "duration")]
    #[schemars(with = "String")]
    pub sample_interval: Duration,
    /// Whether its last line of output is told as its activity, at most once a second.
    #[serde(default)]
    pub activity: ActivityFrom,
    /// A descriptor, from 3, to which the process writes lifecycle events of children of its own,
    /// one JSON object a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle_fd: Option<u16>,
}

/// What becomes of a process whose host dies without stopping it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Orphan {
    /// It goes on.
    #[default]
    Leave,
    /// The system sends it the stop signal (Linux only, and to the process alone, not its group).
    Terminate,
}

/// Where a run's activity comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActivityFrom {
    /// Nowhere: output is shown as output.
    #[default]
    Nothing,
    /// Its last line of output.
    Output,
}

/// What a bare `\r` in the output means. Before a `\n` it is always part of the line's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CarriageReturn {
    /// It ends a line, as progress displays use it. One with nothing before it is ignored.
    #[default]
    EndsLine,
    /// It is data.
    Keep,
}

mod default {
    use std::time::Duration;

    pub(super) const fn grace() -> Duration {
        Duration::from_secs(5)
    }
    pub(super) const fn stop_deadline() -> Duration {
        Duration::from_secs(10)
    }
    pub(super) const fn drain_timeout() -> Duration {
        Duration::from_millis(500)
    }
    pub(super) const fn heartbeat_interval() -> Duration {
        Duration::from_secs(30)
    }
    pub(super) const fn sample_interval() -> Duration {
        Duration::from_secs(2)
    }
    pub(super) const fn max_line_bytes() -> usize {
        16 * 1024
    }
}

impl ProcessOptions {
    /// A command without arguments, and every default.
    pub fn new(command: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            args: Vec::new(),
            name: None,
            cwd: None,
            env: BTreeMap::new(),
            inherit: Vec::new(),
            inherit_all: false,
            ready: None,
            stop_signal: StopSignalName::default(),
            grace: default::grace(),
            stop_deadline: default::stop_deadline(),
            drain_timeout: default::drain_timeout(),
            max_line_bytes: default::max_line_bytes(),
            carriage_return: CarriageReturn::default(),
            restart: RestartOptions::default(),
            orphan: Orphan::default(),
            heartbeat_interval: default::heartbeat_interval(),
            sample_interval: default::sample_interval(),
            activity: ActivityFrom::default(),
            lifecycle_fd: None,
        }
    }

    /// Reads options from a configuration. What only [`check`](Self::check) finds is not found here.
    pub(crate) fn read(config: &Value) -> Result<Self, AdapterError> {
        Self::deserialize(config).map_err(|error| {
            let wrong = AdapterError::new(AdapterErrorKind::InvalidConfig, error.to_string());
            match wrong_key(config) {
                Some(key) => wrong.with_context("key", key),
                None => wrong,
            }
        })
    }

    /// Checks what the types do not: everything that could only fail at the start or later.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key and says what would be right.
    pub fn check(&self) -> Result<(), AdapterError> {
        let error = |key: &str, message: Cow<'static, str>| {
            Err(AdapterError::new(AdapterErrorKind::InvalidConfig, message)
                .with_context("key", key))
        };
        let wrong = |key: &str, message: &'static str| error(key, message.into());
        if self.command.is_empty() {
            return wrong("command", "the command is empty; give a program to run");
        }
        if self.command.contains('\0') {
            return wrong("command", "the command contains a NUL byte");
        }
        if self.args.iter().any(|arg| arg.contains('\0')) {
            return wrong("args", "an argument contains a NUL byte");
        }
        if let Some(name) = &self.name
            && ChildId::new(name.as_str()).is_err()
        {
            return wrong(
                "name",
                "the name must have 1 to 512 bytes and no control characters",
            );
        }
        for (key, value) in &self.env {
            if !is_variable_name(key) {
                return wrong(
                    "env",
                    "a variable's name must not be empty or contain `=` or NUL",
                );
            }
            if value.contains('\0') {
                return wrong(&format!("env.{key}"), "the value contains a NUL byte");
            }
        }
        if !self.inherit.iter().all(|name| is_variable_name(name)) {
            return wrong(
                "inherit",
                "a variable's name must not be empty or contain `=` or NUL",
            );
        }
        if !(1..=MAX_LINE_BYTES).contains(&self.max_line_bytes) {
            return wrong("max_line_bytes", "the line cap must be 1 byte to 64 MiB");
        }
        if self.lifecycle_fd.is_some_and(|fd| !(3..1024).contains(&fd)) {
            return wrong("lifecycle_fd", "the descriptor must be 3 to 1023");
        }
        let ready = self.ready.as_ref().and_then(Readiness::fault);
        match ready.or_else(|| self.restart.fault()) {
            Some((key, message)) => error(key, message.into()),
            None => Ok(()),
        }
    }

    /// The id of the first child.
    pub(crate) fn child_name(&self) -> String {
        let base = || {
            let path = std::path::Path::new(&self.command);
            path.file_name()
                .map(|name| name.to_string_lossy().into_owned())
        };
        let name = self.name.clone().or_else(base);
        name.filter(|name| ChildId::new(name.as_str()).is_ok())
            .unwrap_or_else(|| "process".to_owned())
    }
}

/// The key whose value cannot be read: the reader's own messages tell only what is wrong with it.
fn wrong_key(config: &Value) -> Option<&str> {
    let alone = |key: &str, value: &Value| {
        let mut alone = json!({ "command": "a" });
        alone[key] = value.clone();
        ProcessOptions::deserialize(alone)
    };
    let mut given = config.as_object()?.iter();
    let wrong = given.find(|(key, value)| alone(key, value).is_err());
    wrong.map(|(key, _)| key.as_str())
}

/// More than any line of text; a batch of lines must stay far below 4 GiB.
const MAX_LINE_BYTES: usize = 64 << 20;

pub(crate) fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

#[cfg(test)]
mod tests;
