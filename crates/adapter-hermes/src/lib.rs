//! Follows the delegated subagents of a Hermes gateway.

pub mod frame;
pub mod replay;
#[allow(dead_code)] // the live source, which is on its way, uses the rest
mod translate;

use headcount_contract::{AdapterError, AdapterErrorKind};

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
