//! What a process tells of children of its own: lifecycle events, one JSON object a line.

use headcount_contract::{Details, RunEvent, WireLimits, parse_event};
use serde_json::json;

use super::Hub;
use super::reader::{Read, now, read_into};
use crate::os::Pipe;

/// The longest line; no lifecycle event comes near it.
const LINE_BYTES: usize = 1 << 20;
/// What is still read from a pipe that others hold open, once the process has ended.
const LAST_READS: usize = 64;
/// How many faults are told of one by one.
const FAULTS_TOLD: u64 = 10;

/// Reads the lifecycle descriptor of one run.
#[derive(Debug)]
pub(super) struct LifecycleReader {
    pub(super) pipe: Option<Pipe>,
    lines: Lines,
    faults: u64,
}

impl LifecycleReader {
    pub(super) fn new(pipe: Pipe) -> Self {
        Self {
            pipe: Some(pipe),
            lines: Lines::default(),
            faults: 0,
        }
    }

    /// Reads once, and hands on the events.
    pub(super) fn read_once(&mut self, hub: &Hub) -> Read {
        let Some(pipe) = &self.pipe else {
            return Read::Closed;
        };
        let (lines, faults) = (&mut self.lines, &mut self.faults);
        let mut behind = false;
        let read = read_into(pipe, |bytes| {
            lines.feed(bytes, |line| behind |= hand_on(line, hub, faults));
        });
        match read {
            Ok(_) if behind => Read::Behind,
            Ok(_) => Read::More,
            Err(Read::Closed) => {
                self.close(hub);
                Read::Closed
            }
            Err(read) => read,
        }
    }

    /// Reads what already is in the pipe, and leaves it.
    pub(super) fn read_the_last(&mut self, hub: &Hub) {
        for _ in 0..LAST_READS {
            if matches!(self.read_once(hub), Read::Empty | Read::Closed) {
                break;
            }
        }
        self.close(hub);
    }

    /// The end of the stream ends no child.
    fn close(&mut self, hub: &Hub) {
        if self.pipe.take().is_none() {
            return;
        }
        if !self.lines.partial.is_empty() {
            fault(hub, &mut self.faults, "the last line has no end");
        }
        if self.faults > FAULTS_TOLD {
            let message = format!("{} lines of the lifecycle stream were refused", self.faults);
            let details = Details::from_iter([("refused", json!(self.faults))]);
            hub.push(&RunEvent::Error {
                message,
                timestamp: now(),
                details,
            });
        }
    }
}

/// Whether a subscriber is behind.
fn hand_on(line: Result<&[u8], TooLong>, hub: &Hub, faults: &mut u64) -> bool {
    let text = match line.map(std::str::from_utf8) {
        Err(TooLong) => {
            fault(hub, faults, "the line is longer than 1 MiB");
            return false;
        }
        Ok(Err(_)) => {
            fault(hub, faults, "the line is not UTF-8");
            return false;
        }
        Ok(Ok(text)) if text.trim().is_empty() => return false,
        Ok(Ok(text)) => text,
    };
    match parse_event(text, &WireLimits::default()) {
        Ok(parsed) => hub.push_child(&RunEvent::Child(Box::new(parsed.event)), text.len()),
        Err(wrong) => {
            fault(hub, faults, &wrong.to_string());
            false
        }
    }
}

fn fault(hub: &Hub, faults: &mut u64, why: &str) {
    *faults += 1;
    if *faults <= FAULTS_TOLD {
        let details = Details::from_iter([("reason", json!(why))]);
        let message = "a line of the lifecycle stream was refused".to_owned();
        hub.push(&RunEvent::Error {
            message,
            timestamp: now(),
            details,
        });
    }
}

/// A line beyond the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TooLong;

/// Bytes in, whole lines out.
#[derive(Debug, Default)]
struct Lines {
    partial: Vec<u8>,
    /// The present line is too long; its rest is skipped.
    skipping: bool,
}

impl Lines {
    fn feed(&mut self, bytes: &[u8], mut take: impl FnMut(Result<&[u8], TooLong>)) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            if self.partial.is_empty() {
                take(Ok(line));
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                take(if whole.len() > LINE_BYTES {
                    Err(TooLong)
                } else {
                    Ok(&whole)
                });
            }
        }
        if self.skipping {
            return;
        }
        self.partial.extend_from_slice(rest);
        if self.partial.len() > LINE_BYTES {
            self.partial = Vec::new();
            self.skipping = true;
            take(Err(TooLong));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_however_they_were_read_and_bounded() {
        let mut lines = Lines::default();
        let mut seen = Vec::new();
        let huge = vec![b'x'; LINE_BYTES / 2 + 1];
        for chunk in [&b"a\nb"[..], b"c\n", &huge, &huge, b"still it\nd\ne"] {
            lines.feed(chunk, |line| {
                seen.push(line.map(|line| String::from_utf8_lossy(line).into_owned()));
            });
        }
        let expected = [Ok("a"), Ok("bc"), Err(TooLong), Ok("d")];
        assert_eq!(seen, expected.map(|line| line.map(str::to_owned)));
        assert_eq!(lines.partial, b"e");
    }
}
