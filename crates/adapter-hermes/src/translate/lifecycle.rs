//! How a child comes, moves and ends, as events.

use headcount_contract::{
    Activity, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, EventKind,
    Lineage, Outcome, Signal, Timestamp,
};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::Child;

/// How many ended children are remembered, so that what comes late is known to be late.
const ENDED_KEPT: usize = 1024;
/// How many children may live at a time; a gateway allows some dozens.
const LIVE_MAX: usize = 10_000;

impl Translator {
    /// The child that a session means by an id: the one that bears it, unless that belongs to
    /// another session. Nothing if it cannot be an identifier.
    pub(super) fn resolve(&mut self, raw: &str, session: Option<&str>) -> Option<ChildId> {
        let id = ChildId::new(raw).ok()?;
        match (
            self.children
                .get(&id)
                .and_then(|child| child.session.as_deref()),
            session,
        ) {
            (Some(owner), Some(asking)) if owner != asking => {
                self.count("ids_in_two_sessions");
                ChildId::new(format!("{raw}@{asking}")).ok()
            }
            _ => Some(id),
        }
    }

    /// A child that is met for the first time. Its lineage never changes, so what the gateway tells
    /// of its parent counts now or never.
    pub(super) fn meet(
        &mut self,
        id: &ChildId,
        raw: &str,
        parent: Option<&str>,
        session: Option<&str>,
        state: ChildState,
    ) -> bool {
        if self.live.len() >= LIVE_MAX {
            self.count("children_refused");
            self.out
                .limits
                .insert("more than 10,000 children at a time are not followed");
            return false;
        }
        let parent = parent
            .and_then(|parent| self.resolve(parent, session))
            .filter(|parent| parent != id);
        let identity = match parent {
            None => ChildIdentity::root(id.clone()),
            Some(parent) => {
                let root = match self.children.get(&parent) {
                    Some(known) => known.identity.lineage().root().clone(),
                    None => parent.clone(),
                };
                let lineage = Lineage::new(root).with_parent(parent);
                // Attempt 0 under another parent than itself always fits.
                ChildIdentity::new(id.clone(), lineage)
                    .unwrap_or_else(|_| ChildIdentity::root(id.clone()))
            }
        };
        let session = session.map(str::to_owned);
        let child = Child::new(identity, state, self.met, raw.to_owned(), session);
        self.met += 1;
        self.children.insert(id.clone(), child);
        self.live.insert(id.clone());
        true
    }

    /// Says what a child is and that it was brought up, as far as it has not been said.
    pub(super) fn bring_up(&mut self, id: &ChildId, told_running: bool, at: Timestamp) {
        let Some(child) = self.children.get(id) else {
            return;
        };
        let facts = child.details();
        let inferred = || Map::from_iter([("inferred".to_owned(), json!(true))]);
        let is_new = before_created(child);
        let before = child.state;
        // The first event tells all that is known; it is the one that is kept.
        let running = match (told_running, is_new) {
            (false, _) => inferred(),
            (true, true) => Map::new(),
            (true, false) => facts.clone(),
        };
        let mut starting = inferred();
        if is_new {
            let mut all = facts;
            all.extend(inferred());
            if child.joined_midway {
                // Its creation was not seen: a record that begins otherwise has no known history.
                starting = all;
            } else {
                self.emit(id, EventKind::Created, all, None, at);
            }
        }
        if before == ChildState::CREATED {
            let kind = EventKind::StateChanged(ChildState::STARTING);
            self.emit(id, kind, starting, None, at);
        }
        if before != ChildState::RUNNING {
            self.emit(
                id,
                EventKind::StateChanged(ChildState::RUNNING),
                running,
                None,
                at,
            );
        }
        if let Some(child) = self.children.get_mut(id) {
            child.state = ChildState::RUNNING;
        }
    }

    /// Ends a child, once.
    pub(super) fn end(
        &mut self,
        id: &ChildId,
        outcome: Outcome,
        more: Map<String, Value>,
        at: Timestamp,
    ) {
        let Some(child) = self.children.get_mut(id).filter(|child| child.is_live()) else {
            return;
        };
        child.state = ChildState::Terminal(outcome);
        let mut details = child.details();
        if child.cancel_requested {
            details.insert("cancelRequested".to_owned(), json!(true));
        }
        details.extend(more);
        self.emit(id, EventKind::Terminal(outcome), details, None, at);
        self.mint.forget(id);
        self.live.remove(id);
        self.ended.push_back(id.clone());
        if self.ended.len() > ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.children.remove(&oldest);
        }
    }

    pub(super) fn emit(
        &mut self,
        id: &ChildId,
        kind: EventKind,
        details: Map<String, Value>,
        activity: Option<Activity>,
        at: Timestamp,
    ) {
        let Some(child) = self.children.get_mut(id) else {
            return;
        };
        let session = child.session.as_ref().and_then(|id| self.sessions.get(id));
        let capabilities = Capabilities {
            history: match session {
                Some(session) if !child.joined_midway => session.history,
                _ => Capability::Unknown,
            },
            // A gateway that does not see its children cannot interrupt them either.
            cancel: match session {
                _ if self.isolated => Capability::Unknown,
                Some(session) => session.cancel,
                None => self.verified.cancel,
            },
            ..self.verified
        };
        let mut event = self
            .mint
            .event(&child.identity, kind, at)
            .with_details(Details::from(details))
            .with_capabilities(capabilities);
        if let Some(activity) = activity {
            event = event.with_activity(activity);
        }
        child.sequence = event.sequence();
        self.out.signals.push(Signal::Event(event));
    }
}

/// Nothing has been said of the child yet.
fn before_created(child: &Child) -> bool {
    child.state == ChildState::CREATED && child.sequence.is_none()
}
