//! Records what a gateway sends of its children, in a form that [`replay`](crate::replay) plays.
//!
//! Each line is `{"t", "dir", "frame"}`. Prompts, answers and the like are left out, so that a
//! record can be shown to others: read it first all the same, since goals and previews of tools
//! are in it.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};

use headcount_contract::{AdapterError, AdapterErrorKind, ChildId, Timestamp};
use serde_json::{Map, Value, json};

use crate::frame::{self, EventFrame, Frame};
use crate::translate::{Ending, MANIFEST, TRANSCRIPT};

/// How many lines wait for the disk; more are left out, and counted.
const WAITING: usize = 4096;

/// Writes a record on a thread of its own.
#[derive(Debug)]
pub(crate) struct Recorder {
    lines: SyncSender<String>,
    began: Timestamp,
    left_out: AtomicU64,
}

impl Recorder {
    /// Begins a record in a new file.
    pub(crate) fn create(path: &Path, began: Timestamp) -> Result<Self, AdapterError> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        // What agents do is nobody else's business.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(|error| {
            AdapterError::new(
                AdapterErrorKind::InvalidConfig,
                "the record cannot be written: name a file that is not there yet",
            )
            .with_context("record", path.display())
            .with_source(error)
        })?;
        let (lines, waiting) = sync_channel(WAITING);
        std::thread::Builder::new()
            .name("hermes-record".to_owned())
            .spawn(move || write(&waiting, file))
            .map_err(|error| {
                AdapterError::new(AdapterErrorKind::Internal, "no thread for the record")
                    .with_source(error)
            })?;
        let recorder = Self {
            lines,
            began,
            left_out: AtomicU64::new(0),
        };
        recorder.remark(&Remark::Began(began), began);
        Ok(recorder)
    }

    /// Records what the gateway sent, as far as it is about children.
    pub(crate) fn received(&self, frame: &Frame, at: Timestamp) {
        let shown = match frame {
            Frame::Event(event) if is_told(event) => event_json(event),
            Frame::Event(_) | Frame::Notification { .. } => return,
            Frame::Response {
                id,
                outcome: Ok(result),
            } => {
                json!({"jsonrpc": "2.0", "id": id, "result": told(result)})
            }
            Frame::Response {
                id,
                outcome: Err(error),
            } => json!({
                "jsonrpc": "2.0", "id": id,
                "error": {"code": error.code, "message": error.message},
            }),
            Frame::Request { id, method, params } => {
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
            }
            Frame::Flat(record) | Frame::FlatSnapshot(record) => Value::Object(record.clone()),
        };
        self.line("out", at, &shown);
    }

    /// Records what the gateway was asked, without any text.
    pub(crate) fn sent(&self, id: &str, method: &str, params: &Value, at: Timestamp) {
        let mut kept = Map::new();
        for key in ["session_id", "subagent_id", "last_seen"] {
            if let Some(value) = params.get(key) {
                kept.insert(key.to_owned(), value.clone());
            }
        }
        let frame = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": kept});
        self.line("in", at, &frame);
    }

    /// Records what is no frame.
    pub(crate) fn remark(&self, remark: &Remark, at: Timestamp) {
        self.line("note", at, &remark.to_json());
    }

    fn line(&self, dir: &str, at: Timestamp, frame: &Value) {
        let after = at.saturating_since(self.began).as_secs_f64();
        let after = (after * 1000.0).round() / 1000.0;
        let line = json!({"t": after, "dir": dir, "frame": frame}).to_string();
        if let Err(TrySendError::Full(_)) = self.lines.try_send(line) {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How many lines the disk was too slow for.
    pub(crate) fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

fn write(lines: &Receiver<String>, file: File) {
    let mut file = BufWriter::new(file);
    while let Ok(line) = lines.recv() {
        let mut line = Some(line);
        // What waits is written together; then it is all on disk.
        while let Some(text) = line {
            if writeln!(file, "{text}").is_err() {
                return;
            }
            line = lines.try_recv().ok();
        }
        if file.flush().is_err() {
            return;
        }
    }
}

/// What is known of the children besides the frames.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Remark {
    /// When the record begins.
    Began(Timestamp),
    /// The connection was lost.
    Disconnected,
    /// How a child ended by what the gateway keeps on its disk.
    Found {
        /// Which child.
        child: ChildId,
        /// What its transcript or manifest says.
        ending: Ending,
    },
    /// The gateway has ended, with details for the children that it ran.
    Exited(Map<String, Value>),
}

impl Remark {
    fn to_json(&self) -> Value {
        match self {
            Self::Began(at) => json!({"note": "record of a Hermes gateway", "at": at}),
            Self::Disconnected => json!({"note": "disconnected"}),
            Self::Found { child, ending } => json!({
                "note": ending.basis, "child": child, "status": ending.status,
                "details": ending.details,
            }),
            Self::Exited(facts) => json!({"note": "exit", "facts": facts}),
        }
    }

    /// Reads the note of a record, of ours or of another recorder: `ws closed` and `exit` with
    /// their codes, negative for a signal. Nothing for what says nothing of children.
    pub(crate) fn read(note: &Map<String, Value>) -> Option<Self> {
        let text = |key: &str| note.get(key).and_then(Value::as_str);
        let object = |key: &str| note.get(key).and_then(Value::as_object).cloned();
        if let Some(at) = text("at") {
            return at.parse().ok().map(Self::Began);
        }
        match text("note")? {
            "disconnected" => Some(Self::Disconnected),
            // A connection that was closed in order has nothing more to say; one that broke has.
            "ws closed" => {
                (note.get("code") != Some(&Value::from(1000))).then_some(Self::Disconnected)
            }
            basis @ (TRANSCRIPT | MANIFEST) => Some(Self::Found {
                child: ChildId::new(text("child")?).ok()?,
                ending: Ending {
                    status: text("status")?.to_owned(),
                    basis: if basis == MANIFEST {
                        MANIFEST
                    } else {
                        TRANSCRIPT
                    },
                    details: object("details").unwrap_or_default(),
                },
            }),
            "exit" | "serve exit" => {
                let code = note.get("code").and_then(Value::as_i64);
                Some(Self::Exited(object("facts").unwrap_or_else(|| {
                    let told = code.map(|code| match code {
                        0.. => ("gatewayExitCode".to_owned(), json!(code)),
                        _ => ("gatewaySignal".to_owned(), json!(code.unsigned_abs())),
                    });
                    told.into_iter().collect()
                })))
            }
            _ => None,
        }
    }
}

fn is_told(event: &EventFrame) -> bool {
    let kind = event.kind.as_str();
    kind.starts_with("subagent.")
        || kind.starts_with("approval")
        || matches!(kind, "gateway.ready" | "session.info")
        || (kind == "tool.complete" && !event.payload.is_empty())
}

fn event_json(event: &EventFrame) -> Value {
    json!({"jsonrpc": "2.0", "method": "event", "params": params(event)})
}

fn params(event: &EventFrame) -> Value {
    let mut params = Map::from_iter([("type".to_owned(), json!(event.kind))]);
    if let Some(session) = &event.session {
        params.insert("session_id".to_owned(), json!(session));
    }
    params.insert("payload".to_owned(), json!(event.payload));
    if let Some(seq) = event.seq {
        params.insert("seq".to_owned(), json!(seq));
    }
    Value::Object(params)
}

/// The part of an answer that is about children and sessions.
fn told(result: &Value) -> Value {
    const KEPT: [&str; 15] = [
        "active",
        "paused",
        "max_spawn_depth",
        "max_concurrent_children",
        "subagents",
        "delegations",
        "found",
        "subagent_id",
        "session_id",
        "stored_session_id",
        "session_key",
        "latest_seq",
        "truncated",
        "epoch",
        "status",
    ];
    let Value::Object(result) = result else {
        return Value::Null;
    };
    let mut kept = Map::new();
    for (key, value) in result {
        if KEPT.contains(&key.as_str()) {
            kept.insert(key.clone(), value.clone());
        } else if key == "events" {
            let events = value.as_array().into_iter().flatten();
            let events = events.filter_map(|event| frame::event(event.as_object()?.clone()).ok());
            let events = events.filter(is_told).map(|event| params(&event));
            kept.insert(key.clone(), events.collect());
        }
    }
    Value::Object(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(note: &Value, expected: Option<&Remark>) {
        let read = Remark::read(note.as_object().unwrap());
        assert_eq!(read.as_ref(), expected, "{note}");
    }

    fn exited(key: &str, value: i64) -> Remark {
        Remark::Exited(Map::from_iter([(key.to_owned(), json!(value))]))
    }

    #[test]
    fn what_is_remarked_is_read_again() {
        let found = |basis| Remark::Found {
            child: ChildId::new("sa-0").unwrap(),
            ending: Ending {
                status: "interrupted".to_owned(),
                basis,
                details: Map::from_iter([("durationSeconds".to_owned(), json!(1.93))]),
            },
        };
        for remark in [
            Remark::Began(Timestamp::UNIX_EPOCH),
            Remark::Disconnected,
            found(TRANSCRIPT),
            found(MANIFEST),
            exited("gatewaySignal", 9),
        ] {
            check(&remark.to_json(), Some(&remark));
        }
    }

    #[test]
    fn notes_of_other_recorders_are_read() {
        let broke = json!({"note": "ws closed", "conn": "c3", "code": 1006});
        check(&broke, Some(&Remark::Disconnected));
        let killed = json!({"note": "exit", "code": -9});
        check(&killed, Some(&exited("gatewaySignal", 9)));
        let ended = json!({"note": "serve exit", "code": 0});
        check(&ended, Some(&exited("gatewayExitCode", 0)));
        for nothing in [
            json!({"note": "ws closed", "code": 1000}),
            json!({"note": "spawned", "pid": 7}),
            json!({"note": "transcript", "child": "", "status": "failed"}),
            json!({"note": "transcript", "child": "sa-0"}),
            json!({"at": "noon"}),
            json!({}),
        ] {
            check(&nothing, None);
        }
    }

    #[test]
    fn what_is_recorded_is_read_as_what_was_received() {
        let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
        let (mut events, mut answers) = (0, 0);
        for version in ["v0.19.0", "v0.22.2-iot"] {
            for entry in std::fs::read_dir(fixtures.join(version)).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    continue;
                }
                for line in std::fs::read_to_string(&path).unwrap().lines() {
                    match frame::decode(line.as_bytes()) {
                        Some(Ok(Frame::Event(event))) if is_told(&event) => {
                            let again = frame::decode(event_json(&event).to_string().as_bytes());
                            assert_eq!(again, Some(Ok(Frame::Event(event))), "{line}");
                            events += 1;
                        }
                        Some(Ok(Frame::Response { outcome, .. })) => {
                            let told = outcome.map(|result| super::told(&result));
                            if let Ok(told) = told {
                                assert_eq!(super::told(&told), told, "{line}");
                                answers += 1;
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
        assert!(events > 300 && answers > 100, "{events}, {answers}");
    }
}
