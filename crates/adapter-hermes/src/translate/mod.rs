//! From frames to lifecycle events and snapshots. Pure: no I/O and no clock.

mod approval;
mod child;
mod evidence;
mod flat;
mod life;
mod lifecycle;
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
    Capabilities, Capability, ChildId, Sequence, SequenceScope, Signal, SourceEpoch, SourceId,
    SourceIdentity, Timestamp,
};

use self::child::Child;
pub(crate) use self::evidence::{
    Ending, MANIFEST, TRANSCRIPT, Unfinished, manifest_ending, transcript_ending,
};
pub(crate) use self::life::Ready;
use self::session::Session;
pub(crate) use self::session::replay_is_whole;
pub(crate) use self::snapshot::Listing;
use crate::frame::{EventFrame, Frame};

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

    /// Whether any gateway has said anything.
    pub(crate) fn is_open(&self) -> bool {
        self.open
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

    fn count(&mut self, name: &'static str) {
        *self.out.counts.entry(name).or_default() += 1;
    }
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
