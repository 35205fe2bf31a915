//! How an adapter makes itself known: plain data that a `static` can hold.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::{AdapterError, Capabilities, ChildLifecycleAdapter, SourceId};

/// Whose events an adapter's stream carries (rule I6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SourceRole {
    /// The adapter is one source; all its events bear its identity.
    Own,
    /// The adapter carries other sources' events, as a stream or a journal does.
    Carrier,
}

/// Over which events a source counts its sequence (rule O4).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SequenceScope {
    /// Each child has its own counter.
    #[default]
    Child,
    /// One counter for all children of a source epoch.
    Epoch,
}

/// What a host hands to an adapter's build function.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AdapterSpec {
    /// The name that the host gives the source; the adapter has a default.
    pub source: Option<SourceId>,
    /// The adapter's own keys.
    pub config: Value,
}

impl AdapterSpec {
    /// A configuration, and the adapter's default name.
    ///
    /// ```
    /// use headcount_contract::AdapterSpec;
    /// let spec = AdapterSpec::new(serde_json::json!({"command": "cargo", "args": ["build"]}));
    /// assert_eq!(spec.source, None);
    /// ```
    pub fn new(config: Value) -> Self {
        Self {
            source: None,
            config,
        }
    }

    /// The same under a name of the host's choice.
    pub fn named(mut self, source: SourceId) -> Self {
        self.source = Some(source);
        self
    }
}

/// Checks a configuration and makes an adapter of it. Does no I/O.
pub type BuildAdapter = fn(AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError>;

/// One kind of adapter, as a host finds it.
///
/// Not `#[non_exhaustive]`, so that a `static` can be written as one literal; new fields come with
/// a new major version of this crate.
#[derive(Clone, Copy)]
pub struct AdapterRegistration {
    /// The name by which a configuration asks for it.
    pub kind: &'static str,
    /// What it observes, in one sentence.
    pub summary: &'static str,
    /// Who provides it: `concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"))`.
    pub provided_by: &'static str,
    /// Whose events it carries.
    pub role: SourceRole,
    /// Over which events it counts.
    pub sequence_scope: SequenceScope,
    /// What it can be verified to do at best; an adapter that was built says what it has verified.
    pub capabilities: Capabilities,
    /// The JSON Schema of its configuration.
    pub config_schema: fn() -> Value,
    /// A configuration that builds.
    pub example_config: fn() -> Value,
    /// Checks a configuration and makes an adapter of it.
    pub build: BuildAdapter,
}

impl fmt::Debug for AdapterRegistration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AdapterRegistration")
            .field("kind", &self.kind)
            .field("provided_by", &self.provided_by)
            .finish_non_exhaustive()
    }
}
