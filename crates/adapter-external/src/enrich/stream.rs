//! A runtime's event stream with its complete snapshot: visibility begins at the adoption.

mod input;
mod snapshot;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{
    AdapterError, ChildId, DiscontinuityCause, LifecycleEvent, WireLimits, parse_event,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use self::input::Input;
pub(crate) use self::snapshot::StreamSnapshot;
use super::http::check_url;
use super::lines::Lines;
use super::{Evidence, Fits, PID, Tell, pause_after, place_of};
use crate::config::invalid;

/// Where a runtime writes its lifecycle events in the contract's form, one a line, and where it
/// gives a complete snapshot. Without that the stream would not tell what is so now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EventStream {
    /// The file, pipe or Unix socket; `{pid}` stands for the process's number.
    pub path: String,
    /// The id that the stream has for what this process runs; `{pid}` as above. Events of others
    /// are passed over.
    pub child: String,
    /// Where the complete snapshot is.
    pub snapshot: SnapshotSource,
    /// How often a file is looked at for more.
    #[serde(default = "poll_interval", with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub poll_interval: Duration,
}

/// Where a runtime gives a complete snapshot, in the contract's form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SnapshotSource {
    /// A file that it writes anew; `{pid}` stands for the process's number.
    Path(String),
    /// An address on this machine that it answers at.
    Url(String),
}

fn poll_interval() -> Duration {
    Duration::from_millis(250)
}

impl EventStream {
    pub(super) fn check(&self, fits: Fits) -> Result<(), AdapterError> {
        fits.check_place("events.path", &self.path)?;
        let child = self.child.replace(PID, "1");
        ChildId::new(child).map_err(|error| {
            invalid(
                "events.child",
                &self.child,
                "an id of 1 to 512 bytes without control characters",
            )
            .with_source(error)
        })?;
        match &self.snapshot {
            SnapshotSource::Path(path) => fits.check_place("events.snapshot.path", path)?,
            SnapshotSource::Url(url) => check_url("events.snapshot.url", url, fits)?,
        }
        if self.poll_interval < Duration::from_millis(10) {
            return Err(invalid(
                "events.poll_interval",
                "",
                "at least 10ms: shorter would be a busy loop",
            ));
        }
        Ok(())
    }
}

/// Reads until nobody listens, or until the process has ended and all that it wrote was read.
pub(crate) async fn follow(stream: EventStream, tell: Tell, cues: Arc<Cues>) {
    let Ok(child) = ChildId::new(place_of(&stream.child, tell.pid)) else {
        return;
    };
    let mut reader = Reader {
        stream,
        tell,
        child,
        cues,
        from_start: false,
    };
    let mut failures = 0;
    loop {
        let began = reader.read_one_life().await;
        let (went_well, why) = match began {
            Life::Over => return,
            Life::Broken { cause, why } => {
                if !reader.tell.say(Evidence::Broken(cause)).await {
                    return;
                }
                (true, why)
            }
            Life::NotBegun(why) => (false, why),
        };
        failures = if went_well { 1 } else { failures + 1 };
        if !reader
            .tell
            .say(Evidence::Condition("events", Err(why)))
            .await
        {
            return;
        }
        let pause = pause_after(failures, reader.stream.poll_interval);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = reader.cues.ended.notified() => {
                // It cannot be read any more, and nothing more will be written.
                reader.tell.say(Evidence::Drained).await;
                return;
            }
        }
    }
}

/// What the reader of a stream is told.
#[derive(Debug, Default)]
pub(crate) struct Cues {
    /// The process has ended: read what there is, and no more.
    pub(crate) ended: Notify,
    /// Events are missing: the snapshot is needed again.
    pub(crate) resync: Notify,
}

/// How the reading of one file or connection ended.
enum Life {
    /// Nobody listens, or the process has ended.
    Over,
    /// It was being read, and events may be missing now.
    Broken {
        cause: DiscontinuityCause,
        why: String,
    },
    /// It could not be read at all.
    NotBegun(String),
}

struct Reader {
    stream: EventStream,
    tell: Tell,
    child: ChildId,
    cues: Arc<Cues>,
    /// A file that replaced the one that was read is new as a whole.
    from_start: bool,
}

impl Reader {
    async fn read_one_life(&mut self) -> Life {
        let path = place_of(&self.stream.path, self.tell.pid);
        let mut input = match Input::open(Path::new(&path), self.from_start).await {
            Ok(input) => input,
            Err(error) => return Life::NotBegun(format!("{path}: {error}")),
        };
        // The stream is held first, so that nothing falls between it and the snapshot.
        if !self.first_snapshot().await {
            return Life::Over;
        }
        if !self.tell.say(Evidence::Condition("events", Ok(()))).await {
            return Life::Over;
        }
        let mut lines = Lines::default();
        let mut has_ended = false;
        loop {
            let read = tokio::select! {
                read = input.read() => read,
                () = self.cues.resync.notified() => match self.tell_snapshot().await {
                    Ok(true) => continue,
                    Ok(false) => return Life::Over,
                    Err(why) => return Life::Broken { cause: DiscontinuityCause::Disconnected, why },
                },
            };
            match read {
                Ok(Some(chunk)) => {
                    if !self.hand_on(&mut lines, &chunk).await {
                        return Life::Over;
                    }
                }
                Ok(None) if has_ended || input.is_connection() && self.ended_meanwhile().await => {
                    self.tell.say(Evidence::Drained).await;
                    return Life::Over;
                }
                Ok(None) if input.is_connection() => {
                    return Life::Broken {
                        cause: DiscontinuityCause::Disconnected,
                        why: format!("{path}: the connection was closed"),
                    };
                }
                Ok(None) => match input.is_whole(Path::new(&path)) {
                    // What was written up to the end is read once more after it.
                    Ok(()) => tokio::select! {
                        () = tokio::time::sleep(self.stream.poll_interval) => {}
                        () = self.cues.ended.notified() => has_ended = true,
                    },
                    Err(why) => {
                        self.from_start = true;
                        return Life::Broken {
                            cause: DiscontinuityCause::SourceTruncated,
                            why: format!("{path}: {why}"),
                        };
                    }
                },
                Err(error) => {
                    return Life::Broken {
                        cause: DiscontinuityCause::Disconnected,
                        why: format!("{path}: {error}"),
                    };
                }
            }
        }
    }

    /// A connection closes when its process ends, a moment before the end is known.
    async fn ended_meanwhile(&self) -> bool {
        tokio::time::timeout(self.stream.poll_interval, self.cues.ended.notified())
            .await
            .is_ok()
    }

    /// Returns whether anybody still listens.
    async fn hand_on(&self, lines: &mut Lines, chunk: &[u8]) -> bool {
        let mut events = Vec::new();
        let mut faults = 0_u64;
        lines.push(chunk, |line| {
            match line.map(|line| event_of(line, &self.child)) {
                Some(Ok(Some(event))) => events.push(event),
                Some(Ok(None)) => {}
                Some(Err(())) | None => faults += 1,
            }
        });
        if !events.is_empty() && !self.tell.say(Evidence::Events(events)).await {
            return false;
        }
        // Nothing of a line that is no event is kept or shown.
        faults == 0
            || self
                .tell
                .say(Evidence::Condition(
                    "events",
                    Err(format!(
                        "{faults} lines were no lifecycle events and were passed over"
                    )),
                ))
                .await
    }

    /// Waits for a snapshot that proves the present; what the stream brings meanwhile stays in it.
    /// Returns whether there is more to do.
    async fn first_snapshot(&self) -> bool {
        let mut failures = 0;
        loop {
            let why = match self.tell_snapshot().await {
                Ok(listened) => return listened,
                Err(why) => why,
            };
            failures += 1;
            if !self.tell.say(Evidence::Condition("events", Err(why))).await {
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(pause_after(failures, self.stream.poll_interval)) => {}
                () = self.cues.ended.notified() => {
                    self.tell.say(Evidence::Drained).await;
                    return false;
                }
            }
        }
    }

    /// Returns whether anybody still listens.
    async fn tell_snapshot(&self) -> Result<bool, String> {
        let of = &self.stream.snapshot;
        let snapshot = StreamSnapshot::ask(of, &self.child, &self.tell).await?;
        Ok(self.tell.say(Evidence::Snapshot(snapshot)).await)
    }
}

/// The event of a line, if it is one of this child.
fn event_of(line: &[u8], child: &ChildId) -> Result<Option<LifecycleEvent>, ()> {
    let text = std::str::from_utf8(line).map_err(drop)?;
    let parsed = parse_event(text, &WireLimits::default()).map_err(drop)?;
    Ok(Some(parsed.event).filter(|event| event.child_id() == child))
}
