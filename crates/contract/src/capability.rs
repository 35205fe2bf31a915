//! What a source was verified to be able to do. Unknown is not "no" (rule C1).

/// Whether a source has verified that it can do something.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Capability {
    /// Verified by the source.
    Known,
    /// Not verified; it may or may not be so.
    #[default]
    Unknown,
}

impl Capability {
    /// Whether the source verified it.
    pub const fn is_known(self) -> bool {
        matches!(self, Self::Known)
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Known => "known",
            Self::Unknown => "unknown",
        }
    }
}

/// The five capabilities of schema version 1.
///
/// Not `#[non_exhaustive]`: the set is closed by the schema version, and a registration writes it
/// as one literal.
///
/// ```
/// use headcount_contract::{Capabilities, Capability};
/// const OURS: Capabilities = Capabilities { heartbeat: Capability::Known, ..Capabilities::UNKNOWN };
/// assert!(!OURS.cancel.is_known());
/// ```
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(
    feature = "schema",
    schemars(description = "What the source has verified")
)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Every event of the child's life can be had.
    pub history: Capability,
    /// Liveness is reported regularly, whatever the child does.
    pub heartbeat: Capability,
    /// Complete snapshots can be had.
    pub snapshot: Capability,
    /// The child can be cancelled through this source.
    pub cancel: Capability,
    /// Why a child ended is told by the source, not inferred.
    pub terminal_cause: Capability,
}

impl Capabilities {
    /// Nothing was verified.
    pub const UNKNOWN: Self = Self {
        history: Capability::Unknown,
        heartbeat: Capability::Unknown,
        snapshot: Capability::Unknown,
        cancel: Capability::Unknown,
        terminal_cause: Capability::Unknown,
    };
}
