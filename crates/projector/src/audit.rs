//! What whoever checks the projection later must be able to see.

use std::fmt;

use headcount_contract::{
    ChildId, ChildState, EventId, Sequence, SnapshotId, SourceEpoch, SourceId, Timestamp,
};

use crate::AttemptFailure;

/// One entry of the audit trail.
///
/// Its text is one line, without the source, child and time that stand beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When the projector saw it, as the host's clock said.
    pub at: Timestamp,
    /// The source that it is about.
    pub source: SourceId,
    /// The epoch of the source that it is about, where it is about one.
    pub epoch: Option<SourceEpoch>,
    /// The child that it is about, where it is about one.
    pub child: Option<ChildId>,
    /// The event or snapshot that brought it about; none if time did.
    pub cause: Option<Cause>,
    /// What happened.
    pub kind: AuditKind,
}

/// The event or snapshot that brought something about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cause {
    /// An event.
    Event(EventId),
    /// An event, by its place in the order of its child and epoch, which names it as well (O1).
    EventAt(Sequence),
    /// A snapshot.
    Snapshot(SnapshotId),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event(id) => write!(f, "event {id}"),
            Self::EventAt(sequence) => write!(f, "event #{}", sequence.get()),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
        }
    }
}

/// What an audit entry says.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditKind {
    /// An event or snapshot came again (rules O1, O2, N6).
    Duplicate,
    /// An event came under the name or at the place of another one, with other content. One with a
    /// place in the order is not applied (rule O1), one without is (rule O2).
    Conflict,
    /// An event came after later ones (rule O5).
    OutOfOrder {
        /// Its place.
        sequence: Sequence,
    },
    /// Events are missing (rule O4).
    GapOpened {
        /// The first missing place.
        from: Sequence,
        /// The last missing place.
        to: Sequence,
    },
    /// No event is missing any more (rules O4, O8).
    GapClosed,
    /// Missing events are waited for no longer: there are too many holes, or the counter began anew.
    GapAbandoned {
        /// The first missing place.
        from: Sequence,
        /// The last missing place.
        to: Sequence,
    },
    /// The source began a new life (rule O7).
    NewEpoch {
        /// The life before.
        superseded: SourceEpoch,
    },
    /// An event or snapshot came of a life that is over (rule O7).
    SupersededEpoch,
    /// An event or snapshot disagrees with the lineage on record (rule I3).
    LineageConflict {
        /// The first fact on which they disagree, by its name on the wire.
        field: &'static str,
    },
    /// A step that the usual order of states does not have; it was applied (rule S1).
    UnusualTransition {
        /// The state before.
        from: ChildState,
        /// The state after.
        to: ChildState,
    },
    /// A child was created again; nothing changed (rule S1).
    CreatedAgain,
    /// Something contradicts that the child has ended; nothing changed (rule S2).
    TerminalImmutable {
        /// How it ended.
        ended: ChildState,
        /// The state that was claimed; none for a sign of life without one.
        claimed: Option<ChildState>,
    },
    /// A complete snapshot corrected the state (rule N1).
    Correction {
        /// The state before.
        from: ChildState,
        /// The state after.
        to: ChildState,
        /// The snapshot.
        snapshot: SnapshotId,
    },
    /// A complete snapshot disagrees, but is older than what is known (rule N2).
    SnapshotBehind {
        /// The state on record.
        known: ChildState,
        /// The state in the snapshot.
        claimed: ChildState,
    },
    /// A complete snapshot that covers the child omits it (rule N5).
    Omission {
        /// How many in a row did.
        misses: u8,
    },
    /// No proof of life by the deadline (rule L3).
    Stale {
        /// The last proof of life.
        proven_at: Timestamp,
    },
    /// An attempt to reconcile a stale child failed (rule L4).
    ReconcileFailed {
        /// Which one, from 1.
        attempt: u32,
        /// Why.
        why: AttemptFailure,
    },
    /// The child is lost (rule L4).
    Lost,
    /// The source's clock is ahead by more than is allowed; said once until it is not (rule L2).
    ClockSkew {
        /// What the source's clock said.
        observed_at: Timestamp,
    },
    /// A child or source is not followed, as there are as many as the settings allow; said once
    /// until there is room.
    LimitReached,
}

impl AuditKind {
    /// Its name in outputs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::GapOpened { .. } => "gap_opened",
            Self::GapClosed => "gap_closed",
            Self::GapAbandoned { .. } => "gap_abandoned",
            Self::NewEpoch { .. } => "new_epoch",
            Self::SupersededEpoch => "superseded_epoch",
            Self::LineageConflict { .. } => "lineage_conflict",
            Self::UnusualTransition { .. } => "unusual_transition",
            Self::CreatedAgain => "created_again",
            Self::TerminalImmutable { .. } => "terminal_immutable",
            Self::Correction { .. } => "correction",
            Self::SnapshotBehind { .. } => "snapshot_behind",
            Self::Omission { .. } => "omission",
            Self::Stale { .. } => "stale",
            Self::ReconcileFailed { .. } => "reconcile_failed",
            Self::Lost => "lost",
            Self::ClockSkew { .. } => "clock_skew",
            Self::LimitReached => "limit_reached",
        }
    }
}

/// Why a complete snapshot may correct a state: the only reason there is.
pub const CORRECTION_REASON: &str = "authoritative_snapshot";

impl fmt::Display for AuditEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        match &self.kind {
            AuditKind::OutOfOrder { sequence } => write!(f, " at {}", sequence.get())?,
            AuditKind::GapOpened { from, to } | AuditKind::GapAbandoned { from, to } => {
                write!(f, " {} to {}", from.get(), to.get())?;
            }
            AuditKind::NewEpoch { superseded } => write!(f, " after {superseded}")?,
            AuditKind::LineageConflict { field } => write!(f, " on {field}")?,
            AuditKind::UnusualTransition { from, to } => write!(f, " {from} to {to}")?,
            AuditKind::TerminalImmutable { ended, claimed } => match claimed {
                Some(claimed) => write!(f, " {ended}, not {claimed}")?,
                None => write!(f, " {ended}")?,
            },
            AuditKind::Correction { from, to, .. } => {
                write!(f, " {from} to {to}, {CORRECTION_REASON}")?;
            }
            AuditKind::SnapshotBehind { known, claimed } => {
                write!(f, " {claimed}, known {known}")?;
            }
            AuditKind::Omission { misses } => write!(f, " {misses} in a row")?,
            AuditKind::Stale { proven_at } => write!(f, ", last proven {proven_at}")?,
            AuditKind::ReconcileFailed { attempt, why } => write!(f, " attempt {attempt}, {why}")?,
            AuditKind::ClockSkew { observed_at } => write!(f, ", observed at {observed_at}")?,
            AuditKind::Duplicate
            | AuditKind::Conflict
            | AuditKind::GapClosed
            | AuditKind::SupersededEpoch
            | AuditKind::CreatedAgain
            | AuditKind::Lost
            | AuditKind::LimitReached => (),
        }
        match &self.cause {
            Some(cause) => write!(f, " ({cause})"),
            None => Ok(()),
        }
    }
}
