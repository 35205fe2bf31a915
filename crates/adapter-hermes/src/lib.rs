//! Follows the delegated subagents of a Hermes gateway.
//!
//! A gateway is started on pipes, reached over a WebSocket, or fed by a host that owns the
//! connection. Built for what gateways 0.19 to 0.22 really send; versions are told apart by their
//! answers.

mod adapter;
mod config;
mod evidence;
pub mod frame;
mod record;
pub mod replay;
#[cfg(feature = "scripted")]
pub mod scripted;
mod source;
mod translate;
mod transport;

use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterRegistration, Capabilities, Capability, SequenceScope,
    SourceRole,
};
use serde_json::json;

pub use adapter::HermesAdapter;
pub use config::HermesConfig;
pub use transport::feed::Feed;

/// How a host finds this adapter.
pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "hermes",
    summary: "follows the delegated subagents of a Hermes gateway",
    provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: Capabilities {
        history: Capability::Known,
        heartbeat: Capability::Known,
        snapshot: Capability::Known,
        cancel: Capability::Known,
        terminal_cause: Capability::Unknown,
    },
    config_schema: || schemars::schema_for!(HermesConfig).to_value(),
    example_config: || {
        json!({
            "ws": "ws://127.0.0.1:9119/api/ws",
            "token_env": "HERMES_DASHBOARD_SESSION_TOKEN",
        })
    },
    build: HermesAdapter::build,
};

headcount_registry::submit_adapter!(REGISTRATION);

/// The tokio runtime that the caller runs on.
fn runtime() -> Result<tokio::runtime::Handle, AdapterError> {
    tokio::runtime::Handle::try_current().map_err(|error| {
        AdapterError::new(
            AdapterErrorKind::Internal,
            "a Hermes adapter needs a tokio runtime: subscribe within one",
        )
        .with_source(error)
    })
}
