//! What each child is, from a journal alone: for `list`, `wait` and `explain`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headcount_adapter_jsonl::{DecoderLimits, JournalCursor, JournalError, Sequencing};
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
    journal: JournalCursor,
    projector: Projector,
    fault: Option<String>,
}

/// Why a journal cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
#[non_exhaustive]
pub struct HistoryError {
    /// Where it should lie.
    pub path: PathBuf,
    /// What the system said.
    #[source]
    pub error: JournalError,
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
            journal: JournalCursor::new(path, DecoderLimits::default(), Sequencing::Journal),
            projector: Projector::new(settings),
            fault: None,
        };
        history.refresh(now)?;
        Ok(history)
    }

    /// Reads what was appended since. Blocks.
    ///
    /// # Behavior
    ///
    /// - What was read before is not read again. A journal that was replaced by another is read from
    ///   its start, and adds to what is known.
    /// - Time passes up to `now`: a child without proof of life by its deadline is marked stale.
    ///
    /// # Errors
    ///
    /// [`HistoryError`] if the file cannot be read at all.
    pub fn refresh(&mut self, now: Timestamp) -> Result<(), HistoryError> {
        let Self {
            journal, projector, ..
        } = self;
        let mut effects = Vec::new();
        journal
            .read(|entry| {
                projector.apply(&entry.event, now, &mut effects);
                effects.clear();
            })
            .map_err(|error| HistoryError {
                path: journal.path().to_owned(),
                error,
            })?;
        projector.advance(now, &mut effects);
        self.fault = journal.blocked().map(ToString::to_string);
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
        self.journal.entries()
    }

    /// Why the journal was not read to its end, if it was not: what is known is what stood before.
    pub fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::io::{BufWriter, Write};

    use headcount_contract::ChildState;

    use super::*;

    fn line(n: u64, state: &str) -> String {
        format!(
            r#"{{"schemaVersion":1,"eventId":"e-{n}","source":"s","sourceEpoch":"e","childId":"c-{c}","lineage":{{"rootChildId":"c-{c}","attempt":0,"external":false}},"kind":"state_changed","state":"{state}","observedAt":"2026-08-24T09:15:30.000Z","sequence":{n},"journalSequence":{n}}}"#,
            c = n % 100,
        )
    }

    #[test]
    fn a_long_journal_that_has_grown_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("j");
        let mut file = BufWriter::new(File::create(&path).unwrap());
        for n in 1..=100_000 {
            writeln!(file, "{}", line(n, "running")).unwrap();
        }
        drop(file);
        let now = Timestamp::UNIX_EPOCH;
        let mut history = History::read(&path, Settings::default(), now).unwrap();
        assert_eq!(history.entries(), 100_000);

        let read = history.journal.bytes_read();
        let new = line(100_001, "waiting") + "\n";
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(new.as_bytes()).unwrap();
        history.refresh(now).unwrap();
        let cost = history.journal.bytes_read() - read;
        assert!(
            cost < new.len() as u64 + 256,
            "{cost} bytes were read for {}",
            new.len()
        );
        let child = &history.named(&ChildId::new("c-1").unwrap())[0];
        assert_eq!(child.state, ChildState::WAITING);
        assert_eq!(history.entries(), 100_001);
    }
}
