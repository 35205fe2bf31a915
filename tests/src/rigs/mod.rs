//! Rigs of the conformance kit, one for each adapter.

pub mod external;
pub mod hermes;
pub mod jsonl;
pub mod process;
pub mod stub;

use headcount_conformance::RegistryAnswers;
use headcount_registry::Registry;

/// The answers of the registry that finds what is linked into this test.
pub fn registry(kind: &str) -> RegistryAnswers {
    match Registry::linked() {
        Ok(registry) => RegistryAnswers {
            listed: registry.iter().collect(),
            found: registry.get(kind).map_err(|error| error.to_string()),
        },
        Err(error) => RegistryAnswers {
            listed: Vec::new(),
            found: Err(error.to_string()),
        },
    }
}
