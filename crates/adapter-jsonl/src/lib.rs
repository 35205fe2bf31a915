//! JSONL lifecycle streams in, and the append-only journal.
//!
//! - [`Decoder`]: bytes in; events, snapshots or located faults out.
//! - [`FileFollower`]: what is appended to a file, whatever is done to the file.
//! - [`JsonlAdapter`]: a stream as a lifecycle adapter.
//! - [`Journal`]: one file of events that several processes append to.

#[cfg(not(unix))]
compile_error!(
    "headcount-adapter-jsonl needs a Unix system: its lock and its following of files rest on \
     inodes, FIFOs and signals. Build `headcount` without its feature `jsonl` here."
);

mod adapter;
mod config;
mod decoder;
mod diagnostic;
mod follow;
mod framing;
mod health;
mod journal;
mod lock;
mod observed;
mod position;
mod source;
mod translate;
mod wake;
mod writer;

use headcount_contract::{AdapterRegistration, Capabilities, SequenceScope, SourceRole};

pub use adapter::JsonlAdapter;
pub use config::JsonlConfig;
pub use decoder::{Decoded, DecodedLine, Decoder, DecoderLimits};
pub use diagnostic::{DEFAULT_KEPT, Diagnostic, Diagnostics};
pub use follow::{Ended, FileFollower, Followed, Found, StartAt};
pub use framing::{DEFAULT_MAX_LINE, Framed, FramedLine, LineSplitter};
pub use journal::{
    Blocked, BlockedReason, Durability, Held, JOURNAL_SEQUENCE, Journal, JournalCursor,
    JournalEntry, JournalError, JournalOptions, JournalReader, JournalReport, Repair, Sequencing,
    repair_journal, verify_journal,
};
pub use lock::{LockError, LockOptions};
pub use position::StreamPosition;

/// How a host finds this adapter.
pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "jsonl",
    summary: "follows a stream of lifecycle events that others write, one JSON object a line",
    provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
    role: SourceRole::Carrier,
    sequence_scope: SequenceScope::Child,
    capabilities: Capabilities::UNKNOWN,
    config_schema: || schemars::schema_for!(JsonlConfig).to_value(),
    example_config: || serde_json::json!({ "path": "events.jsonl" }),
    build: adapter::build,
};
headcount_registry::submit_adapter!(REGISTRATION);
