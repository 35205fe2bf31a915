//! `headcount emit`: one event into a journal, for shell scripts.

use std::path::Path;
use std::time::{Duration, SystemTime};

use headcount::jsonl::{Journal, JournalError, JournalOptions, LockError, LockOptions};
use headcount_contract::{
    Activity, Capabilities, ChildId, ChildIdentity, ChildState, Details, EventId, EventKind,
    LifecycleEvent, Lineage, SourceEpoch, SourceId, SourceIdentity,
};
use serde_json::Value;

use crate::args::{Common, Emit};
use crate::commands::{journal_failure, journal_path};
use crate::exit::{Exit, Failure};
use crate::term;

pub(super) fn run(common: &Common, emit: Emit) -> Result<Exit, Failure> {
    let path = journal_path(common)?;
    let event = event(emit)?;
    append(path, &event)?;
    Ok(Exit::OK)
}

/// For how long a lock is waited for without a word.
const SILENT: Duration = Duration::from_secs(1);

/// Appends it. Whoever waits for a lock is told for whom.
fn append(path: &Path, event: &LifecycleEvent) -> Result<(), Failure> {
    let append_within = |timeout| {
        let mut options = JournalOptions::default();
        options.lock.timeout = timeout;
        Journal::open(path, options)?.append(event)
    };
    let patience = LockOptions::default().timeout.saturating_sub(SILENT);
    let appended = match append_within(SILENT) {
        Err(JournalError::Lock(LockError::TimedOut { path, holder })) => {
            term::note(format_args!(
                "waiting up to {} s for {}: {holder}",
                patience.as_secs(),
                path.display()
            ));
            append_within(patience)
        }
        appended => appended,
    };
    appended.map_err(|error| journal_failure(&error))?;
    Ok(())
}

/// The event that the options describe. It has no sequence: one script knows nothing of another's.
fn event(emit: Emit) -> Result<LifecycleEvent, Failure> {
    let source = SourceIdentity::new(
        id("--source", SourceId::new(emit.source))?,
        id("--epoch", SourceEpoch::new(emit.epoch))?,
    );
    let child = id("--child", ChildId::new(emit.child))?;
    let root = match emit.root {
        Some(root) => id("--root", ChildId::new(root))?,
        None => child.clone(),
    };
    let mut lineage = Lineage::new(root).with_attempt(emit.attempt);
    if let Some(parent) = emit.parent {
        lineage = lineage.with_parent(id("--parent", ChildId::new(parent))?);
    }
    let child = ChildIdentity::new(child, lineage).map_err(Failure::usage)?;
    let kind = kind(&emit.kind, emit.state)?;
    let now = SystemTime::now().into();
    // Unique without a counter that several scripts would have to share.
    let event_id = format!("emit-{now}-{:08x}", fastrand::u32(..));
    let event_id = id("the event id", EventId::new(event_id))?;
    let mut event = LifecycleEvent::new(event_id, source, child, kind, now, Capabilities::UNKNOWN);
    if kind == EventKind::Activity && emit.activity.is_none() && emit.details.is_none() {
        let wrong = "--kind activity needs --activity, or --details, to say anything";
        return Err(Failure::usage(wrong));
    }
    if let Some(activity) = emit.activity {
        event = event.with_activity(Activity::new(activity));
    }
    if let Some(details) = emit.details {
        event = event.with_details(details_of(&details)?);
    }
    Ok(event)
}

fn id<T>(option: &str, id: Result<T, headcount_contract::IdError>) -> Result<T, Failure> {
    id.map_err(|error| Failure::usage(format_args!("{option}: {error}")))
}

fn kind(name: &str, state: Option<ChildState>) -> Result<EventKind, Failure> {
    let needs =
        |what: &str| Failure::usage(format_args!("--kind {name} needs --state with {what}"));
    match (name, state) {
        ("created", None | Some(ChildState::CREATED)) => Ok(EventKind::Created),
        ("created", Some(_)) => Err(needs("created, or none")),
        ("state_changed", Some(state)) => Ok(EventKind::StateChanged(state)),
        ("state_changed", None) => Err(needs("the new state")),
        ("terminal", Some(ChildState::Terminal(outcome))) => Ok(EventKind::Terminal(outcome)),
        ("terminal", _) => Err(needs("completed, failed, cancelled or lost")),
        ("activity", None) => Ok(EventKind::Activity),
        ("heartbeat", None) => Ok(EventKind::Heartbeat),
        ("reconciliation", state) => Ok(EventKind::Reconciliation(state)),
        ("diagnostic", state) => Ok(EventKind::Diagnostic(state)),
        _ => Err(Failure::usage(format_args!(
            "--kind {name} carries no --state"
        ))),
    }
}

fn details_of(text: &str) -> Result<Details, Failure> {
    // The text is not repeated: it may hold what must not be shown.
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map.into()),
        Ok(_) => {
            Err(Failure::usage("--details must be a JSON object")
                .help(r#"as --details '{"step": 3}'"#))
        }
        Err(error) => Err(Failure::usage(format_args!(
            "--details is not JSON: line {}, column {}",
            error.line(),
            error.column()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_and_state_are_held_to_each_other() {
        for (name, state, right) in [
            ("created", None, true),
            ("created", Some(ChildState::RUNNING), false),
            ("state_changed", Some(ChildState::RUNNING), true),
            ("state_changed", None, false),
            ("terminal", Some(ChildState::LOST), true),
            ("terminal", Some(ChildState::RUNNING), false),
            ("terminal", None, false),
            ("activity", Some(ChildState::RUNNING), false),
            ("heartbeat", None, true),
            ("diagnostic", Some(ChildState::RUNNING), true),
        ] {
            assert_eq!(kind(name, state).is_ok(), right, "{name} {state:?}");
        }
    }

    #[test]
    fn wrong_details_are_not_repeated() {
        let failure = details_of("{\"password\": \"hunter2\"").unwrap_err();
        assert_eq!(
            failure.to_string(),
            "--details is not JSON: line 1, column 22"
        );
        assert!(details_of("[1]").is_err());
    }
}
