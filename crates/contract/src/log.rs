//! Output lines, handed on in batches: one buffer for many lines.

use crate::Timestamp;

/// Which of a child's output streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl OutputStream {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// One line of output, borrowed from its batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine<'a> {
    /// Which stream.
    pub stream: OutputStream,
    /// The line without its end. Escape sequences are data.
    pub text: &'a str,
    /// When it was read.
    pub timestamp: Timestamp,
    /// Its number within its stream, from 1.
    pub number: u64,
    /// It was longer than the cap and was cut.
    pub truncated: bool,
    /// It held bytes that are not UTF-8; they were replaced.
    pub lossy: bool,
}

/// Consecutive lines of one stream that were read together.
///
/// ```
/// use headcount_contract::{LineFlags, LogBatch, OutputStream, Timestamp};
/// let mut batch = LogBatch::new(OutputStream::Stdout, Timestamp::UNIX_EPOCH, 1);
/// batch.push("one", LineFlags::default());
/// batch.push("two", LineFlags { truncated: true, ..LineFlags::default() });
/// let lines: Vec<_> = batch.lines().map(|line| (line.number, line.text, line.truncated)).collect();
/// assert_eq!(lines, [(1, "one", false), (2, "two", true)]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBatch {
    stream: OutputStream,
    timestamp: Timestamp,
    first_number: u64,
    text: String,
    /// Where each line ends in `text`.
    ends: Vec<u32>,
    /// The lines with a flag, by index; most batches have none.
    flagged: Vec<(u32, LineFlags)>,
}

/// What is odd about a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LineFlags {
    /// It was longer than the cap and was cut.
    pub truncated: bool,
    /// It held bytes that are not UTF-8; they were replaced.
    pub lossy: bool,
}

impl LogBatch {
    /// An empty batch whose first line will have this number.
    pub fn new(stream: OutputStream, timestamp: Timestamp, first_number: u64) -> Self {
        Self {
            stream,
            timestamp,
            first_number,
            text: String::new(),
            ends: Vec::new(),
            flagged: Vec::new(),
        }
    }

    /// Makes room for so many more bytes and lines, so that adding them allocates nothing.
    pub fn reserve(&mut self, bytes: usize, lines: usize) {
        self.text.reserve_exact(bytes);
        self.ends.reserve_exact(lines);
    }

    /// Gives back room that was reserved and not needed, where it is more than half.
    pub fn shrink(&mut self) {
        if self.text.len() < self.text.capacity() / 2 {
            self.text.shrink_to_fit();
        }
        if self.ends.len() < self.ends.capacity() / 2 {
            self.ends.shrink_to_fit();
        }
    }

    /// Adds a line, given without its end. A batch holds at most 4 GiB; lines beyond are cut.
    pub fn push(&mut self, line: &str, mut flags: LineFlags) {
        let room = (u32::MAX as usize).saturating_sub(self.text.len());
        let mut end = line.len().min(room);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        flags.truncated |= end < line.len();
        self.text.push_str(&line[..end]);
        if flags != LineFlags::default() {
            self.flagged
                .push((u32::try_from(self.ends.len()).unwrap_or(u32::MAX), flags));
        }
        self.ends
            .push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
    }

    /// Which stream.
    pub fn stream(&self) -> OutputStream {
        self.stream
    }

    /// When the lines were read.
    pub fn timestamp(&self) -> Timestamp {
        self.timestamp
    }

    /// How many lines.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The bytes of all lines together.
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// The lines in order.
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = LogLine<'_>> + ExactSizeIterator {
        (0..self.ends.len()).map(|at| self.line(at))
    }

    /// The last line.
    pub fn last(&self) -> Option<LogLine<'_>> {
        self.lines().next_back()
    }

    fn line(&self, at: usize) -> LogLine<'_> {
        let start = at
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize);
        let key = u32::try_from(at).unwrap_or(u32::MAX);
        let flags = match self.flagged.binary_search_by_key(&key, |(line, _)| *line) {
            Ok(found) => self.flagged[found].1,
            Err(_) => LineFlags::default(),
        };
        LogLine {
            stream: self.stream,
            text: &self.text[start..self.ends[at] as usize],
            timestamp: self.timestamp,
            number: self.first_number + at as u64,
            truncated: flags.truncated,
            lossy: flags.lossy,
        }
    }
}
