//! What a scripted gateway knows, and what it answers.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use super::{Faults, Output, Version};

#[derive(Debug)]
pub(super) struct State {
    version: Version,
    epoch: String,
    pub(super) faults: Faults,
    /// The running children, by id.
    pub(super) children: BTreeMap<String, Child>,
    /// How recent children ended that did not complete.
    ended: Vec<Value>,
    next_child: u64,
    /// All events, by session.
    pub(super) events: BTreeMap<String, Vec<Value>>,
    pub(super) clients: Vec<mpsc::UnboundedSender<Output>>,
    pub(super) asked: Vec<(String, Value)>,
    /// Answers that come late, and to whom.
    late: Vec<(mpsc::UnboundedSender<Output>, String)>,
}

#[derive(Debug, Clone)]
pub(super) struct Child {
    session: String,
    pub(super) facts: Map<String, Value>,
}

impl State {
    pub(super) fn new(version: Version) -> Self {
        Self {
            version,
            epoch: epoch(),
            faults: Faults::default(),
            children: BTreeMap::new(),
            ended: Vec::new(),
            next_child: 0,
            events: BTreeMap::new(),
            clients: Vec::new(),
            asked: Vec::new(),
            late: Vec::new(),
        }
    }

    pub(super) fn begin_life(&mut self) {
        self.epoch = epoch();
        self.children.clear();
        self.ended.clear();
        self.events.clear();
    }

    pub(super) fn misbehave(&mut self, faults: Faults) {
        self.faults = faults;
        if !self.faults.late {
            for (client, answer) in self.late.drain(..) {
                let _ = client.send(Output::Line(answer));
            }
        }
    }

    pub(super) fn cut(&mut self, output: &Output) {
        for client in self.clients.drain(..) {
            let _ = client.send(output.clone());
        }
    }

    pub(super) fn greeting(&self) -> String {
        let payload = match self.version {
            Version::V0_19 => json!({}),
            Version::V0_22 => json!({"replay_epoch": self.epoch, "heartbeat": true}),
        };
        json!({"jsonrpc": "2.0", "method": "event", "params": {"type": "gateway.ready", "payload": payload}})
            .to_string()
    }

    pub(super) fn answer(&mut self, request: &Value, client: &mpsc::UnboundedSender<Output>) {
        let method = text(request, "method");
        let id = request.get("id").cloned().unwrap_or_default();
        let params = request.get("params").cloned().unwrap_or_else(|| json!({}));
        self.asked.push((method.to_owned(), params.clone()));
        if self.faults.silent {
            return;
        }
        let answer = match self.handle(method, &params) {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        if self.faults.late {
            self.late.push((client.clone(), answer.to_string()));
        } else {
            let _ = client.send(Output::Line(answer.to_string()));
        }
    }

    pub(super) fn new_id(&mut self) -> String {
        let number = self.next_child;
        self.next_child += 1;
        format!("sa-0-{number:08x}")
    }

    pub(super) fn times_asked(&self, method: &str) -> usize {
        let asked = self.asked.iter();
        asked.filter(|(asked, _)| asked == method).count()
    }

    /// The only running child with this goal.
    pub(super) fn with_goal(&self, goal: &str) -> Option<String> {
        let mut children = self.children.iter();
        let found = children.find(|(_, child)| child.facts.get("goal").is_some_and(|g| g == goal));
        found.map(|(id, _)| id.clone())
    }

    pub(super) fn count_tool(&mut self, id: &str, tool: &str) {
        let Some(Child { facts, .. }) = self.children.get_mut(id) else {
            return;
        };
        let count = facts.get("tool_count").and_then(Value::as_u64);
        facts.insert("tool_count".to_owned(), json!(count.unwrap_or(0) + 1));
        facts.insert("last_tool".to_owned(), json!(tool));
    }

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

    /// A child begins, and tells nobody.
    pub(super) fn add(&mut self, id: &str, session: &str, parent: Option<&str>, goal: &str) {
        let facts = self.facts(id, parent, goal);
        let session = session.to_owned();
        self.children
            .insert(id.to_owned(), Child { session, facts });
    }

    pub(super) fn start(&mut self, id: &str, session: &str, parent: Option<&str>, goal: &str) {
        self.add(id, session, parent, goal);
        self.tell(id, "subagent.start", &json!({"text": goal}));
    }

    /// An event of a child, with its facts and more.
    pub(super) fn tell(&mut self, id: &str, kind: &str, more: &Value) {
        let Some(Child { session, facts }) = self.children.get(id).cloned() else {
            return;
        };
        let mut payload = facts;
        payload.remove("last_tool");
        payload.extend(more.as_object().cloned().unwrap_or_default());
        self.event(kind, &session, &Value::Object(payload));
    }

    pub(super) fn event(&mut self, kind: &str, session: &str, payload: &Value) {
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
    pub(super) fn replay(&mut self, kind: &str, session: &str, payload: &Value) {
        let id = text(payload, "subagent_id").to_owned();
        if kind == "subagent.start" {
            let mut facts = payload.as_object().cloned().unwrap_or_default();
            facts.remove("text");
            let session = session.to_owned();
            self.children.insert(id.clone(), Child { session, facts });
        }
        self.event(kind, session, payload);
        if kind == "subagent.complete" {
            self.forget(&id, text(payload, "status"));
        }
    }

    pub(super) fn forget(&mut self, id: &str, status: &str) {
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

    pub(super) fn send(&mut self, output: &Output) {
        self.clients
            .retain(|client| client.send(output.clone()).is_ok());
    }

    fn handle(&mut self, method: &str, params: &Value) -> Result<Value, (i64, String)> {
        let new = matches!(method, "subagent.list" | "session.events.since");
        if self.faults.unknown.iter().any(|unknown| unknown == method)
            || (new && self.version == Version::V0_19)
        {
            return Err((-32601, format!("unknown method: {method}")));
        }
        if self.faults.refuses.iter().any(|refused| refused == method) {
            return Err((
                4000,
                format!("invalid params for {method}: Extra inputs are not permitted"),
            ));
        }
        let session = text(params, "session_id").to_owned();
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
                let id = text(params, "subagent_id").to_owned();
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

/// A member that is a text, or nothing.
pub(super) fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A name for a life of the gateway.
fn epoch() -> String {
    format!("{:032x}", fastrand::u128(..))
}
