//! A gateway for tests: answers as gateway 0.19 or 0.22 does, over a real pipe or a real WebSocket,
//! and misbehaves on demand.
//!
//! Only with the feature `scripted`. It delegates nothing by itself: a test says which children
//! begin, work and end, or which recording is played.

mod faults;
mod state;
mod stdio;
mod step;
mod websocket;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::state::State;
pub use faults::Faults;
pub use stdio::{STEPS, run_process};
pub use step::Step;
pub use websocket::Served;

/// Which gateway it behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Version {
    /// No `seq`, no replay, no lists of children, no owners of sessions.
    #[serde(rename = "0.19")]
    V0_19,
    /// All of them.
    #[serde(rename = "0.22")]
    V0_22,
}

/// The scripted gateway. Clones share it.
#[derive(Debug, Clone)]
pub struct Gateway {
    state: Arc<Mutex<State>>,
}

/// What a client of it is sent.
#[derive(Debug, Clone)]
enum Output {
    Line(String),
    Bytes(Vec<u8>),
    /// The connection is cut.
    Cut,
    /// The same within this line.
    CutWithin(String),
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
        Self {
            state: Arc::new(Mutex::new(State::new(version))),
        }
    }

    /// From now on it does this wrong, and nothing else.
    pub fn misbehave(&self, faults: Faults) {
        self.lock().misbehave(faults);
    }

    /// It is another process now: its children are gone, and its counters begin anew. Connections
    /// are not cut by this.
    pub fn new_life(&self) {
        self.lock().begin_life();
    }

    /// Cuts all connections, without a closing handshake.
    pub fn hang_up(&self) {
        self.lock().cut(&Output::Cut);
    }

    /// Cuts all connections in the middle of this line.
    pub fn hang_up_within(&self, line: &str) {
        self.lock().cut(&Output::CutWithin(line.to_owned()));
    }

    /// How often a method was asked for.
    pub fn asked(&self, method: &str) -> usize {
        self.lock().times_asked(method)
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
        let id = state.new_id();
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
        let id = state.new_id();
        state.add(&id, session, None, goal);
        id
    }

    /// A child uses a tool.
    pub fn tool(&self, id: &str, tool: &str, preview: &str) {
        let more = json!({"tool_name": tool, "tool_preview": preview, "text": preview});
        let mut state = self.lock();
        state.count_tool(id, tool);
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
        state.forget(id, state::text(more, "status"));
    }

    /// A child ends, and its event is written to nobody, though it can be replayed.
    pub fn complete_unheard(&self, id: &str, status: &str) {
        let mut state = self.lock();
        let clients = std::mem::take(&mut state.clients);
        state.tell(id, "subagent.complete", &json!({"status": status}));
        state.clients = clients;
        state.forget(id, status);
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
            let Some(params @ Value::Object(_)) = frame.get("params") else {
                continue;
            };
            let payload = params.get("payload").cloned().unwrap_or_else(|| json!({}));
            match state::text(params, "type") {
                "" | "gateway.ready" => {}
                kind => {
                    let session = state::text(params, "session_id");
                    self.lock().replay(kind, session, &payload);
                }
            }
        }
        Ok(())
    }

    /// The frame with which it greets a client.
    fn greeting(&self) -> String {
        self.lock().greeting()
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
        self.lock().answer(&request, client);
    }

    /// Whether it writes one byte at a time.
    fn trickles(&self) -> bool {
        self.lock().faults.trickles
    }

    /// Whether nobody else has it.
    fn is_alone(&self) -> bool {
        Arc::strong_count(&self.state) == 1
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
