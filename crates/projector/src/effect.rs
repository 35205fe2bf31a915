//! What follows from an input, as data: the host acts on it.

use std::fmt;

use headcount_contract::{ChildId, LifecycleEvent, SourceId};

use crate::AuditEntry;

/// One consequence of one input, in the order in which they follow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The record of a child changed; [`Projector::record_at`](crate::Projector::record_at) has it.
    Changed(Change),
    /// The record of a child that had ended was given up for room; it stays ended.
    Forgotten {
        /// Whose child.
        source: SourceId,
        /// Which one.
        child: ChildId,
    },
    /// Something about all children of a source changed at once.
    SourceChanged {
        /// Which source.
        source: SourceId,
        /// What changed.
        change: SourceChange,
    },
    /// Something that must be seen by whoever checks the projection later.
    Audit(Box<AuditEntry>),
    /// Something that the host should do.
    Intent(Intent),
    /// An event that the projector made and has applied: append it to the journal (rule L5).
    Derived(Box<LifecycleEvent>),
}

/// That a child's record changed, and in what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// Whose record.
    pub child: ChildKey,
    /// In what it changed.
    pub what: Changes,
}

/// Stands for a record of one [`Projector`](crate::Projector), which tells
/// [whose it is](crate::Projector::name) and [what is in it](crate::Projector::record_at).
///
/// Nearly every event changes a record, so this is a number, where the names would have to be
/// counted and given back. It holds until the record is given up ([`Effect::Forgotten`], which comes
/// with names); then it may come to stand for another child's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChildKey {
    pub(crate) source: u32,
    pub(crate) slot: u32,
}

/// What changed for all live children of a source at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceChange {
    /// None of its live children is proven any more (rules O7, N8).
    Unproven,
    /// Its only counter has a gap (rule O4, scope Epoch).
    GapOpened,
    /// Its only counter has no gap any more.
    GapClosed,
}

/// Something that only the host can do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Intent {
    /// Take a snapshot of the source, and apply it.
    Snapshot {
        /// Of which source.
        source: SourceId,
        /// What for.
        why: SnapshotNeed,
    },
    /// Look for a stale child; apply what is found, or report
    /// [`reconcile_failed`](crate::Projector::reconcile_failed) (rule L4).
    Reconcile {
        /// Whose child.
        source: SourceId,
        /// Which one.
        child: ChildId,
        /// Which attempt this is, from 1.
        attempt: u32,
    },
    /// Tell people that complete snapshots keep omitting a child that never ended (rule N5).
    StaleUnknown {
        /// Whose child.
        source: SourceId,
        /// Which one.
        child: ChildId,
    },
}

/// Why a snapshot is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotNeed {
    /// The source began a new life (rule O7).
    NewEpoch,
    /// Its stream was interrupted, and events may be missing (rule N8).
    Discontinuity,
    /// A gap has stayed open for too long (rule O8).
    OpenGap,
}

/// A set of facts of a record.
///
/// ```
/// use headcount_projector::Changes;
/// let what = Changes::STATE | Changes::GAP;
/// assert!(what.contains(Changes::STATE) && !what.contains(Changes::STALE));
/// assert_eq!(what.to_string(), "state, gap");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Changes(u16);

impl Changes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// The child is new in the projection.
    pub const FIRST_SEEN: Self = Self(1);
    /// The state; with it, perhaps, the terminal facts.
    pub const STATE: Self = Self(1 << 1);
    /// The stale mark.
    pub const STALE: Self = Self(1 << 2);
    /// The unproven mark.
    pub const UNPROVEN: Self = Self(1 << 3);
    /// The gap mark.
    pub const GAP: Self = Self(1 << 4);
    /// The lineage: a parent became known, or all of it.
    pub const LINEAGE: Self = Self(1 << 5);
    /// The capabilities.
    pub const CAPABILITIES: Self = Self(1 << 6);
    /// The activity or its time.
    pub const ACTIVITY: Self = Self(1 << 7);
    /// The time of the last heartbeat.
    pub const HEARTBEAT: Self = Self(1 << 8);
    /// The last sequence.
    pub const SEQUENCE: Self = Self(1 << 9);
    /// When the child was last proven to live.
    pub const PROOF: Self = Self(1 << 10);
    /// Whether its history is known from the start.
    pub const HISTORY: Self = Self(1 << 11);

    const NAMES: [&'static str; 12] = [
        "first seen",
        "state",
        "stale",
        "unproven",
        "gap",
        "lineage",
        "capabilities",
        "activity",
        "heartbeat",
        "sequence",
        "proof",
        "history",
    ];

    /// Whether all of `what` is in the set.
    pub const fn contains(self, what: Self) -> bool {
        self.0 & what.0 == what.0
    }

    /// Whether any of `what` is in the set.
    pub const fn intersects(self, what: Self) -> bool {
        self.0 & what.0 != 0
    }

    /// Whether nothing is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The names of what is in the set.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .enumerate()
            .filter_map(move |(bit, name)| (self.0 & (1 << bit) != 0).then_some(name))
    }
}

impl std::ops::BitOr for Changes {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Changes {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Debug for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Changes({self})")
    }
}
