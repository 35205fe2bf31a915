//! How far a journal was read and accepted: what lets reading on and appending cost the same
//! however long it is.

use std::io;

use super::check::{Checker, JournalEntry, Sequencing};
use super::error::{Blocked, BlockedReason};
use super::file::{JournalFile, read_whole};
use super::reader::CHUNK;
use crate::decoder::DecoderLimits;
use crate::framing::{Framed, LineSplitter};

/// How many of the last bytes are compared, to see that the file is the one that was left. They
/// hold the last `journalSequence` and line end.
const FINGERPRINT: usize = 64;

#[derive(Debug)]
pub(super) struct Mark {
    limits: DecoderLimits,
    checker: Checker,
    /// Everything before this offset was accepted, or written here.
    length: u64,
    /// The last bytes before `length`.
    fingerprint: Vec<u8>,
    /// How many bytes were read to get here.
    bytes_read: u64,
}

impl Mark {
    /// At the start of a journal.
    pub(super) fn new(limits: DecoderLimits, sequencing: Sequencing) -> Self {
        Self {
            limits,
            checker: Checker::new(limits, sequencing),
            length: 0,
            fingerprint: Vec::new(),
            bytes_read: 0,
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.checker.entries()
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// Whether the file still holds what stood before the mark, as far as its last bytes can tell.
    pub(super) fn matches(&mut self, file: &dyn JournalFile) -> io::Result<bool> {
        let mut now = [0; FINGERPRINT];
        let now = &mut now[..self.fingerprint.len()];
        let read = read_whole(file, now, self.length - now.len() as u64)?;
        self.bytes_read += read as u64;
        Ok(read == now.len() && now == self.fingerprint)
    }

    /// Reads the whole lines between the mark and `end`, and moves behind those that are accepted.
    pub(super) fn read_lines(
        &mut self,
        file: &dyn JournalFile,
        end: u64,
        mut take: impl FnMut(JournalEntry),
    ) -> io::Result<Result<(), Blocked>> {
        if self.length == end {
            return Ok(Ok(()));
        }
        let mut buffer = vec![0; CHUNK];
        let mut splitter = self.splitter();
        let mut fault = None;
        while splitter.position() < end && fault.is_none() {
            let want = usize::try_from(end - splitter.position()).map_or(CHUNK, |n| n.min(CHUNK));
            let read = read_whole(file, &mut buffer[..want], splitter.position())?;
            self.bytes_read += read as u64;
            if read == 0 {
                break; // Cut by somebody meanwhile: found at the next look.
            }
            splitter.push(&buffer[..read], |line| {
                if fault.is_some() {
                    return;
                }
                match (self.checker.check(&line), line.framed) {
                    (Ok(entry), Framed::Line(bytes)) => {
                        self.length = line.offset + bytes.len() as u64 + 1;
                        take(entry);
                    }
                    (Ok(_), _) => (),
                    (Err(blocked), _) => fault = Some(blocked),
                }
            });
        }
        let from = self.length.saturating_sub(FINGERPRINT as u64);
        let length = usize::try_from(self.length - from).unwrap_or(FINGERPRINT);
        self.fingerprint.resize(length, 0);
        self.bytes_read += read_whole(file, &mut self.fingerprint, from)? as u64;
        Ok(fault.map_or(Ok(()), Err))
    }

    /// The fault of what stands behind the last line end, judged as the end of a stream is.
    pub(super) fn judge_rest(&mut self, file: &dyn JournalFile, end: u64) -> io::Result<Blocked> {
        let mut splitter = self.splitter();
        let mut rest = vec![0; CHUNK.min(usize::try_from(end - self.length).unwrap_or(CHUNK))];
        self.bytes_read += read_whole(file, &mut rest, self.length)? as u64;
        let mut fault = None;
        let mut checker = self.checker.clone();
        splitter.push(&rest, |line| {
            fault = fault.take().or(checker.check(&line).err());
        });
        splitter.finish(|line| {
            fault = fault.take().or(checker.check(&line).err());
        });
        Ok(fault.unwrap_or_else(|| Blocked {
            reason: BlockedReason::Truncated,
            line: self.entries() + 1,
            offset: self.length,
            what: "the file changed while it was read".to_owned(),
        }))
    }

    /// Moves behind `bytes`, which were appended here and hold `count` lines.
    pub(super) fn wrote(&mut self, bytes: &[u8], count: u64) {
        self.length += bytes.len() as u64;
        self.checker.skip(count);
        let last = &bytes[bytes.len().saturating_sub(FINGERPRINT)..];
        self.fingerprint.clear();
        self.fingerprint.extend_from_slice(last);
    }

    fn splitter(&self) -> LineSplitter {
        LineSplitter::new(self.limits.max_line()).at(self.length, self.entries() + 1)
    }
}
