//! What an adapter's stream carries, in band and in order.

use std::pin::Pin;
use std::sync::Arc;

use futures_core::Stream;

use crate::{ChildId, Health, LifecycleEvent, LogBatch, Snapshot};

/// What [`ChildLifecycleAdapter::subscribe`](crate::ChildLifecycleAdapter::subscribe) returns.
/// Dropping it unsubscribes.
pub type SignalStream = Pin<Box<dyn Stream<Item = Signal> + Send>>;

/// One item of an adapter's stream.
///
/// Events alone become part of a child's record. The others travel in the same stream because
/// their order relative to the events matters (rules 3 and 7).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Signal {
    /// Something happened to a child.
    Event(LifecycleEvent),
    /// Events may be missing here.
    Discontinuity(Discontinuity),
    /// The adapter's health changed.
    Health(Health),
    /// The source volunteered a snapshot.
    Snapshot(Snapshot),
    /// Something to show beside a child: never projected, never journaled.
    Observation(ChildId, Observation),
}

/// A place in the stream where events may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Discontinuity {
    /// What happened.
    pub cause: DiscontinuityCause,
    /// Whether events may be missing.
    pub gap: Gap,
}

/// Why a stream may have a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiscontinuityCause {
    /// The connection to the source was lost and is back.
    Reconnected,
    /// The connection to the source was lost.
    Disconnected,
    /// The source began a new life.
    SourceRestarted,
    /// This subscriber was too slow.
    Lagged {
        /// How many signals it missed.
        missed: u64,
    },
    /// The source's own record was cut, replaced or could not be read.
    SourceTruncated,
}

/// Whether events are missing at a discontinuity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    /// They cannot be: what was missed has been replayed.
    RuledOut,
    /// They may be: take a snapshot before trusting what follows.
    Possible,
}

/// Something to show beside a child. Context, never evidence of its state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Observation {
    /// Lines it wrote.
    Output(Arc<LogBatch>),
    /// This many lines it wrote were not kept for this subscriber.
    OutputMissed(u64),
    /// What it uses of the machine.
    Usage(Usage),
}

/// What a child's whole process tree uses of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Usage {
    /// Processor use in percent of one core.
    pub cpu_percent: f32,
    /// Resident memory in bytes.
    pub memory_bytes: u64,
    /// Live processes.
    pub processes: u32,
}

impl Usage {
    /// One sample: percent of one core, resident bytes, live processes.
    ///
    /// ```
    /// let usage = headcount_contract::Usage::new(12.5, 1 << 20, 3);
    /// assert_eq!(usage.processes, 3);
    /// ```
    pub fn new(cpu_percent: f32, memory_bytes: u64, processes: u32) -> Self {
        Self {
            cpu_percent,
            memory_bytes,
            processes,
        }
    }
}
