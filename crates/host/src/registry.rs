//! The adapters of this program: those that cargo features select, and those that are linked.

use headcount_contract::AdapterRegistration;
use headcount_registry::{Registry, RegistryError};

/// The first-party adapters whose cargo feature is on. Named here, so that they are there however
/// the program is linked.
const FIRST_PARTY: &[&AdapterRegistration] = &[
    #[cfg(feature = "process")]
    &headcount_adapter_process::REGISTRATION,
    #[cfg(feature = "jsonl")]
    &headcount_adapter_jsonl::REGISTRATION,
    #[cfg(feature = "external")]
    &headcount_adapter_external::REGISTRATION,
    #[cfg(feature = "hermes")]
    &headcount_adapter_hermes::REGISTRATION,
];

/// What to say of a first-party kind whose cargo feature is off.
const HINTS: [(&str, &str); 4] = [
    (
        "process",
        "Build `headcount` with the cargo feature `process`",
    ),
    ("jsonl", "Build `headcount` with the cargo feature `jsonl`"),
    (
        "external",
        "Build `headcount` with the cargo feature `external`",
    ),
    (
        "hermes",
        "Build `headcount` with the cargo feature `hermes`",
    ),
];

/// All adapters of this program: every first-party one whose cargo feature is on, and every other
/// one that is linked.
///
/// # Errors
///
/// [`RegistryError::Conflict`] if two of them claim one kind.
///
/// ```
/// for adapter in headcount::registry()?.iter() {
///     println!("{} by {}: {}", adapter.kind, adapter.provided_by, adapter.summary);
/// }
/// # Ok::<(), headcount::RegistryError>(())
/// ```
pub fn registry() -> Result<Registry, RegistryError> {
    let hinted = |all: Registry, (kind, hint)| all.with_hint(kind, hint);
    let linked = HINTS.into_iter().fold(Registry::linked()?, hinted);
    FIRST_PARTY
        .iter()
        .try_fold(linked, |all, adapter| all.with(adapter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_those_whose_features_are_on_and_the_others_are_hinted_at() {
        let on = [
            ("process", cfg!(feature = "process")),
            ("jsonl", cfg!(feature = "jsonl")),
            ("external", cfg!(feature = "external")),
            ("hermes", cfg!(feature = "hermes")),
        ];
        assert_eq!(on.map(|(kind, _)| kind), HINTS.map(|(kind, _)| kind));
        let registry = registry().unwrap();
        let wanted = on.iter().filter(|(_, on)| *on).count();
        assert_eq!(registry.iter().len(), wanted);
        for (kind, on) in on {
            match registry.get(kind) {
                Ok(found) => assert!(on && found.kind == kind, "{kind}"),
                Err(error) => {
                    assert!(!on, "{error}");
                    let feature = format!("the cargo feature `{kind}`");
                    assert!(error.to_string().contains(&feature), "{error}");
                }
            }
        }
    }
}
