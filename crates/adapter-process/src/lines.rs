//! Bytes in, numbered lines out: one batch a read, bounded memory, linear time.

use std::borrow::Cow;

use headcount_contract::{LineFlags, LogBatch, OutputStream, Timestamp};

use crate::config::CarriageReturn;

/// From here on a batch is given its room at once; smaller ones grow as they are.
const LARGE: usize = 4096;
/// What is looked at in one go, several times over, small enough for the nearest cache.
const BLOCK: usize = 16 * 1024;

/// Splits one output stream into lines.
///
/// Between reads it holds at most the cap and one byte of an unfinished line, and nothing if the
/// last line was finished. A line beyond the cap is delivered once, as soon as it is too long; the
/// rest of it is read and forgotten.
#[derive(Debug)]
pub(crate) struct Splitter {
    stream: OutputStream,
    cap: usize,
    carriage_return: CarriageReturn,
    /// The beginning of a line whose end was not seen yet.
    partial: Vec<u8>,
    /// The present line was delivered, cut; its rest is skipped.
    cut: bool,
    /// The last byte was a `\r` that ended a line: a `\n` now belongs to it.
    after_return: bool,
    /// That `\r` had nothing before it: only with a `\n` was it a line.
    empty_return: bool,
    next_number: u64,
    /// Of the last read: how much room a batch will need.
    bytes_a_line: u32,
}

impl Splitter {
    pub(crate) fn new(stream: OutputStream, cap: usize, carriage_return: CarriageReturn) -> Self {
        Self {
            stream,
            cap: cap.max(1),
            carriage_return,
            partial: Vec::new(),
            cut: false,
            after_return: false,
            empty_return: false,
            next_number: 1,
            bytes_a_line: 64,
        }
    }

    /// The lines that these bytes finish.
    pub(crate) fn feed(&mut self, bytes: &[u8], at: Timestamp) -> Option<LogBatch> {
        let mut batch = LogBatch::new(self.stream, at, self.next_number);
        if bytes.len() >= LARGE {
            batch.reserve(self.partial.len() + bytes.len(), self.lines_of(bytes));
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (block, after) = rest.split_at(block_end(rest));
            self.feed_block(block, &mut batch);
            rest = after;
        }
        self.delivered(batch)
    }

    fn feed_block(&mut self, block: &[u8], batch: &mut LogBatch) {
        // What is skipped need not be text.
        let text = if self.cut { "" } else { text_of(block) };
        let mut rest = block;
        while let Some(first) = rest.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                if self.empty_return {
                    self.end_line(b"", batch);
                }
                rest = &rest[1..];
                continue;
            }
            if self.partial.is_empty() && !self.cut {
                let text = text.get(block.len() - rest.len()..).unwrap_or_default();
                let taken = batch.push_lines(text, self.cap);
                if taken > 0 {
                    rest = &rest[taken..];
                    continue;
                }
            }
            let Some(end) = self.find_end(rest) else {
                self.keep(rest, batch);
                break;
            };
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            if rest[end] == b'\r' {
                self.after_return = true;
                self.empty_return = line.is_empty() && self.partial.is_empty() && !self.cut;
                if !self.empty_return {
                    self.end_line(line, batch);
                }
            } else {
                self.end_line(line, batch);
            }
            rest = after;
        }
    }

    /// The last line, if it had no end.
    pub(crate) fn finish(&mut self, at: Timestamp) -> Option<LogBatch> {
        let mut batch = LogBatch::new(self.stream, at, self.next_number);
        if !self.partial.is_empty() {
            self.end_line(b"", &mut batch);
        }
        self.cut = false;
        self.delivered(batch)
    }

    /// How many lines these bytes end, judged by the last read of this stream.
    fn lines_of(&self, bytes: &[u8]) -> usize {
        let share = bytes.len() / self.bytes_a_line.max(1) as usize;
        share + share / 8 + 16
    }

    fn delivered(&mut self, mut batch: LogBatch) -> Option<LogBatch> {
        // A queue counts what a batch holds, so that it must not hold much more.
        batch.shrink();
        self.next_number += batch.len() as u64;
        if let Some(bytes) = batch.text_bytes().checked_div(batch.len()) {
            self.bytes_a_line = u32::try_from(bytes + 1).unwrap_or(u32::MAX);
        }
        (!batch.is_empty()).then_some(batch)
    }

    fn find_end(&self, bytes: &[u8]) -> Option<usize> {
        match self.carriage_return {
            CarriageReturn::EndsLine => memchr::memchr2(b'\n', b'\r', bytes),
            CarriageReturn::Keep => memchr::memchr(b'\n', bytes),
        }
    }

    /// The present line ends with these bytes.
    fn end_line(&mut self, bytes: &[u8], batch: &mut LogBatch) {
        if std::mem::take(&mut self.cut) {
            return;
        }
        if self.partial.is_empty() {
            return push(batch, without_return(bytes), self.cap);
        }
        let mut line = std::mem::take(&mut self.partial);
        // One byte beyond the cap, and one for a `\r`, tell that there is more and whether a
        // character is cut.
        let room = (self.cap + 2).saturating_sub(line.len());
        if bytes.len() > room {
            line.extend_from_slice(&bytes[..room]);
            return push(batch, &line, self.cap);
        }
        line.extend_from_slice(bytes);
        push(batch, without_return(&line), self.cap);
    }

    /// The present line goes on after these bytes.
    fn keep(&mut self, bytes: &[u8], batch: &mut LogBatch) {
        if self.cut {
            return;
        }
        let room = (self.cap + 2).saturating_sub(self.partial.len());
        self.partial
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        // A last `\r` may still turn out to be part of the line's end.
        if without_return(&self.partial).len() > self.cap {
            let line = std::mem::take(&mut self.partial);
            push(batch, &line, self.cap);
            self.cut = true;
        }
    }
}

/// Where the next block ends: after its last line if it has one.
fn block_end(bytes: &[u8]) -> usize {
    let Some(block) = bytes.get(..BLOCK) else {
        return bytes.len();
    };
    memchr::memrchr(b'\n', block).map_or(BLOCK, |end| end + 1)
}

/// How far these bytes are text.
fn text_of(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default(),
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

fn push(batch: &mut LogBatch, line: &[u8], cap: usize) {
    let kept = &line[..cut_at(line, cap)];
    let text = match std::str::from_utf8(kept) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(kept),
    };
    let flags = LineFlags {
        truncated: kept.len() < line.len(),
        lossy: matches!(text, Cow::Owned(_)),
    };
    batch.push(&text, flags);
}

/// Where a line is cut: at the cap, or before the character that the cap would divide.
fn cut_at(line: &[u8], cap: usize) -> usize {
    if line.len() <= cap {
        return line.len();
    }
    let continues = |at: usize| line[at] & 0b1100_0000 == 0b1000_0000;
    // A character has at most three bytes that continue it; more than that is not UTF-8.
    (cap.saturating_sub(3)..=cap)
        .rev()
        .find(|at| !continues(*at))
        .filter(|at| *at > 0)
        .unwrap_or(cap)
}

#[cfg(test)]
mod tests;
