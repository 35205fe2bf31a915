//! What is known of a gateway's sessions.

use std::collections::VecDeque;

use headcount_contract::{Capability, ChildId, Timestamp};
use serde_json::{Map, Value};

use super::child::string;
use super::seq::SeenEvents;
use super::{Ready, Translator};
use crate::frame::{self, EventFrame};

/// How many sessions of a gateway are followed.
pub(super) const SESSIONS_MAX: usize = 1024;
/// How many events of a session wait for a replay.
const HELD_MAX: usize = 4096;
/// How many delegations of a session are remembered.
const DELEGATIONS_MAX: usize = 64;

/// One session.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) seen: SeenEvents,
    /// Events that wait until the replay of what was missed before them has been read.
    pub(super) held: Option<Held>,
    /// Whether a child of it was verified to be ours to interrupt.
    pub(super) cancel: Capability,
    /// Whether every event of it can be had.
    pub(super) history: Capability,
    /// The id under which the gateway stores it, by which it can be resumed.
    pub(super) stored: Option<String>,
    /// Delegations that were dispatched, oldest first: gateways before 0.21.5 name them nowhere
    /// else.
    pub(super) delegations: VecDeque<Delegation>,
}

/// Children that were dispatched together.
#[derive(Debug)]
pub(super) struct Delegation {
    id: String,
    goals: Vec<String>,
}

/// Events that wait.
#[derive(Debug, Default)]
pub(super) struct Held {
    events: Vec<EventFrame>,
}

impl Held {
    /// Keeps an event; whether there was room.
    pub(super) fn push(&mut self, event: EventFrame) -> bool {
        let room = self.events.len() < HELD_MAX;
        if room {
            self.events.push(event);
        }
        room
    }
}

impl Session {
    /// The gateway may be another process: its counters begin anew. Whether the session is still
    /// worth remembering.
    pub(super) fn begin_life(&mut self, ready: Ready) -> bool {
        self.seen = SeenEvents::default();
        self.held = None;
        self.cancel = Capability::Unknown;
        self.history = Capability::Unknown;
        ready != Ready::NewLife || self.stored.is_some()
    }
}

impl Translator {
    /// A session of this connection, by its live id and the one it is stored under.
    pub(crate) fn session_named(&mut self, live: &str, stored: Option<&str>) {
        if let Some(session) = self.session(live)
            && let Some(stored) = stored
        {
            session.stored = Some(stored.to_owned());
        }
    }

    /// The sessions that can be resumed, by their stored ids, with their live ones.
    pub(crate) fn stored_sessions(&self) -> Vec<(String, String)> {
        let mut stored: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(live, session)| Some((session.stored.clone()?, live.clone())))
            .collect();
        stored.sort();
        stored
    }

    /// The number after which a session's replay has to begin.
    pub(crate) fn last_seen(&self, session: &str) -> u64 {
        self.sessions.get(session).map_or(0, |s| s.seen.last_seen())
    }

    /// From now on the session's events wait for [`Self::replayed`].
    pub(crate) fn hold(&mut self, session: &str) {
        if let Some(session) = self.session(session) {
            session.held.get_or_insert_default();
        }
    }

    /// What `session.events.since` answered when it was asked for what came after `after`, or
    /// nothing if it could not be had: reads it, and then the events that waited.
    ///
    /// The session's whole history is known if nothing lies between what had been seen and what
    /// was asked for.
    pub(crate) fn replayed(&mut self, id: &str, after: u64, result: Option<&Value>, at: Timestamp) {
        let Some(session) = self.sessions.get_mut(id) else {
            return;
        };
        let held = session.held.take().unwrap_or_default();
        session.history = match result {
            Some(result) if replay_is_whole(result) && session.seen.has_all_to(after) => {
                Capability::Known
            }
            _ => Capability::Unknown,
        };
        let missed = result
            .and_then(|r| r.get("events"))
            .and_then(Value::as_array);
        for event in missed.into_iter().flatten() {
            let params = event.as_object().cloned().unwrap_or_default();
            match frame::event(params) {
                Ok(event) if event.session.as_deref() == Some(id) => self.event(event, at),
                _ => self.count("replayed_events_refused"),
            }
        }
        for event in held.events {
            self.event(event, at);
        }
    }

    /// The connection has ended before the replay: what waited for it is told now.
    pub(crate) fn release(&mut self, at: Timestamp) {
        let sessions = self.sessions.iter();
        let held: Vec<_> = sessions
            .filter(|(_, session)| session.held.is_some())
            .map(|(id, _)| id.clone())
            .collect();
        for id in held {
            self.replayed(&id, 0, None, at);
        }
    }

    /// What a probe said of a session: whether its children are ours to interrupt.
    pub(crate) fn cancel_verified(&mut self, session: Option<&str>, cancel: Capability) {
        match session {
            None => self.verified.cancel = cancel,
            Some(id) => {
                if let Some(session) = self.sessions.get_mut(id) {
                    session.cancel = cancel;
                }
            }
        }
    }

    /// `delegate_task` was dispatched: its children are known by their goals.
    pub(super) fn delegated(&mut self, session: Option<&str>, payload: &Map<String, Value>) {
        let Some(result) = payload.get("result").and_then(Value::as_object) else {
            return;
        };
        let (Some(session), Some(id)) = (session, string(result, "delegation_id")) else {
            return;
        };
        let goals: Vec<_> = match result.get("goals") {
            Some(Value::Array(goals)) => goals
                .iter()
                .filter_map(Value::as_str)
                .map(super::child::cut)
                .collect(),
            _ => return,
        };
        let delegation = Delegation {
            id: id.to_owned(),
            goals,
        };
        // Children may have begun before the dispatch was reported.
        for child in self.live.clone() {
            let child = self.children.get_mut(&child);
            if let Some(child) = child.filter(|c| c.session.as_deref() == Some(session)) {
                name_delegation(child, &delegation);
            }
        }
        if let Some(session) = self.session(session) {
            if session.delegations.len() >= DELEGATIONS_MAX {
                session.delegations.pop_front();
            }
            session.delegations.push_back(delegation);
        }
    }

    /// Names the delegation of a new child, if it has been dispatched.
    pub(super) fn learn_delegation(&mut self, id: &ChildId) {
        let Some(child) = self.children.get_mut(id) else {
            return;
        };
        let session = child.session.as_ref().and_then(|s| self.sessions.get(s));
        // Newest first: the same goal may have been delegated before.
        for delegation in session.into_iter().flat_map(|s| s.delegations.iter().rev()) {
            name_delegation(child, delegation);
        }
    }
}

fn name_delegation(child: &mut super::Child, delegation: &Delegation) {
    let facts = &mut child.facts;
    let index = facts
        .task_index
        .and_then(|index| usize::try_from(index).ok());
    let goal = index.and_then(|index| delegation.goals.get(index));
    // Children of children are not dispatched by the session's own tool.
    if facts.delegation.is_none()
        && goal.is_some()
        && goal == facts.goal.as_ref()
        && facts.depth.unwrap_or(0) == 0
    {
        facts.delegation = Some(delegation.id.clone());
    }
}

/// Whether a replay holds everything that was missed.
pub(crate) fn replay_is_whole(result: &Value) -> bool {
    result.get("truncated") == Some(&Value::Bool(false))
        && result.get("events").is_some_and(Value::is_array)
}
