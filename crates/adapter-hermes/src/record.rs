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

use headcount_contract::{AdapterError, AdapterErrorKind, Timestamp};
use serde_json::{Map, Value, json};

use crate::frame::{self, EventFrame, Frame};

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
        recorder.line(
            "note",
            began,
            &json!({"note": "record of a Hermes gateway", "at": began}),
        );
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

    /// Records why a connection ended.
    pub(crate) fn note(&self, note: &str, at: Timestamp) {
        self.line("note", at, &json!({"note": note}));
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
