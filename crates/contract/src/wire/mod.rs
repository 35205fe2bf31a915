//! The wire form: one checking parser in, one writer out (rules W1 to W7, I1 to I5).

pub(crate) mod event;
mod fast;
mod fault;
pub(crate) mod json;
mod reader;
mod record;
pub(crate) mod snapshot;

pub use event::{ParsedEvent, WireLine, parse_event, parse_event_with, parse_line};
pub use fault::{FaultClass, WireFault};
pub use reader::WireReader;
pub use snapshot::parse_snapshot;

/// How much of a text is read before it is refused.
///
/// ```
/// use headcount_contract::WireLimits;
/// let limits = WireLimits::default().with_max_depth(16);
/// assert_eq!(limits.max_depth(), 16);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WireLimits {
    max_depth: usize,
}

impl WireLimits {
    /// The same with another nesting cap, at most 512.
    pub fn with_max_depth(self, depth: usize) -> Self {
        Self {
            max_depth: depth.min(json::MAX_DEPTH),
        }
    }

    /// The deepest nesting of objects and arrays, the line's own object included.
    pub fn max_depth(&self) -> usize {
        self.max_depth
    }
}

impl Default for WireLimits {
    /// A nesting cap of 64 (rule W5).
    fn default() -> Self {
        Self { max_depth: 64 }
    }
}

/// Writes any wire type as one line of JSON.
pub(crate) fn write<T: serde::Serialize>(value: &T) -> String {
    // Every wire type is made of strings, integers and checked JSON: writing to a string cannot
    // fail, and an empty line would be refused by every reader.
    serde_json::to_string(value).unwrap_or_default()
}
