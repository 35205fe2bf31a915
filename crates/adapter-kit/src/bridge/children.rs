//! The children of a bridge: what each is doing, and the events that say so.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use headcount_contract::{
    Activity, AuthoritativeSnapshot, ChildId, ChildIdentity, ChildState, Coverage, Details,
    EventKind, Lineage, Outcome, RunEventStream, RunId, Sequence, Signal, SnapshotChild,
    SnapshotId, SourceIdentity, Timestamp,
};
use serde_json::json;

use super::reported::Reported;
use super::{EndedRun, Handle};
use crate::{EventMint, Fanout};

/// How many ended children stay in snapshots.
const ENDED_KEPT: usize = 1024;

/// Every change is emitted under the same lock that snapshots are taken under, so a snapshot always
/// agrees with the events before it.
pub(super) struct Children {
    pub(super) mint: EventMint,
    pub(super) fanout: Arc<Fanout>,
    pub(super) by_id: HashMap<ChildId, Child>,
    /// Ids of runs of earlier lives of the source: not to be used again (rule I2).
    past: HashSet<ChildId>,
    /// How many live children runs have told of.
    pub(super) reported: usize,
    /// Ended children, oldest first.
    ended: VecDeque<ChildId>,
    started: u64,
    snapshots: u64,
}

pub(super) struct Child {
    pub(super) identity: ChildIdentity,
    /// Its `created` event was emitted; until then nobody knows of it.
    pub(super) announced: bool,
    pub(super) state: ChildState,
    pub(super) sequence: Option<Sequence>,
    pub(super) created_at: Timestamp,
    handle: Option<Handle>,
    stop_requested: bool,
    pub(super) successor: Successor,
    /// It is over, or the run that told of it is, and nobody can say what it came to.
    pub(super) unproven: bool,
    /// For a child that a run told of.
    pub(super) reported: Option<Reported>,
}

/// What follows a run that a plan follows, where a person asked for its restart.
#[derive(Default)]
pub(super) enum Successor {
    /// Nobody asked.
    #[default]
    None,
    /// The run is being stopped and the next one started.
    Awaited,
    /// The next run.
    Begun(ChildIdentity, RunEventStream),
}

impl Child {
    pub(super) fn new(identity: ChildIdentity, at: Timestamp) -> Self {
        Self {
            identity,
            announced: false,
            state: ChildState::CREATED,
            sequence: None,
            created_at: at,
            handle: None,
            stop_requested: false,
            successor: Successor::None,
            unproven: false,
            reported: None,
        }
    }

    /// Whether it can tell nothing more.
    pub(super) fn is_over(&self) -> bool {
        self.state.is_terminal() || self.unproven
    }
}

/// How a child stands, for a request about it.
pub(super) enum Standing {
    Starting,
    Live(Handle),
    /// A run told of it; only that run can do something about it.
    Reported(ChildId),
    Ended,
}

/// What a state change made of a child.
pub(super) enum Changed {
    No,
    Live,
    Ended(EndedRun),
}

impl Children {
    pub(super) fn new(mint: EventMint, fanout: Arc<Fanout>) -> Self {
        Self {
            mint,
            fanout,
            by_id: HashMap::new(),
            past: HashSet::new(),
            reported: 0,
            ended: VecDeque::new(),
            started: 0,
            snapshots: 0,
        }
    }

    pub(super) fn source(&self) -> &SourceIdentity {
        self.mint.source()
    }

    /// A new child, not announced yet: the next attempt of `before`, or the first of its chain.
    pub(super) fn create(
        &mut self,
        wanted: Option<&RunId>,
        before: Option<&ChildIdentity>,
        at: Timestamp,
    ) -> ChildIdentity {
        let id = self.unused_id(
            wanted.map(RunId::as_str),
            before.map(|b| b.lineage().root()),
        );
        let identity = match before {
            None => ChildIdentity::root(id),
            Some(before) => {
                let lineage = Lineage::new(before.lineage().root().clone())
                    .with_attempt(before.lineage().attempt() + 1);
                // The id is unused, so it is neither the root's nor a parent's.
                ChildIdentity::new(id.clone(), lineage).unwrap_or_else(|_| ChildIdentity::root(id))
            }
        };
        let child = Child::new(identity.clone(), at);
        self.by_id.insert(identity.id().clone(), child);
        identity
    }

    /// Emits a child's `created` event, once, as of its creation.
    pub(super) fn announce(&mut self, id: &ChildId, details: Details) {
        let Some(child) = self.by_id.get_mut(id) else {
            return;
        };
        if !std::mem::replace(&mut child.announced, true) {
            let at = child.created_at;
            self.emit(id, EventKind::Created, at, details, None);
        }
    }

    /// These ids belong to runs of earlier lives of the source.
    pub(super) fn avoid(&mut self, taken: &[ChildId]) {
        self.past.extend(taken.iter().cloned());
    }

    fn is_used(&self, id: &ChildId) -> bool {
        self.by_id.contains_key(id) || self.past.contains(id)
    }

    /// An id that no child of this source has had, if the runs that were named are unique: without
    /// a name it holds the epoch, since in a journal a source has many (rules I1, I2).
    fn unused_id(&mut self, wanted: Option<&str>, root: Option<&ChildId>) -> ChildId {
        let unnamed = format!("run-{}", self.mint.life());
        let base = wanted.or(root.map(ChildId::as_str)).unwrap_or(&unnamed);
        if let Some(wanted) = wanted
            && let Ok(id) = ChildId::new(wanted)
            && !self.is_used(&id)
        {
            return id;
        }
        // A long base leaves no room for a number.
        let base = if base.len() > 480 { &unnamed } else { base };
        loop {
            self.started += 1;
            if let Ok(id) = ChildId::new(format!("{base}-{}", self.started))
                && !self.is_used(&id)
            {
                return id;
            }
        }
    }

    /// Gives a child its handle. Returns it back if a stop was asked for meanwhile.
    pub(super) fn attach(&mut self, child: &ChildId, handle: Handle) -> Option<Handle> {
        let child = self.by_id.get_mut(child)?;
        child.handle = Some(handle.clone());
        child.stop_requested.then_some(handle)
    }

    /// Moves a child to `state` and emits the event; a terminal state ends it for good.
    pub(super) fn change(
        &mut self,
        id: &ChildId,
        state: ChildState,
        at: Timestamp,
        details: Details,
    ) -> Changed {
        let Some(child) = self.by_id.get_mut(id) else {
            return Changed::No;
        };
        if child.is_over() || child.state == state {
            return Changed::No;
        }
        if state == ChildState::LOST {
            return self.vanish(id, at, details);
        }
        child.state = state;
        let ChildState::Terminal(outcome) = state else {
            self.emit(id, EventKind::StateChanged(state), at, details, None);
            return Changed::Live;
        };
        child.handle = None;
        let ended = EndedRun {
            outcome,
            lasted: at.saturating_since(child.created_at),
            attempt: child.identity.lineage().attempt(),
        };
        self.emit(id, EventKind::Terminal(outcome), at, details, None);
        self.leave_reported(id, at);
        self.keep_ended(id);
        Changed::Ended(ended)
    }

    /// A run is over and its runtime cannot say how. Nor can this adapter: it tells what is known and
    /// leaves the child out of its snapshots, so that the host looks into it and, when that fails,
    /// finds it lost (rules 6, L4).
    fn vanish(&mut self, id: &ChildId, at: Timestamp, details: Details) -> Changed {
        self.emit(id, EventKind::Diagnostic(None), at, details, None);
        let Some(child) = self.by_id.get_mut(id) else {
            return Changed::No;
        };
        child.unproven = true;
        child.handle = None;
        let ended = EndedRun {
            outcome: Outcome::Lost,
            lasted: at.saturating_since(child.created_at),
            attempt: child.identity.lineage().attempt(),
        };
        self.keep_ended(id);
        if !self.leave_reported(id, at) {
            self.volunteer_snapshot(at);
        }
        Changed::Ended(ended)
    }

    /// Tells at once what is left out from now on.
    pub(super) fn volunteer_snapshot(&mut self, at: Timestamp) {
        let snapshot = self.snapshot(at);
        self.fanout.publish(Signal::Snapshot(snapshot.into()));
    }

    pub(super) fn keep_ended(&mut self, id: &ChildId) {
        self.mint.forget(id);
        self.ended.push_back(id.clone());
        if self.ended.len() > ENDED_KEPT
            && let Some(oldest) = self.ended.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    /// Emits an event that moves no state; nothing after a child's end.
    pub(super) fn tell(
        &mut self,
        id: &ChildId,
        kind: EventKind,
        at: Timestamp,
        details: Details,
        activity: Option<Activity>,
    ) {
        if self.by_id.get(id).is_some_and(|child| !child.is_over()) {
            self.emit(id, kind, at, details, activity);
        }
    }

    fn emit(
        &mut self,
        id: &ChildId,
        kind: EventKind,
        at: Timestamp,
        details: Details,
        activity: Option<Activity>,
    ) {
        let Some(child) = self.by_id.get_mut(id) else {
            return;
        };
        let mut event = self
            .mint
            .event(&child.identity, kind, at)
            .with_details(details);
        child.sequence = event.sequence();
        if let Some(activity) = activity {
            event = event.with_activity(activity);
        }
        self.fanout.publish(Signal::Event(event));
    }

    /// What a run that stopped without telling its outcome has come to.
    pub(super) fn outcome_of_stopped(&self, id: &ChildId) -> Outcome {
        match self.by_id.get(id) {
            Some(child) if child.stop_requested => Outcome::Cancelled,
            _ => Outcome::Completed,
        }
    }

    pub(super) fn stop_requested(&self, id: &ChildId) -> bool {
        self.by_id.get(id).is_some_and(|child| child.stop_requested)
    }

    pub(super) fn identity(&self, id: &ChildId) -> Option<ChildIdentity> {
        self.by_id.get(id).map(|child| child.identity.clone())
    }

    pub(super) fn standing(&self, id: &ChildId) -> Option<Standing> {
        let child = self.by_id.get(id)?;
        Some(match &child.handle {
            _ if child.state.is_terminal() => Standing::Ended,
            _ if let Some(reported) = &child.reported => Standing::Reported(reported.by.clone()),
            _ if child.unproven => Standing::Ended,
            Some(handle) => Standing::Live(handle.clone()),
            None => Standing::Starting,
        })
    }

    /// A person asked for the restart of a child.
    pub(super) fn await_successor(&mut self, id: &ChildId) {
        if let Some(child) = self.by_id.get_mut(id) {
            child.successor = Successor::Awaited;
        }
    }

    /// Settles what was awaited.
    pub(super) fn set_successor(&mut self, id: &ChildId, successor: Successor) {
        if let Some(child) = self.by_id.get_mut(id) {
            child.successor = successor;
        }
    }

    /// Takes the successor; one that is still awaited stays so.
    pub(super) fn take_successor(&mut self, id: &ChildId) -> Successor {
        match self.by_id.get_mut(id).map(|child| &mut child.successor) {
            None | Some(Successor::None) => Successor::None,
            Some(Successor::Awaited) => Successor::Awaited,
            Some(successor) => std::mem::take(successor),
        }
    }

    pub(super) fn request_stop(&mut self, id: &ChildId) -> Option<Standing> {
        self.by_id.get_mut(id)?.stop_requested = true;
        self.standing(id)
    }

    /// Marks every live child as to be stopped, and returns those that have something to stop.
    pub(super) fn request_stop_of_all(&mut self) -> Vec<(ChildId, Handle)> {
        let live = self
            .by_id
            .iter_mut()
            .filter(|(_, child)| !child.state.is_terminal());
        live.filter_map(|(id, child)| {
            child.stop_requested = true;
            Some((id.clone(), child.handle.clone()?))
        })
        .collect()
    }

    pub(super) fn live(&self) -> impl Iterator<Item = &ChildId> {
        self.by_id
            .iter()
            .filter(|(_, child)| !child.is_over() && child.reported.is_none())
            .map(|(id, _)| id)
    }

    /// All runs, in a stable order.
    pub(super) fn snapshot(&mut self, at: Timestamp) -> AuthoritativeSnapshot {
        self.snapshots += 1;
        let source = self.mint.source().clone();
        let mut children: Vec<_> = self
            .by_id
            .values()
            .filter(|child| child.announced && !child.unproven)
            .map(|child| {
                let listed = SnapshotChild::with_identity(child.identity.clone(), child.state);
                match child.sequence {
                    Some(sequence) => listed.with_sequence(sequence),
                    None => listed,
                }
            })
            .collect();
        children.sort_by(|a, b| a.id().cmp(b.id()));
        let id = format!("snapshot-{}", self.snapshots);
        #[allow(clippy::expect_used)] // a legal id; each child once, as the keys of a map are
        AuthoritativeSnapshot::new(
            source,
            SnapshotId::new(id).expect("a legal identifier"),
            at,
            Coverage::All,
            children,
        )
        .expect("each child once, all covered")
    }
}

/// Why a start failed, as details of the child's end.
pub(super) fn start_error(error: &headcount_contract::StartError) -> Details {
    let context: serde_json::Map<_, _> = error
        .context()
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let mut details = Details::from_iter([
        ("basis", json!("start_failed")),
        ("startError", json!(error.kind().as_str())),
        ("message", json!(error.message())),
    ]);
    if !context.is_empty() {
        details = details.with([("context", context.into())]);
    }
    details
}
