//! What to adopt, and what more the host can say about it.

use std::path::PathBuf;
use std::time::Duration;

use headcount_contract::{AdapterError, AdapterErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::enrich::Target;
use crate::process::check_number;

/// Which processes to adopt.
///
/// ```
/// use headcount_adapter_external::ExternalConfig;
/// let config: ExternalConfig = serde_json::from_value(serde_json::json!({
///     "pids": [4242],
///     "pid_files": ["/run/agent.pid"],
///     "match": [{ "name": "node", "command_contains": "agent.js", "user": "ada" }],
///     "heartbeat_interval": "10s",
/// }))?;
/// assert!(config.check().is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ExternalConfig {
    /// Processes by their numbers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pids: Vec<i64>,
    /// Files whose first line is a process's number. They may appear and change later.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pid_files: Vec<PathBuf>,
    /// Every process that fits one of these, now or later, is a child.
    #[serde(rename = "match", skip_serializing_if = "Vec::is_empty")]
    pub matchers: Vec<Matcher>,
    /// Processes of which the host knows more: a status endpoint, an event stream, a control API.
    #[serde(rename = "process", skip_serializing_if = "Vec::is_empty")]
    pub targets: Vec<Target>,
    /// How often a living process is said to live.
    #[serde(with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub heartbeat_interval: Duration,
    /// How often PID files and matchers are looked at. Without them nothing is.
    #[serde(with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub scan_interval: Duration,
    /// How often processor and memory use are sampled, for 256 processes at a time; `0ms` for never.
    ///
    /// A process that does nothing is sampled ever more seldom, down to every twelfth time.
    #[serde(with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub sample_interval: Duration,
    /// How often a process is looked at where the system gives no handle that tells of its end.
    #[serde(with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub poll_interval: Duration,
    /// How many living processes are observed at most.
    pub max_processes: usize,
}

impl Default for ExternalConfig {
    /// Nothing to adopt; heartbeats every 30 s, scans every 2 s, samples every 5 s, 10,000
    /// processes.
    fn default() -> Self {
        Self {
            pids: Vec::new(),
            pid_files: Vec::new(),
            matchers: Vec::new(),
            targets: Vec::new(),
            heartbeat_interval: Duration::from_secs(30),
            scan_interval: Duration::from_secs(2),
            sample_interval: Duration::from_secs(5),
            poll_interval: Duration::from_secs(1),
            max_processes: 10_000,
        }
    }
}

/// Which processes fit: all that is given must hold, and something must be given.
///
/// ```
/// use headcount_adapter_external::Matcher;
/// let matcher = Matcher::by_name("node").with_command_containing("agent.js");
/// assert_eq!(matcher.name.as_deref(), Some("node"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Matcher {
    /// The name of the program: its file's name, or the name that the process gives itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What the command line, its arguments joined with spaces, must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_contains: Option<String>,
    /// The name or number of the user it runs as.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// What to do with processes that descend from this host: they are not somebody else's.
    #[serde(skip_serializing_if = "Descendants::is_default")]
    pub own_descendants: Descendants,
}

/// What a matcher does with processes that this host itself has started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Descendants {
    /// Leaves them to the adapter that started them.
    #[default]
    Skip,
    /// Adopts them as any other.
    Adopt,
}

impl Descendants {
    #[allow(clippy::trivially_copy_pass_by_ref)] // serde calls it with a reference
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Matcher {
    /// Fits the processes of a program.
    ///
    /// ```
    /// let matcher = headcount_adapter_external::Matcher::by_name("node");
    /// assert_eq!(matcher.user, None);
    /// ```
    pub fn by_name(name: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            ..Self::default()
        }
    }

    /// The same, and the command line must contain this.
    pub fn with_command_containing(mut self, part: impl Into<String>) -> Self {
        self.command_contains = Some(part.into());
        self
    }

    /// The same, and it must run as this user, by name or number.
    pub fn with_user(mut self, user: impl Into<String>) -> Self {
        self.user = Some(user.into());
        self
    }

    /// The same, with another way to treat the host's own descendants.
    pub fn with_own_descendants(mut self, descendants: Descendants) -> Self {
        self.own_descendants = descendants;
        self
    }
}

impl Matcher {
    /// Refuses what would fit every process.
    pub(crate) fn check(&self) -> Result<(), AdapterError> {
        let given = [&self.name, &self.command_contains, &self.user];
        if given.iter().all(|part| part.is_none()) {
            return Err(invalid(
                "match",
                "{}",
                "give at least one of name, command_contains and user: an empty matcher would adopt every process",
            ));
        }
        if given.iter().any(|part| part.as_deref() == Some("")) {
            return Err(invalid(
                "match",
                "\"\"",
                "a part of a matcher must not be empty: it would fit every process",
            ));
        }
        Ok(())
    }
}

impl ExternalConfig {
    /// Refuses what could never be adopted.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key and says what would be right.
    pub fn check(&self) -> Result<(), AdapterError> {
        for &pid in &self.pids {
            check_number(pid).map_err(|why| invalid("pids", pid, why.to_string()))?;
        }
        self.matchers.iter().try_for_each(Matcher::check)?;
        self.targets.iter().try_for_each(Target::check)?;
        let intervals = [
            ("heartbeat_interval", self.heartbeat_interval, 100),
            ("scan_interval", self.scan_interval, 100),
            ("poll_interval", self.poll_interval, 10),
        ];
        for (key, interval, least) in intervals {
            if interval < Duration::from_millis(least) {
                return Err(invalid(
                    key,
                    format_args!("{}ms", interval.as_millis()),
                    format!("at least {least}ms: shorter would be a busy loop"),
                ));
            }
        }
        if self.max_processes == 0 {
            return Err(invalid("max_processes", 0, "at least 1"));
        }
        Ok(())
    }

    /// Whether it names anything.
    pub(crate) fn names_something(&self) -> bool {
        !(self.pids.is_empty()
            && self.pid_files.is_empty()
            && self.matchers.is_empty()
            && self.targets.is_empty())
    }
}

pub(crate) fn invalid(
    key: &'static str,
    value: impl std::fmt::Display,
    why: impl Into<std::borrow::Cow<'static, str>>,
) -> AdapterError {
    AdapterError::new(AdapterErrorKind::InvalidConfig, why)
        .with_context("key", key)
        .with_context("value", value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(config: Value) -> Result<(), String> {
        let config: ExternalConfig = serde_json::from_value(config).map_err(|e| e.to_string())?;
        config.check().map_err(|e| e.to_string())
    }

    #[test]
    fn wrong_keys_and_values_are_named() {
        let cases = [
            (
                json!({"pid": [1]}),
                "unknown field `pid`, expected one of `pids`",
            ),
            (
                json!({"pids": [0]}),
                "0 is no process id (key: pids, value: 0)",
            ),
            (
                json!({"pids": [-4]}),
                "process ids are positive; -4 would name a process group (key: pids, value: -4)",
            ),
            (json!({"pids": [1]}), "process 1 starts the others"),
            (
                json!({"pids": [std::process::id()]}),
                "this is headcount's own process",
            ),
            (json!({"pids": ["12"]}), "expected i64"),
            (
                json!({"match": [{}]}),
                "give at least one of name, command_contains and user",
            ),
            (
                json!({"match": [{"name": ""}]}),
                "a part of a matcher must not be empty",
            ),
            (json!({"match": [{"nam": "x"}]}), "unknown field `nam`"),
            (
                json!({"heartbeat_interval": "10"}),
                "`10` is not a duration",
            ),
            (
                json!({"heartbeat_interval": "1ms"}),
                "at least 100ms: shorter would be a busy loop (key: heartbeat_interval, value: 1ms)",
            ),
            (
                json!({"max_processes": 0}),
                "at least 1 (key: max_processes, value: 0)",
            ),
        ];
        for (config, expected) in cases {
            let error = check(config.clone()).unwrap_err();
            assert!(error.contains(expected), "{config}: {error}");
        }
        assert_eq!(
            check(json!({"pids": [4242], "match": [{"user": "0"}]})),
            Ok(())
        );
    }

    #[test]
    fn what_is_written_is_read_back() {
        let config = ExternalConfig {
            pids: vec![7],
            matchers: vec![
                Matcher::by_name("a")
                    .with_user("b")
                    .with_own_descendants(Descendants::Adopt),
            ],
            ..ExternalConfig::default()
        };
        let written = serde_json::to_value(&config).unwrap();
        assert_eq!(
            serde_json::from_value::<ExternalConfig>(written).unwrap(),
            config
        );
    }
}
