//! A gateway for tests: answers as gateway 0.19 or 0.22 does, over a real pipe or a real WebSocket,
//! and misbehaves on demand.
//!
//! Only with the feature `scripted`. It delegates nothing by itself: a test says which children
//! begin, work and end, or which recording is played.

mod stdio;
mod websocket;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

pub use stdio::{STEPS, Step, run_process};
pub use websocket::Served;

/// Which gateway it behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// No `seq`, no replay, no lists of children, no owners of sessions.
    V0_19,
    /// All of them.
    V0_22,
}

/// What it does wrong. For tests only, so that a new fault may break a literal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
pub struct Faults {
    /// It answers no request.
    pub silent: bool,
    /// Methods that it does not know.
    pub unknown: Vec<&'static str>,
    /// Methods whose parameters it refuses, with code 4000.
    pub refuses: Vec<&'static str>,
    /// Every session belongs to another connection: code 4001.
    pub owns_nothing: bool,
    /// It lists no child, as under turn isolation.
    pub blind: bool,
    /// It interrupts nobody, though it says so.
    pub ignores_interrupts: bool,
    /// It has forgotten the events that it would have to replay.
    pub forgetful: bool,
}

/// The scripted gateway. Clones share it.
#[derive(Debug, Clone)]
pub struct Gateway {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    version: Version,
    epoch: String,
    faults: Faults,
    /// The running children, by id.
    children: BTreeMap<String, Child>,
    /// How recent children ended that did not complete.
    ended: Vec<Value>,
    next_child: u64,
    /// All events, by session.
    events: BTreeMap<String, Vec<Value>>,
    clients: Vec<mpsc::UnboundedSender<Output>>,
    asked: Vec<(String, Value)>,
}

#[derive(Debug, Clone)]
struct Child {
    session: String,
    facts: Map<String, Value>,
}

/// What a client of it is sent.
#[derive(Debug, Clone)]
enum Output {
    Line(String),
    Bytes(Vec<u8>),
    Hang,
}

impl Gateway {
    /// A gateway with no children.
    ///
    /// ```
    /// use headcount_adapter_hermes::scripted::{Gateway, Version};
    /// let gateway = Gateway::new(Version::V0_22);
    /// let child = gateway.start("s1", None, "look around");
    /// gateway.complete(&child, "completed");
    /// assert_eq!(gateway.running(), Vec::<String>::new());
    /// ```
    pub fn new(version: Version) -> Self {
        let state = State {
            version,
            epoch: format!("{:032x}", fastrand::u128(..)),
            faults: Faults::default(),
            children: BTreeMap::new(),
            ended: Vec::new(),
            next_child: 0,
            events: BTreeMap::new(),
            clients: Vec::new(),
            asked: Vec::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// From now on it does this wrong, and nothing else.
    pub fn misbehave(&self, faults: Faults) {
        self.lock().faults = faults;
    }

    /// It is another process now: its children are gone, and its counters begin anew. Connections
    /// are not cut by this.
    pub fn new_life(&self) {
        let mut state = self.lock();
        state.epoch = format!("{:032x}", fastrand::u128(..));
        state.children.clear();
        state.ended.clear();
        state.events.clear();
    }

    /// Cuts all connections, without a closing handshake.
    pub fn hang_up(&self) {
        let mut state = self.lock();
        for client in state.clients.drain(..) {
            let _ = client.send(Output::Hang);
        }
    }

    /// How often a method was asked for.
    pub fn asked(&self, method: &str) -> usize {
        self.lock()
            .asked
            .iter()
            .filter(|(asked, _)| asked == method)
            .count()
    }

    /// Whether a method was asked for with exactly these parameters.
    pub fn was_asked(&self, method: &str, params: &Value) -> bool {
        let state = self.lock();
        let mut asked = state.asked.iter();
        asked.any(|(name, with)| name == method && with == params)
    }

    /// How many connections there are.
    pub fn clients(&self) -> usize {
        self.lock()
            .clients
            .iter()
            .filter(|client| !client.is_closed())
            .count()
    }

    /// The ids of its running children.
    pub fn running(&self) -> Vec<String> {
        self.lock().children.keys().cloned().collect()
    }

    /// A child of a session, or of another child, begins; returns its id.
    pub fn start(&self, session: &str, parent: Option<&str>, goal: &str) -> String {
        let mut state = self.lock();
        let number = state.next_child;
        state.next_child += 1;
        let id = format!("sa-0-{number:08x}");
        state.start(&id, session, parent, goal);
        id
    }

    /// A child with this id begins, whoever else has it.
    pub fn start_as(&self, id: &str, session: &str, goal: &str) {
        self.lock().start(id, session, None, goal);
    }

    /// A child begins and tells nobody, as with `display.tool_progress=off`.
    pub fn start_unseen(&self, session: &str, goal: &str) -> String {
        let mut state = self.lock();
        let number = state.next_child;
        state.next_child += 1;
        let id = format!("sa-0-{number:08x}");
        let facts = state.facts(&id, None, goal);
        state.children.insert(
            id.clone(),
            Child {
                session: session.to_owned(),
                facts,
            },
        );
        id
    }

    /// A child uses a tool.
    pub fn tool(&self, id: &str, tool: &str, preview: &str) {
        let more = json!({"tool_name": tool, "tool_preview": preview, "text": preview});
        let mut state = self.lock();
        if let Some(child) = state.children.get_mut(id) {
            let count = child
                .facts
                .get("tool_count")
                .and_then(Value::as_u64)
                .unwrap_or(0)
                + 1;
            child.facts.insert("tool_count".to_owned(), json!(count));
            child.facts.insert("last_tool".to_owned(), json!(tool));
        }
        state.tell(id, "subagent.tool", &more);
    }

    /// A child says how far it is.
    pub fn progress(&self, id: &str, text: &str) {
        self.lock()
            .tell(id, "subagent.progress", &json!({"text": text}));
    }

    /// A child says what it thinks.
    pub fn thinking(&self, id: &str, text: &str) {
        self.lock()
            .tell(id, "subagent.thinking", &json!({"text": text}));
    }

    /// A child ends.
    pub fn complete(&self, id: &str, status: &str) {
        self.complete_with(
            id,
            &json!({"status": status, "summary": "Done.", "duration_seconds": 1.5,
            "input_tokens": 12, "output_tokens": 3, "api_calls": 1}),
        );
    }

    /// A child ends, with these members of the event.
    pub fn complete_with(&self, id: &str, more: &Value) {
        let mut state = self.lock();
        state.tell(id, "subagent.complete", more);
        state.forget(
            id,
            more.get("status")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
    }

    /// A child ends and nobody is told.
    pub fn vanish(&self, id: &str, status: &str) {
        self.lock().forget(id, status);
    }

    /// A session asks a person to approve a command.
    pub fn approval(&self, session: &str, command: &str) {
        self.event("approval.request", session, &json!({"command": command}));
    }

    /// Any event of a session.
    pub fn event(&self, kind: &str, session: &str, payload: &Value) {
        self.lock().event(kind, session, payload);
    }

    /// A line that it would never write, without the line end.
    pub fn line(&self, line: impl Into<String>) {
        self.lock().send(&Output::Line(line.into()));
    }

    /// Bytes as they are, with no line end. A WebSocket carries them as one binary message.
    pub fn bytes(&self, bytes: impl Into<Vec<u8>>) {
        self.lock().send(&Output::Bytes(bytes.into()));
    }

    /// Plays the events of a recording of a real gateway. Requests are answered from what they
    /// say, not from what was recorded.
    ///
    /// # Errors
    ///
    /// If the recording cannot be read.
    pub fn play(&self, recording: &Path) -> std::io::Result<()> {
        let text = std::fs::read_to_string(recording)?;
        for line in text.lines() {
            let Ok(Value::Object(frame)) = serde_json::from_str(line) else {
                continue;
            };
            let Some(Value::Object(params)) = frame.get("params") else {
                continue;
            };
            let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
            let payload = params.get("payload").cloned().unwrap_or_else(|| json!({}));
            match text("type") {
                "" | "gateway.ready" => {}
                kind => self.lock().replay(kind, text("session_id"), &payload),
            }
        }
        Ok(())
    }

    /// The frame with which it greets a client.
    fn greeting(&self) -> String {
        let state = self.lock();
        let payload = match state.version {
            Version::V0_19 => json!({}),
            Version::V0_22 => json!({"replay_epoch": state.epoch, "heartbeat": true}),
        };
        json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "gateway.ready", "payload": payload}})
            .to_string()
    }

    /// One more client: what it is sent from now on, and where its answers go.
    fn client(
        &self,
    ) -> (
        mpsc::UnboundedSender<Output>,
        mpsc::UnboundedReceiver<Output>,
    ) {
        let (sender, receiver) = mpsc::unbounded_channel();
        self.lock().clients.push(sender.clone());
        (sender, receiver)
    }

    /// Answers a request. As with a real one, an answer never overtakes an event that it knows of.
    fn answer(&self, line: &str, client: &mpsc::UnboundedSender<Output>) {
        let request: Value = serde_json::from_str(line).unwrap_or_default();
        let method = request
            .get("method")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let id = request.get("id").cloned().unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        let mut state = self.lock();
        state.asked.push((method.to_owned(), params.clone()));
        if state.faults.silent {
            return;
        }
        let answer = match state.handle(method, &params) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        let _ = client.send(Output::Line(answer.to_string()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn facts(&self, id: &str, parent: Option<&str>, goal: &str) -> Map<String, Value> {
        let mut facts = Map::from_iter([
            ("subagent_id".to_owned(), json!(id)),
            ("depth".to_owned(), json!(u8::from(parent.is_some()))),
            ("goal".to_owned(), json!(goal)),
            ("model".to_owned(), json!("scripted")),
            ("task_index".to_owned(), json!(0)),
            ("task_count".to_owned(), json!(1)),
            ("tool_count".to_owned(), json!(0)),
        ]);
        if let Some(parent) = parent {
            facts.insert("parent_id".to_owned(), json!(parent));
        }
        if self.version == Version::V0_22 {
            facts.insert("delegation_id".to_owned(), json!(format!("deleg_{id}")));
        }
        facts
    }

    fn start(&mut self, id: &str, session: &str, parent: Option<&str>, goal: &str) {
        let facts = self.facts(id, parent, goal);
        self.children.insert(
            id.to_owned(),
            Child {
                session: session.to_owned(),
                facts,
            },
        );
        self.tell(id, "subagent.start", &json!({"text": goal}));
    }

    /// An event of a child, with its facts and more.
    fn tell(&mut self, id: &str, kind: &str, more: &Value) {
        let Some(Child { session, facts }) = self.children.get(id).cloned() else {
            return;
        };
        let mut payload = facts;
        payload.remove("last_tool");
        payload.extend(more.as_object().cloned().unwrap_or_default());
        self.event(kind, &session, &Value::Object(payload));
    }

    fn event(&mut self, kind: &str, session: &str, payload: &Value) {
        let events = self.events.entry(session.to_owned()).or_default();
        let mut params = json!({"type": kind, "session_id": session, "payload": payload});
        if self.version == Version::V0_22 {
            params["seq"] = json!(events.len() + 1);
        }
        events.push(params.clone());
        let frame = json!({"jsonrpc": "2.0", "method": "event", "params": params});
        self.send(&Output::Line(frame.to_string()));
    }

    /// A recorded event: the children that it tells of begin and end here, too.
    fn replay(&mut self, kind: &str, session: &str, payload: &Value) {
        let id = payload
            .get("subagent_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if kind == "subagent.start" {
            let mut facts = payload.as_object().cloned().unwrap_or_default();
            facts.remove("text");
            self.children.insert(
                id.clone(),
                Child {
                    session: session.to_owned(),
                    facts,
                },
            );
        }
        self.event(kind, session, payload);
        if kind == "subagent.complete" {
            self.forget(
                &id,
                payload
                    .get("status")
                    .and_then(Value::as_str)
                    .unwrap_or_default(),
            );
        }
    }

    fn forget(&mut self, id: &str, status: &str) {
        let Some(child) = self.children.remove(id) else {
            return;
        };
        if status != "completed" {
            let told = |key: &str| child.facts.get(key).cloned().unwrap_or(Value::Null);
            self.ended.push(
                json!({"delegation_id": told("delegation_id"), "task_index": told("task_index"),
                "status": status, "goal": told("goal"), "error": null}),
            );
        }
    }

    fn send(&mut self, output: &Output) {
        self.clients
            .retain(|client| client.send(output.clone()).is_ok());
    }

    fn handle(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        let new = matches!(method, "subagent.list" | "session.events.since");
        if self.faults.unknown.contains(&method) || (new && self.version == Version::V0_19) {
            return Err((-32601, format!("unknown method: {method}")));
        }
        if self.faults.refuses.contains(&method) {
            return Err((
                4000,
                format!("invalid params for {method}: Extra inputs are not permitted"),
            ));
        }
        let text = |key: &str| {
            params
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let session = text("session_id");
        let not_owned = (
            4001,
            "session not found or not owned by this transport".to_owned(),
        );
        match method {
            "session.create" => Ok(json!({"session_id": "s1", "stored_session_id": "stored-s1"})),
            "session.resume" | "subagent.list" | "session.events.since"
                if self.faults.owns_nothing =>
            {
                Err(not_owned)
            }
            "session.resume" => Ok(json!({
                "session_id": session.strip_prefix("stored-").unwrap_or(&session),
                "session_key": session, "resumed": session,
            })),
            "delegation.status" if params.as_object().is_some_and(|p| !p.is_empty()) => {
                Err((4000, "invalid params for delegation.status".to_owned()))
            }
            "delegation.status" => Ok(json!({"active": self.listed(None), "paused": false})),
            "subagent.list" => {
                Ok(json!({"subagents": self.listed(Some(&session)), "delegations": self.ended}))
            }
            "session.events.since" => Ok(self.since(&session, params)),
            "subagent.interrupt" => {
                let owned = !self.faults.owns_nothing && !session.is_empty();
                if self.version == Version::V0_22 && !owned {
                    return Err(not_owned);
                }
                let id = text("subagent_id");
                let found = self.children.contains_key(&id) && !self.faults.blind;
                if found && !self.faults.ignores_interrupts {
                    self.tell(
                        &id,
                        "subagent.complete",
                        &json!({"status": "interrupted", "duration_seconds": 0.5}),
                    );
                    self.forget(&id, "interrupted");
                }
                Ok(json!({"found": found, "subagent_id": id}))
            }
            _ => Err((-32601, format!("unknown method: {method}"))),
        }
    }

    fn listed(&self, session: Option<&str>) -> Vec<Value> {
        let children = self.children.values().filter(|_| !self.faults.blind);
        let children =
            children.filter(|child| session.is_none_or(|wanted| wanted == child.session));
        children
            .map(|child| {
                let mut entry = child.facts.clone();
                entry.insert("status".to_owned(), json!("running"));
                entry.insert("started_at".to_owned(), json!(1_796_058_328.5));
                entry.entry("parent_id").or_insert(Value::Null);
                for key in ["child_session_id", "task_index", "task_count", "toolsets"] {
                    entry.remove(key);
                }
                Value::Object(entry)
            })
            .collect()
    }

    fn since(&self, session: &str, params: &Value) -> Value {
        let last_seen = params.get("last_seen").and_then(Value::as_u64).unwrap_or(0);
        let all = self
            .events
            .get(session)
            .map(Vec::as_slice)
            .unwrap_or_default();
        let skip = usize::try_from(last_seen).unwrap_or(usize::MAX);
        let forgotten = usize::from(self.faults.forgetful);
        let missed: Vec<_> = all.iter().skip(skip).skip(forgotten).collect();
        json!({"events": missed, "latest_seq": all.len(), "truncated": self.faults.forgetful, "epoch": self.epoch})
    }
}
