//! How the end of a process becomes the end of a run. Pure.

use headcount_contract::{Details, Outcome, RunEvent, RunStatus, StatusChange, Timestamp};
use serde_json::{Map, Value, json};

use crate::config::signal_name;
use crate::os::{Cause, ProcessIdentity};

/// The end of a run, with everything that is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) cause: Cause,
    pub(crate) asked_by: AskedBy,
    /// It was killed after its grace time.
    pub(crate) escalated: bool,
    /// Somebody else still holds its output open.
    pub(crate) output_open: bool,
    /// Live members of its group.
    pub(crate) leftovers: Vec<u32>,
    /// Who holds its output open, as far as that could be seen.
    pub(crate) held_by: Vec<u32>,
}

/// Who asked for the end before it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskedBy {
    Nobody,
    /// The host, or whoever dropped the last handle.
    Host,
    /// The supervisor, because the process did not become ready in time.
    NotReady,
}

/// What tells the process from every other one.
pub(crate) fn identity_details(identity: &ProcessIdentity) -> Details {
    identity_map(identity).into()
}

fn identity_map(identity: &ProcessIdentity) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("pid".into(), json!(identity.pid));
    if let Some(ticks) = identity.start_ticks {
        map.insert("startTicks".into(), json!(ticks));
    }
    if let Some(boot_id) = &identity.boot_id {
        map.insert("bootId".into(), json!(&**boot_id));
    }
    map
}

/// The terminal event: exit code 0 is completed, a stop that was asked for is cancelled, anything
/// else failed. An exit code is a fact about a process, not about its task (rule C2).
pub(crate) fn ended(identity: &ProcessIdentity, end: &End, at: Timestamp) -> StatusChange {
    let (status, outcome) = match end.cause {
        _ if end.asked_by == AskedBy::NotReady => (RunStatus::Crashed, Outcome::Failed),
        _ if end.asked_by == AskedBy::Host => (RunStatus::Stopped, Outcome::Cancelled),
        Cause::Code(0) => (RunStatus::Stopped, Outcome::Completed),
        Cause::Code(_) | Cause::Signal { .. } => (RunStatus::Crashed, Outcome::Failed),
        // Gone, and nobody can say how: a fact, which only the host makes an end of (rule L4).
        Cause::Unknown => (RunStatus::Crashed, Outcome::Lost),
    };
    StatusChange::new(status, at)
        .with_outcome(outcome)
        .with_details(end_details(identity, end))
}

fn end_details(identity: &ProcessIdentity, end: &End) -> Details {
    let mut map = identity_map(identity);
    let mut add = |key: &str, value: Value| map.insert(key.to_owned(), value);
    match end.cause {
        Cause::Code(code) => {
            add("exitCode", json!(code));
        }
        Cause::Signal {
            number,
            core_dumped,
        } => {
            add("signal", json!(number));
            if let Some(name) = signal_name(number) {
                add("signalName", json!(name));
            }
            add("coreDumped", json!(core_dumped));
        }
        Cause::Unknown => {
            add("observation", json!("vanished"));
            add(
                "message",
                json!("the process is gone, and how it ended cannot be known"),
            );
            add("terminalCause", json!("unknown"));
        }
    }
    add("stopRequested", json!(end.asked_by == AskedBy::Host));
    add("escalated", json!(end.escalated));
    if end.asked_by == AskedBy::NotReady {
        add("notReady", json!(true));
    }
    add("outputOpen", json!(end.output_open));
    if !end.leftovers.is_empty() {
        add("leftovers", json!(end.leftovers));
    }
    let basis = match end.cause {
        Cause::Unknown => "process_gone",
        _ => "process_exit",
    };
    add("basis", json!(basis));
    map.into()
}

impl End {
    /// What a person should know besides: who is left.
    pub(crate) fn diagnostic(&self, at: Timestamp) -> Option<RunEvent> {
        let open = match self.held_by.as_slice() {
            [] => "its output is held open by another process".to_owned(),
            holders => format!("its output is held open by {}", named(holders)),
        };
        let left = format!("{} of its group lives on", named(&self.leftovers));
        let what = match (self.output_open, self.leftovers.is_empty()) {
            (false, true) => return None,
            (true, true) => open,
            (false, false) => left,
            (true, false) => format!("{left}, and {open}"),
        };
        let message = format!("the process ended, but {what}");
        let details = Details::from_iter([
            ("outputOpen", json!(self.output_open)),
            ("leftovers", json!(self.leftovers)),
            ("heldBy", json!(self.held_by)),
        ]);
        Some(RunEvent::Error {
            message,
            timestamp: at,
            details,
        })
    }
}

/// Processes in a sentence: the first of many by number.
pub(crate) fn named(pids: &[u32]) -> String {
    const NAMED: usize = 5;
    let numbers = |pids: &[u32]| {
        let numbers: Vec<_> = pids.iter().map(u32::to_string).collect();
        numbers.join(", ")
    };
    match pids {
        [one] => format!("process {one}"),
        few if few.len() <= NAMED => format!("each of the processes {}", numbers(few)),
        many => format!(
            "each of {} processes ({}, …)",
            many.len(),
            numbers(&many[..NAMED])
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(cause: Cause, change: impl FnOnce(&mut End)) -> String {
        let identity = ProcessIdentity {
            pid: 42,
            start_ticks: Some(1234),
            boot_id: Some("b".into()),
        };
        let mut end = End {
            cause,
            asked_by: AskedBy::Nobody,
            escalated: false,
            output_open: false,
            leftovers: Vec::new(),
            held_by: Vec::new(),
        };
        change(&mut end);
        let change = ended(&identity, &end, Timestamp::UNIX_EPOCH);
        RunEvent::Status(change).to_json_lines().join("\n")
    }

    #[test]
    fn who_is_left_is_said_by_number() {
        let said = |output_open, leftovers: &[u32], held_by: &[u32]| {
            let end = End {
                cause: Cause::Code(0),
                asked_by: AskedBy::Nobody,
                escalated: false,
                output_open,
                leftovers: leftovers.to_vec(),
                held_by: held_by.to_vec(),
            };
            match end.diagnostic(Timestamp::UNIX_EPOCH) {
                Some(RunEvent::Error { message, .. }) => message,
                other => format!("{other:?}"),
            }
        };
        let transcript = [
            said(false, &[], &[]),
            said(true, &[], &[]),
            said(true, &[], &[7]),
            said(false, &[7, 8], &[]),
            said(true, &[1, 2, 3, 4, 5, 6, 7], &[7]),
        ];
        insta::assert_snapshot!(transcript.join("\n"), @r"
        None
        the process ended, but its output is held open by another process
        the process ended, but its output is held open by process 7
        the process ended, but each of the processes 7, 8 of its group lives on
        the process ended, but each of 7 processes (1, 2, 3, 4, 5, …) of its group lives on, and its output is held open by process 7
        ");
    }

    #[test]
    fn an_end_says_everything_that_is_known() {
        let segv = Cause::Signal {
            number: 11,
            core_dumped: true,
        };
        let transcript = [
            wire(Cause::Code(0), |_| ()),
            wire(Cause::Code(3), |_| ()),
            wire(segv, |_| ()),
            wire(Cause::Code(3), |end| end.asked_by = AskedBy::Host),
            wire(segv, |end| {
                end.asked_by = AskedBy::Host;
                end.escalated = true;
            }),
            wire(Cause::Code(0), |end| {
                end.output_open = true;
                end.leftovers = vec![43, 44];
            }),
            wire(Cause::Code(0), |end| end.asked_by = AskedBy::NotReady),
            wire(Cause::Unknown, |_| ()),
        ];
        insta::assert_snapshot!(transcript.join("\n"));
    }
}
