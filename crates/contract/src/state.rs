//! What a child is doing: four live states and four outcomes.

use std::fmt;

/// A state in which the child has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LiveState {
    /// Known to exist; nothing has been seen of its work.
    Created,
    /// Being brought up, not yet able to work.
    Starting,
    /// At work.
    Running,
    /// Waiting for somebody or something outside of it, such as a person's approval.
    Waiting,
}

/// How a child ended. Final: nothing seen later changes it (rule S2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The source says that it ended well.
    Completed,
    /// The source says that it ended badly.
    Failed,
    /// Somebody asked for its end, and it ended.
    Cancelled,
    /// It went silent, and looking for it failed (rules 6 and L4).
    Lost,
}

/// One of the eight states of the contract.
///
/// ```
/// use headcount_contract::{ChildState, Outcome};
/// let state: ChildState = "failed".parse()?;
/// assert_eq!(state.outcome(), Some(Outcome::Failed));
/// assert!(!ChildState::RUNNING.is_terminal());
/// # Ok::<(), headcount_contract::UnknownState>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChildState {
    /// The child has not ended.
    Live(LiveState),
    /// The child has ended, for good.
    Terminal(Outcome),
}

impl ChildState {
    /// `created`
    pub const CREATED: Self = Self::Live(LiveState::Created);
    /// `starting`
    pub const STARTING: Self = Self::Live(LiveState::Starting);
    /// `running`
    pub const RUNNING: Self = Self::Live(LiveState::Running);
    /// `waiting`
    pub const WAITING: Self = Self::Live(LiveState::Waiting);
    /// `completed`
    pub const COMPLETED: Self = Self::Terminal(Outcome::Completed);
    /// `failed`
    pub const FAILED: Self = Self::Terminal(Outcome::Failed);
    /// `cancelled`
    pub const CANCELLED: Self = Self::Terminal(Outcome::Cancelled);
    /// `lost`
    pub const LOST: Self = Self::Terminal(Outcome::Lost);

    /// All eight, in the order of the contract.
    pub const ALL: [Self; 8] = [
        Self::CREATED,
        Self::STARTING,
        Self::RUNNING,
        Self::WAITING,
        Self::COMPLETED,
        Self::FAILED,
        Self::CANCELLED,
        Self::LOST,
    ];

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live(LiveState::Created) => "created",
            Self::Live(LiveState::Starting) => "starting",
            Self::Live(LiveState::Running) => "running",
            Self::Live(LiveState::Waiting) => "waiting",
            Self::Terminal(Outcome::Completed) => "completed",
            Self::Terminal(Outcome::Failed) => "failed",
            Self::Terminal(Outcome::Cancelled) => "cancelled",
            Self::Terminal(Outcome::Lost) => "lost",
        }
    }

    /// Whether the child has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Terminal(_))
    }

    /// How it ended, if it has.
    pub const fn outcome(self) -> Option<Outcome> {
        match self {
            Self::Terminal(outcome) => Some(outcome),
            Self::Live(_) => None,
        }
    }
}

impl From<LiveState> for ChildState {
    fn from(state: LiveState) -> Self {
        Self::Live(state)
    }
}

impl From<Outcome> for ChildState {
    fn from(outcome: Outcome) -> Self {
        Self::Terminal(outcome)
    }
}

/// A text that names none of the eight states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownState;

impl fmt::Display for UnknownState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a state is one of created, starting, running, waiting, completed, failed, cancelled, lost")
    }
}

impl std::error::Error for UnknownState {}

impl std::str::FromStr for ChildState {
    type Err = UnknownState;
    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or(UnknownState)
    }
}

impl fmt::Display for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for ChildState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ChildState::Terminal(*self), f)
    }
}

impl fmt::Display for LiveState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&ChildState::Live(*self), f)
    }
}

impl serde::Serialize for ChildState {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for ChildState {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for ChildState {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ChildState".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        crate::schema::one_of_names(Self::ALL.map(Self::as_str))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_is_read_back_from_its_name() {
        for state in ChildState::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
        }
        assert_eq!("Running".parse::<ChildState>(), Err(UnknownState));
    }
}
