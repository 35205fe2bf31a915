//! All input: files, FIFOs, sockets and descriptors, as one sequence of bytes with their streams.

mod pipe;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use headcount_contract::{DiscontinuityCause, Timestamp};
use notify::{RecursiveMode, Watcher};

use crate::follow::{Ended, FileFollower, Followed, Found, StartAt};
use crate::position::StreamPosition;
use crate::wake::Wake;
use crate::writer::Writer;
use pipe::{Opens, Pipe};

const CHUNK: usize = 64 * 1024;
/// How long a renamed file is still read beside its successor.
const LINGER: Duration = Duration::from_secs(5);

/// What came in, or why nothing did. Bytes bear the number of their stream: lines never run from
/// one into another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// A stream begins, with line `line` at byte `offset`; lines may be missing before it.
    Began {
        stream: u64,
        offset: u64,
        line: u64,
        after: Option<DiscontinuityCause>,
    },
    /// Bytes of the stream are in the caller's buffer.
    Bytes { stream: u64 },
    /// The stream has ended: a line without an end will have none.
    Over { stream: u64 },
    /// The stream was cut: what was read of its last line is void.
    Broken { stream: u64 },
    /// Nothing new.
    Nothing,
    /// Nothing new, and what is in the way.
    Trouble(String),
    /// The writer has exited, and all that it wrote was read.
    WriterExited(u32),
    /// Nothing will come any more.
    Finished,
}

/// What to do at the end of a file, or when the writers of a FIFO have gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtEnd {
    Wait,
    Finish,
}

/// Where bytes come from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// A file, FIFO or socket, whichever stands at the path.
    Path { path: PathBuf, start: StartAt },
    /// A descriptor that is open already, such as standard input or a pipe.
    Descriptor(OwnedFd),
}

/// Reads one origin.
#[derive(Debug)]
pub(crate) struct Source {
    input: Input,
    at_end: AtEnd,
    poll: Duration,
    wake: Wake,
    writer: Option<Writer>,
    /// Streams that have begun and not ended, oldest first.
    open: Vec<u64>,
    /// Nothing more is read; what is left is to say so.
    ending: bool,
    told_exit: bool,
}

impl Source {
    pub(crate) fn new(
        origin: Origin,
        at_end: AtEnd,
        poll: Duration,
        pid: Option<u32>,
        wake: Wake,
    ) -> Self {
        let input = match origin {
            Origin::Path { path, start } => Input::Awaited { path, start },
            Origin::Descriptor(descriptor) => Input::Pipe(Pipe::new(Some(descriptor), None)),
        };
        Self {
            input,
            at_end,
            poll,
            wake,
            writer: pid.map(Writer::new),
            open: Vec::new(),
            ending: false,
            told_exit: false,
        }
    }

    /// Looks once; bytes go to `buffer`. Does not wait.
    pub(crate) fn next(&mut self, buffer: &mut Vec<u8>) -> Arrived {
        if self.ending {
            return self.end();
        }
        // Looked at before the input: what is read after the exit was seen is all there is.
        let exited = self.writer.as_mut().is_some_and(Writer::has_exited);
        if let Input::Awaited { path, start } = &mut self.input {
            match Input::at(path, start, &self.wake) {
                Ok(input) => self.input = input,
                Err(trouble) => {
                    if !path.exists() {
                        start.is_absent();
                    }
                    self.ending = exited || self.at_end == AtEnd::Finish;
                    return Arrived::Trouble(trouble);
                }
            }
        }
        let arrived = match &mut self.input {
            Input::Awaited { .. } => Arrived::Nothing,
            Input::File(file) => file.look(buffer),
            Input::Pipe(pipe) => pipe.look(buffer, self.at_end),
        };
        match &arrived {
            Arrived::Began { stream, .. } => self.open.push(*stream),
            Arrived::Over { stream } | Arrived::Broken { stream } => {
                self.open.retain(|open| open != stream);
            }
            Arrived::Nothing | Arrived::Trouble(_) => {
                let at_end = matches!(self.input, Input::File(_)) && self.at_end == AtEnd::Finish;
                self.ending = exited || at_end;
                if self.ending && arrived == Arrived::Nothing {
                    return self.end();
                }
            }
            Arrived::Finished => {
                self.ending = true;
                return self.end();
            }
            Arrived::Bytes { .. } | Arrived::WriterExited(_) => (),
        }
        arrived
    }

    /// Waits until there may be something, at most as long as the poll interval.
    pub(crate) fn wait(&self) {
        if self.ending {
            return;
        }
        let pipe = match &self.input {
            Input::Pipe(pipe) => pipe.descriptor(),
            _ => None,
        };
        let writer = self.writer.as_ref().and_then(Writer::descriptor);
        self.wake.wait(pipe.into_iter().chain(writer), self.poll);
    }

    /// How many bytes of the file were not read yet.
    pub(crate) fn lag(&self) -> u64 {
        match &self.input {
            Input::File(file) => file.follower.lag(),
            _ => 0,
        }
    }

    /// The place in the file at which line `line` starts, at `offset`.
    pub(crate) fn position(&self, offset: u64, line: u64) -> Option<StreamPosition> {
        match &self.input {
            Input::File(file) => file.follower.position(offset, line).ok(),
            _ => None,
        }
    }

    /// Ends what is open, tells of the writer's exit, and finishes.
    fn end(&mut self) -> Arrived {
        if !self.open.is_empty() {
            let stream = self.open.remove(0);
            return Arrived::Over { stream };
        }
        if let Some(writer) = &mut self.writer
            && !self.told_exit
            && writer.has_exited()
        {
            self.told_exit = true;
            return Arrived::WriterExited(writer.pid());
        }
        Arrived::Finished
    }
}

#[derive(Debug)]
enum Input {
    /// Nothing stands at the path yet.
    Awaited {
        path: PathBuf,
        start: StartAt,
    },
    File(Box<Follow>),
    Pipe(Pipe),
}

impl Input {
    /// What stands at the path, or why nothing can be read there.
    fn at(path: &Path, start: &StartAt, wake: &Wake) -> Result<Self, String> {
        let kind = match fs::metadata(path) {
            Ok(about) => about.file_type(),
            Err(error) => return Err(trouble(path, &error)),
        };
        if kind.is_fifo() {
            Ok(Self::Pipe(Pipe::new(
                None,
                Some((path.to_owned(), Opens::Fifo)),
            )))
        } else if kind.is_socket() {
            Ok(Self::Pipe(Pipe::new(
                None,
                Some((path.to_owned(), Opens::Socket)),
            )))
        } else if kind.is_file() {
            Ok(Self::File(Box::new(Follow::new(path, start, wake))))
        } else {
            Err(format!("{} is not a file, FIFO or socket", path.display()))
        }
    }
}

#[derive(Debug)]
struct Follow {
    path: PathBuf,
    follower: FileFollower,
    replaced_at: Option<Instant>,
    /// Kept alive: it wakes when something happens to the file.
    _watcher: Option<notify::RecommendedWatcher>,
}

impl Follow {
    fn new(path: &Path, start: &StartAt, wake: &Wake) -> Self {
        Self {
            path: path.to_owned(),
            follower: FileFollower::new(path, start.clone()),
            replaced_at: None,
            _watcher: watch(path, wake.clone()),
        }
    }

    fn look(&mut self, buffer: &mut Vec<u8>) -> Arrived {
        if self.follower.has_former() {
            let since = self.replaced_at.get_or_insert_with(Instant::now);
            if since.elapsed() >= LINGER {
                self.replaced_at = None;
                if let Some(stream) = self.follower.release() {
                    return Arrived::Over { stream };
                }
            }
        } else {
            self.replaced_at = None;
        }
        let arrived = match self.follower.poll() {
            Ok(Followed::Bytes { generation, bytes }) => {
                buffer.clear();
                buffer.extend_from_slice(bytes);
                Arrived::Bytes { stream: generation }
            }
            Ok(Followed::Opened {
                generation,
                offset,
                line,
                found,
            }) => Arrived::Began {
                stream: generation,
                offset,
                line,
                after: match found {
                    Found::First | Found::Resumed => None,
                    Found::PositionLost | Found::Successor => {
                        Some(DiscontinuityCause::SourceTruncated)
                    }
                },
            },
            Ok(Followed::Ended { generation, why }) => match why {
                Ended::Truncated => Arrived::Broken { stream: generation },
                Ended::Replaced => Arrived::Over { stream: generation },
            },
            Ok(Followed::Idle) => Arrived::Nothing,
            Err(error) => Arrived::Trouble(trouble(&self.path, &error)),
        };
        if arrived == Arrived::Nothing && self.follower.is_missing() {
            let path = self.path.display();
            return Arrived::Trouble(format!("{path} is not there any more; waiting for it"));
        }
        arrived
    }
}

/// Wakes when something happens to the file, where the system can tell. Polling finds it as well.
fn watch(path: &Path, wake: Wake) -> Option<notify::RecommendedWatcher> {
    let name = path.file_name()?.to_owned();
    let told = move |event: notify::Result<notify::Event>| {
        let ours = event.is_ok_and(|event| {
            event.paths.is_empty() || event.paths.iter().any(|at| at.file_name() == Some(&name))
        });
        if ours {
            wake.wake();
        }
    };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut watcher = notify::recommended_watcher(told).ok()?;
    watcher.watch(folder, RecursiveMode::NonRecursive).ok()?;
    Some(watcher)
}

fn trouble(path: &Path, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("{} is not there; waiting for it", path.display()),
        io::ErrorKind::PermissionDenied => {
            format!("{} may not be read: permission denied", path.display())
        }
        _ => format!("{} cannot be read: {error}", path.display()),
    }
}

/// The time by this machine's clock.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_millis())
        .ok()
        .and_then(|millis| Timestamp::from_millis(millis).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}
