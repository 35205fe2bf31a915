//! What became of one event or snapshot.

use std::fmt;

/// What became of one event. Its text is the one of `headcount check`.
///
/// ```
/// use headcount_projector::{NoEffect, Verdict};
/// assert_eq!(Verdict::AcceptedAfterGap.to_string(), "accept:gap");
/// assert_eq!(Verdict::NoEffect(NoEffect::TerminalImmutable).to_string(), "no-effect:terminal-immutable");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// Applied, in order.
    Accepted,
    /// Applied; it showed that events before it are missing (rule O4).
    AcceptedAfterGap,
    /// Known already, byte for byte as far as can be compared (rules O1, O2).
    Duplicate,
    /// Its place in the order is taken by an event of other content; not applied (rule O1).
    Conflict,
    /// It came late; what it says counts as far as nothing newer is known (rule O5).
    OutOfOrder,
    /// Valid, and without any effect on the child.
    NoEffect(NoEffect),
    /// Its lineage disagrees with the record; not applied (rule I3).
    LineageConflict,
}

/// Why a valid event had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoEffect {
    /// The child has ended (rule S2).
    TerminalImmutable,
    /// The source has begun a newer life (rule O7).
    SupersededEpoch,
    /// The child was created before (rule S1).
    CreatedAgain,
    /// The source has as many live children as are followed.
    TooManyChildren,
    /// There are as many sources as are followed.
    TooManySources,
}

impl Verdict {
    /// Its name in outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accept",
            Self::AcceptedAfterGap => "accept:gap",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::OutOfOrder => "out-of-order",
            Self::NoEffect(NoEffect::TerminalImmutable) => "no-effect:terminal-immutable",
            Self::NoEffect(NoEffect::SupersededEpoch) => "no-effect:superseded-epoch",
            Self::NoEffect(NoEffect::CreatedAgain) => "no-effect:created-again",
            Self::NoEffect(NoEffect::TooManyChildren) => "no-effect:too-many-children",
            Self::NoEffect(NoEffect::TooManySources) => "no-effect:too-many-sources",
            Self::LineageConflict => "reject:lineage-conflict",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What became of one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SnapshotVerdict {
    /// It was applied, as far as its kind allows (rules N1 to N6).
    Applied,
    /// It was applied before (rule N6).
    Duplicate,
    /// The source has begun a newer life; nothing changed (rule O7).
    SupersededEpoch,
    /// There are as many sources as are followed.
    TooManySources,
}
