//! Following one file by name, as `tail -F` does, and telling each of its generations apart.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::position::StreamPosition;

/// How much is read at once.
const CHUNK: usize = 64 * 1024;
/// How many of the bytes before the offset are compared at each read.
const FINGERPRINT: usize = 256;

/// Where in a file that exists already a follower starts.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum StartAt {
    /// At its first byte.
    #[default]
    Beginning,
    /// Behind its last line end: what is there already is not read. Bytes of a line that has not
    /// ended are.
    End,
    /// Where an earlier follower was. If the file is another one by now, at its first byte.
    Position(StreamPosition),
}

impl StartAt {
    /// There was no file to start in: whatever comes is new, and is read whole.
    pub(crate) fn is_absent(&mut self) {
        if *self == Self::End {
            *self = Self::Beginning;
        }
    }
}

/// Reads what is appended to the file at a path, whatever is done to the file.
///
/// # Behavior
///
/// - Each [`poll`](Self::poll) looks once and does not wait. Polling is the truth; whatever wakes
///   the caller is a hint.
/// - What stands at the path between a creation and a deletion, renaming or truncation is one
///   *generation*. Bytes come with their generation's number; lines never run from one generation
///   into the next.
/// - A renamed or deleted file goes on being read beside its successor until
///   [`release`](Self::release) says that it has been long enough: its writer may not have noticed.
/// - A truncated file is read again from its first byte, even if it has grown past the old offset
///   since: the bytes before the offset are compared at each read.
///
/// ```
/// use headcount_adapter_jsonl::{FileFollower, Followed, StartAt};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// let mut follower = FileFollower::new(&path, StartAt::Beginning);
/// assert_eq!(follower.poll()?, Followed::Idle);
/// std::fs::write(&path, "one\n")?;
/// assert!(matches!(follower.poll()?, Followed::Opened { generation: 1, .. }));
/// assert_eq!(follower.poll()?, Followed::Bytes { generation: 1, bytes: b"one\n" });
/// assert_eq!(follower.poll()?, Followed::Idle);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FileFollower {
    path: PathBuf,
    start: StartAt,
    current: Option<Generation>,
    /// The one before, whose writer may go on for a while.
    former: Option<Generation>,
    generations: u64,
    missing: bool,
    buffer: Vec<u8>,
}

/// What one look at the file found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Followed<'a> {
    /// The next bytes of a generation.
    Bytes {
        /// Which one.
        generation: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Nothing new.
    Idle,
    /// A file was found at the path, and its bytes follow.
    Opened {
        /// The number of the generation.
        generation: u64,
        /// The offset at which it is read from.
        offset: u64,
        /// The line that starts there, from 1; from the end of a file, it counts from there.
        line: u64,
        /// How it relates to what was read before.
        found: Found,
    },
    /// A generation is over: nothing of it will come any more.
    Ended {
        /// Which one.
        generation: u64,
        /// Why.
        why: Ended,
    },
}

/// How a file that was found relates to what was read before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// It is the first one.
    First,
    /// It is the file of the saved position, and what was read then is still there.
    Resumed,
    /// There was a saved position, in another file or before a truncation: lines may be missing.
    PositionLost,
    /// It stands in place of the one before: lines may be missing.
    Successor,
}

/// Why a generation is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was truncated. What was read of its last line has no end.
    Truncated,
    /// It was renamed or deleted, and was read to its end.
    Replaced,
}

#[derive(Debug)]
struct Generation {
    /// 0 after a truncation, until the new one is announced.
    number: u64,
    file: File,
    device: u64,
    inode: u64,
    offset: u64,
    /// The last bytes before the offset.
    fingerprint: Vec<u8>,
}

impl FileFollower {
    /// Follows the file at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>, start: StartAt) -> Self {
        Self {
            path: path.into(),
            start,
            current: None,
            former: None,
            generations: 0,
            missing: false,
            buffer: Vec::new(),
        }
    }

    /// The path that is followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks once.
    ///
    /// # Errors
    ///
    /// What a file operation failed with; the next look tries again. That nothing stands at the
    /// path is no error.
    pub fn poll(&mut self) -> io::Result<Followed<'_>> {
        self.buffer.resize(FINGERPRINT + CHUNK, 0);
        // What the former one still gives comes first: it was written first.
        for generation in [&mut self.former, &mut self.current].into_iter().flatten() {
            if generation.number == 0 {
                self.generations += 1;
                generation.number = self.generations;
                return Ok(Followed::Opened {
                    generation: generation.number,
                    offset: 0,
                    line: 1,
                    found: Found::Successor,
                });
            }
            match generation.read(&mut self.buffer)? {
                Read::Nothing => (),
                Read::Bytes(range) => {
                    return Ok(Followed::Bytes {
                        generation: generation.number,
                        bytes: &self.buffer[range],
                    });
                }
                Read::Truncated => {
                    return Ok(Followed::Ended {
                        generation: generation.start_over(),
                        why: Ended::Truncated,
                    });
                }
            }
        }
        self.look_at_path()
    }

    /// How many bytes there are that were not read, of the file at the path.
    pub fn lag(&self) -> u64 {
        self.current.as_ref().map_or(0, |current| {
            let length = current.file.metadata().map_or(0, |about| about.len());
            length.saturating_sub(current.offset)
        })
    }

    /// Whether nothing stood at the path at the last look. What stood there last is still read.
    pub fn is_missing(&self) -> bool {
        self.missing
    }

    /// Whether a generation is read beside its successor.
    pub fn has_former(&self) -> bool {
        self.former.is_some()
    }

    /// Lets go of the generation that was replaced, whose number is returned.
    pub fn release(&mut self) -> Option<u64> {
        let number = self.former.take()?.number;
        (number != 0).then_some(number)
    }

    /// The place in the file at which line `line` starts, at `offset`.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::NotFound`] if no file is open, or what reading it failed with.
    pub fn position(&self, offset: u64, line: u64) -> io::Result<StreamPosition> {
        match &self.current {
            Some(current) => StreamPosition::in_file(&current.file, offset, line),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// After everything was read: does another file stand at the path?
    fn look_at_path(&mut self) -> io::Result<Followed<'_>> {
        let at_path = fs::metadata(&self.path);
        self.missing = matches!(&at_path, Err(error) if error.kind() == io::ErrorKind::NotFound);
        if self.missing {
            // What comes from now on was not there when following began.
            self.start.is_absent();
            return Ok(Followed::Idle);
        }
        let at_path = at_path?;
        let same = self.current.as_ref().is_some_and(|current| {
            (current.device, current.inode) == (at_path.dev(), at_path.ino())
        });
        if same {
            return Ok(Followed::Idle);
        }
        // One reader beside the current one is enough; an older one has had its time.
        if self.current.is_some()
            && let Some(former) = self.former.take()
        {
            return Ok(Followed::Ended {
                generation: former.number,
                why: Ended::Replaced,
            });
        }
        self.open()
    }

    fn open(&mut self) -> io::Result<Followed<'_>> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(&self.path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        let (offset, line, found) = match &self.start {
            _ if self.generations > 0 => (0, 1, Found::Successor),
            StartAt::Beginning => (0, 1, Found::First),
            StartAt::End => (last_line_end(&file, about.len())?, 1, Found::First),
            StartAt::Position(place) if place.is_in(&file)? => {
                (place.offset(), place.line(), Found::Resumed)
            }
            StartAt::Position(_) => (0, 1, Found::PositionLost),
        };
        let before = FINGERPRINT.min(usize::try_from(offset).unwrap_or(FINGERPRINT));
        let mut fingerprint = vec![0; before];
        file.read_exact_at(&mut fingerprint, offset - before as u64)?;
        self.generations += 1;
        let opened = Generation {
            number: self.generations,
            file,
            device: about.dev(),
            inode: about.ino(),
            offset,
            fingerprint,
        };
        if let Some(replaced) = self.current.replace(opened) {
            self.former = Some(replaced);
        }
        Ok(Followed::Opened {
            generation: self.generations,
            offset,
            line,
            found,
        })
    }
}

enum Read {
    Nothing,
    /// Where in the buffer the new bytes stand.
    Bytes(std::ops::Range<usize>),
    Truncated,
}

impl Generation {
    /// After a truncation: the same file is another generation, from its first byte. Returns the
    /// number of the one that is over.
    fn start_over(&mut self) -> u64 {
        self.offset = 0;
        self.fingerprint.clear();
        std::mem::take(&mut self.number)
    }

    /// Reads on, together with the bytes before, so that both are of one moment.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        let before = self.fingerprint.len();
        let from = self.offset - before as u64;
        let read = loop {
            match self.file.read_at(buffer, from) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                result => break result?,
            }
        };
        if read < before || buffer[..before] != self.fingerprint {
            return Ok(Read::Truncated);
        }
        if read == before {
            return Ok(Read::Nothing);
        }
        self.offset = from + read as u64;
        let kept = read.min(FINGERPRINT);
        self.fingerprint.clear();
        self.fingerprint
            .extend_from_slice(&buffer[read - kept..read]);
        Ok(Read::Bytes(before..read))
    }
}

/// The offset behind the last LF.
fn last_line_end(file: &File, length: u64) -> io::Result<u64> {
    let mut end = length;
    let mut buffer = vec![0; CHUNK];
    while end > 0 {
        let from = end.saturating_sub(CHUNK as u64);
        let part = &mut buffer[..usize::try_from(end - from).unwrap_or(CHUNK)];
        file.read_exact_at(part, from)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            return Ok(from + at as u64 + 1);
        }
        end = from;
    }
    Ok(0)
}

#[cfg(test)]
mod tests;
