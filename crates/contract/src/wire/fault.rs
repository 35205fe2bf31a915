//! What is wrong with a line, and where.

use std::borrow::Cow;
use std::fmt;

/// The classes of faults, in order of precedence: a line with several has the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultClass {
    /// Longer than the cap.
    Oversized,
    /// The stream ended before the line did.
    Truncated,
    /// Not UTF-8.
    InvalidUtf8,
    /// Not JSON, nested too deep, or with a lone surrogate.
    MalformedJson,
    /// A schema version that is not read.
    UnsupportedVersion,
    /// JSON that is no event: a duplicate key, a missing or wrong field, an illegal combination.
    SchemaViolation,
    /// A lineage that disagrees with what is known of the child.
    LineageConflict,
}

impl FaultClass {
    /// All classes, in order of precedence.
    pub const ALL: [Self; 7] = [
        Self::Oversized,
        Self::Truncated,
        Self::InvalidUtf8,
        Self::MalformedJson,
        Self::UnsupportedVersion,
        Self::SchemaViolation,
        Self::LineageConflict,
    ];

    /// Its name in outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Oversized => "oversized",
            Self::Truncated => "truncated",
            Self::InvalidUtf8 => "invalid-utf8",
            Self::MalformedJson => "malformed-json",
            Self::UnsupportedVersion => "unsupported-version",
            Self::SchemaViolation => "schema-violation",
            Self::LineageConflict => "lineage-conflict",
        }
    }
}

impl fmt::Display for FaultClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One fault of one line. Holds nothing of the line's content but the names of known fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireFault {
    class: FaultClass,
    offset: usize,
    field: Cow<'static, str>,
    expected: Cow<'static, str>,
}

impl WireFault {
    /// A fault of the line as a whole or, with [`WireFault::in_field`], of one field.
    ///
    /// ```
    /// use headcount_contract::{FaultClass, WireFault};
    /// let fault = WireFault::new(FaultClass::Oversized, 65_537, "at most 65536 bytes");
    /// assert_eq!(fault.to_string(), "oversized at byte 65537: expected at most 65536 bytes");
    /// ```
    pub fn new(class: FaultClass, offset: usize, expected: impl Into<Cow<'static, str>>) -> Self {
        Self {
            class,
            offset,
            field: Cow::Borrowed(""),
            expected: expected.into(),
        }
    }

    /// The same, said of one field, such as `lineage.attempt`.
    pub fn in_field(mut self, field: impl Into<Cow<'static, str>>) -> Self {
        self.field = field.into();
        self
    }

    /// Its class.
    pub fn class(&self) -> FaultClass {
        self.class
    }

    /// Where it was seen, in bytes from the start of the line.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The field that is at fault, or an empty text.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// What should have stood there.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for WireFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.class, self.offset)?;
        if !self.field.is_empty() {
            write!(f, " in {}", self.field)?;
        }
        write!(f, ": expected {}", self.expected)
    }
}

impl std::error::Error for WireFault {}
