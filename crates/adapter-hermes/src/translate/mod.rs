//! From frames to lifecycle events and snapshots. Pure: no I/O and no clock.

mod approval;
mod child;
mod evidence;
mod flat;
mod outcome;
mod seq;
mod session;
mod snapshot;
mod subagent;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use headcount_adapter_kit::EventMint;
use headcount_contract::{
    Activity, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, Discontinuity,
    DiscontinuityCause, EventKind, Gap, Lineage, Outcome, Sequence, SequenceScope, Signal,
    SourceEpoch, SourceId, SourceIdentity, Timestamp,
};
use serde_json::{Map, Value, json};

use self::child::Child;
pub(crate) use self::evidence::{Ending, Unfinished, transcript_ending};
use self::session::Session;
pub(crate) use self::session::replay_is_whole;
pub(crate) use self::snapshot::Listing;
use crate::frame::{EventFrame, Frame};

/// How many ended children are remembered, so that what comes late is known to be late.
const ENDED_KEPT: usize = 1024;
/// How many children may live at a time; a gateway allows some dozens.
const LIVE_MAX: usize = 10_000;

/// What the frames of one gateway say, as signals of one source.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // four independent facts, not a state machine
pub(crate) struct Translator {
    source: SourceId,
    mint: EventMint,
    /// A gateway has announced itself, or has said something.
    open: bool,
    /// A connection has been made whose gateway has not spoken yet: its epoch unless it tells one,
    /// and where its sequences begin.
    pending: Option<(SourceEpoch, Sequence)>,
    /// The epoch is the gateway's own, so another one proves another gateway process.
    epoch_is_told: bool,
    children: BTreeMap<ChildId, Child>,
    live: BTreeSet<ChildId>,
    /// How many children have been met.
    met: u64,
    /// Ended children, oldest first.
    ended: VecDeque<ChildId>,
    sessions: HashMap<String, Session>,
    /// What was verified for children of any session.
    verified: Capabilities,
    /// A snapshot has listed a child of this gateway, so its view is not blind.
    listed_some: bool,
    /// Events flow and the listing is empty: the children run in other processes.
    isolated: bool,
    /// Whether listings are asked for again and again.
    polls: Capability,
    snapshots: u64,
    out: Output,
}

/// What came of some frames.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) signals: Vec<Signal>,
    /// What was odd, by name, for the health.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// What the source turned out not to be able to tell.
    pub(crate) limits: BTreeSet<&'static str>,
    /// Sessions that were met for the first time.
    pub(crate) new_sessions: Vec<String>,
    /// The gateway has announced itself.
    pub(crate) ready: Option<Ready>,
}

/// How a child stands.
#[derive(Debug)]
pub(crate) struct Standing {
    /// The gateway's id for it.
    pub(crate) raw_id: String,
    pub(crate) session: Option<String>,
    pub(crate) ended: bool,
}

/// What the announcement of a gateway means for what was known before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Nothing was known.
    First,
    /// It is the same gateway process.
    SameLife,
    /// It is another process: what the other one ran has ended.
    NewLife,
    /// It may be either.
    Unproven,
}

impl Translator {
    /// A translator for a source whose first epoch has this name until the gateway tells its own,
    /// with sequences from `first`.
    pub(crate) fn new(source: SourceId, epoch: SourceEpoch, first: Sequence) -> Self {
        let identity = SourceIdentity::new(source.clone(), epoch.clone());
        Self {
            pending: Some((epoch, first)),
            mint: EventMint::new(identity, Capabilities::UNKNOWN, SequenceScope::Child)
                .beginning_at(first),
            source,
            open: false,
            epoch_is_told: false,
            children: BTreeMap::new(),
            live: BTreeSet::new(),
            met: 0,
            ended: VecDeque::new(),
            sessions: HashMap::new(),
            verified: Capabilities::UNKNOWN,
            listed_some: false,
            isolated: false,
            polls: Capability::Unknown,
            snapshots: 0,
            out: Output::default(),
        }
    }

    pub(crate) fn identity(&self) -> SourceIdentity {
        self.mint.source().clone()
    }

    /// Reads one frame that is no response to a request of ours.
    pub(crate) fn frame(&mut self, frame: Frame, at: Timestamp) {
        match frame {
            Frame::Event(event) => self.event(event, at),
            Frame::Request { method, params, .. } if method.starts_with("approval") => {
                let event = EventFrame {
                    session: child::string(&params, "session_id").map(str::to_owned),
                    kind: "approval.request".to_owned(),
                    payload: params,
                    ..EventFrame::default()
                };
                self.event(event, at);
            }
            Frame::Request { .. } => self.count("requests_of_the_gateway"),
            Frame::Notification { .. } => self.count("notifications_unknown"),
            Frame::Response { .. } => self.count("responses_unexpected"),
            Frame::Flat(record) => self.flat(&record, at),
            Frame::FlatSnapshot(record) => self.flat_snapshot(&record, at),
        }
    }

    /// Takes what has come of the frames since the last time.
    pub(crate) fn take(&mut self) -> Output {
        std::mem::take(&mut self.out)
    }

    /// Gives back what was taken, before what has come since.
    pub(crate) fn put_back(&mut self, mut earlier: Output) {
        let later = std::mem::take(&mut self.out);
        earlier.signals.extend(later.signals);
        for (name, count) in later.counts {
            *earlier.counts.entry(name).or_default() += count;
        }
        earlier.limits.extend(later.limits);
        earlier.new_sessions.extend(later.new_sessions);
        earlier.ready = later.ready.or(earlier.ready);
        self.out = earlier;
    }

    /// Hands on a signal in its place.
    pub(crate) fn volunteer(&mut self, signal: Signal) {
        self.out.signals.push(signal);
    }

    /// The gateway took a request to interrupt a child; that is not its end (rule C5).
    pub(crate) fn cancel_accepted(&mut self, id: &ChildId) {
        if let Some(child) = self.children.get_mut(id) {
            child.cancel_requested = true;
        }
    }

    /// The child that a session means by an id of the gateway's, if it is known.
    pub(crate) fn child_of(&mut self, raw: &str, session: Option<&str>) -> Option<ChildId> {
        self.resolve(raw, session)
            .filter(|id| self.children.contains_key(id))
    }

    /// How a child stands, for a request about it.
    pub(crate) fn standing(&self, id: &ChildId) -> Option<Standing> {
        self.children.get(id).map(|child| Standing {
            raw_id: child.raw_id.clone(),
            session: child.session.clone(),
            ended: !child.is_live(),
        })
    }

    /// A connection has been made: unless the gateway tells its epoch, this one is its own.
    pub(crate) fn connected(&mut self, fallback: SourceEpoch, first: Sequence) {
        self.pending = Some((fallback, first));
    }

    /// Whether any gateway has said anything.
    pub(crate) fn is_open(&self) -> bool {
        self.open
    }

    /// The gateway says which life it lives, or has begun to speak without saying so.
    fn ready(&mut self, told: Option<&str>) {
        let told = told.and_then(|epoch| SourceEpoch::new(epoch).ok());
        let current = &self.mint.source().epoch;
        let same = told.as_ref().is_some_and(|told| told == current) && self.epoch_is_told;
        let (fallback, first) = match self.pending.take() {
            Some(pending) => pending,
            // It announces itself again on the same connection.
            None => (current.clone(), Sequence::ZERO),
        };
        let ready = match (&told, self.open) {
            (_, false) => Ready::First,
            _ if same => Ready::SameLife,
            (Some(_), true) if self.epoch_is_told => Ready::NewLife,
            _ => Ready::Unproven,
        };
        self.open = true;
        self.out.ready = Some(ready);
        for child in self.children.values_mut() {
            child.seen_in_events = false;
        }
        if ready == Ready::SameLife {
            return;
        }
        self.epoch_is_told = told.is_some();
        let epoch = told.unwrap_or(fallback);
        if ready == Ready::First || epoch != *current {
            let identity = SourceIdentity::new(self.source.clone(), epoch);
            self.mint = EventMint::new(identity, Capabilities::UNKNOWN, SequenceScope::Child)
                .beginning_at(first);
        }
        self.verified = Capabilities::UNKNOWN;
        self.listed_some = false;
        self.isolated = false;
        self.sessions.retain(|_, session| session.begin_life(ready));
        for child in self.children.values_mut() {
            child.sequence = None;
        }
        match ready {
            Ready::NewLife => {
                self.discontinuity(DiscontinuityCause::SourceRestarted, Gap::Possible);
            }
            Ready::Unproven => self.discontinuity(DiscontinuityCause::Reconnected, Gap::Possible),
            Ready::First | Ready::SameLife => {}
        }
    }

    /// Says that events may be missing here, or cannot be.
    pub(crate) fn discontinuity(&mut self, cause: DiscontinuityCause, gap: Gap) {
        let discontinuity = Discontinuity { cause, gap };
        self.out.signals.push(Signal::Discontinuity(discontinuity));
    }

    /// The gateway process has ended, and with it every child that it ran: what has not ended is
    /// lost. What evidence there is has to be told first (see [`Self::conclude`]).
    pub(crate) fn gateway_gone(
        &mut self,
        basis: &'static str,
        facts: &Map<String, Value>,
        at: Timestamp,
    ) {
        for id in self.live.clone() {
            let mut details = Map::from_iter([("basis".to_owned(), json!(basis))]);
            details.extend(facts.clone());
            self.end(&id, Outcome::Lost, details, at);
        }
    }

    fn event(&mut self, event: EventFrame, at: Timestamp) {
        if !self.open && event.kind != "gateway.ready" {
            self.ready(None);
        }
        if let Some(id) = &event.session {
            let Some(session) = self.session(id) else {
                return self.count("sessions_refused");
            };
            if let Some(held) = &mut session.held {
                if held.push(event) {
                    return;
                }
                return self.count("events_held_too_many");
            }
            if event.seq.is_some_and(|seq| !session.seen.note(seq)) {
                return self.count("events_repeated");
            }
        }
        self.accepted(event, at);
    }

    fn accepted(&mut self, event: EventFrame, at: Timestamp) {
        let EventFrame {
            kind,
            session,
            seq,
            payload,
        } = event;
        let session = session.as_deref();
        match kind.as_str() {
            "gateway.ready" => self.ready(child::string(&payload, "replay_epoch")),
            "tool.complete" => self.delegated(session, &payload),
            "approval.request" => self.approval_requested(session, &payload, at),
            _ => match kind.split_once('.') {
                Some(("subagent", what)) => self.subagent(what, session, seq, &payload, at),
                Some(("approval", _)) => self.approval_resolved(session, &payload, at),
                Some((family, _)) if KNOWN_FAMILIES.contains(&family) => {}
                None if KNOWN_FAMILIES.contains(&kind.as_str()) => {}
                _ => self.count("event_types_unknown"),
            },
        }
    }

    /// The state of a session, remembered from its first event; nothing if there are too many.
    fn session(&mut self, id: &str) -> Option<&mut Session> {
        if !self.sessions.contains_key(id) {
            if self.sessions.len() >= session::SESSIONS_MAX {
                return None;
            }
            self.out.new_sessions.push(id.to_owned());
            self.sessions.insert(id.to_owned(), Session::default());
        }
        self.sessions.get_mut(id)
    }

    /// The child that a session means by an id: the one that bears it, unless that belongs to
    /// another session. Nothing if it cannot be an identifier.
    fn resolve(&mut self, raw: &str, session: Option<&str>) -> Option<ChildId> {
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
    fn meet(
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
    fn bring_up(&mut self, id: &ChildId, told_running: bool, at: Timestamp) {
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
    fn end(&mut self, id: &ChildId, outcome: Outcome, more: Map<String, Value>, at: Timestamp) {
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

    fn emit(
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

    fn count(&mut self, name: &'static str) {
        *self.out.counts.entry(name).or_default() += 1;
    }
}

/// Nothing has been said of the child yet.
fn before_created(child: &Child) -> bool {
    child.state == ChildState::CREATED && child.sequence.is_none()
}

/// Event families that have nothing to say about children.
const KNOWN_FAMILIES: [&str; 14] = [
    "message",
    "thinking",
    "reasoning",
    "tool",
    "session",
    "sessions",
    "status",
    "projects",
    "gateway",
    "error",
    "clarify",
    "sudo",
    "secret",
    "skin",
];
