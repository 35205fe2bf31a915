//! The frames of a gateway: newline-delimited JSON-RPC 2.0, read in chunks of any size.
//!
//! Unknown types, methods and fields are let through; what is no frame at all is counted by class.
//! A payload is kept only where the translation needs it, so that prompts and other private texts
//! (`session.info` holds the system prompt) are gone as soon as the line has been read.

mod decoder;

use std::fmt;

use serde_json::{Map, Value};

pub(crate) use self::decoder::decode_object;
pub use self::decoder::{FrameDecoder, decode};

/// The longest frame by default, in bytes.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 8 << 20;

/// One thing that a gateway, or a host that hands in flat records, has said.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Frame {
    /// `{"method":"event","params":{"type":…}}`.
    Event(EventFrame),
    /// The answer to a request of ours.
    Response {
        /// The id of the request; a number is written as text.
        id: String,
        /// The result, or what the gateway refused.
        outcome: Result<Value, RpcError>,
    },
    /// The gateway asks something: a frame with both an id and a method. It is never answered,
    /// since whoever drives the session has to.
    Request {
        /// Its id.
        id: String,
        /// What it asks.
        method: String,
        /// With what; kept for approvals only.
        params: Map<String, Value>,
    },
    /// A notification that is no event.
    Notification {
        /// Its method.
        method: String,
    },
    /// A lifecycle record without an envelope, as hosts of the contract's foundation write them.
    Flat(Map<String, Value>),
    /// A snapshot record without an envelope: `delegations` or `active`.
    FlatSnapshot(Map<String, Value>),
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EventFrame {
    /// Its type, such as `subagent.start`.
    pub kind: String,
    /// The live id of the top-level session it belongs to.
    pub session: Option<String>,
    /// Its position among all events of that session, from gateway 0.20.6 on.
    pub seq: Option<u64>,
    /// What it carries; empty for types that the translation does not read.
    pub payload: Map<String, Value>,
}

/// An error answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpcError {
    /// The JSON-RPC code, 0 if there was none.
    pub code: i64,
    /// Its message, cut at 300 characters.
    pub message: String,
}

impl RpcError {
    /// The gateway does not know the method.
    pub const UNKNOWN_METHOD: i64 = -32601;
    /// The gateway does not accept these parameters.
    pub const INVALID_PARAMS: i64 = 4000;
    /// The session does not exist, or belongs to another connection.
    pub const NOT_OWNED: i64 = 4001;
}

/// Why a line is no frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FrameFault {
    /// Longer than the limit.
    Oversized,
    /// Not UTF-8.
    InvalidUtf8,
    /// Not JSON, or nested too deep.
    MalformedJson,
    /// JSON, but neither JSON-RPC nor a flat record.
    NotAFrame,
    /// The input ended within the line.
    Truncated,
}

impl FrameFault {
    /// The name of its count in [`Health`](headcount_contract::Health).
    pub const fn count(self) -> &'static str {
        match self {
            Self::Oversized => "frames_oversized",
            Self::InvalidUtf8 => "frames_invalid_utf8",
            Self::MalformedJson => "frames_malformed",
            Self::NotAFrame => "frames_unrecognised",
            Self::Truncated => "frames_truncated",
        }
    }
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Oversized => "a line longer than the limit",
            Self::InvalidUtf8 => "a line that is not UTF-8",
            Self::MalformedJson => "a line that is not JSON",
            Self::NotAFrame => "a line that is no JSON-RPC frame",
            Self::Truncated => "an unfinished last line",
        })
    }
}

/// A frame, or why a line is none.
pub type Decoded = Result<Frame, FrameFault>;

/// Says what a JSON object is.
///
/// # Errors
///
/// [`FrameFault::NotAFrame`] if it is neither JSON-RPC nor a flat record.
pub fn classify(mut object: Map<String, Value>) -> Decoded {
    let id = object.get("id").and_then(id_text);
    if let Some(Value::String(method)) = object.remove("method") {
        let params = match object.remove("params") {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        };
        return match id {
            None if method == "event" => event(params).map(Frame::Event),
            None => Ok(Frame::Notification { method }),
            Some(id) => Ok(Frame::Request {
                params: if method.starts_with("approval") {
                    params
                } else {
                    Map::new()
                },
                id,
                method,
            }),
        };
    }
    if let Some(id) = id {
        if let Some(result) = object.remove("result") {
            let outcome = Ok(result);
            return Ok(Frame::Response { id, outcome });
        }
        if let Some(error) = object.remove("error") {
            let outcome = Err(rpc_error(&error));
            return Ok(Frame::Response { id, outcome });
        }
    }
    if object.contains_key("delegations") || object.contains_key("active") {
        return Ok(Frame::FlatSnapshot(object));
    }
    if object.contains_key("child_id") || object.contains_key("subagent_id") {
        return Ok(Frame::Flat(object));
    }
    Err(FrameFault::NotAFrame)
}

/// The event in the `params` of an event frame, as `session.events.since` lists them too.
///
/// # Errors
///
/// [`FrameFault::NotAFrame`] if it has no type.
pub fn event(mut params: Map<String, Value>) -> Result<EventFrame, FrameFault> {
    let Some(Value::String(kind)) = params.remove("type") else {
        return Err(FrameFault::NotAFrame);
    };
    let session = match params.remove("session_id") {
        Some(Value::String(session)) if !session.is_empty() => Some(session),
        _ => None,
    };
    let seq = params.get("seq").and_then(Value::as_u64);
    let payload = match params.remove("payload") {
        Some(Value::Object(payload)) => needed(&kind, payload),
        _ => Map::new(),
    };
    Ok(EventFrame {
        kind,
        session,
        seq,
        payload,
    })
}

/// The part of a payload that the translation reads. Of such a part it leaves everything, so that a
/// record is read as the frames were.
fn needed(kind: &str, mut payload: Map<String, Value>) -> Map<String, Value> {
    let keep: &[&str] = match kind {
        "gateway.ready" => &["replay_epoch", "heartbeat"],
        "session.info" => &["version"],
        "tool.complete" if payload.get("name").is_some_and(|n| n == "delegate_task") => {
            if let Some(Value::Object(result)) = payload.get_mut("result") {
                result.retain(|key, _| matches!(key.as_str(), "delegation_id" | "goals"));
            }
            &["name", "result"]
        }
        _ if kind.starts_with("subagent.") => return payload,
        _ if kind.starts_with("approval") => &["command", "request_id", "id", "approval_id"],
        _ => &[],
    };
    payload.retain(|key, _| keep.contains(&key.as_str()));
    payload
}

fn id_text(id: &Value) -> Option<String> {
    match id {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

fn rpc_error(error: &Value) -> RpcError {
    let message = error.get("message").and_then(Value::as_str);
    RpcError {
        code: error.get("code").and_then(Value::as_i64).unwrap_or(0),
        message: message.unwrap_or("no message").chars().take(300).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(line: &str) -> Vec<Decoded> {
        let (mut decoder, mut read) = (FrameDecoder::new(4096), Vec::new());
        decoder.push(format!("{line}\n").as_bytes(), &mut read);
        read
    }

    fn check(line: &str, expected: &str) {
        let shown: Vec<_> = read(line)
            .iter()
            .map(|decoded| match decoded {
                Ok(Frame::Event(e)) => format!("event {} {:?} {:?}", e.kind, e.session, e.seq),
                Ok(Frame::Response { id, outcome: Ok(_) }) => format!("result of {id}"),
                Ok(Frame::Response {
                    id,
                    outcome: Err(e),
                }) => format!("error {} of {id}", e.code),
                Ok(Frame::Request { id, method, .. }) => format!("request {id} {method}"),
                Ok(Frame::Notification { method }) => format!("notification {method}"),
                Ok(Frame::Flat(_)) => "flat".into(),
                Ok(Frame::FlatSnapshot(_)) => "flat snapshot".into(),
                Err(fault) => fault.count().into(),
            })
            .collect();
        assert_eq!(shown.join(", "), expected, "{line}");
    }

    #[test]
    fn every_line_is_classed() {
        let event = r#"{"jsonrpc":"2.0","method":"event","params":"#;
        check(
            &format!(r#"{event}{{"type":"x.y","session_id":"s","seq":9}}}}"#),
            r#"event x.y Some("s") Some(9)"#,
        );
        check(
            &format!(r#"{event}{{"type":"sessions.changed","session_id":""}}}}"#),
            "event sessions.changed None None",
        );
        check(
            &format!(r#"{event}{{"session_id":"s"}}}}"#),
            "frames_unrecognised",
        );
        check(r#"{"id":"r1","result":{}}"#, "result of r1");
        check(
            r#"{"id":7,"error":{"code":-32601,"message":"unknown method: x"}}"#,
            "error -32601 of 7",
        );
        check(r#"{"id":"7","error":"odd"}"#, "error 0 of 7");
        check(
            r#"{"id":"q1","method":"clarify.request","params":{}}"#,
            "request q1 clarify.request",
        );
        check(
            r#"{"id":"q1","method":"event","params":{"type":"subagent.start"}}"#,
            "request q1 event",
        );
        check(r#"{"method":"ping"}"#, "notification ping");
        check(r#"{"child_id":"a","status":"active"}"#, "flat");
        check(r#"{"delegations":[],"complete":true}"#, "flat snapshot");
        check(r#"{"id":"r1"}"#, "frames_unrecognised");
        check("[1]", "frames_unrecognised");
        check("2026-11-30 INFO starting", "frames_malformed");
        check("", "");
        check("  \r", "");
        check(&"[".repeat(4000), "frames_malformed");
        check(&"x".repeat(4097), "frames_oversized");
    }

    #[test]
    fn private_texts_are_gone_once_the_line_is_read() {
        let line = json!({"method": "event", "params": {"type": "session.info", "session_id": "s",
            "payload": {"system_prompt": "be kind", "version": "0.19.0"}}});
        let [Ok(Frame::Event(event))] = &read(&line.to_string())[..] else {
            panic!()
        };
        assert_eq!(
            Value::Object(event.payload.clone()),
            json!({"version": "0.19.0"})
        );
        let line = json!({"method": "event", "params": {"type": "message.delta", "payload": {"text": "x"}}});
        let [Ok(Frame::Event(event))] = &read(&line.to_string())[..] else {
            panic!()
        };
        assert!(event.payload.is_empty());
    }
}
