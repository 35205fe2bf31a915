//! What a host may choose: deadlines, patience, and how much is remembered.

use std::time::Duration;

use headcount_contract::SequenceScope;

/// What the projector waits for, how long, and how much it remembers.
///
/// Every bound holds whatever a source sends. Durations count in the time that is passed in; the
/// projector owns no clock.
///
/// ```
/// use std::time::Duration;
/// let mut settings = headcount_projector::Settings::default();
/// settings.heartbeat_deadline = Duration::from_secs(30);
/// assert_eq!(settings.miss_grace, 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// How long a child whose source verified heartbeats may go without proof of life before it is
    /// stale (rule L1). Default 120 s.
    pub heartbeat_deadline: Duration,
    /// The same for a child whose heartbeat capability is unknown, where activity counts as proof:
    /// healthy agents were seen silent for 280 s. Default 600 s.
    pub activity_deadline: Duration,
    /// How long a gap may stay open before a snapshot is asked for (rule O8). Default 10 s.
    pub gap_grace: Duration,
    /// How many complete snapshots in a row may omit a live child before it is reported as
    /// stale-unknown (rule N5). At least 1. Default 2.
    pub miss_grace: u8,
    /// How many attempts to reconcile a stale child must fail before it is lost (rule L4). At
    /// least 1. Default 3.
    pub reconcile_attempts: u32,
    /// The pause after the first failed attempt; it doubles with each one after. Default 5 s.
    pub reconcile_backoff: Duration,
    /// The longest pause between attempts. Default 60 s.
    pub reconcile_backoff_max: Duration,
    /// How long an attempt may take; one that was not answered by then failed. Default 30 s.
    pub reconcile_deadline: Duration,
    /// How far ahead of the receiver a source's clock may be before it is reported (rule L2); it
    /// never extends life. Default 10 s.
    pub clock_skew: Duration,
    /// How many unsequenced events of a source are remembered to recognise duplicates (rule O2).
    /// Default 1,024.
    pub unsequenced_window: usize,
    /// How many sequenced events, of all sources, are remembered to tell a duplicate from a
    /// conflict (rule O1); rounded up to a power of two. Default 4,096.
    pub conflict_window: usize,
    /// How many separate missing ranges are kept a counter; the oldest is given up beyond it (rule
    /// O4). At least 1. Default 64.
    pub gap_ranges: usize,
    /// How many snapshots of a source are remembered, so that each is applied once (rule N6). At
    /// least 1. Default 64.
    pub snapshot_window: usize,
    /// How many epochs of a source are remembered (rule O7); an older one would look new. From 2
    /// to 4,096. Default 256.
    pub epoch_window: usize,
    /// How many ended children of a source keep their whole record; the oldest beyond it shrink to
    /// a tombstone, which keeps terminal final. Live children are never evicted. Default 10,000.
    pub ended_children: usize,
    /// How many tombstones of a source are kept, each of about 60 bytes; a child older than that
    /// would look new. Default 100,000.
    pub tombstones: usize,
    /// How many live children of a source are followed; further ones are refused and audited.
    /// Default 4,194,304.
    pub live_children: usize,
    /// How many sources are followed; events of further ones are refused. Default 16,384.
    pub sources: usize,
    /// In which scope sources count, where
    /// [`Projector::set_scope`](crate::Projector::set_scope) says nothing else (rule O4).
    pub scope: SequenceScope,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            heartbeat_deadline: Duration::from_mins(2),
            activity_deadline: Duration::from_mins(10),
            gap_grace: Duration::from_secs(10),
            miss_grace: 2,
            reconcile_attempts: 3,
            reconcile_backoff: Duration::from_secs(5),
            reconcile_backoff_max: Duration::from_mins(1),
            reconcile_deadline: Duration::from_secs(30),
            clock_skew: Duration::from_secs(10),
            unsequenced_window: 1_024,
            conflict_window: 4_096,
            gap_ranges: 64,
            snapshot_window: 64,
            epoch_window: 256,
            ended_children: 10_000,
            tombstones: 100_000,
            live_children: 1 << 22,
            sources: 1 << 14,
            scope: SequenceScope::Child,
        }
    }
}
