//! One output stream of a process: read when there is something, split, handed on.

use std::cell::RefCell;
use std::io;
use std::time::SystemTime;

use headcount_contract::{LogBatch, OutputStream, Timestamp};

use super::Hub;
use crate::config::{ActivityFrom, LogCheck, ProcessOptions};
use crate::lines::Splitter;
use crate::os::Pipe;

/// What is read at once, into one buffer a thread: no run holds a buffer while it is idle.
const READ_BYTES: usize = 256 * 1024;
/// What a pipe holds at first.
const SMALL_PIPE: usize = 64 * 1024;
/// What is still read from a pipe that others hold open, once the wait for its end is over.
const LAST_BYTES: usize = 1 << 20;
/// The longest activity that is kept until it is told.
const ACTIVITY_BYTES: usize = 2048;

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Reads a pipe once, into the thread's buffer.
pub(super) fn read_into<T>(pipe: &Pipe, take: impl FnOnce(&[u8]) -> T) -> Result<Option<T>, Read> {
    BUFFER.with_borrow_mut(|buffer| match pipe.try_read(buffer) {
        Ok(0) => Err(Read::Closed),
        Ok(read) => Ok(Some(take(&buffer[..read]))),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Read::Empty),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
        Err(_) => Err(Read::Closed),
    })
}

pub(super) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// One output stream.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) pipe: Option<Pipe>,
    /// The pipe, by the system's number, of a stream whose end was not waited for.
    pub(super) left_open: Option<u64>,
    splitter: Splitter,
    /// Its pipe was made larger, since a read once took all that a pipe holds at first.
    enlarged: bool,
}

/// What a reading has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    More,
    /// So much at once that there most likely is more.
    Full,
    /// More, and a subscriber is behind.
    Behind,
    Empty,
    Closed,
}

impl Reader {
    pub(super) fn new(stream: OutputStream, pipe: Option<Pipe>, options: &ProcessOptions) -> Self {
        Self {
            pipe,
            left_open: None,
            splitter: Splitter::new(stream, options.max_line_bytes, options.carriage_return),
            enlarged: false,
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    /// Reads once, and hands on the lines.
    pub(super) fn read_once(&mut self, hub: &Hub, watch: &mut LineWatch) -> Read {
        let Some(pipe) = &self.pipe else {
            return Read::Closed;
        };
        let mut filled = 0;
        let read = read_into(pipe, |bytes| {
            filled = bytes.len();
            self.splitter.feed(bytes, now())
        });
        if filled >= SMALL_PIPE && !std::mem::replace(&mut self.enlarged, true) {
            pipe.enlarge(READ_BYTES);
        }
        let more = if filled >= SMALL_PIPE {
            Read::Full
        } else {
            Read::More
        };
        match read {
            Ok(Some(Some(batch))) => {
                if hand_on(hub, watch, batch) {
                    Read::Behind
                } else {
                    more
                }
            }
            Ok(_) => more,
            Err(Read::Closed) => {
                self.pipe = None;
                self.flush(hub, watch);
                Read::Closed
            }
            Err(read) => read,
        }
    }

    /// Reads what already is in a pipe whose end does not come, and leaves it.
    pub(super) fn read_the_last(&mut self, hub: &Hub, watch: &mut LineWatch) {
        for _ in 0..LAST_BYTES / READ_BYTES {
            if matches!(self.read_once(hub, watch), Read::Empty | Read::Closed) {
                break;
            }
        }
        if let Some(pipe) = self.pipe.take() {
            self.left_open = Some(pipe.number());
            self.flush(hub, watch);
        }
    }

    fn flush(&mut self, hub: &Hub, watch: &mut LineWatch) {
        if let Some(batch) = self.splitter.finish(now()) {
            // The last line: there is nothing left to hold back.
            hand_on(hub, watch, batch);
        }
    }
}

/// Whether a subscriber is behind.
fn hand_on(hub: &Hub, watch: &mut LineWatch, batch: LogBatch) -> bool {
    watch.see(&batch);
    hub.push_log(batch)
}

/// What is looked for in the lines on their way.
#[derive(Debug, Default)]
pub(super) struct LineWatch {
    wanted: Option<Box<Wanted>>,
    /// The wanted line was seen.
    pub(super) found: bool,
    activity: ActivityFrom,
    /// The last line, not told yet.
    pub(super) latest: Option<String>,
}

#[derive(Debug)]
struct Wanted {
    stream: Option<OutputStream>,
    pattern: Pattern,
}

#[derive(Debug)]
enum Pattern {
    Contains(Box<memchr::memmem::Finder<'static>>),
    Regex(regex::Regex),
}

impl LineWatch {
    pub(super) fn new(activity: ActivityFrom) -> Self {
        Self {
            activity,
            ..Self::default()
        }
    }

    /// From now on looks for this line.
    pub(super) fn want(&mut self, check: &LogCheck) {
        // It was compiled once when the options were checked.
        let regex = check
            .regex
            .as_deref()
            .and_then(|text| regex::Regex::new(text).ok());
        let contains = check.contains.as_deref().map(|part| {
            Pattern::Contains(Box::new(memchr::memmem::Finder::new(part).into_owned()))
        });
        let pattern = contains.or(regex.map(Pattern::Regex));
        self.wanted = pattern.map(|pattern| {
            let stream = check.stream;
            Box::new(Wanted { stream, pattern })
        });
    }

    pub(super) fn want_nothing(&mut self) {
        self.wanted = None;
    }

    fn see(&mut self, batch: &LogBatch) {
        if let Some(wanted) = &self.wanted
            && wanted.stream.is_none_or(|stream| stream == batch.stream())
        {
            self.found |= batch.lines().any(|line| match &wanted.pattern {
                Pattern::Contains(part) => part.find(line.text.as_bytes()).is_some(),
                Pattern::Regex(regex) => regex.is_match(line.text),
            });
        }
        if self.activity == ActivityFrom::Output
            && let Some(line) = batch
                .lines()
                .rev()
                .find(|line| !line.text.trim().is_empty())
        {
            let end = line.text.floor_char_boundary(ACTIVITY_BYTES);
            self.latest = Some(line.text[..end].to_owned());
        }
    }
}
