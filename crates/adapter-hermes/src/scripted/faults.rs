//! What a scripted gateway does wrong.

use serde::{Deserialize, Serialize};

/// What a gateway does wrong for as long as it is told to. What it does wrong at once, a
/// [`Step`](super::Step) or a method of [`Gateway`](super::Gateway) says: dropping within a frame,
/// garbage, frames that are too long.
///
/// For tests only, so that a new fault may break a literal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[allow(clippy::struct_excessive_bools)] // each is a fault of its own
pub struct Faults {
    /// It answers no request, now or later.
    pub silent: bool,
    /// Its answers come late: they wait until it no longer does this wrong. Events do not wait.
    pub late: bool,
    /// It writes one byte at a time: over a WebSocket, each in a fragment of its own.
    pub trickles: bool,
    /// Methods that it does not know: code -32601.
    pub unknown: Vec<String>,
    /// Methods whose parameters it refuses: code 4000.
    pub refuses: Vec<String>,
    /// Every session belongs to another connection: code 4001.
    pub owns_nothing: bool,
    /// It lists no child, as under turn isolation.
    pub blind: bool,
    /// It interrupts nobody, though it says so.
    pub ignores_interrupts: bool,
    /// It has forgotten the events that it would have to replay.
    pub forgetful: bool,
}

impl Faults {
    /// It does not know these methods.
    ///
    /// ```
    /// use headcount_adapter_hermes::scripted::Faults;
    /// assert_eq!(Faults::not_knowing(["subagent.list"]).unknown, ["subagent.list"]);
    /// ```
    pub fn not_knowing<'a>(methods: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            unknown: methods.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }

    /// It refuses the parameters of these methods.
    ///
    /// ```
    /// use headcount_adapter_hermes::scripted::Faults;
    /// assert_eq!(Faults::refusing(["subagent.list"]).refuses, ["subagent.list"]);
    /// ```
    pub fn refusing<'a>(methods: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            refuses: methods.into_iter().map(str::to_owned).collect(),
            ..Self::default()
        }
    }
}
