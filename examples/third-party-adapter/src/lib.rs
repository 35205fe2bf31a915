//! Observes workers that keep their state in files of one folder.
//!
//! A worker named `build-7` writes one word into `build-7.state`: `starting`, `running`, `waiting`,
//! `done`, `failed` or `cancelled`. A name is one run: whoever runs again takes another name.

mod adapter;
mod config;
mod source;
mod translate;

use headcount_contract::{
    AdapterRegistration, Capabilities, Capability, SequenceScope, SourceRole,
};

pub use adapter::SpoolAdapter;
pub use config::SpoolConfig;

/// How a host finds this adapter.
pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "spool",
    summary: "observes workers that keep their state in files of one folder",
    provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: CAPABILITIES,
    config_schema: || schemars::schema_for!(SpoolConfig).to_value(),
    example_config: || serde_json::json!({ "folder": "/var/lib/workers" }),
    build: adapter::build,
};
headcount_registry::submit_adapter!(REGISTRATION);

/// What is verified of this source. A folder lists all that is in it, and the word says how a
/// worker ended; what happened between two looks is unknown.
const CAPABILITIES: Capabilities = Capabilities {
    snapshot: Capability::Known,
    terminal_cause: Capability::Known,
    ..Capabilities::UNKNOWN
};

/// The same for people: what this source can never tell.
const LIMITATIONS: [&str; 3] = [
    "what a worker did between two looks at its file is unknown",
    "a worker sends no heartbeats: its file stays as it is when it dies",
    "workers cannot be cancelled through their files",
];
