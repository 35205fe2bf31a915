//! The sorted list of registrations.

use std::collections::BTreeMap;
use std::sync::Arc;

use headcount_contract::{AdapterError, AdapterRegistration, AdapterSpec, ChildLifecycleAdapter};

use crate::RegistryError;

/// What [`submit_adapter!`](crate::submit_adapter) submits.
#[derive(Debug)]
pub struct Submission(pub &'static AdapterRegistration);

inventory::collect!(Submission);

/// The adapters that a program can build, by kind.
///
/// # Behavior
///
/// - Listed sorted by kind, whatever the order of linking.
/// - Registering the same static twice is harmless; two of one kind are an error.
///
/// ```
/// use headcount_registry::Registry;
/// let registry = Registry::linked()?;
/// for adapter in registry.iter() {
///     println!("{}: {}", adapter.kind, adapter.summary);
/// }
/// # Ok::<(), headcount_registry::RegistryError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Registry {
    adapters: BTreeMap<&'static str, &'static AdapterRegistration>,
    /// What would bring a kind that is not here, by kind.
    hints: BTreeMap<&'static str, &'static str>,
}

impl Registry {
    /// Everything that was submitted by the crates linked into this program.
    ///
    /// # Errors
    ///
    /// [`RegistryError::Conflict`] if two of them claim one kind.
    pub fn linked() -> Result<Self, RegistryError> {
        inventory::iter::<Submission>().try_fold(Self::default(), |all, one| all.with(one.0))
    }

    /// The same with one more.
    ///
    /// # Errors
    ///
    /// [`RegistryError::Conflict`] if another one claims its kind.
    ///
    /// ```
    /// # use headcount_contract::*;
    /// # static REGISTRATION: AdapterRegistration = AdapterRegistration {
    /// #     kind: "mine", summary: "", provided_by: "me 1.0", role: SourceRole::Own,
    /// #     sequence_scope: SequenceScope::Child, capabilities: Capabilities::UNKNOWN,
    /// #     config_schema: || serde_json::json!({}), example_config: || serde_json::json!({}),
    /// #     build: |_| Err(AdapterError::unsupported("build")),
    /// # };
    /// use headcount_registry::Registry;
    /// let registry = Registry::default().with(&REGISTRATION)?.with(&REGISTRATION)?;
    /// assert_eq!(registry.iter().count(), 1);
    /// # Ok::<(), headcount_registry::RegistryError>(())
    /// ```
    pub fn with(mut self, adapter: &'static AdapterRegistration) -> Result<Self, RegistryError> {
        match self.adapters.insert(adapter.kind, adapter) {
            Some(before) if !std::ptr::eq(before, adapter) => {
                // Sorted, since the order of linking is not promised and a message should be.
                let (a, b) = (before.provided_by, adapter.provided_by);
                let (first, second) = (a.min(b), a.max(b));
                Err(RegistryError::Conflict {
                    kind: adapter.kind,
                    first,
                    second,
                })
            }
            _ => Ok(self),
        }
    }

    /// The same with a sentence for whoever asks for `kind` while it is not here, such as which
    /// cargo feature would bring it.
    pub fn with_hint(mut self, kind: &'static str, hint: &'static str) -> Self {
        self.hints.insert(kind, hint);
        self
    }

    /// The adapter of this kind.
    ///
    /// # Errors
    ///
    /// [`RegistryError::UnknownKind`], which lists the known ones and what would bring it.
    pub fn get(&self, kind: &str) -> Result<&'static AdapterRegistration, RegistryError> {
        self.adapters
            .get(kind)
            .copied()
            .ok_or_else(|| RegistryError::UnknownKind {
                kind: kind.to_owned(),
                known: self.adapters.keys().copied().collect(),
                hint: self.hints.get(kind).map(|hint| (*hint).to_owned()),
            })
    }

    /// Builds an adapter of this kind.
    ///
    /// # Errors
    ///
    /// What the adapter says of the configuration, or
    /// [`InvalidConfig`](headcount_contract::AdapterErrorKind::InvalidConfig) for an unknown kind.
    pub fn build(
        &self,
        kind: &str,
        spec: AdapterSpec,
    ) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
        use headcount_contract::AdapterErrorKind::InvalidConfig;
        let adapter = self
            .get(kind)
            .map_err(|error| AdapterError::new(InvalidConfig, error.to_string()))?;
        (adapter.build)(spec)
    }

    /// All of them, sorted by kind.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'static AdapterRegistration> {
        self.adapters.values().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_contract::{Capabilities, SequenceScope, SourceRole};

    const fn registration(kind: &'static str, provided_by: &'static str) -> AdapterRegistration {
        AdapterRegistration {
            kind,
            summary: "for tests",
            provided_by,
            role: SourceRole::Own,
            sequence_scope: SequenceScope::Child,
            capabilities: Capabilities::UNKNOWN,
            config_schema: || serde_json::Value::Null,
            example_config: || serde_json::Value::Null,
            build: |_| Err(AdapterError::unsupported("build")),
        }
    }

    static ZEBRA: AdapterRegistration = registration("zebra", "zoo 1.0.0");
    static APE: AdapterRegistration = registration("ape", "zoo 1.0.0");
    static OTHER_APE: AdapterRegistration = registration("ape", "circus 2.0.0");
    crate::submit_adapter!(ZEBRA);
    crate::submit_adapter!(APE);

    fn linked() -> Registry {
        Registry::linked().unwrap()
    }

    #[test]
    fn lists_what_was_submitted_sorted_by_kind() {
        assert_eq!(
            linked().iter().map(|a| a.kind).collect::<Vec<_>>(),
            ["ape", "zebra"]
        );
    }

    #[test]
    fn the_same_static_twice_is_harmless() {
        assert_eq!(linked().with(&ZEBRA).unwrap().iter().len(), 2);
    }

    #[test]
    fn two_of_one_kind_are_an_error_that_names_both() {
        let error = linked().with(&OTHER_APE).unwrap_err();
        insta::assert_snapshot!(error, @r#"the adapter kind "ape" is registered twice: by circus 2.0.0 and by zoo 1.0.0; link only one of them"#);
    }

    #[test]
    fn an_unknown_kind_is_an_error_that_lists_the_known_ones() {
        insta::assert_snapshot!(linked().get("gnu").unwrap_err(), @r#"there is no adapter of kind "gnu"; this program has ape, zebra. An adapter crate of another's is linked by a line `use the_adapter_crate as _;` in the program"#);
    }

    #[test]
    fn an_unknown_kind_says_what_would_bring_it() {
        let registry = linked().with_hint("gnu", "Build with the cargo feature `gnu`");
        insta::assert_snapshot!(registry.get("gnu").unwrap_err(), @r#"there is no adapter of kind "gnu"; this program has ape, zebra. Build with the cargo feature `gnu`"#);
    }

    #[test]
    fn an_empty_registry_says_that_it_is_empty() {
        insta::assert_snapshot!(Registry::default().get("ape").unwrap_err(), @r#"there is no adapter of kind "ape"; no adapter is linked into this program. An adapter crate of another's is linked by a line `use the_adapter_crate as _;` in the program"#);
    }

    #[test]
    fn building_an_unknown_kind_is_an_invalid_configuration() {
        let error = linked()
            .build("gnu", AdapterSpec::new(serde_json::Value::Null))
            .unwrap_err();
        assert_eq!(
            error.kind(),
            headcount_contract::AdapterErrorKind::InvalidConfig
        );
    }
}
