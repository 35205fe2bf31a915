//! The adapters of this program: those that cargo features select, and those that are linked.

use headcount_registry::{Registry, RegistryError};

/// Each first-party kind, the cargo feature that brings it, and what to say when it is off.
#[cfg_attr(
    all(
        feature = "process",
        feature = "jsonl",
        feature = "external",
        feature = "hermes"
    ),
    allow(dead_code)
)]
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
    // Named here, so that they are there however the program is linked.
    let registry = HINTS
        .into_iter()
        .fold(Registry::linked()?, |all, (kind, hint)| {
            all.with_hint(kind, hint)
        });
    Ok(registry)
}
