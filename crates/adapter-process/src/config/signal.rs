//! Signals by name, checked when the configuration is read.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signal that can ask a process to end, by name: `SIGTERM`, `term`, `INT`.
///
/// ```
/// use headcount_adapter_process::StopSignalName;
/// let signal: StopSignalName = "int".parse()?;
/// assert_eq!(signal.to_string(), "SIGINT");
/// assert!("SIGTREM".parse::<StopSignalName>().is_err());
/// # Ok::<(), headcount_adapter_process::UnknownSignal>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StopSignalName(&'static str);

/// A name that is no signal, or none that asks for an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownSignal(String);

/// What a stop may send. Not STOP, CONT, CHLD and the like: they do not ask for an end.
const STOPPING: [&str; 8] = [
    "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGABRT", "SIGUSR1", "SIGUSR2", "SIGKILL",
];

impl StopSignalName {
    /// Its number on this system.
    pub(crate) fn number(self) -> i32 {
        SIGNALS
            .iter()
            .find(|(_, name)| *name == self.0)
            .map_or(15, |(number, _)| *number)
    }
}

impl Default for StopSignalName {
    /// `SIGTERM`.
    fn default() -> Self {
        Self("SIGTERM")
    }
}

impl FromStr for StopSignalName {
    type Err = UnknownSignal;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let short = |name: &'static str| name.trim_start_matches("SIG");
        STOPPING
            .into_iter()
            .find(|name| name.eq_ignore_ascii_case(text) || short(name).eq_ignore_ascii_case(text))
            .map(Self)
            .ok_or_else(|| UnknownSignal(text.chars().take(64).collect()))
    }
}

impl fmt::Display for StopSignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for StopSignalName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for UnknownSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is no signal that asks a process to end; those are {}",
            self.0.escape_debug(),
            STOPPING.join(", ")
        )
    }
}

impl std::error::Error for UnknownSignal {}

impl Serialize for StopSignalName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0)
    }
}

impl<'de> Deserialize<'de> for StopSignalName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for StopSignalName {
    fn schema_name() -> Cow<'static, str> {
        "StopSignalName".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "examples": STOPPING })
    }
}

/// The name of a signal of this system.
pub(crate) fn signal_name(number: i32) -> Option<&'static str> {
    SIGNALS
        .iter()
        .find(|(known, _)| *known == number)
        .map(|(_, name)| *name)
}

macro_rules! signals {
    ($($name:ident),* $(,)?) => {
        #[cfg(unix)]
        const SIGNALS: &[(i32, &str)] = &[$((libc::$name, stringify!($name))),*];
    };
}

signals!(
    SIGHUP, SIGINT, SIGQUIT, SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGUSR1, SIGSEGV,
    SIGUSR2, SIGPIPE, SIGALRM, SIGTERM, SIGCHLD, SIGCONT, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU,
    SIGURG, SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF, SIGWINCH, SIGIO, SIGSYS,
);

/// Elsewhere there are no signals; a stop is a kill.
#[cfg(not(unix))]
const SIGNALS: &[(i32, &str)] = &[];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stopping_name_has_a_number() {
        for name in STOPPING {
            let signal: StopSignalName = name.parse().unwrap();
            assert_eq!(signal_name(signal.number()), Some(name));
        }
    }

    #[test]
    fn names_are_read_with_and_without_prefix_in_any_case() {
        for text in ["SIGINT", "INT", "int", "SigInt"] {
            assert_eq!(text.parse(), Ok(StopSignalName("SIGINT")));
        }
        for text in ["", "SIG", "SIGTREM", "9", "SIGSTOP"] {
            assert!(text.parse::<StopSignalName>().is_err(), "{text}");
        }
    }
}
