//! Finds the adapters that are linked into a program.
//!
//! Two ways in: a host names a registration explicitly ([`Registry::with`]), or an adapter crate
//! submits its own ([`submit_adapter!`]) and is linked. This is the only crate that knows how the
//! second works, and it knows no adapter.
//!
//! What the second way cannot do: a dependency that no code names is not linked and registers
//! nothing, so a host writes `use the_adapter as _;`; a `staticlib` linked into a C program
//! registers nothing; an adapter built against another major version of the contract registers
//! nothing.

mod error;
mod registry;

pub use error::RegistryError;
#[doc(hidden)]
pub use inventory;
pub use registry::{Registry, Submission};

/// Submits a `static` registration, so that every host that links the crate finds it.
///
/// ```
/// use headcount_contract::*;
/// pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
///     kind: "quiet",
///     summary: "observes nothing",
///     provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
///     role: SourceRole::Own,
///     sequence_scope: SequenceScope::Child,
///     capabilities: Capabilities::UNKNOWN,
///     config_schema: || serde_json::json!({ "type": "object" }),
///     example_config: || serde_json::json!({}),
///     build: |_| Err(AdapterError::unsupported("build")),
/// };
/// headcount_registry::submit_adapter!(REGISTRATION);
///
/// let registry = headcount_registry::Registry::linked()?;
/// assert_eq!(registry.get("quiet")?.summary, "observes nothing");
/// # Ok::<(), headcount_registry::RegistryError>(())
/// ```
#[macro_export]
macro_rules! submit_adapter {
    ($registration:path) => {
        $crate::inventory::submit! { $crate::Submission(&$registration) }
    };
}
