//! Plays what a gateway has sent, line by line. Pure.

use std::collections::HashMap;
use std::time::Duration;

use headcount_contract::{
    Capability, DiscontinuityCause, Gap, Sequence, Signal, SourceEpoch, SourceId, SourceIdentity,
    Timestamp,
};
use serde_json::{Map, Value};

use crate::frame::{self, Decoded, Frame, RpcError};
use crate::record::Remark;
use crate::translate::{Output, Ready, Translator};

/// How many requests of the host wait for their recorded answers.
const ASKED_MAX: usize = 4096;

/// Reads the lines of a record.
#[derive(Debug)]
pub(super) struct Player {
    translator: Translator,
    /// Names the gateway's lives where it does not name them itself.
    name: String,
    connections: u64,
    /// What the host's requests named, by request id.
    asked: HashMap<String, Asked>,
    /// When the record began.
    began: Timestamp,
    /// When the last line happened.
    last: Option<Timestamp>,
}

/// A request of the host.
#[derive(Debug, Default)]
struct Asked {
    params: Map<String, Value>,
    /// How many children had been met by then.
    met: u64,
}

/// One line of a record.
struct Line {
    /// Since the record began, if the line tells.
    after: Option<Duration>,
    content: Content,
}

enum Content {
    Frame(Frame),
    /// A request of the host.
    Asked {
        id: String,
        params: Map<String, Value>,
    },
    /// A remark of whoever recorded.
    Note(Map<String, Value>),
}

impl Player {
    pub(super) fn new(source: SourceId, name: &str, began: Timestamp) -> Self {
        let mut translator = Translator::new(source, epoch(name, 1), Sequence::ZERO);
        translator.polling(Capability::Known);
        Self {
            translator,
            name: name.to_owned(),
            connections: 1,
            asked: HashMap::new(),
            began,
            last: None,
        }
    }

    pub(super) fn identity(&self) -> SourceIdentity {
        self.translator.identity()
    }

    /// Plays one line that was read at `now`; a line that tells its own time has that one.
    pub(super) fn line(&mut self, line: &[u8], now: Timestamp) -> Output {
        match parse(line) {
            None => Output::default(),
            Some(Ok(line)) => {
                let at = line
                    .after
                    .map_or(now, |after| self.began.saturating_add(after));
                self.last = Some(at);
                self.content(line.content, at);
                self.translator.take()
            }
            Some(Err(fault)) => {
                let mut output = self.translator.take();
                *output.counts.entry(fault.count()).or_default() += 1;
                output
            }
        }
    }

    /// The record has ended, and no more evidence will come: what has not ended is lost.
    pub(super) fn finish(&mut self, now: Timestamp) -> Output {
        let at = self.last.unwrap_or(now);
        self.gone("end_of_record", &Map::new(), at);
        self.translator.take()
    }

    /// No more evidence of the children that have not ended will come.
    fn gone(&mut self, basis: &'static str, facts: &Map<String, Value>, at: Timestamp) {
        if !self.translator.unfinished().is_empty() {
            self.translator
                .discontinuity(DiscontinuityCause::Disconnected, Gap::Possible);
        }
        self.translator.gateway_gone(basis, facts, at);
    }

    fn content(&mut self, content: Content, at: Timestamp) {
        match content {
            Content::Asked { id, params } => {
                if self.asked.len() < ASKED_MAX {
                    let met = self.translator.met();
                    self.asked.insert(id, Asked { params, met });
                }
            }
            Content::Note(note) => self.note(&note, at),
            Content::Frame(Frame::Response { id, outcome }) => self.response(&id, outcome, at),
            Content::Frame(frame) => self.frame(frame, at),
        }
    }

    fn frame(&mut self, frame: Frame, at: Timestamp) {
        let announces = matches!(&frame, Frame::Event(event) if event.kind == "gateway.ready");
        if announces && self.translator.is_open() {
            self.connections += 1;
            let fallback = epoch(&self.name, self.connections);
            self.translator.connected(fallback, Sequence::ZERO);
        }
        self.translator.frame(frame, at);
        if !announces {
            return;
        }
        let output = self.translator.take();
        match output.ready {
            Some(Ready::SameLife) => self
                .translator
                .discontinuity(DiscontinuityCause::Reconnected, Gap::Possible),
            Some(Ready::NewLife) => {
                self.translator
                    .gateway_gone("gateway_restarted", &Map::new(), at);
            }
            _ => {}
        }
        self.translator.put_back(output);
    }

    fn note(&mut self, note: &Map<String, Value>, at: Timestamp) {
        match Remark::read(note) {
            Some(Remark::Began(began)) => self.began = began,
            Some(Remark::Disconnected) => self
                .translator
                .discontinuity(DiscontinuityCause::Disconnected, Gap::Possible),
            Some(Remark::Found { child, ending }) => {
                self.translator.conclude(&child, ending, at);
            }
            Some(Remark::Exited(facts)) => self.gone("gateway_exit", &facts, at),
            None => {}
        }
    }

    /// An answer to what the host asked, or, where the record does not say what that was, to what
    /// the answer looks like.
    fn response(&mut self, id: &str, outcome: Result<Value, RpcError>, at: Timestamp) {
        let Asked { params, met } = self.asked.remove(id).unwrap_or_else(|| Asked {
            met: self.translator.met(),
            ..Asked::default()
        });
        let text = |map: &Map<String, Value>, key: &str| {
            map.get(key).and_then(Value::as_str).map(str::to_owned)
        };
        let session = text(&params, "session_id");
        let Ok(Value::Object(result)) = outcome else {
            return;
        };
        if let (Some(live), Some(stored)) = (
            text(&result, "session_id"),
            text(&result, "stored_session_id").or_else(|| text(&result, "session_key")),
        ) {
            self.translator.session_named(&live, Some(&stored));
        } else if result.contains_key("active") {
            if let Some(listing) = self.translator.status(&Value::Object(result), met, at) {
                self.translator
                    .volunteer(Signal::Snapshot(listing.snapshot));
            }
        } else if let Some(found) = result.get("found").and_then(Value::as_bool) {
            // What the gateway could cancel then, nobody can cancel through its record.
            let child = text(&result, "subagent_id").or_else(|| text(&params, "subagent_id"));
            let child = child.filter(|_| found);
            let child =
                child.and_then(|child| self.translator.child_of(&child, session.as_deref()));
            if let Some(child) = child {
                self.translator.cancel_accepted(&child);
            }
        } else if let Some(session) = session {
            if result.contains_key("events") {
                let result = Value::Object(result);
                let after = params.get("last_seen").and_then(Value::as_u64);
                let after = after.unwrap_or(0);
                self.translator.replayed(&session, after, Some(&result), at);
            } else if result.contains_key("subagents") {
                self.translator
                    .subagents(&session, &Value::Object(result), at);
            }
        }
    }
}

/// When a line of a trace happened, after its beginning.
pub(super) fn time_of(line: &[u8]) -> Option<Duration> {
    parse(line)?.ok()?.after
}

/// Reads one line of either form; nothing if it is blank.
fn parse(line: &[u8]) -> Option<Result<Line, frame::FrameFault>> {
    let decoded = frame::decode_object(line)?;
    Some(decoded.and_then(|mut object| {
        let is_trace = object.contains_key("frame") && object.contains_key("dir");
        if !is_trace {
            let content = Content::Frame(frame::classify(object)?);
            return Ok(Line {
                after: None,
                content,
            });
        }
        let after = object.get("t").and_then(Value::as_f64);
        let after = after.and_then(|t| Duration::try_from_secs_f64(t).ok());
        let content = match object.remove("frame") {
            Some(Value::Object(inner)) => traced(object.get("dir"), inner)?,
            _ => return Err(frame::FrameFault::NotAFrame),
        };
        Ok(Line { after, content })
    }))
}

/// In a trace, `out` is what the gateway put out and `in` what it was given.
fn traced(dir: Option<&Value>, frame: Map<String, Value>) -> Result<Content, frame::FrameFault> {
    let text = |key: &str| frame.get(key).and_then(Value::as_str).map(str::to_owned);
    match dir.and_then(Value::as_str) {
        Some("note") => Ok(Content::Note(frame)),
        Some("in") => match (text("id"), text("method")) {
            (Some(id), Some(_)) => Ok(Content::Asked {
                id,
                params: match frame.get("params") {
                    Some(Value::Object(params)) => params.clone(),
                    _ => Map::new(),
                },
            }),
            _ => Ok(Content::Note(Map::new())),
        },
        _ => {
            let decoded: Decoded = frame::classify(frame);
            decoded.map(Content::Frame)
        }
    }
}

fn epoch(name: &str, connection: u64) -> SourceEpoch {
    let text = format!("{name}-{connection}");
    #[allow(clippy::expect_used)] // the name is ours: short and without control characters
    SourceEpoch::new(text).expect("a legal identifier")
}
