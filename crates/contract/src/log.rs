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
    /// Each line and a `\n`, so that what was read can be taken over as it is.
    text: String,
    /// Where each line ends in `text`, before its `\n`.
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
        self.text.reserve_exact(bytes + lines);
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
        let room = self.room().saturating_sub(1);
        let mut end = line.len().min(room);
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        flags.truncated |= end < line.len();
        if flags != LineFlags::default() {
            self.flagged.push((offset(self.ends.len()), flags));
        }
        self.text.push_str(&line[..end]);
        self.ends.push(offset(self.text.len()));
        self.text.push('\n');
    }

    /// Adds all lines of a text at once, each of which ends with a `\n`: much cheaper than one by
    /// one. Stops before a line that is longer than `longest` bytes, that holds a `\r` (what that
    /// means is for the caller to say), that has no end, or that the batch has no room for. Returns
    /// how many bytes of the text it has taken.
    ///
    /// ```
    /// use headcount_contract::{LogBatch, OutputStream, Timestamp};
    /// let mut batch = LogBatch::new(OutputStream::Stdout, Timestamp::UNIX_EPOCH, 1);
    /// assert_eq!(batch.push_lines("one\n\nseven\ntwo\n", 4), "one\n\n".len());
    /// let lines: Vec<_> = batch.lines().map(|line| (line.number, line.text)).collect();
    /// assert_eq!(lines, [(1, "one"), (2, "")]);
    /// ```
    pub fn push_lines(&mut self, text: &str, longest: usize) -> usize {
        let text = &text[..text.floor_char_boundary(self.room())];
        let before = self.text.len();
        let mut taken = 0;
        for end in memchr::memchr2_iter(b'\n', b'\r', text.as_bytes()) {
            if text.as_bytes()[end] == b'\r' || end - taken > longest {
                break;
            }
            self.ends.push(offset(before + end));
            taken = end + 1;
        }
        self.text.push_str(&text[..taken]);
        taken
    }

    /// How many bytes it can still take.
    fn room(&self) -> usize {
        (u32::MAX as usize).saturating_sub(self.text.len())
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

    /// The bytes of all lines together, without their ends.
    pub fn text_bytes(&self) -> usize {
        self.text.len() - self.ends.len()
    }

    /// The lines in order.
    #[inline]
    pub fn lines(&self) -> impl DoubleEndedIterator<Item = LogLine<'_>> + ExactSizeIterator {
        (0..self.ends.len()).map(|at| self.line(at))
    }

    /// The last line.
    pub fn last(&self) -> Option<LogLine<'_>> {
        self.lines().next_back()
    }

    #[inline]
    fn line(&self, at: usize) -> LogLine<'_> {
        let start = at
            .checked_sub(1)
            .map_or(0, |before| self.ends[before] as usize + 1);
        let key = offset(at);
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

/// A place in a batch, which is never beyond 4 GiB.
fn offset(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}
