//! Identifiers: opaque, compared by bytes, never trimmed or normalised (rule I4).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

/// The longest identifier, in bytes.
pub const MAX_ID_BYTES: usize = 512;

/// Why a text cannot be an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdError {
    /// The text is empty; an empty identifier identifies nothing.
    Empty,
    /// The text is longer than [`MAX_ID_BYTES`] bytes.
    TooLong {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The text holds a control character.
    ControlCharacter {
        /// The byte offset of the first one.
        at: usize,
    },
}

impl fmt::Display for IdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an identifier must not be empty"),
            Self::TooLong { bytes } => {
                write!(
                    f,
                    "an identifier has at most {MAX_ID_BYTES} bytes, this one has {bytes}"
                )
            }
            Self::ControlCharacter { at } => {
                write!(
                    f,
                    "an identifier holds no control characters, this one does at byte {at}"
                )
            }
        }
    }
}

impl std::error::Error for IdError {}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > MAX_ID_BYTES {
        return Err(IdError::TooLong { bytes: text.len() });
    }
    // Plain ASCII, the common case, needs no decoding.
    if text.bytes().all(|b| matches!(b, 0x20..=0x7e)) {
        return Ok(());
    }
    match text.char_indices().find(|(_, c)| c.is_control()) {
        Some((at, _)) => Err(IdError::ControlCharacter { at }),
        None => Ok(()),
    }
}

macro_rules! identifiers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// 1 to 512 bytes of UTF-8 without control characters (rule I4). Cloning is cheap.
        ///
        /// ```
        #[doc = concat!("use headcount_contract::", stringify!($name), ";")]
        #[doc = concat!("let id = ", stringify!($name), "::new(\"worker-42\")?;")]
        /// assert_eq!(id.as_str(), "worker-42");
        #[doc = concat!("assert!(", stringify!($name), "::new(\"\").is_err());")]
        /// # Ok::<(), headcount_contract::IdError>(())
        /// ```
        #[derive(Clone, Eq, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        // Clones of one identifier are compared most, and are known to be equal without a look at
        // their texts.
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
            }
        }

        impl std::hash::Hash for $name {
            fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
                self.0.hash(state);
            }
        }

        impl $name {
            /// Checks `text` and makes it an identifier.
            ///
            /// # Errors
            ///
            /// [`IdError`] if it is empty, too long, or holds a control character.
            pub fn new(text: impl Into<Arc<str>>) -> Result<Self, IdError> {
                let text = text.into();
                check(&text)?;
                Ok(Self(text))
            }

            /// The identifier as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(text: String) -> Result<Self, IdError> {
                Self::new(text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
                Self::new(text).map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                crate::schema::identifier()
            }
        }
    )*};
}

identifiers! {
    /// Names one child, that is one *run* of one agent, within its source (rules I1, I2).
    ChildId;
    /// Names one event within its source.
    EventId;
    /// Names one run that an [`AgentRuntime`](crate::AgentRuntime) started.
    RunId;
    /// Names one snapshot; the same snapshot is applied once (rule N6).
    SnapshotId;
    /// Names one life of a source: a restart that may begin its counters anew has a new epoch.
    SourceEpoch;
    /// Names a source of children, such as a worker, a gateway or a supervisor.
    SourceId;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_what_rule_i4_accepts() {
        for text in ["a", " spaced ", "é", "日本", "👩‍💻", &"x".repeat(512)] {
            assert_eq!(ChildId::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn refuses_what_rule_i4_refuses() {
        let cases = [
            (String::new(), IdError::Empty),
            ("x".repeat(513), IdError::TooLong { bytes: 513 }),
            ("é".repeat(257), IdError::TooLong { bytes: 514 }),
            ("a\0".into(), IdError::ControlCharacter { at: 1 }),
            ("ab\n".into(), IdError::ControlCharacter { at: 2 }),
            ("\u{7f}".into(), IdError::ControlCharacter { at: 0 }),
            ("é\u{85}".into(), IdError::ControlCharacter { at: 2 }),
        ];
        for (text, error) in cases {
            assert_eq!(ChildId::new(text.clone()), Err(error), "{text:?}");
        }
    }

    #[test]
    fn never_normalises() {
        assert_ne!(ChildId::new("e\u{301}"), ChildId::new("é"));
        assert_ne!(ChildId::new("a "), ChildId::new("a"));
    }
}
