//! The end of a journal as it was left: what lets an append cost the same however long it is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Durability;
use super::check::{Checker, Sequencing};
use super::error::{Blocked, JournalError};
use super::file::{Files, JournalFile, Stat};
use super::reader::CHUNK;
use crate::decoder::DecoderLimits;
use crate::framing::{Framed, LineSplitter};

/// How many of the last bytes are compared, to see that the file is the one that was left. They
/// hold the last `journalSequence` and line end.
const FINGERPRINT: usize = 64;

#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    limits: DecoderLimits,
    files: Arc<dyn Files>,
    file: Option<Box<dyn JournalFile>>,
    /// Everything before this offset was read and accepted, or written here.
    length: u64,
    /// The last bytes before `length`.
    fingerprint: Vec<u8>,
    checker: Checker,
    /// The fault that was found, and the length of the file when it was.
    blocked: Option<(Blocked, u64)>,
    buffer: Vec<u8>,
}

impl Tail {
    pub(super) fn new(path: PathBuf, limits: DecoderLimits, files: Arc<dyn Files>) -> Self {
        Self {
            path,
            limits,
            files,
            file: None,
            length: 0,
            fingerprint: Vec::new(),
            checker: Checker::new(limits, Sequencing::Journal),
            blocked: None,
            buffer: Vec::new(),
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.checker.entries()
    }

    /// Reads what it can without the lock, if that is much. Whatever goes wrong is found again
    /// under the lock, and told then.
    pub(super) fn read_ahead(&mut self) {
        if let Ok(Some(stat)) = self.files.stat(&self.path)
            && stat.length > self.length + 4 * CHUNK as u64
            && let Ok(stat) = self.attach()
        {
            let _ = self.read_lines(stat.length);
        }
    }

    /// Under the lock: reads what others appended, and fails if nothing may be appended.
    pub(super) fn catch_up(&mut self) -> Result<(), JournalError> {
        let stat = self.attach()?;
        if let Some((blocked, length)) = &self.blocked
            && *length == stat.length
        {
            return Err(self.blocked_error(blocked.clone()));
        }
        self.blocked = None;
        if let Err(blocked) = self.read_lines(stat.length)? {
            self.blocked = Some((blocked.clone(), stat.length));
            return Err(self.blocked_error(blocked));
        }
        if self.length < stat.length {
            // Bytes without a line end, judged as the end of a stream is.
            let blocked = self.judge_rest(stat.length)?;
            self.blocked = Some((blocked.clone(), stat.length));
            return Err(self.blocked_error(blocked));
        }
        Ok(())
    }

    /// Under the lock: writes `bytes`, which hold `count` whole lines, or leaves the file as it
    /// was.
    pub(super) fn append(
        &mut self,
        bytes: &[u8],
        count: u64,
        durability: Durability,
    ) -> Result<(), JournalError> {
        let length = self.length;
        let Some(file) = &mut self.file else {
            return Err(JournalError::io("cannot append to", &self.path)(
                io::ErrorKind::NotConnected.into(),
            ));
        };
        let written = write_whole(file.as_mut(), bytes).and_then(|()| match durability {
            Durability::None => Ok(()),
            Durability::Batch | Durability::Append => uninterrupted(|| file.sync_data()),
        });
        if let Err(source) = written {
            // What did not become durable as a whole is taken back as a whole.
            if let Err(cutting) = uninterrupted(|| file.cut(length)) {
                let path = self.path.clone();
                self.forget();
                return Err(JournalError::Torn {
                    path,
                    source,
                    cutting,
                });
            }
            return Err(JournalError::io("cannot append to", &self.path)(source));
        }
        self.length += bytes.len() as u64;
        self.checker.skip(count);
        let last = &bytes[bytes.len().saturating_sub(FINGERPRINT)..];
        self.fingerprint.clear();
        self.fingerprint.extend_from_slice(last);
        Ok(())
    }

    /// Makes sure that `file` is the file at the path and still begins with what was read; if not,
    /// starts over.
    fn attach(&mut self) -> Result<Stat, JournalError> {
        let error = |doing| JournalError::io(doing, &self.path);
        let at_path = self
            .files
            .stat(&self.path)
            .map_err(error("cannot look at the journal"))?;
        if let (Some(at_path), Some(file)) = (at_path, &self.file) {
            let stat = file.stat().map_err(error("cannot look at the journal"))?;
            if stat.is_same_file(&at_path)
                && stat.length >= self.length
                && self
                    .fingerprint_matches()
                    .map_err(error("cannot read the journal"))?
            {
                return Ok(stat);
            }
        }
        let file = self
            .files
            .open(&self.path)
            .map_err(error("cannot open the journal"))?;
        if at_path.is_none() {
            self.files
                .sync_parent(&self.path)
                .map_err(error("cannot make the new journal durable:"))?;
        }
        let stat = file.stat().map_err(error("cannot look at the journal"))?;
        self.forget();
        self.file = Some(file);
        Ok(stat)
    }

    fn fingerprint_matches(&self) -> io::Result<bool> {
        let Some(file) = &self.file else {
            return Ok(false);
        };
        let mut now = [0; FINGERPRINT];
        let now = &mut now[..self.fingerprint.len()];
        let from = self.length - now.len() as u64;
        Ok(read_whole(file.as_ref(), now, from)? == now.len() && now == self.fingerprint)
    }

    fn forget(&mut self) {
        self.file = None;
        self.length = 0;
        self.fingerprint.clear();
        self.checker = Checker::new(self.limits, Sequencing::Journal);
        self.blocked = None;
    }

    /// Reads the whole lines between `self.length` and `end`.
    fn read_lines(&mut self, end: u64) -> Result<Result<(), Blocked>, JournalError> {
        let Some(file) = &self.file else {
            return Ok(Ok(()));
        };
        if self.length == end {
            return Ok(Ok(()));
        }
        self.buffer.resize(CHUNK, 0);
        let mut splitter =
            LineSplitter::new(self.limits.max_line()).at(self.length, self.checker.entries() + 1);
        let mut fault = None;
        while splitter.position() < end && fault.is_none() {
            let want = usize::try_from(end - splitter.position()).map_or(CHUNK, |n| n.min(CHUNK));
            let read = read_whole(file.as_ref(), &mut self.buffer[..want], splitter.position())
                .map_err(JournalError::io("cannot read the journal", &self.path))?;
            if read == 0 {
                break; // Cut by somebody meanwhile: found at the next look.
            }
            splitter.push(&self.buffer[..read], |line| {
                if fault.is_some() {
                    return;
                }
                match (self.checker.check(&line), line.framed) {
                    (Ok(_), Framed::Line(bytes)) => {
                        self.length = line.offset + bytes.len() as u64 + 1;
                    }
                    (Ok(_), _) => (),
                    (Err(blocked), _) => fault = Some(blocked),
                }
            });
        }
        self.buffer = Vec::new();
        let from = self.length.saturating_sub(FINGERPRINT as u64);
        let length = usize::try_from(self.length - from).unwrap_or(FINGERPRINT);
        self.fingerprint.resize(length, 0);
        read_whole(file.as_ref(), &mut self.fingerprint, from)
            .map_err(JournalError::io("cannot read the journal", &self.path))?;
        Ok(fault.map_or(Ok(()), Err))
    }

    /// The fault of what stands behind the last line end.
    fn judge_rest(&mut self, end: u64) -> Result<Blocked, JournalError> {
        let mut splitter =
            LineSplitter::new(self.limits.max_line()).at(self.length, self.checker.entries() + 1);
        let mut rest = vec![0; CHUNK.min(usize::try_from(end - self.length).unwrap_or(CHUNK))];
        if let Some(file) = &self.file {
            read_whole(file.as_ref(), &mut rest, self.length)
                .map_err(JournalError::io("cannot read the journal", &self.path))?;
        }
        let mut fault = None;
        let mut checker = self.checker.clone();
        splitter.push(&rest, |line| {
            fault = fault.take().or(checker.check(&line).err());
        });
        splitter.finish(|line| {
            fault = fault.take().or(checker.check(&line).err());
        });
        Ok(fault.unwrap_or_else(|| Blocked {
            reason: super::BlockedReason::Truncated,
            line: self.checker.entries() + 1,
            offset: self.length,
            what: "the file changed while it was read".to_owned(),
        }))
    }

    fn blocked_error(&self, blocked: Blocked) -> JournalError {
        JournalError::Blocked {
            path: self.path.clone(),
            blocked,
        }
    }
}

/// One `write` for all of it. A signal that came before the first byte is no failure; a short
/// write is one.
fn write_whole(file: &mut dyn JournalFile, bytes: &[u8]) -> io::Result<()> {
    let written = uninterrupted(|| file.append(bytes))?;
    if written == bytes.len() {
        return Ok(());
    }
    // What did not fit is tried once, for the reason why.
    match uninterrupted(|| file.append(&bytes[written..])) {
        Ok(more) if written + more == bytes.len() => Ok(()),
        Ok(more) => Err(io::Error::new(
            io::ErrorKind::WriteZero,
            format!("{} of {} bytes were written", written + more, bytes.len()),
        )),
        Err(error) => Err(error),
    }
}

fn read_whole(file: &dyn JournalFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match uninterrupted(|| file.read_at(&mut buffer[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}
