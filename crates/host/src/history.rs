//! What each child is, from a journal alone: for `list`, `wait` and `explain`.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use headcount_adapter_jsonl::{DecoderLimits, JournalReader, Sequencing};
use headcount_contract::{ChildId, SourceId, Timestamp};
use headcount_projector::{Projector, Record, Settings};

use crate::Explanation;

/// A journal, projected. It is only read: no lock is taken, nothing is written.
///
/// ```
/// use headcount::History;
/// use headcount_contract::Timestamp;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, "")?;
/// let history = History::read(&path, headcount::projector::Settings::default(), Timestamp::UNIX_EPOCH)?;
/// assert!(history.records().is_empty() && history.fault().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct History {
    path: PathBuf,
    projector: Projector,
    entries: u64,
    fault: Option<String>,
    /// How long the file was when it was read.
    length: Option<u64>,
}

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("the journal {} cannot be read: {error}", path.display())]
#[non_exhaustive]
pub struct HistoryError {
    /// Where it should lie.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: io::Error,
}

impl History {
    /// Reads a journal from its start to its end, or to its first fault. Blocks.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the file cannot be read at all.
    pub fn read(path: &Path, mut settings: Settings, now: Timestamp) -> Result<Self, HistoryError> {
        // Nobody looks for children here, so no search can fail: a reader loses nobody.
        settings.reconcile_deadline = Duration::MAX;
        let mut history = Self {
            path: path.to_owned(),
            projector: Projector::new(settings),
            entries: 0,
            fault: None,
            length: None,
        };
        history.refresh(now)?;
        Ok(history)
    }

    /// Reads what was appended since. Blocks.
    ///
    /// # Behavior
    ///
    /// - What was read before is known, and changes nothing when it is read again; a journal that
    ///   was replaced by another adds to what is known.
    /// - Time passes up to `now`: a child without proof of life by its deadline is marked stale.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the file cannot be read at all.
    pub fn refresh(&mut self, now: Timestamp) -> Result<(), HistoryError> {
        let failed = |error| HistoryError {
            path: self.path.clone(),
            error,
        };
        let file = std::fs::File::open(&self.path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len();
        let mut effects = Vec::new();
        if self.length == Some(length) {
            self.projector.advance(now, &mut effects);
            return Ok(());
        }
        let mut reader = JournalReader::new(file, DecoderLimits::default(), Sequencing::Journal);
        let mut entries = 0;
        for entry in reader.by_ref() {
            entries += 1;
            if entries > self.entries {
                self.projector.apply(&entry.event, now, &mut effects);
                effects.clear();
            }
        }
        self.projector.advance(now, &mut effects);
        self.length = Some(length);
        self.entries = entries;
        self.fault = reader.blocked().map(ToString::to_string);
        if let Some(error) = reader.failed() {
            return Err(failed(io::Error::new(error.kind(), error.to_string())));
        }
        Ok(())
    }

    /// All records, by source and child.
    pub fn records(&self) -> Vec<Record> {
        self.projector.records().collect()
    }

    /// The records of children of that id, of whatever source.
    pub fn named(&self, child: &ChildId) -> Vec<Record> {
        let mut records = self.records();
        records.retain(|record| record.child_id == *child);
        records
    }

    /// Where each fact about a child comes from; none if the journal does not know it.
    pub fn explain(&self, source: &SourceId, child: &ChildId) -> Option<Explanation> {
        self.projector
            .record(source, child)
            .map(|record| Explanation::of(&record))
    }

    /// How many entries were read.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Why the journal was not read to its end, if it was not: what is known is what stood before.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}
