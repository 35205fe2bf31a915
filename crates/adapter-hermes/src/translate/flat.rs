//! Records without an envelope, as hosts of the contract's Hermes foundation hand them in.

use headcount_contract::{ChildState, Timestamp};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::string;
use super::outcome::state;

impl Translator {
    /// A flat lifecycle record: `child_id` or `subagent_id`, `session_id` or `child_session_id`, and
    /// a kind or a status.
    pub(super) fn flat(&mut self, record: &Map<String, Value>, at: Timestamp) {
        if !self.is_open() {
            self.ready(None);
        }
        let session = string(record, "session_id").or_else(|| string(record, "child_session_id"));
        let first = |keys: [&str; 3]| keys.into_iter().find_map(|key| string(record, key));
        let kind = first(["kind", "type", "event"]).map(|kind| {
            kind.rsplit_once('.')
                .map_or(kind, |(_, last)| last)
                .to_ascii_lowercase()
        });
        let status = string(record, "status").or_else(|| string(record, "state"));
        let what = match kind.as_deref() {
            Some("start" | "started") => "start",
            Some("spawn_requested") => "spawn_requested",
            Some("tool") => "tool",
            Some("progress" | "activity") => "progress",
            Some("thinking") => "thinking",
            Some("heartbeat") => "heartbeat",
            Some("complete" | "terminal") if status.is_some() => "complete",
            // The kind itself is the status: complete, failed, active, waiting, …
            Some(word) if state(word).is_some() => {
                return self.flat_state(word, record, session, at);
            }
            _ => match (status, &kind) {
                (Some(status), _) => return self.flat_state(status, record, session, at),
                (None, Some(word)) => return self.flat_state(word, record, session, at),
                (None, None) => return self.count("flat_records_without_a_kind"),
            },
        };
        let session = session.map(str::to_owned);
        if what == "heartbeat" {
            return self.flat_state("running", record, session.as_deref(), at);
        }
        let mut payload = record.clone();
        if let Some(status) = status {
            payload.insert("status".to_owned(), json!(status));
        }
        self.flat_event(what, session.as_deref(), &payload, at);
    }

    /// A record that names a state. A word that is not understood ends the child as failed.
    fn flat_state(
        &mut self,
        word: &str,
        record: &Map<String, Value>,
        session: Option<&str>,
        at: Timestamp,
    ) {
        let mut payload = record.clone();
        payload.insert("status".to_owned(), json!(word));
        match state(word) {
            Some(ChildState::Terminal(_)) | None => {
                self.flat_event("complete", session, &payload, at);
            }
            Some(ChildState::CREATED) => self.flat_event("spawn_requested", session, &payload, at),
            Some(ChildState::RUNNING) => self.flat_event("start", session, &payload, at),
            Some(told) => {
                self.flat_event("spawn_requested", session, &payload, at);
                let raw = ["subagent_id", "child_id"]
                    .into_iter()
                    .find_map(|key| string(record, key));
                let id = raw.and_then(|raw| self.resolve(raw, session));
                if let Some(id) = id.filter(|id| self.live.contains(id)) {
                    self.move_to(&id, told, at);
                }
            }
        }
    }

    fn flat_event(
        &mut self,
        what: &str,
        session: Option<&str>,
        payload: &Map<String, Value>,
        at: Timestamp,
    ) {
        if let Some(id) = session
            && self.session(id).is_none()
        {
            return self.count("sessions_refused");
        }
        let seq = payload.get("seq").and_then(Value::as_u64);
        self.subagent(what, session, seq, payload, at);
    }
}
