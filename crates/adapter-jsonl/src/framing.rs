//! Bytes in, lines out: whatever the chunks, the same lines.

use memchr::memchr;

/// The longest line that is read by default, in bytes before its LF: the reference's 64 KiB.
pub const DEFAULT_MAX_LINE: usize = 64 * 1024;

/// Splits a byte stream at LF, and only there, in memory bounded by the line cap.
///
/// # Behavior
///
/// - What comes out depends on the bytes alone, never on how they were cut into chunks.
/// - A CR before the LF belongs to the line (and counts toward the cap).
/// - A line that is longer than the cap is told of once, as soon as the cap is passed, and skipped
///   to its LF; that state survives from push to push.
/// - What follows the last LF is not a line. [`LineSplitter::finish`] tells of it when the stream
///   has ended, [`LineSplitter::restart`] forgets it.
///
/// ```
/// use headcount_adapter_jsonl::{Framed, LineSplitter};
/// let mut splitter = LineSplitter::new(8);
/// let mut seen = Vec::new();
/// for chunk in ["one\ntw", "o\nfar too lo", "ng\n"] {
///     splitter.push(chunk.as_bytes(), |line| {
///         seen.push(match line.framed {
///             Framed::Line(bytes) => format!("{}:{}", line.number, bytes.len()),
///             Framed::Oversized => format!("{}:oversized", line.number),
///             Framed::Truncated(_) => format!("{}:truncated", line.number),
///         });
///     });
/// }
/// assert_eq!(seen, ["1:3", "2:3", "3:oversized"]);
/// ```
#[derive(Debug, Clone)]
pub struct LineSplitter {
    max_line: usize,
    /// The bytes of the current line that earlier chunks brought; at most `max_line`.
    partial: Vec<u8>,
    /// The current line is over the cap and was reported; its bytes are passed over.
    skipping: bool,
    /// Where the current line starts.
    line_start: u64,
    /// Where the next byte stands.
    position: u64,
    /// The current line, from 1.
    number: u64,
}

/// One line, or why there is none, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramedLine<'a> {
    /// Its number in the stream, from 1.
    pub number: u64,
    /// The offset of its first byte in the stream.
    pub offset: u64,
    /// What was found.
    pub framed: Framed<'a>,
}

/// What stands between two line ends.
///
/// Exhaustive: there is nothing else that a split at LF under a cap can find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framed<'a> {
    /// A line within the cap, without its LF.
    Line(&'a [u8]),
    /// More bytes than the cap allows without an LF.
    Oversized,
    /// The stream ended after these bytes, without an LF.
    Truncated(&'a [u8]),
}

impl LineSplitter {
    /// A splitter at the start of a stream.
    pub fn new(max_line: usize) -> Self {
        Self {
            max_line,
            partial: Vec::new(),
            skipping: false,
            line_start: 0,
            position: 0,
            number: 1,
        }
    }

    /// The same at the start of line `number`, which begins at byte `offset` of the stream.
    pub fn at(mut self, offset: u64, number: u64) -> Self {
        self.restart(offset, number);
        self
    }

    /// Takes the next bytes of the stream and hands each line that they end to `line`.
    pub fn push(&mut self, mut bytes: &[u8], mut line: impl FnMut(FramedLine<'_>)) {
        while !bytes.is_empty() {
            let Some(end) = memchr(b'\n', bytes) else {
                self.keep(bytes, &mut line);
                return;
            };
            let (content, rest) = (&bytes[..end], &bytes[end + 1..]);
            if !self.skipping {
                if self.partial.len() + content.len() > self.max_line {
                    line(self.framed(Framed::Oversized));
                } else if self.partial.is_empty() {
                    line(self.framed(Framed::Line(content)));
                } else {
                    self.partial.extend_from_slice(content);
                    line(self.framed(Framed::Line(&self.partial)));
                }
            }
            self.partial.clear();
            self.skipping = false;
            self.position += end as u64 + 1;
            self.line_start = self.position;
            self.number += 1;
            bytes = rest;
        }
    }

    /// Says that the stream has ended: bytes after the last LF are a truncated line.
    pub fn finish(&mut self, mut line: impl FnMut(FramedLine<'_>)) {
        if !self.partial.is_empty() {
            line(self.framed(Framed::Truncated(&self.partial)));
        }
        self.restart(self.position, self.number);
    }

    /// Forgets the current line, and goes on at the start of line `number` at byte `offset`.
    pub fn restart(&mut self, offset: u64, number: u64) {
        self.partial.clear();
        self.skipping = false;
        self.line_start = offset;
        self.position = offset;
        self.number = number;
    }

    /// Where the line starts whose end has not been seen.
    pub fn line_start(&self) -> u64 {
        self.line_start
    }

    /// Where the next byte stands.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The number of the line whose end has not been seen.
    pub fn line_number(&self) -> u64 {
        self.number
    }

    fn framed<'a>(&self, framed: Framed<'a>) -> FramedLine<'a> {
        FramedLine {
            number: self.number,
            offset: self.line_start,
            framed,
        }
    }

    /// Keeps bytes without an LF, or passes over them.
    fn keep(&mut self, bytes: &[u8], line: &mut impl FnMut(FramedLine<'_>)) {
        self.position += bytes.len() as u64;
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > self.max_line {
            self.partial.clear();
            self.skipping = true;
            line(self.framed(Framed::Oversized));
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Eq, Clone)]
    enum Seen {
        Line(u64, u64, Vec<u8>),
        Oversized(u64, u64),
        Truncated(u64, u64, Vec<u8>),
    }

    fn seen(line: FramedLine<'_>) -> Seen {
        match line.framed {
            Framed::Line(bytes) => Seen::Line(line.number, line.offset, bytes.to_vec()),
            Framed::Oversized => Seen::Oversized(line.number, line.offset),
            Framed::Truncated(bytes) => Seen::Truncated(line.number, line.offset, bytes.to_vec()),
        }
    }

    fn split(max_line: usize, chunks: &[&[u8]]) -> Vec<Seen> {
        let mut splitter = LineSplitter::new(max_line);
        let mut all = Vec::new();
        for chunk in chunks {
            splitter.push(chunk, |line| all.push(seen(line)));
            assert!(splitter.partial.len() <= max_line);
        }
        splitter.finish(|line| all.push(seen(line)));
        all
    }

    /// What the splitter should say, written from its description and without chunks or state.
    fn model(max_line: usize, bytes: &[u8]) -> Vec<Seen> {
        let mut all = Vec::new();
        let (mut offset, mut number) = (0, 1);
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let content = piece.strip_suffix(b"\n");
            all.push(match content {
                _ if content.unwrap_or(piece).len() > max_line => Seen::Oversized(number, offset),
                Some(line) => Seen::Line(number, offset, line.to_vec()),
                None => Seen::Truncated(number, offset, piece.to_vec()),
            });
            offset += piece.len() as u64;
            number += 1;
        }
        all
    }

    #[test]
    fn tells_of_an_oversized_line_before_its_end_comes() {
        let mut splitter = LineSplitter::new(4);
        let mut all = Vec::new();
        splitter.push(b"12345", |line| all.push(seen(line)));
        assert_eq!(all, [Seen::Oversized(1, 0)]);
        splitter.push(b"6789", |line| all.push(seen(line)));
        splitter.push(b"\nok\n", |line| all.push(seen(line)));
        assert_eq!(all[1..], [Seen::Line(2, 10, b"ok".to_vec())]);
    }

    #[test]
    fn restart_forgets_a_partial_line_and_an_oversized_one() {
        for before in ["abc", "abcdefghij"] {
            let mut splitter = LineSplitter::new(5);
            splitter.push(before.as_bytes(), |_| ());
            splitter.restart(100, 7);
            let mut all = Vec::new();
            splitter.push(b"x\n", |line| all.push(seen(line)));
            assert_eq!(all, [Seen::Line(7, 100, b"x".to_vec())]);
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_model_however_the_bytes_are_cut(
            bytes in proptest::collection::vec(prop_oneof![3 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r')], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
            max_line in 1usize..12,
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            prop_assert_eq!(split(max_line, &chunks), model(max_line, &bytes));
        }
    }
}
