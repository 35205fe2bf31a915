//! Reading a journal that others append to, again and again.

use std::path::{Path, PathBuf};
use std::time::Instant;

use super::check::{JournalEntry, Sequencing};
use super::error::{Blocked, BlockedReason, JournalError};
use super::file::{JournalFile, Stat, SystemFile};
use super::mark::Mark;
use crate::decoder::DecoderLimits;
use crate::lock::{Lock, LockOptions};

/// Reads a journal, and later what was appended since.
///
/// # Behavior
///
/// - Takes no lock and writes nothing. If the last line has no end while somebody holds the lock,
///   it may be an append under way, and is waited for as [`verify_journal`](crate::verify_journal)
///   does.
/// - What was read once is not read again: identity, length and last bytes of the file tell that it
///   is the same. A file that is another by now is read from its start.
///
/// ```
/// use headcount_adapter_jsonl::{DecoderLimits, JournalCursor, Sequencing};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, "{}\n")?;
/// let mut journal = JournalCursor::new(&path, DecoderLimits::default(), Sequencing::Journal);
/// journal.read(|_| panic!("an empty object is no event"))?;
/// assert_eq!(journal.blocked().map(|fault| fault.reason.as_str()), Some("malformed"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct JournalCursor {
    path: PathBuf,
    limits: DecoderLimits,
    sequencing: Sequencing,
    mark: Mark,
    /// The file as it was when it was read last.
    seen: Option<Stat>,
    blocked: Option<Blocked>,
    bytes_read: u64,
}

impl JournalCursor {
    /// At the start of the journal at `path`. Reads nothing yet.
    pub fn new(path: impl Into<PathBuf>, limits: DecoderLimits, sequencing: Sequencing) -> Self {
        Self {
            path: path.into(),
            limits,
            sequencing,
            mark: Mark::new(limits, sequencing),
            seen: None,
            blocked: None,
            bytes_read: 0,
        }
    }

    /// Hands the entries on that were not read yet, up to the end or the first fault. Blocks.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if the file cannot be read. A fault in its content is none: see
    /// [`JournalCursor::blocked`].
    pub fn read(&mut self, mut take: impl FnMut(JournalEntry)) -> Result<(), JournalError> {
        let options = LockOptions::default();
        let deadline = Instant::now() + options.timeout;
        loop {
            self.read_once(&mut take)?;
            let is_torn = self
                .blocked
                .as_ref()
                .is_some_and(|fault| fault.reason == BlockedReason::Truncated);
            if !is_torn || Instant::now() >= deadline || !self.is_under_way(options)? {
                return Ok(());
            }
            std::thread::sleep(options.retry);
        }
    }

    /// Where the journal is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many entries stand before where reading has come to.
    pub fn entries(&self) -> u64 {
        self.mark.entries()
    }

    /// The fault behind which nothing was read. It is looked at anew when the file has changed.
    pub fn blocked(&self) -> Option<&Blocked> {
        self.blocked.as_ref()
    }

    /// How many bytes were read in all, for those who watch what it costs.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read + self.mark.bytes_read()
    }

    fn read_once(&mut self, take: impl FnMut(JournalEntry)) -> Result<(), JournalError> {
        let failed = |error| JournalError::io("cannot read the journal", &self.path)(error);
        let file = SystemFile::open_to_read(&self.path).map_err(failed)?;
        let stat = file.stat().map_err(failed)?;
        let before = self.seen.replace(stat);
        let is_same = match before {
            Some(before) if before.is_same_file(&stat) && stat.length >= self.mark.length() => {
                self.mark.matches(&file).map_err(failed)?
            }
            None => true,
            Some(_) => false,
        };
        if !is_same {
            self.bytes_read += self.mark.bytes_read();
            self.mark = Mark::new(self.limits, self.sequencing);
            self.blocked = None;
        }
        if self.blocked.is_some() && before == Some(stat) {
            return Ok(());
        }
        self.blocked = match self
            .mark
            .read_lines(&file, stat.length, take)
            .map_err(failed)?
        {
            Err(blocked) => Some(blocked),
            Ok(()) if self.mark.length() < stat.length => {
                Some(self.mark.judge_rest(&file, stat.length).map_err(failed)?)
            }
            Ok(()) => None,
        };
        Ok(())
    }

    /// Whether somebody may be appending, or has appended since.
    fn is_under_way(&self, options: LockOptions) -> Result<bool, JournalError> {
        let about = std::fs::metadata(&self.path)
            .map_err(JournalError::io("cannot read the journal", &self.path))?;
        let length = self.seen.map(|seen| seen.length);
        Ok(Lock::new(&self.path, options).is_present() || length != Some(about.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};
    use std::io::Write;

    use super::super::tests::event;
    use super::super::{Journal, JournalOptions};
    use super::*;

    struct Place {
        folder: tempfile::TempDir,
        cursor: JournalCursor,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("j");
            fs::write(&path, "").unwrap();
            Self {
                cursor: JournalCursor::new(path, DecoderLimits::default(), Sequencing::Journal),
                folder,
            }
        }

        fn append(&self, numbers: std::ops::Range<u64>) {
            let path = self.folder.path().join("j");
            let events: Vec<_> = numbers.map(event).collect();
            Journal::open(path, JournalOptions::default())
                .and_then(|mut journal| journal.append_batch(&events))
                .unwrap();
        }

        fn write(&self, text: &str) {
            let path = self.folder.path().join("j");
            let mut file = OpenOptions::new().append(true).open(path).unwrap();
            file.write_all(text.as_bytes()).unwrap();
        }

        fn length(&self) -> u64 {
            fs::metadata(self.folder.path().join("j")).unwrap().len()
        }

        /// The sequences that are new, and the fault.
        fn read(&mut self) -> (Vec<u64>, Option<&'static str>) {
            let mut sequences = Vec::new();
            self.cursor
                .read(|entry| sequences.push(entry.sequence))
                .unwrap();
            (sequences, self.cursor.blocked().map(|b| b.reason.as_str()))
        }
    }

    #[test]
    fn reads_what_was_appended_and_nothing_twice() {
        let mut place = Place::new();
        assert_eq!(place.read(), (vec![], None));
        place.append(0..1_000);
        assert_eq!(place.read(), ((1..=1_000).collect(), None));
        let (length, read) = (place.length(), place.cursor.bytes_read());
        assert_eq!(place.read(), (vec![], None));
        place.append(1_000..1_002);
        assert_eq!(place.read(), (vec![1_001, 1_002], None));
        let (grown, cost) = (place.length() - length, place.cursor.bytes_read() - read);
        // Beside what is new, the last bytes: compared twice, and remembered once.
        assert!(
            (grown..=grown + 3 * 64).contains(&cost),
            "{cost} bytes were read for {grown}"
        );
    }

    #[test]
    fn goes_on_behind_a_torn_line_that_was_repaired() {
        let mut place = Place::new();
        place.append(0..3);
        place.write("{\"schemaVersion\":1");
        assert_eq!(place.read(), (vec![1, 2, 3], Some("truncated")));
        let read = place.cursor.bytes_read();
        assert_eq!(place.read(), (vec![], Some("truncated")));
        assert_eq!(place.cursor.bytes_read() - read, 64, "it has not changed");
        crate::repair_journal(place.cursor.path(), JournalOptions::default()).unwrap();
        place.append(3..4);
        assert_eq!(place.read(), (vec![4], None));
    }

    #[test]
    fn stops_at_a_fault_and_looks_again_when_the_file_has_changed() {
        let mut place = Place::new();
        place.append(0..2);
        let sound = fs::read_to_string(place.cursor.path()).unwrap();
        place.write("nonsense\n");
        place.write(&sound.replace("\"journalSequence\":1", "\"journalSequence\":3"));
        assert_eq!(place.read(), (vec![1, 2], Some("malformed")));
        fs::write(place.cursor.path(), &sound).unwrap();
        assert_eq!(place.read(), (vec![], None));
    }

    #[test]
    fn reads_another_file_from_its_start() {
        let mut place = Place::new();
        place.append(0..5);
        assert_eq!(place.read().0.len(), 5);
        let path = place.cursor.path().to_owned();
        fs::rename(&path, path.with_extension("1")).unwrap();
        place.append(0..7);
        assert_eq!(place.read(), ((1..=7).collect(), None));
        assert_eq!(place.cursor.entries(), 7);

        // And one that is the same file, cut and grown again.
        fs::write(&path, "").unwrap();
        place.append(10..30);
        assert_eq!(place.read(), ((1..=20).collect(), None));
    }
}
