//! Observes processes that somebody else started, and claims nothing more.
//!
//! [`ExternalAdapter`] adopts processes by number, PID file or matcher ([`ExternalConfig`]). What it
//! says is what the contract's table "External Adoption Limits" allows: that a process is there,
//! and how it ended where the system tells. [`match_journal_child`] finds the processes of a
//! journal again after the host itself died.

mod adapter;
mod config;
mod enrich;
mod facts;
mod process;
mod readopt;
mod redact;
mod report;
mod sampling;
mod scan;
mod source;
mod translate;

use headcount_contract::{
    AdapterRegistration, Capabilities, Capability, SequenceScope, SourceRole,
};

pub use adapter::{ExternalAdapter, ExternalAdapterBuilder};
pub use config::{Descendants, ExternalConfig, Matcher};
pub use enrich::{
    CancelAuthority, ControlApi, EventStream, SnapshotSource, StatusEndpoint, Target, Verify,
};
pub use process::{AdoptError, ExitStatus, Look, ProcessIdentity, boot_id, look};
pub use readopt::{Readopt, Readoption, match_journal_child};
pub use redact::redact_command;
pub use translate::child_id;

/// How a host finds this adapter.
pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "external",
    summary: "observes processes that somebody else started, by number, PID file or matcher",
    provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: Capabilities {
        heartbeat: Capability::Known,
        snapshot: Capability::Known,
        terminal_cause: Capability::Known,
        ..Capabilities::UNKNOWN
    },
    config_schema: || schemars::schema_for!(ExternalConfig).to_value(),
    example_config: || serde_json::json!({ "match": [{ "name": "node", "command_contains": "agent.js" }] }),
    build: adapter::build,
};

headcount_registry::submit_adapter!(REGISTRATION);
