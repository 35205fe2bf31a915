//! The projection rules of the Headcount contract as a pure, synchronous, deterministic fold.
//!
//! Lifecycle events, snapshots and time go into a [`Projector`]; what follows comes out as data: a
//! record [`changed`](Effect::Changed), an entry for the [`audit`](Effect::Audit) trail, an
//! [`intent`](Effect::Intent) for the host, an event [`derived`](Effect::Derived) for the journal.
//! A [`Record`] says what is known of one child, and who said so.
//!
//! There is no clock, no I/O and no async here, and nothing depends on the order of a hash map: the
//! same inputs give the same effects. Names of rules (`rule O5`) are those of the repository's
//! `docs/semantics.md`. To read the crate, begin with `projector.rs` (the inputs), then `event.rs`
//! and `order.rs` (what an event may change), `snapshot.rs`, and `liveness.rs` (stale, looked for,
//! lost).

mod audit;
mod child;
mod derived;
mod effect;
mod event;
mod fact;
mod fold;
mod liveness;
mod order;
mod projector;
mod record;
mod sequence;
mod settings;
mod slab;
mod snapshot;
mod source;
mod timers;
mod verdict;
mod view;
mod window;

pub use audit::{AuditEntry, AuditKind, CORRECTION_REASON, Cause};
pub use effect::{Change, Changes, ChildKey, Effect, Intent, SnapshotNeed, SourceChange};
pub use liveness::AttemptFailure;
pub use projector::Projector;
pub use record::{Evidence, Provenance, Record, Terminal};
pub use settings::Settings;
pub use verdict::{NoEffect, SnapshotVerdict, Verdict};
