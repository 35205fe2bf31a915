//! The end of a journal as it was left: what lets an append cost the same however long it is.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::Durability;
use super::check::Sequencing;
use super::error::{Blocked, JournalError};
use super::file::{Files, JournalFile, Stat, uninterrupted};
use super::mark::Mark;
use super::reader::CHUNK;
use crate::decoder::DecoderLimits;

#[derive(Debug)]
pub(super) struct Tail {
    path: PathBuf,
    limits: DecoderLimits,
    files: Arc<dyn Files>,
    file: Option<Box<dyn JournalFile>>,
    /// Up to where it was read, or written here.
    mark: Mark,
    /// The fault that was found, and the length of the file when it was.
    blocked: Option<(Blocked, u64)>,
}

impl Tail {
    pub(super) fn new(path: PathBuf, limits: DecoderLimits, files: Arc<dyn Files>) -> Self {
        Self {
            path,
            limits,
            files,
            file: None,
            mark: Mark::new(limits, Sequencing::Journal),
            blocked: None,
        }
    }

    pub(super) fn entries(&self) -> u64 {
        self.mark.entries()
    }

    /// Reads what it can without the lock, if that is much. Whatever goes wrong is found again
    /// under the lock, and told then.
    pub(super) fn read_ahead(&mut self) {
        if let Ok(Some(stat)) = self.files.stat(&self.path)
            && stat.length > self.mark.length() + 4 * CHUNK as u64
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
        if let Some(file) = &self.file
            && self.mark.length() < stat.length
        {
            // Bytes without a line end.
            let blocked = self
                .mark
                .judge_rest(file.as_ref(), stat.length)
                .map_err(JournalError::io("cannot read the journal", &self.path))?;
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
        let length = self.mark.length();
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
        self.mark.wrote(bytes, count);
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
                && stat.length >= self.mark.length()
                && self
                    .mark
                    .matches(file.as_ref())
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

    fn forget(&mut self) {
        self.file = None;
        self.mark = Mark::new(self.limits, Sequencing::Journal);
        self.blocked = None;
    }

    /// Reads the whole lines up to `end`.
    fn read_lines(&mut self, end: u64) -> Result<Result<(), Blocked>, JournalError> {
        let Some(file) = &self.file else {
            return Ok(Ok(()));
        };
        self.mark
            .read_lines(file.as_ref(), end, |_| ())
            .map_err(JournalError::io("cannot read the journal", &self.path))
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
