//! Types and traits of the Headcount contract.
//!
//! A *child* is one run of one agent. Every source of children is translated by an adapter into one
//! small vocabulary: [lifecycle events](LifecycleEvent) and [snapshots](Snapshot). Two seams reach
//! it: [`ChildLifecycleAdapter`] observes a source, [`AgentRuntime`] starts and supervises runs.
//!
//! This crate owns no clock, no runtime, no operating system and no registry; it builds for
//! `wasm32-unknown-unknown`. Rules that the documentation names (`rule W2`, `rule 4`) are those of
//! the semantics in the repository's `docs/semantics.md`.

mod adapter;
mod cancel;
mod capability;
mod details;
mod error;
mod event;
mod health;
mod id;
mod lineage;
mod log;
mod registration;
mod run_event;
mod runtime;
#[cfg(feature = "schema")]
pub mod schema;
mod signal;
mod snapshot;
mod state;
mod time;
mod wire;

pub use adapter::{ChildLifecycleAdapter, Urgency};
pub use async_trait::async_trait;
pub use cancel::CancelOutcome;
pub use capability::{Capabilities, Capability};
pub use details::{Details, REDACTED, TOO_DEEP, is_secret_key};
pub use error::{AdapterError, AdapterErrorKind, StartError, StartErrorKind};
pub use event::{
    Activity, EventKind, LifecycleEvent, MAX_ACTIVITY_CHARS, SCHEMA_VERSION, Sequence,
    SourceIdentity,
};
pub use health::{Health, HealthStatus};
pub use id::{ChildId, EventId, IdError, MAX_ID_BYTES, RunId, SnapshotId, SourceEpoch, SourceId};
pub use lineage::{ChildIdentity, Lineage, LineageError, MAX_INTEGER};
pub use log::{LineFlags, LogBatch, LogLine, OutputStream};
pub use registration::{AdapterRegistration, AdapterSpec, BuildAdapter, SequenceScope, SourceRole};
pub use run_event::{RunEvent, RunStatus, StatusChange};
pub use runtime::{
    AgentRuntime, ProjectIdentity, RunEventStream, RunHandle, RuntimeCapabilities, StartInput,
    StopSignal,
};
pub use signal::{
    Discontinuity, DiscontinuityCause, Gap, Observation, Signal, SignalStream, Usage,
};
pub use snapshot::{
    AuthoritativeSnapshot, Coverage, PartialSnapshot, Snapshot, SnapshotChild, SnapshotError,
    SnapshotReason,
};
pub use state::{ChildState, LiveState, Outcome, UnknownState};
pub use time::{Timestamp, TimestampError};
pub use wire::{
    FaultClass, ParsedEvent, WireFault, WireLimits, WireLine, WireReader, parse_event,
    parse_event_with, parse_line, parse_snapshot,
};
