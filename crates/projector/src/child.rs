//! What is kept of one child, laid out so that a million of them fit.

use headcount_contract::{
    Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, EventKind,
    LifecycleEvent, Lineage, LiveState, Outcome,
};

use crate::Settings;
use crate::effect::Changes;
use crate::fact::{Stamp, length, nanos};
use crate::sequence::{Counter, Place};

/// One child, without its [`Facts`](crate::fact::Facts). What most children have lies here, what few
/// have lies in the box.
#[derive(Debug, Clone)]
#[repr(align(64))] // a line of the cache
pub(crate) struct Child {
    pub(crate) id: ChildId,
    /// Its own counter. In scope Epoch only the highest number is used.
    pub(crate) counter: Counter,
    extra: Option<Box<Extra>>,
    /// The place of the last applied event that bore a state, or of the snapshot that told one, in
    /// the epoch in which the state was told.
    pub(crate) state_sequence: Place,
    /// The last proof of life, in nanoseconds.
    pub(crate) proven: i64,
    /// It is unproven while this is below the source's generation.
    pub(crate) generation: u32,
    /// The epoch that its counter counts in.
    pub(crate) epoch: u16,
    state_and_capabilities: u8,
    marks: u8,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Option<Child>>() == 64);

/// What few children have.
#[derive(Debug, Clone, Default)]
pub(crate) struct Extra {
    /// Where the child comes from, unless it is plainly its own root.
    pub(crate) lineage: Option<Lineage>,
    /// What set the lineage and the capabilities, if that was not the first observation.
    pub(crate) lineage_by: Option<Box<Stamp>>,
    pub(crate) capabilities_by: Option<Box<Stamp>>,
    /// The details of the first event, and of what ended the child.
    pub(crate) first_details: Details,
    pub(crate) terminal_details: Details,
    /// How many complete snapshots in a row omitted it.
    pub(crate) misses: u8,
    pub(crate) reconcile: Option<Reconcile>,
}

/// The search for a stale child (rule L4).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reconcile {
    /// When the child became stale.
    pub(crate) since: i64,
    /// The attempt under way, or the last one; 0 before the first.
    pub(crate) attempt: u32,
    /// When the attempt fails for want of an answer or, between attempts, when the next one begins.
    pub(crate) due: i64,
    /// Whether an attempt is under way.
    pub(crate) under_way: bool,
}

/// A yes or no about a child.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
pub(crate) enum Mark {
    /// No proof of life by the deadline.
    Stale = 1,
    /// Its first event was not `created`.
    HistoryUnknown = 1 << 1,
    /// Its lineage is a guess: nobody told it.
    LineageAssumed = 1 << 2,
    /// It is only known from snapshots, no event of its own was seen.
    SecondHand = 1 << 3,
    /// `state_sequence` is a snapshot's, not an event's.
    PlaceFromSnapshot = 1 << 4,
    /// Nobody told its state; `created` claims the least.
    StateAssumed = 1 << 5,
}

impl Child {
    /// A child as first observed, unproven in nothing, in the state given.
    pub(crate) fn new(identity: &ChildIdentity, first: &Stamp, state: ChildState) -> Self {
        let mut child = Self {
            id: identity.id().clone(),
            extra: None,
            counter: Counter::default(),
            state_sequence: Place::NONE,
            proven: nanos(first.seen.known_at()),
            generation: 0,
            epoch: first.seen.epoch(),
            state_and_capabilities: 0,
            marks: 0,
        };
        child.set_state(state);
        child.set_lineage(identity.lineage());
        child
    }

    pub(crate) fn state(&self) -> ChildState {
        ChildState::ALL[usize::from(self.state_and_capabilities & 7)]
    }

    pub(crate) fn set_state(&mut self, state: ChildState) {
        self.state_and_capabilities = self.state_and_capabilities & !7 | state_code(state);
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.state().is_terminal()
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        let one = |bit: u8| {
            if self.state_and_capabilities & (8 << bit) == 0 {
                Capability::Unknown
            } else {
                Capability::Known
            }
        };
        Capabilities {
            history: one(0),
            heartbeat: one(1),
            snapshot: one(2),
            cancel: one(3),
            terminal_cause: one(4),
        }
    }

    /// Takes over capabilities; whether they are others than before.
    pub(crate) fn set_capabilities(&mut self, to: Capabilities) -> bool {
        let bits = capability_bits(to) << 3;
        let before = self.state_and_capabilities;
        self.state_and_capabilities = before & 7 | bits;
        self.state_and_capabilities != before
    }

    pub(crate) fn has(&self, mark: Mark) -> bool {
        self.marks & mark as u8 != 0
    }

    pub(crate) fn set(&mut self, mark: Mark) {
        self.marks |= mark as u8;
    }

    pub(crate) fn clear(&mut self, mark: Mark) {
        self.marks &= !(mark as u8);
    }

    pub(crate) fn extra(&self) -> Option<&Extra> {
        self.extra.as_deref()
    }

    pub(crate) fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    pub(crate) fn reconcile(&self) -> Option<&Reconcile> {
        self.extra.as_ref()?.reconcile.as_ref()
    }

    /// Forgets the search and the misses, if there are any.
    pub(crate) fn stop_looking(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.reconcile = None;
            extra.misses = 0;
        }
    }

    /// The lineage, kept apart only if the child is not plainly its own root.
    pub(crate) fn lineage(&self) -> Option<&Lineage> {
        self.extra.as_ref()?.lineage.as_ref()
    }

    /// The identity that events of this child bear.
    pub(crate) fn identity(&self) -> ChildIdentity {
        let plain = || ChildIdentity::root(self.id.clone());
        self.lineage().map_or_else(plain, |lineage| {
            ChildIdentity::new(self.id.clone(), lineage.clone()).unwrap_or_else(|_| plain())
        })
    }

    pub(crate) fn set_lineage(&mut self, lineage: &Lineage) {
        if self.lineage().is_some() || !is_plain(&self.id, lineage) {
            self.extra_mut().lineage = Some(lineage.clone());
        }
    }

    /// The first fact on which a lineage disagrees with the record (rule I3). The time of adoption
    /// is no such fact: a child that is adopted anew, by a host that restarted, is the same child.
    pub(crate) fn lineage_conflict(&self, told: &Lineage) -> Option<&'static str> {
        let known = self.lineage();
        if known.is_none() && is_plain(&self.id, told) || self.has(Mark::LineageAssumed) {
            return None;
        }
        let root = known.map_or(&self.id, Lineage::root);
        let parent = known.and_then(Lineage::parent);
        if told.root() != root {
            Some("rootChildId")
        } else if told.attempt() != known.map_or(0, Lineage::attempt) {
            Some("attempt")
        } else if told.is_external() != known.is_some_and(Lineage::is_external) {
            Some("external")
        } else if parent.is_some() && told.parent().is_some_and(|told| Some(told) != parent) {
            Some("parentChildId")
        } else {
            None
        }
    }

    /// How long it may go without proof of life (rule L1).
    pub(crate) fn patience(&self, settings: &Settings) -> i64 {
        length(if self.capabilities().heartbeat.is_known() {
            settings.heartbeat_deadline
        } else {
            settings.activity_deadline
        })
    }

    /// When time alone next has something to do here.
    pub(crate) fn due(&self, settings: &Settings) -> Option<i64> {
        if !self.is_live() {
            return None;
        }
        let liveness = match self.reconcile() {
            Some(reconcile) => reconcile.due,
            None => self.proven.saturating_add(self.patience(settings)),
        };
        Some(liveness.min(self.counter.gap_due().unwrap_or(i64::MAX)))
    }

    /// Whether an event says of where it comes from and of what its source can do just what is known,
    /// as nearly all do.
    #[inline]
    pub(crate) fn is_as_told(&self, event: &LifecycleEvent) -> bool {
        self.marks & (Mark::LineageAssumed as u8 | Mark::SecondHand as u8) == 0
            && self.state_and_capabilities >> 3 == capability_bits(event.capabilities())
            && (event.lineage().parent().is_none()
                || self.lineage().is_some_and(|known| known.parent().is_some()))
    }

    /// Takes over what is told of where it comes from, as far as that was not known (rule I3).
    pub(crate) fn take_lineage(&mut self, told: &Lineage, by: &dyn Fn() -> Stamp) -> Changes {
        let known = self.lineage();
        let lineage = match told.parent() {
            _ if self.has(Mark::LineageAssumed) => told.clone(),
            Some(parent) if known.and_then(Lineage::parent).is_none() => {
                let known = known
                    .cloned()
                    .unwrap_or_else(|| Lineage::new(self.id.clone()));
                known.with_parent(parent.clone())
            }
            _ => return Changes::NONE,
        };
        self.clear(Mark::LineageAssumed);
        self.set_lineage(&lineage);
        self.extra_mut().lineage_by = Some(Box::new(by()));
        Changes::LINEAGE
    }

    /// Keeps what was said beside the end.
    pub(crate) fn keep_terminal_details(&mut self, details: &Details) {
        if !details.is_empty() {
            self.extra_mut().terminal_details = details.clone();
        }
    }
}

/// The place of a state in [`ChildState::ALL`].
pub(crate) fn state_code(state: ChildState) -> u8 {
    match state {
        ChildState::Live(LiveState::Created) => 0,
        ChildState::Live(LiveState::Starting) => 1,
        ChildState::Live(LiveState::Running) => 2,
        ChildState::Live(LiveState::Waiting) => 3,
        ChildState::Terminal(Outcome::Completed) => 4,
        ChildState::Terminal(Outcome::Failed) => 5,
        ChildState::Terminal(Outcome::Cancelled) => 6,
        ChildState::Terminal(Outcome::Lost) => 7,
    }
}

/// Five bits, in the order of the fields.
pub(crate) fn capability_bits(capabilities: Capabilities) -> u8 {
    let bit = |capability: Capability, at: u8| u8::from(capability.is_known()) << at;
    bit(capabilities.history, 0)
        | bit(capabilities.heartbeat, 1)
        | bit(capabilities.snapshot, 2)
        | bit(capabilities.cancel, 3)
        | bit(capabilities.terminal_cause, 4)
}

/// Whether a lineage says no more than that the child is its own root.
fn is_plain(id: &ChildId, lineage: &Lineage) -> bool {
    lineage.attempt() == 0
        && lineage.parent().is_none()
        && !lineage.is_external()
        && lineage.root() == id
}

/// Whether an event's lineage is told by the source, or only filled in by whoever derived the event
/// for a child of which it knew none.
pub(crate) fn tells_lineage(event: &LifecycleEvent) -> bool {
    !matches!(event.kind(), EventKind::Reconciliation(_))
        || !is_plain(event.child_id(), event.lineage())
}
