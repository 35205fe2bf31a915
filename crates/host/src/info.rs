//! What the host has to know of an adapter beside the adapter itself.

use std::sync::Arc;

use headcount_contract::{
    AdapterRegistration, Capabilities, Capability, SequenceScope, SourceId, SourceRole,
};

/// What the host has to know of an adapter that it is handed as a value.
///
/// ```
/// use headcount::AdapterInfo;
/// use headcount_contract::{SequenceScope, SourceId};
///
/// let one_source = AdapterInfo::own("workers");
/// let mut many = AdapterInfo::carrier("message-bus");
/// many.scope = SequenceScope::Epoch;
/// many.only_sources = Some(vec![SourceId::new("build-farm")?]);
/// # Ok::<(), headcount_contract::IdError>(())
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdapterInfo {
    /// Its kind, for views.
    pub kind: Arc<str>,
    /// Who provides it, for views; the program itself by default.
    pub provided_by: Arc<str>,
    /// Whose events it carries (rule I6).
    pub role: SourceRole,
    /// Over which events it counts (rule O4).
    pub scope: SequenceScope,
    /// What it can be verified to do at best. An event that claims more is shown without.
    pub at_best: Capabilities,
    /// The only sources that a carrier may speak of; all that no other adapter owns if there is no
    /// such list.
    pub only_sources: Option<Vec<SourceId>>,
}

impl AdapterInfo {
    /// An adapter that is one source.
    pub fn own(kind: impl Into<Arc<str>>) -> Self {
        Self::new(kind.into(), SourceRole::Own)
    }

    /// An adapter that carries other sources' events.
    pub fn carrier(kind: impl Into<Arc<str>>) -> Self {
        Self::new(kind.into(), SourceRole::Carrier)
    }

    fn new(kind: Arc<str>, role: SourceRole) -> Self {
        use Capability::Known;
        Self {
            kind,
            provided_by: "this program".into(),
            role,
            scope: SequenceScope::Child,
            at_best: Capabilities {
                history: Known,
                heartbeat: Known,
                snapshot: Known,
                cancel: Known,
                terminal_cause: Known,
            },
            only_sources: None,
        }
    }
}

impl From<&AdapterRegistration> for AdapterInfo {
    fn from(registration: &AdapterRegistration) -> Self {
        Self {
            kind: registration.kind.into(),
            provided_by: registration.provided_by.into(),
            role: registration.role,
            scope: registration.sequence_scope,
            at_best: registration.capabilities,
            only_sources: None,
        }
    }
}

/// What both have verified.
pub(crate) fn both(a: Capabilities, b: Capabilities) -> Capabilities {
    let both = |a: Capability, b: Capability| {
        if a.is_known() && b.is_known() {
            Capability::Known
        } else {
            Capability::Unknown
        }
    };
    Capabilities {
        history: both(a.history, b.history),
        heartbeat: both(a.heartbeat, b.heartbeat),
        snapshot: both(a.snapshot, b.snapshot),
        cancel: both(a.cancel, b.cancel),
        terminal_cause: both(a.terminal_cause, b.terminal_cause),
    }
}
