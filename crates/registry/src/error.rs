//! What a person reads when an adapter cannot be had.

use std::fmt::Write as _;

/// Why a registry cannot be made, or an adapter not found in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// Two registrations claim one kind.
    #[error(
        "the adapter kind {kind:?} is registered twice: by {first} and by {second}; \
         link only one of them"
    )]
    Conflict {
        /// The kind.
        kind: &'static str,
        /// Who registered it first, by name.
        first: &'static str,
        /// Who else did.
        second: &'static str,
    },
    /// Nobody registered the kind.
    #[error("there is no adapter of kind {kind:?}; {}{}", list(known), advice(hint.as_deref()))]
    UnknownKind {
        /// The kind that was asked for.
        kind: String,
        /// The kinds that are linked, sorted.
        known: Vec<&'static str>,
        /// What would bring it.
        hint: Option<String>,
    },
}

fn list(known: &[&'static str]) -> String {
    if known.is_empty() {
        return "no adapter is linked into this program".into();
    }
    let mut text = String::from("this program has ");
    for (at, kind) in known.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = write!(text, "{}{kind}", if at == 0 { "" } else { ", " });
    }
    text
}

fn advice(hint: Option<&str>) -> String {
    match hint {
        Some(hint) => format!(". {hint}"),
        None => {
            ". An adapter crate of another's is linked by a line `use the_adapter_crate as _;` \
                 in the program"
                .into()
        }
    }
}
