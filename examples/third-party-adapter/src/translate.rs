//! The pure part: what was found in the folder, as lifecycle events and snapshots.

use std::collections::{BTreeMap, BTreeSet};

use headcount_adapter_kit::EventMint;
use headcount_contract::{
    AdapterError, AdapterErrorKind, AuthoritativeSnapshot, ChildId, ChildIdentity, ChildState,
    Coverage, EventKind, LifecycleEvent, SequenceScope, Snapshot, SnapshotChild, SnapshotId,
    SourceIdentity, Timestamp,
};

use crate::CAPABILITIES;
use crate::source::Entry;

/// How many workers are remembered. A worker that has ended must be, so that it does not come back
/// to life; beyond this many, new ones are left out and counted.
const MAX_WORKERS: usize = 100_000;

/// What is known of each worker.
#[derive(Debug)]
pub(crate) struct Translator {
    mint: EventMint,
    workers: BTreeMap<ChildId, ChildState>,
    /// Those whose files were there at the last look.
    present: BTreeSet<ChildId>,
    snapshots: u64,
}

/// What came of one look.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) events: Vec<LifecycleEvent>,
    /// What could not be understood, for a person.
    pub(crate) trouble: Vec<String>,
}

impl Translator {
    pub(crate) fn new(source: SourceIdentity) -> Self {
        Self {
            mint: EventMint::new(source, CAPABILITIES, SequenceScope::Child),
            workers: BTreeMap::new(),
            present: BTreeSet::new(),
            snapshots: 0,
        }
    }

    /// Takes note of all that is in the folder.
    pub(crate) fn observe(&mut self, entries: Vec<Entry>, at: Timestamp) -> Look {
        let mut look = Look::default();
        self.present.clear();
        for Entry { worker, word } in entries {
            let Ok(child) = ChildId::new(worker.as_str()) else {
                look.trouble.push(format!("{worker:?} is no name"));
                continue;
            };
            let Some(state) = state(&word) else {
                look.trouble
                    .push(format!("{word:?} of {worker} is no state"));
                continue;
            };
            let before = self.workers.get(&child).copied();
            if before.is_none() && self.workers.len() >= MAX_WORKERS {
                look.trouble.push(format!("{worker} is one too many"));
                continue;
            }
            self.present.insert(child.clone());
            // An end is final, whatever is written later.
            if before == Some(state) || before.is_some_and(ChildState::is_terminal) {
                continue;
            }
            self.workers.insert(child.clone(), state);
            let kind = match state {
                ChildState::Terminal(outcome) => EventKind::Terminal(outcome),
                live => EventKind::StateChanged(live),
            };
            let identity = ChildIdentity::root(child.clone());
            look.events.push(self.mint.event(&identity, kind, at));
            if state.is_terminal() {
                self.mint.forget(&child);
            }
        }
        look
    }

    /// What the last look found: complete, since a folder lists all that is in it.
    pub(crate) fn snapshot(&mut self, at: Timestamp) -> Result<Snapshot, AdapterError> {
        self.snapshots += 1;
        let illegal = |error: &dyn std::fmt::Display| {
            AdapterError::new(AdapterErrorKind::Internal, error.to_string())
        };
        let id = SnapshotId::new(format!("look-{}", self.snapshots)).map_err(|e| illegal(&e))?;
        let present = self.present.iter();
        let children = present
            .filter_map(|child| {
                let identity = ChildIdentity::root(child.clone());
                let state = self.workers.get(child)?;
                Some(SnapshotChild::with_identity(identity, *state))
            })
            .collect();
        let source = self.mint.source().clone();
        AuthoritativeSnapshot::new(source, id, at, Coverage::All, children)
            .map(Snapshot::Complete)
            .map_err(|error| illegal(&error))
    }
}

/// The state that a word stands for.
fn state(word: &str) -> Option<ChildState> {
    Some(match word {
        "starting" => ChildState::STARTING,
        "running" => ChildState::RUNNING,
        "waiting" => ChildState::WAITING,
        "done" => ChildState::COMPLETED,
        "failed" => ChildState::FAILED,
        "cancelled" => ChildState::CANCELLED,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use headcount_contract::{SourceEpoch, SourceId};

    use super::*;

    fn transcript(looks: &[&[(&str, &str)]]) -> Vec<String> {
        let epoch = SourceEpoch::new("1").unwrap();
        let source = SourceIdentity::new(SourceId::new("spool").unwrap(), epoch);
        let mut translator = Translator::new(source);
        let mut lines = Vec::new();
        for look in looks {
            let entries = look.iter().map(|(worker, word)| Entry {
                worker: (*worker).into(),
                word: (*word).into(),
            });
            let look = translator.observe(entries.collect(), Timestamp::UNIX_EPOCH);
            let told = look.events.iter().map(|event| {
                let state = event.state().map(ChildState::as_str).unwrap_or_default();
                format!("{} {} {state}", event.child_id(), event.kind().as_str())
            });
            lines.extend(told.chain(look.trouble));
        }
        lines
    }

    #[test]
    fn tells_each_change_once_and_an_end_for_good() {
        let told = transcript(&[
            &[("a", "running")],
            &[("a", "running"), ("b", "waiting")],
            &[("a", "done"), ("b", "dreaming")],
            &[("a", "running"), ("b", "waiting")],
        ]);
        let expected = [
            "a state_changed running",
            "b state_changed waiting",
            "a terminal completed",
            "\"dreaming\" of b is no state",
        ];
        assert_eq!(told, expected);
    }
}
