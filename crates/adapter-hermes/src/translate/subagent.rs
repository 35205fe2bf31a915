//! The `subagent.*` events.

use headcount_contract::{Activity, ChildId, ChildState, EventKind, Timestamp};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::{self, cut, string};
use super::outcome::{is_suspect, outcome};

impl Translator {
    /// One event of a child.
    pub(super) fn subagent(
        &mut self,
        what: &str,
        session: Option<&str>,
        seq: Option<u64>,
        payload: &Map<String, Value>,
        at: Timestamp,
    ) {
        let raw = ["subagent_id", "child_id", "child_session_id"]
            .into_iter()
            .find_map(|key| string(payload, key));
        let Some(raw) = raw else {
            return self.count("events_without_a_child");
        };
        let Some(id) = self.resolve(raw, session) else {
            return self.count("ids_illegal");
        };
        let ended = self.children.get(&id).is_some_and(|child| !child.is_live());
        if ended {
            return self.count("events_after_the_end");
        }
        let is_new = !self.children.contains_key(&id);
        if is_new
            && !self.meet(
                &id,
                raw,
                string(payload, "parent_id"),
                session,
                ChildState::CREATED,
            )
        {
            return;
        }
        if let Some(child) = self.children.get_mut(&id) {
            child.facts.learn(payload);
            child.seen_in_events = true;
            child.joined_midway |= is_new && !matches!(what, "start" | "spawn_requested");
            if child.session.is_none() {
                child.session = session.map(str::to_owned);
            }
            if let Some(count) = payload.get("tool_count").and_then(Value::as_u64) {
                child.tool_count = Some(count);
            }
        }
        self.learn_delegation(&id);
        match what {
            "spawn_requested" => self.requested(&id, at),
            "start" if is_new => self.bring_up(&id, true, at),
            "start" => self.lives(&id, at),
            "tool" => self.tool(&id, payload, seq, at),
            "progress" => self.works(&id, string(payload, "text"), seq, at),
            "thinking" => self.thinks(&id, string(payload, "text"), seq, at),
            "complete" => self.complete(&id, payload, seq, at),
            _ => {
                self.count("subagent_types_unknown");
                self.lives(&id, at);
            }
        }
    }

    /// It is known to exist, and nothing more.
    fn requested(&mut self, id: &ChildId, at: Timestamp) {
        let Some(child) = self.children.get(id) else {
            return;
        };
        if child.sequence.is_none() {
            let details = child.details();
            self.emit(id, EventKind::Created, details, None, at);
        }
    }

    /// It lives; if it was not known to run, it is now.
    pub(super) fn lives(&mut self, id: &ChildId, at: Timestamp) {
        let Some(child) = self.children.get(id) else {
            return;
        };
        match child.state {
            ChildState::RUNNING => {
                let details = Map::new();
                self.emit(id, EventKind::Heartbeat, details, None, at);
            }
            _ => self.bring_up(id, true, at),
        }
    }

    /// It works on something; one that waited has been let go on.
    pub(super) fn works(
        &mut self,
        id: &ChildId,
        text: Option<&str>,
        seq: Option<u64>,
        at: Timestamp,
    ) {
        let Some(child) = self.children.get(id) else {
            return;
        };
        if child.state == ChildState::WAITING {
            self.bring_up(id, false, at);
        } else if child.state != ChildState::RUNNING {
            self.bring_up(id, true, at);
        }
        let mut details = Map::new();
        if let Some(seq) = seq {
            details.insert("rawSeq".to_owned(), json!(seq));
        }
        match text {
            Some(text) => {
                let activity = Some(Activity::new(text));
                self.emit(id, EventKind::Activity, details, activity, at);
            }
            None => self.emit(id, EventKind::Heartbeat, details, None, at),
        }
    }

    fn tool(
        &mut self,
        id: &ChildId,
        payload: &Map<String, Value>,
        seq: Option<u64>,
        at: Timestamp,
    ) {
        let name = string(payload, "tool_name");
        // Newer gateways send the key of a text instead of the text.
        let preview = string(payload, "tool_preview")
            .or_else(|| string(payload, "text"))
            .filter(|preview| !preview.starts_with("display.preview."));
        if let Some(child) = self.children.get_mut(id) {
            child.last_tool = name.map(cut);
            child.last_command = preview.map(str::to_owned);
        }
        let text = match (name, preview) {
            (Some(name), Some(preview)) => Some(format!("{name}: {preview}")),
            (one, other) => one.or(other).map(str::to_owned),
        };
        self.works(id, text.as_deref(), seq, at);
    }

    /// Mostly the text of a spinner: a sign of life. That it waits for its provider is worth
    /// telling.
    fn thinks(&mut self, id: &ChildId, text: Option<&str>, seq: Option<u64>, at: Timestamp) {
        self.works(id, text.filter(|text| text.starts_with('⏳')), seq, at);
    }

    fn complete(
        &mut self,
        id: &ChildId,
        payload: &Map<String, Value>,
        seq: Option<u64>,
        at: Timestamp,
    ) {
        let status = string(payload, "status");
        let (outcome, understood) = outcome(status);
        let mut details = child::end_details(payload);
        details.insert("rawStatus".to_owned(), json!(status));
        if let Some(seq) = seq {
            details.insert("rawSeq".to_owned(), json!(seq));
        }
        let tokens = |key| payload.get(key).and_then(Value::as_u64);
        let used = tokens("input_tokens").zip(tokens("output_tokens"));
        let used = used.map(|(i, o)| i.saturating_add(o));
        if is_suspect(outcome, used, string(payload, "summary")) {
            details.insert("outcomeSuspect".to_owned(), json!(true));
        }
        if !understood {
            self.not_understood(id, status, at);
        }
        self.end(id, outcome, details, at);
    }

    /// A status that is taken for a failure, or for life, though it means something else.
    pub(super) fn not_understood(&mut self, id: &ChildId, status: Option<&str>, at: Timestamp) {
        self.count("statuses_unknown");
        let details = Map::from_iter([
            ("problem".to_owned(), json!("status_not_understood")),
            ("rawStatus".to_owned(), json!(status.map(cut))),
        ]);
        self.emit(id, EventKind::Diagnostic(None), details, None, at);
    }
}
