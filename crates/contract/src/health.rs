//! How an adapter itself is doing, and what it cannot see.

use std::collections::BTreeMap;
use std::fmt;

/// Whether an adapter can do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum HealthStatus {
    /// It has not begun.
    #[default]
    Idle,
    /// All it should see, it sees.
    Healthy,
    /// It works, with losses or limits that the message tells.
    Degraded,
    /// It sees nothing now.
    Down,
}

impl HealthStatus {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Down => "down",
        }
    }
}

impl fmt::Display for HealthStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How an adapter is doing: a status, one sentence, what it can never see, and counts.
///
/// Every change of status or message is also a [`Signal::Health`](crate::Signal::Health).
///
/// ```
/// use headcount_contract::{Health, HealthStatus};
/// let health = Health::new(HealthStatus::Degraded)
///     .with_message("2 lines were rejected")
///     .with_limitation("the exit code of a process that is not our child is unknown")
///     .with_count("rejected_lines", 2);
/// assert_eq!(health.counts["rejected_lines"], 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct Health {
    /// Whether it can do its work.
    pub status: HealthStatus,
    /// Why, for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What this source can never tell, for a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub limitations: Vec<String>,
    /// Counts since the adapter was built, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
}

impl Health {
    /// A status and nothing else.
    pub fn new(status: HealthStatus) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    /// The same with a sentence.
    pub fn with_message(mut self, message: impl Into<String>) -> Self {
        self.message = Some(message.into());
        self
    }

    /// The same with one more limitation.
    pub fn with_limitation(mut self, limitation: impl Into<String>) -> Self {
        self.limitations.push(limitation.into());
        self
    }

    /// The same with a count.
    pub fn with_count(mut self, name: impl Into<String>, count: u64) -> Self {
        self.counts.insert(name.into(), count);
        self
    }
}
