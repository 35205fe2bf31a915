//! A journal file, through `headcount-adapter-jsonl`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use headcount_adapter_jsonl::{Durability, Journal, JournalError, JournalOptions};
use headcount_contract::LifecycleEvent;

use super::{JournalFault, JournalFaultKind, JournalStore};

/// The store of a host that was given a path.
#[derive(Debug)]
pub(crate) struct FileJournal {
    journal: Journal,
}

impl FileJournal {
    pub(crate) fn open(
        path: PathBuf,
        settings: &super::JournalSettings,
    ) -> Result<Self, JournalError> {
        let mut options = JournalOptions::default();
        options.durability = match settings.durability {
            super::JournalDurability::None => Durability::None,
            super::JournalDurability::Batch => Durability::Batch,
            super::JournalDurability::Append => Durability::Append,
        };
        options.lock.stale_after = settings.lock_stale_after;
        Ok(Self {
            journal: Journal::open(path, options)?,
        })
    }

    fn path(&self) -> &Path {
        self.journal.path()
    }
}

impl JournalStore for FileJournal {
    fn replay(&mut self, each: &mut dyn FnMut(LifecycleEvent)) -> Result<(), JournalFault> {
        if !self.path().exists() {
            return Ok(());
        }
        let mut entries = self.journal.replay().map_err(|error| fault(&error))?;
        entries.by_ref().for_each(|entry| each(entry.event));
        let path = self.path().display();
        if let Some(blocked) = entries.blocked() {
            return Err(JournalFault::new(
                JournalFaultKind::Blocked,
                format!(
                    "the journal {path} is append-blocked: {blocked}; see `headcount journal verify` and `repair`"
                ),
            ));
        }
        match entries.failed() {
            Some(error) => Err(JournalFault::new(
                JournalFaultKind::Blocked,
                format!("the journal {path} cannot be read to its end: {error}"),
            )),
            None => Ok(()),
        }
    }

    fn append(&mut self, events: &[Arc<LifecycleEvent>]) -> Result<(), JournalFault> {
        self.journal
            .append_batch(events.iter().map(|event| &**event))
            .map(drop)
            .map_err(|error| fault(&error))
    }
}

fn fault(error: &JournalError) -> JournalFault {
    let kind = match error {
        JournalError::Unwritable { .. } => JournalFaultKind::Unwritable,
        JournalError::Lock(_) | JournalError::Io { .. } => JournalFaultKind::Retry,
        _ => JournalFaultKind::Blocked,
    };
    JournalFault::new(kind, error.to_string())
}
