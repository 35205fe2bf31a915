//! What is said of a process beyond which one it is, and of its end: the details of events.

use headcount_contract::{Details, Timestamp};
use serde_json::{Value, json};

use crate::process::ExitStatus;

/// What is known of a process when it is adopted, beyond which one it is. For people only.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Facts {
    pub(crate) name: Option<String>,
    /// Without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) user: Option<String>,
    pub(crate) parent: Option<u32>,
    pub(crate) children: Option<u32>,
    pub(crate) started_at: Option<Timestamp>,
    /// Its number in its own namespace.
    pub(crate) container_pid: Option<u32>,
    /// What led to it: a number, a file, a matcher.
    pub(crate) found_by: String,
}

impl Facts {
    pub(super) fn to_details(&self) -> impl Iterator<Item = (&'static str, Value)> + use<> {
        let command = (!self.command.is_empty()).then(|| json!(self.command));
        let known = [
            ("name", self.name.as_deref().map(Value::from)),
            ("command", command),
            ("user", self.user.as_deref().map(Value::from)),
            ("parentPid", self.parent.map(Value::from)),
            ("children", self.children.map(Value::from)),
            ("startedAt", self.started_at.map(|at| json!(at.to_string()))),
            ("containerPid", self.container_pid.map(Value::from)),
            ("foundBy", Some(json!(self.found_by))),
        ];
        known
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
    }
}

pub(super) fn facts_of(facts: impl IntoIterator<Item = (&'static str, Value)>) -> Details {
    facts.into_iter().collect()
}

/// A fact about the process; what its task came to, nobody has said (rule C2).
pub(super) fn exit_facts(
    status: ExitStatus,
    read_from: &'static str,
) -> impl Iterator<Item = (&'static str, Value)> {
    let about = [
        ("basis", json!("process_exit")),
        ("readFrom", json!(read_from)),
        ("taskSuccess", json!("unknown")),
    ];
    status.to_details().into_iter().chain(about)
}

pub(super) fn gone(
    process: impl Iterator<Item = (&'static str, Value)>,
    observation: &str,
    message: &str,
) -> Details {
    let about = [
        ("observation", json!(observation)),
        ("message", json!(message)),
        ("basis", json!("process_gone")),
        ("terminalCause", json!("unknown")),
    ];
    facts_of(process.chain(about))
}
