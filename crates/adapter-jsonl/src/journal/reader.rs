//! Reading a journal from its start, in constant memory.

use std::collections::VecDeque;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Take};
use std::path::Path;
use std::time::Instant;

use serde::Serialize;

use super::check::{Checker, JournalEntry, Sequencing};
use super::error::{Blocked, BlockedReason, JournalError};
use crate::decoder::DecoderLimits;
use crate::framing::LineSplitter;
use crate::lock::{Lock, LockOptions};

/// How much is read at once.
pub(crate) const CHUNK: usize = 64 * 1024;

/// The entries of a journal, in order, up to its end or its first fault.
///
/// ```
/// use headcount_adapter_jsonl::{DecoderLimits, JournalReader, Sequencing};
/// let mut reader = JournalReader::new(&b"{}\n"[..], DecoderLimits::default(), Sequencing::Journal);
/// assert!(reader.by_ref().next().is_none());
/// let blocked = reader.blocked().expect("an empty object is no event");
/// assert_eq!((blocked.reason.as_str(), blocked.line), ("malformed", 1));
/// ```
pub struct JournalReader<R> {
    source: R,
    splitter: LineSplitter,
    checker: Checker,
    ready: VecDeque<JournalEntry>,
    blocked: Option<Blocked>,
    ended: bool,
    failed: Option<io::Error>,
    buffer: Vec<u8>,
}

impl<R: Read> JournalReader<R> {
    /// Reads what `source` gives until it ends.
    pub fn new(source: R, limits: DecoderLimits, sequencing: Sequencing) -> Self {
        Self {
            source,
            splitter: LineSplitter::new(limits.max_line()),
            checker: Checker::new(limits, sequencing),
            ready: VecDeque::new(),
            blocked: None,
            ended: false,
            failed: None,
            buffer: vec![0; CHUNK],
        }
    }

    /// The first fault, once the entries before it were taken.
    pub fn blocked(&self) -> Option<&Blocked> {
        self.blocked.as_ref().filter(|_| self.ready.is_empty())
    }

    /// Why reading stopped before the end, if it did; the iterator ends there as well.
    pub fn failed(&self) -> Option<&io::Error> {
        self.failed.as_ref()
    }

    /// Takes the rest and says how it stands.
    ///
    /// # Errors
    ///
    /// What reading failed with.
    pub fn verify(mut self) -> io::Result<JournalReport> {
        while self.next().is_some() {}
        match self.failed {
            Some(error) => Err(error),
            None => Ok(JournalReport::new(
                self.checker.entries(),
                self.blocked.as_ref(),
            )),
        }
    }

    fn fill(&mut self) {
        let read = match self.source.read(&mut self.buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return,
            Err(error) => {
                self.failed = Some(error);
                self.ended = true;
                return;
            }
            Ok(read) => read,
        };
        let Self {
            splitter,
            checker,
            ready,
            blocked,
            ..
        } = self;
        let take = |line: crate::framing::FramedLine<'_>| {
            if blocked.is_none() {
                match checker.check(&line) {
                    Ok(entry) => ready.push_back(entry),
                    Err(fault) => *blocked = Some(fault),
                }
            }
        };
        if read == 0 {
            splitter.finish(take);
            self.ended = true;
        } else {
            splitter.push(&self.buffer[..read], take);
            self.ended = self.blocked.is_some();
        }
    }
}

impl<R: Read> Iterator for JournalReader<R> {
    type Item = JournalEntry;

    fn next(&mut self) -> Option<JournalEntry> {
        while self.ready.is_empty() && !self.ended {
            self.fill();
        }
        self.ready.pop_front()
    }
}

impl<R> fmt::Debug for JournalReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalReader")
            .field("entries", &self.checker.entries())
            .field("blocked", &self.blocked)
            .finish_non_exhaustive()
    }
}

/// How a journal stands, as `headcount journal verify --output json` prints it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JournalReport {
    /// Whether it may be appended to.
    pub ok: bool,
    /// Why not.
    pub blocked: Option<BlockedReason>,
    /// The line of the first fault, from 1.
    pub line: Option<u64>,
    /// The offset of that line's first byte.
    pub offset: Option<u64>,
    /// How many entries stand before the fault, or in all.
    pub entries: u64,
    /// What the fault is, for people.
    #[serde(skip)]
    pub what: Option<String>,
}

impl JournalReport {
    fn new(entries: u64, blocked: Option<&Blocked>) -> Self {
        Self {
            ok: blocked.is_none(),
            blocked: blocked.map(|b| b.reason),
            line: blocked.map(|b| b.line),
            offset: blocked.map(|b| b.offset),
            entries,
            what: blocked.map(|b| b.what.clone()),
        }
    }
}

/// Judges the journal at `path`.
///
/// # Behavior
///
/// - Reads without the lock. If the last line has no end while somebody holds the lock, it may be
///   an append in progress: it is judged again when the lock is free or did not become free in
///   time.
/// - A file of no bytes is a journal of no entries.
///
/// # Errors
///
/// [`JournalError::Io`] if it cannot be read.
///
/// ```
/// use headcount_adapter_jsonl::{DecoderLimits, Sequencing, verify_journal};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, "{\"schemaVersion\":1")?;
/// let report = verify_journal(&path, DecoderLimits::default(), Sequencing::Journal)?;
/// assert_eq!(
///     serde_json::to_string(&report)?,
///     r#"{"ok":false,"blocked":"truncated","line":1,"offset":0,"entries":0}"#
/// );
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn verify_journal(
    path: &Path,
    limits: DecoderLimits,
    sequencing: Sequencing,
) -> Result<JournalReport, JournalError> {
    let options = LockOptions::default();
    let lock = Lock::new(path, options);
    let deadline = Instant::now() + options.timeout;
    let doing = "cannot read the journal";
    loop {
        let reader = open(path, limits, sequencing)?;
        let length = reader.source.limit();
        let report = reader.verify().map_err(JournalError::io(doing, path))?;
        if report.blocked != Some(BlockedReason::Truncated) || Instant::now() >= deadline {
            return Ok(report);
        }
        let now = std::fs::metadata(path).map_err(JournalError::io(doing, path))?;
        if !lock.is_present() && now.len() == length {
            return Ok(report);
        }
        std::thread::sleep(options.retry);
    }
}

/// The entries of the journal at `path` as it is now; what is appended later is not read.
pub(crate) fn open(
    path: &Path,
    limits: DecoderLimits,
    sequencing: Sequencing,
) -> Result<JournalReader<Take<File>>, JournalError> {
    let doing = "cannot read the journal";
    let file = File::open(path).map_err(JournalError::io(doing, path))?;
    let length = file
        .metadata()
        .map_err(JournalError::io(doing, path))?
        .len();
    Ok(JournalReader::new(file.take(length), limits, sequencing))
}
