//! When a process counts as ready.

use std::time::Duration;

use headcount_adapter_kit::duration;
use headcount_contract::OutputStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How to find out that a process is ready, how long to try, and what to do if it does not become
/// so.
///
/// ```
/// use headcount_adapter_process::{ProcessOptions, ReadyCheck, Readiness};
/// let mut options = ProcessOptions::new("server");
/// options.ready = Some(Readiness::new(ReadyCheck::http(8080)));
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Readiness {
    /// What shows it.
    pub check: ReadyCheck,
    /// The pause between two probes.
    #[serde(default = "default_interval", with = "duration")]
    #[schemars(with = "String")]
    pub interval: Duration,
    /// How long to try altogether.
    #[serde(default = "default_timeout", with = "duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
    /// What to do then.
    #[serde(default)]
    pub on_timeout: OnTimeout,
}

/// What shows that a process is ready.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum ReadyCheck {
    /// A GET on 127.0.0.1 or `[::1]` is answered with a status of 200 to 299.
    Http(HttpCheck),
    /// 127.0.0.1 or `[::1]` accepts a connection.
    Tcp(TcpCheck),
    /// It writes a certain line.
    Log(LogCheck),
    /// Another command exits with code 0.
    Exec(ExecCheck),
    /// So much time has passed.
    Delay(
        #[serde(with = "duration")]
        #[schemars(with = "String")]
        Duration,
    ),
}

/// A request to a port of this machine. Neither a proxy nor a redirection is followed.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpCheck {
    /// The port.
    pub port: u16,
    /// The path, with its query.
    #[serde(default = "default_path")]
    pub path: String,
    /// How long one request may take.
    #[serde(default = "default_request_timeout", with = "duration")]
    #[schemars(with = "String")]
    pub request_timeout: Duration,
    /// Who may answer.
    #[serde(default)]
    pub listener: Listener,
}

/// A connection to a port of this machine.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TcpCheck {
    /// The port.
    pub port: u16,
    /// Who may listen.
    #[serde(default)]
    pub listener: Listener,
}

/// Whose the listening socket must be, where the system tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Listener {
    /// One of the run's own processes. Another's is told in a diagnostic, and does not count.
    #[default]
    Own,
    /// Anybody's: for a command that has a service of the system listen for it.
    Any,
}

/// A line of output that contains a text or matches an expression: exactly one of the two.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LogCheck {
    /// A part of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contains: Option<String>,
    /// A regular expression.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
    /// Of which stream; of either by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<OutputStream>,
}

/// A command that is run until it exits with code 0. It has the environment and the working
/// directory of the process itself.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ExecCheck {
    /// The program, found as the process's own.
    pub command: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// How long one try may take before it is killed.
    #[serde(default = "default_request_timeout", with = "duration")]
    #[schemars(with = "String")]
    pub request_timeout: Duration,
}

/// What happens to a process that did not become ready in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum OnTimeout {
    /// It is stopped and ends failed.
    #[default]
    Fail,
    /// It stays starting, a diagnostic says so, and probing goes on.
    #[serde(alias = "keep")]
    KeepStarting,
}

const fn default_interval() -> Duration {
    Duration::from_millis(250)
}
const fn default_timeout() -> Duration {
    Duration::from_secs(30)
}
const fn default_request_timeout() -> Duration {
    Duration::from_secs(5)
}
fn default_path() -> String {
    "/".to_owned()
}

impl Readiness {
    /// A check with the default interval of 250 ms and time of 30 s, and a failure after that.
    pub fn new(check: ReadyCheck) -> Self {
        Self {
            check,
            interval: default_interval(),
            timeout: default_timeout(),
            on_timeout: OnTimeout::default(),
        }
    }

    /// The key that is wrong, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        if self.interval.is_zero() {
            return Some(("ready.interval", "the interval must not be zero".into()));
        }
        match &self.check {
            ReadyCheck::Http(check) if check.port == 0 => {
                Some(("ready.check.http.port", "the port must not be 0".into()))
            }
            ReadyCheck::Http(check) if !check.path.starts_with('/') || !is_path(&check.path) => {
                let message =
                    "the path must begin with `/` and have no spaces or control characters";
                Some(("ready.check.http.path", message.into()))
            }
            ReadyCheck::Http(check) if check.request_timeout.is_zero() => Some((
                "ready.check.http.request_timeout",
                "a request must be given some time".into(),
            )),
            ReadyCheck::Tcp(check) if check.port == 0 => {
                Some(("ready.check.tcp.port", "the port must not be 0".into()))
            }
            ReadyCheck::Log(check) => match (&check.contains, &check.regex) {
                (Some(part), None) if part.is_empty() => Some((
                    "ready.check.log.contains",
                    "the text must not be empty".into(),
                )),
                (Some(_), None) => None,
                (None, Some(text)) => regex::Regex::new(text)
                    .err()
                    .map(|error| ("ready.check.log.regex", error.to_string())),
                _ => Some((
                    "ready.check.log",
                    "give either `contains` or `regex`".into(),
                )),
            },
            ReadyCheck::Exec(check)
                if check.command.is_empty()
                    || check.command.contains('\0')
                    || check.args.iter().any(|arg| arg.contains('\0')) =>
            {
                let message = "the command must not be empty or contain a NUL byte";
                Some(("ready.check.exec", message.into()))
            }
            ReadyCheck::Exec(check) if check.request_timeout.is_zero() => Some((
                "ready.check.exec.request_timeout",
                "a try must be given some time".into(),
            )),
            _ => None,
        }
    }
}

fn is_path(path: &str) -> bool {
    path.chars().all(|c| c.is_ascii_graphic())
}

impl ReadyCheck {
    /// `GET /` on this port.
    ///
    /// ```
    /// let check = headcount_adapter_process::ReadyCheck::http(8080);
    /// ```
    pub fn http(port: u16) -> Self {
        Self::http_at(port, default_path())
    }

    /// `GET` of a path on this port.
    ///
    /// ```
    /// let check = headcount_adapter_process::ReadyCheck::http_at(8080, "/healthz");
    /// ```
    pub fn http_at(port: u16, path: impl Into<String>) -> Self {
        Self::Http(HttpCheck {
            port,
            path: path.into(),
            request_timeout: default_request_timeout(),
            listener: Listener::default(),
        })
    }

    /// A connection to this port.
    ///
    /// ```
    /// let check = headcount_adapter_process::ReadyCheck::tcp(5432);
    /// ```
    pub fn tcp(port: u16) -> Self {
        Self::Tcp(TcpCheck {
            port,
            listener: Listener::default(),
        })
    }

    /// A line that contains this text, on either stream.
    ///
    /// ```
    /// let check = headcount_adapter_process::ReadyCheck::log("listening on");
    /// ```
    pub fn log(contains: impl Into<String>) -> Self {
        Self::Log(LogCheck {
            contains: Some(contains.into()),
            ..LogCheck::default()
        })
    }

    /// A command that exits with code 0.
    ///
    /// ```
    /// let check = headcount_adapter_process::ReadyCheck::exec("test", ["-e", "/run/ready"]);
    /// ```
    pub fn exec<A: Into<String>>(
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        Self::Exec(ExecCheck {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            request_timeout: default_request_timeout(),
        })
    }
}
