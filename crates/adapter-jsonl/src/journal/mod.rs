//! The append-only journal: one file that several processes append to, one at a time.

mod check;
mod cursor;
mod error;
mod file;
mod mark;
mod reader;
mod repair;
mod tail;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs::File, io};

use headcount_contract::LifecycleEvent;

use crate::decoder::DecoderLimits;
use crate::lock::{Guard, Lock, LockOptions};
pub use check::{JOURNAL_SEQUENCE, JournalEntry, Sequencing};
pub use cursor::JournalCursor;
pub use error::{Blocked, BlockedReason, JournalError};
use file::{Files, SystemFiles};
pub use reader::{JournalReader, JournalReport, verify_journal};
pub use repair::{Repair, repair_journal};
use tail::Tail;

/// When an append is on the disk and not only with the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// When the operating system likes. A crash of the process loses nothing, one of the machine
    /// may.
    None,
    /// When a call returns: one `fdatasync` for all of its events.
    #[default]
    Batch,
    /// Before the next event is written: one `fdatasync` for each.
    Append,
}

/// How a journal is kept.
///
/// ```
/// use headcount_adapter_jsonl::{Durability, JournalOptions};
/// let options = JournalOptions::default();
/// assert_eq!(options.durability, Durability::Batch);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JournalOptions {
    /// When appends are durable.
    pub durability: Durability,
    /// What is read, and so what may be written.
    pub limits: DecoderLimits,
    /// How the lock is waited for.
    pub lock: LockOptions,
}

/// A journal to append to.
///
/// # Behavior
///
/// - Each entry is an event's line with a `journalSequence` more: 1, 2, 3 and so on, without holes,
///   whoever appends.
/// - Every append takes the lock `<path>.lock`, reads what others appended, writes with one
///   `write`, makes it as durable as [`JournalOptions::durability`] says, and releases the lock.
/// - A journal with a malformed, over-long, truncated or non-monotonic line is *append-blocked*: it
///   is never written to, and never repaired by itself.
/// - What exists is read once: later appends cost the same however long the journal is.
/// - Exclusion is advisory: programs that ignore the lock are not kept out.
///
/// Calls block; call them from a thread that may.
///
/// ```
/// use headcount_adapter_jsonl::{Journal, JournalOptions};
/// use headcount_contract::{WireLimits, parse_event};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// let line = r#"{"schemaVersion":1,"eventId":"evt-7","source":"worker-cli","sourceEpoch":"start-2",
///     "childId":"child-42","lineage":{"rootChildId":"child-42","attempt":0,"external":false},
///     "kind":"state_changed","state":"running","observedAt":"2026-08-24T09:15:30.000Z","sequence":7}"#;
/// let event = parse_event(line, &WireLimits::default())?.event;
///
/// let mut journal = Journal::open(&path, JournalOptions::default())?;
/// assert_eq!(journal.append(&event)?, 1);
/// assert_eq!(journal.append_batch([&event, &event])?, 2..4);
///
/// let sequences: Vec<u64> = journal.replay()?.map(|entry| entry.sequence).collect();
/// assert_eq!(sequences, [1, 2, 3]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    options: JournalOptions,
    lock: Lock,
    tail: Tail,
    buffer: Vec<u8>,
}

impl Journal {
    /// Opens the journal at `path`; the first append makes the file if there is none.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if something other than a regular file stands there, if there is no
    /// folder to make it in, or if this user may not write the file or its folder, where the lock
    /// is made.
    pub fn open(path: impl Into<PathBuf>, options: JournalOptions) -> Result<Self, JournalError> {
        Self::open_with(path.into(), options, Arc::new(SystemFiles))
    }

    fn open_with(
        path: PathBuf,
        options: JournalOptions,
        files: Arc<dyn Files>,
    ) -> Result<Self, JournalError> {
        match std::fs::metadata(&path) {
            Ok(about) if !about.is_file() => {
                return Err(JournalError::io("cannot open the journal", &path)(
                    io::Error::other("it is not a regular file"),
                ));
            }
            // The first append makes a file, but no folder.
            Err(error) if error.kind() != io::ErrorKind::NotFound || !has_folder(&path) => {
                return Err(JournalError::io("cannot open the journal", &path)(error));
            }
            _ => (),
        }
        check_permissions(&path)?;
        let lock = Lock::new(&path, options.lock);
        lock.remove_orphans();
        Ok(Self {
            tail: Tail::new(path.clone(), options.limits, files),
            lock,
            path,
            options,
            buffer: Vec::new(),
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends one event and returns its `journalSequence`.
    ///
    /// # Errors
    ///
    /// [`JournalError`]; unless it is [`JournalError::Torn`], nothing was appended.
    pub fn append(&mut self, event: &LifecycleEvent) -> Result<u64, JournalError> {
        self.append_batch([event]).map(|range| range.start)
    }

    /// Appends several events under one lock, with one `fdatasync`, and returns the range of their
    /// `journalSequence`s.
    ///
    /// All are appended or none, unless [`Durability::Append`] asks for one at a time.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    pub fn append_batch<'e>(
        &mut self,
        events: impl IntoIterator<Item = &'e LifecycleEvent>,
    ) -> Result<std::ops::Range<u64>, JournalError> {
        let mut held = self.hold()?;
        let range = held.append_batch(events)?;
        held.release()?;
        Ok(range)
    }

    /// Takes the lock for many appends.
    ///
    /// Others wait, and give up after their time-out: hold it shortly.
    ///
    /// # Errors
    ///
    /// [`JournalError::Lock`] if it is not had in time, [`JournalError::Blocked`] if nothing may be
    /// appended.
    pub fn hold(&mut self) -> Result<Held<'_>, JournalError> {
        // A long way to catch up is gone before others have to wait.
        self.tail.read_ahead();
        let guard = self.lock.acquire()?;
        self.tail.catch_up()?;
        Ok(Held {
            guard,
            journal: self,
        })
    }

    /// The entries from the start to the end as it is now.
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if the file cannot be read. A fault in its content ends the entries and
    /// is told by [`JournalReader::blocked`].
    pub fn replay(&mut self) -> Result<JournalReader<io::Take<File>>, JournalError> {
        // The lock makes sure that no append is under way. Where it cannot be had (a read-only
        // folder, a lock left behind), what can be read is still worth reading.
        let guard = self.lock.acquire();
        let reader = reader::open(&self.path, self.options.limits, Sequencing::Journal);
        drop(guard);
        reader
    }

    /// How it stands; see [`verify_journal`].
    ///
    /// # Errors
    ///
    /// [`JournalError::Io`] if it cannot be read.
    pub fn verify(&self) -> Result<JournalReport, JournalError> {
        verify_journal(&self.path, self.options.limits, Sequencing::Journal)
    }

    /// Cuts a torn last line; see [`repair_journal`].
    ///
    /// # Errors
    ///
    /// As [`repair_journal`].
    pub fn repair(&mut self) -> Result<Repair, JournalError> {
        repair_journal(&self.path, self.options)
    }
}

/// A journal whose lock is held. Dropping it releases the lock.
#[derive(Debug)]
pub struct Held<'j> {
    // Before the journal, so that it is released first.
    guard: Guard,
    journal: &'j mut Journal,
}

impl Held<'_> {
    /// The `journalSequence` of the last entry; 0 if there is none.
    pub fn last_sequence(&self) -> u64 {
        self.journal.tail.entries()
    }

    /// As [`Journal::append`], without taking the lock again.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    pub fn append(&mut self, event: &LifecycleEvent) -> Result<u64, JournalError> {
        self.append_batch([event]).map(|range| range.start)
    }

    /// As [`Journal::append_batch`], without taking the lock again.
    ///
    /// # Errors
    ///
    /// As [`Journal::append`].
    pub fn append_batch<'e>(
        &mut self,
        events: impl IntoIterator<Item = &'e LifecycleEvent>,
    ) -> Result<std::ops::Range<u64>, JournalError> {
        let journal = &mut *self.journal;
        let durability = journal.options.durability;
        let first = journal.tail.entries() + 1;
        let mut next = first;
        journal.buffer.clear();
        for event in events {
            encode(event, next, &journal.options.limits, &mut journal.buffer)?;
            next += 1;
            if durability == Durability::Append {
                self.guard.check()?;
                journal.tail.append(&journal.buffer, 1, durability)?;
                journal.buffer.clear();
            }
        }
        if !journal.buffer.is_empty() {
            self.guard.check()?;
            let count = next - first;
            journal.tail.append(&journal.buffer, count, durability)?;
        }
        Ok(first..next)
    }

    /// Lets go of the lock.
    ///
    /// # Errors
    ///
    /// [`JournalError::Lock`] if it had been taken away.
    pub fn release(self) -> Result<(), JournalError> {
        Ok(self.guard.release()?)
    }
}

/// Writes one line that every reader within the same limits accepts.
fn encode(
    event: &LifecycleEvent,
    sequence: u64,
    limits: &DecoderLimits,
    buffer: &mut Vec<u8>,
) -> Result<(), JournalError> {
    let start = buffer.len();
    serde_json::to_writer(&mut *buffer, event).map_err(|error| JournalError::Unwritable {
        reason: error.to_string(),
    })?;
    // Only details can be nested deeper than what is read.
    if !event.details().is_empty() {
        let text = std::str::from_utf8(&buffer[start..]).unwrap_or_default();
        headcount_contract::parse_event(text, &limits.wire()).map_err(|fault| {
            JournalError::Unwritable {
                reason: format!("a reader would refuse it: {fault}"),
            }
        })?;
    }
    buffer.pop();
    buffer.extend_from_slice(format!(",\"{JOURNAL_SEQUENCE}\":{sequence}}}").as_bytes());
    let length = buffer.len() - start;
    if length > limits.max_line() {
        return Err(JournalError::Unwritable {
            reason: format!(
                "its line has {length} bytes, and a line has at most {}",
                limits.max_line()
            ),
        });
    }
    buffer.push(b'\n');
    Ok(())
}

/// Whether the folder exists in which the file would be made.
/// That it can be appended to is found out before anything depends on it.
fn check_permissions(path: &Path) -> Result<(), JournalError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let may = |target: &Path, access, doing| match accessat(CWD, target, access, AtFlags::EACCESS) {
        // A file that is not there yet is made by the first append.
        Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
        Err(error) => Err(JournalError::io(doing, target)(error.into())),
    };
    may(path, Access::WRITE_OK, "cannot write the journal")?;
    let doing = "cannot make the journal's lock in its folder";
    may(folder_of(path), Access::WRITE_OK | Access::EXEC_OK, doing)
}

fn has_folder(path: &Path) -> bool {
    folder_of(path).is_dir()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
