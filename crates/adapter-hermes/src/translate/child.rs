//! What is known of one child.

use headcount_contract::{ChildId, ChildIdentity, ChildState, Details, Sequence};
use serde_json::{Map, Value, json};

/// The longest text kept of a goal, summary or command, in characters.
const TEXT: usize = 500;
/// How many names of files or tools are kept of a list.
const NAMES: usize = 32;

/// One child: where it stands, and what the gateway has told of it.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) identity: ChildIdentity,
    pub(super) state: ChildState,
    /// How many children had been met before it.
    pub(super) met_after: u64,
    /// The id that the gateway uses for it.
    pub(super) raw_id: String,
    /// The live id of the top-level session that its events come under.
    pub(super) session: Option<String>,
    /// An event of this connection named it.
    pub(super) seen_in_events: bool,
    /// What is known of it from before the first sighting is nothing.
    pub(super) joined_midway: bool,
    pub(super) facts: Facts,
    /// The last tool and what it was given.
    pub(super) last_tool: Option<String>,
    pub(super) last_command: Option<String>,
    pub(super) tool_count: Option<u64>,
    /// The position of its last event.
    pub(super) sequence: Option<Sequence>,
    /// Somebody asked the gateway to interrupt it.
    pub(super) cancel_requested: bool,
}

/// What the gateway says of a child besides its state.
#[derive(Debug, Default, Clone)]
pub(super) struct Facts {
    pub(super) goal: Option<String>,
    pub(super) model: Option<String>,
    pub(super) child_session: Option<String>,
    pub(super) owner_session: Option<String>,
    pub(super) delegation: Option<String>,
    pub(super) task_index: Option<u64>,
    pub(super) task_count: Option<u64>,
    pub(super) depth: Option<u64>,
    pub(super) started_at: Option<f64>,
    pub(super) toolsets: Vec<String>,
}

impl Child {
    pub(super) fn new(
        identity: ChildIdentity,
        state: ChildState,
        met_after: u64,
        raw_id: String,
        session: Option<String>,
    ) -> Self {
        Self {
            identity,
            state,
            met_after,
            raw_id,
            session,
            seen_in_events: false,
            joined_midway: false,
            facts: Facts::default(),
            last_tool: None,
            last_command: None,
            tool_count: None,
            sequence: None,
            cancel_requested: false,
        }
    }

    pub(super) fn id(&self) -> &ChildId {
        self.identity.id()
    }

    pub(super) fn is_live(&self) -> bool {
        !self.state.is_terminal()
    }

    /// The facts as details of an event.
    pub(super) fn details(&self) -> Map<String, Value> {
        let facts = &self.facts;
        let mut map = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                map.insert(key.to_owned(), value);
            }
        };
        put("sessionId", self.session.as_ref().map(|v| json!(v)));
        put(
            "subagentId",
            (self.raw_id != self.id().as_str()).then(|| json!(self.raw_id)),
        );
        put(
            "childSessionId",
            facts.child_session.as_ref().map(|v| json!(v)),
        );
        put(
            "ownerSessionId",
            facts.owner_session.as_ref().map(|v| json!(v)),
        );
        put("delegationId", facts.delegation.as_ref().map(|v| json!(v)));
        put("taskIndex", facts.task_index.map(Value::from));
        put("taskCount", facts.task_count.map(Value::from));
        put("depth", facts.depth.map(Value::from));
        put("goal", facts.goal.as_ref().map(|v| json!(v)));
        put("model", facts.model.as_ref().map(|v| json!(v)));
        put("startedAt", facts.started_at.map(Value::from));
        put(
            "toolsets",
            (!facts.toolsets.is_empty()).then(|| json!(facts.toolsets)),
        );
        put("history", self.joined_midway.then(|| json!("unknown")));
        map
    }
}

impl Facts {
    /// Takes what a payload or a listing tells; what it does not tell stays.
    pub(super) fn learn(&mut self, payload: &Map<String, Value>) {
        let text = |slot: &mut Option<String>, key: &str| {
            if let Some(told) = string(payload, key) {
                *slot = Some(cut(told));
            }
        };
        text(&mut self.goal, "goal");
        text(&mut self.model, "model");
        text(&mut self.child_session, "child_session_id");
        text(&mut self.owner_session, "owner_agent_session_id");
        text(&mut self.delegation, "delegation_id");
        let number = |slot: &mut Option<u64>, key: &str| {
            if let Some(told) = payload.get(key).and_then(Value::as_u64) {
                *slot = Some(told);
            }
        };
        number(&mut self.task_index, "task_index");
        number(&mut self.task_count, "task_count");
        number(&mut self.depth, "depth");
        if let Some(at) = payload.get("started_at").and_then(Value::as_f64) {
            self.started_at = Some(at);
        }
        let toolsets = names(payload, "toolsets");
        if !toolsets.is_empty() {
            self.toolsets = toolsets;
        }
    }
}

/// What the end of a child tells besides its status.
pub(super) fn end_details(payload: &Map<String, Value>) -> Map<String, Value> {
    let mut map = Map::new();
    for (key, name) in [
        ("duration_seconds", "durationSeconds"),
        ("input_tokens", "inputTokens"),
        ("output_tokens", "outputTokens"),
        ("reasoning_tokens", "reasoningTokens"),
        ("api_calls", "apiCalls"),
        ("tool_count", "toolCount"),
    ] {
        if let Some(number @ Value::Number(_)) = payload.get(key) {
            map.insert(name.to_owned(), number.clone());
        }
    }
    if let Some(summary) = string(payload, "summary").or_else(|| string(payload, "text")) {
        map.insert("summary".to_owned(), json!(cut(summary)));
    }
    for (key, name) in [
        ("files_read", "filesRead"),
        ("files_written", "filesWritten"),
    ] {
        let files = names(payload, key);
        if !files.is_empty() {
            map.insert(name.to_owned(), json!(files));
        }
    }
    map
}

/// A member that is a text and not empty.
pub(super) fn string<'a>(map: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    map.get(key)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
}

/// The text, cut at 500 characters.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

pub(super) fn details(parts: impl IntoIterator<Item = (&'static str, Value)>) -> Details {
    Details::from_iter(parts)
}

fn names(map: &Map<String, Value>, key: &str) -> Vec<String> {
    let Some(Value::Array(list)) = map.get(key) else {
        return Vec::new();
    };
    list.iter()
        .filter_map(Value::as_str)
        .take(NAMES)
        .map(cut)
        .collect()
}
