//! What happens during one run (the seed's status machine and event channel).

use std::sync::Arc;

use serde::ser::SerializeMap;

use crate::{Details, LogBatch, LogLine, Outcome, Timestamp};

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Being brought up.
    Starting,
    /// Up, and accepting work.
    Ready,
    /// Ended by request, or by itself without a fault.
    Stopped,
    /// Ended without a request, with a fault.
    Crashed,
}

impl RunStatus {
    /// Whether the run has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Crashed)
    }

    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Stopped => "stopped",
            Self::Crashed => "crashed",
        }
    }
}

/// A change of a run's status.
///
/// ```
/// use headcount_contract::{RunStatus, StatusChange, Timestamp};
/// let change = StatusChange::new(RunStatus::Ready, Timestamp::UNIX_EPOCH);
/// assert_eq!(change.outcome, None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatusChange {
    /// Where the run stands now.
    pub status: RunStatus,
    /// When.
    pub timestamp: Timestamp,
    /// How the run ended, where the runtime tells it more exactly than the status does: `stopped`
    /// is a completed run, or a cancelled one if a stop had been asked for. `lost` says that the run
    /// is over and nobody can tell how: no end of the child, which only the host finds lost.
    pub outcome: Option<Outcome>,
    /// Facts such as a pid or an exit code.
    pub details: Details,
}

impl StatusChange {
    /// A status and nothing else.
    pub fn new(status: RunStatus, timestamp: Timestamp) -> Self {
        Self {
            status,
            timestamp,
            outcome: None,
            details: Details::EMPTY,
        }
    }

    /// The same with how the run ended.
    pub fn with_outcome(mut self, outcome: Outcome) -> Self {
        self.outcome = Some(outcome);
        self
    }

    /// The same with facts.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }
}

/// One thing that happened during a run.
///
/// On the wire as the seed has it: `type`, the fields of that type, and `timestamp` in
/// milliseconds since 1970. Lines travel in batches and are written one object a line by
/// [`RunEvent::to_json_lines`].
///
/// ```
/// use headcount_contract::{RunEvent, RunStatus, StatusChange, Timestamp};
/// let ready = RunEvent::Status(StatusChange::new(RunStatus::Ready, Timestamp::UNIX_EPOCH));
/// assert_eq!(ready.to_json_lines(), vec![r#"{"type":"status","status":"ready","timestamp":0}"#]);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum RunEvent {
    /// The status changed.
    Status(StatusChange),
    /// Lines were written.
    Log(Arc<LogBatch>),
    /// This many lines were not kept for this subscriber, which was too slow.
    LogMissed(u64),
    /// Something went wrong that is not an end by itself.
    Error {
        /// What, for a person.
        message: String,
        /// When.
        timestamp: Timestamp,
        /// Facts about it.
        details: Details,
    },
    /// What the run is at work on.
    Activity {
        /// The text.
        text: String,
        /// When.
        timestamp: Timestamp,
    },
    /// The runtime saw that the run lives.
    Heartbeat(Timestamp),
    /// What the run uses of the machine.
    Usage(crate::Usage),
    /// The run told of a child of its own, under names of its own.
    Child(Box<crate::LifecycleEvent>),
    /// This many events of its children were not kept for this subscriber, which was too slow.
    ChildEventsMissed(u64),
}

impl RunEvent {
    /// The event in the seed's wire form: one JSON object, or one for each line of a batch.
    /// Only statuses, lines and errors are part of the seed; the others give none.
    pub fn to_json_lines(&self) -> Vec<String> {
        match self {
            Self::Status(change) => vec![crate::wire::write(&StatusWire(change))],
            Self::Log(batch) => batch
                .lines()
                .map(|line| crate::wire::write(&LogWire(&line)))
                .collect(),
            Self::Error {
                message,
                timestamp,
                details,
            } => {
                vec![crate::wire::write(&ErrorWire {
                    message,
                    timestamp: *timestamp,
                    details,
                })]
            }
            Self::LogMissed(_)
            | Self::Activity { .. }
            | Self::Heartbeat(_)
            | Self::Usage(_)
            | Self::Child(_)
            | Self::ChildEventsMissed(_) => vec![],
        }
    }
}

struct StatusWire<'a>(&'a StatusChange);

impl serde::Serialize for StatusWire<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "status")?;
        map.serialize_entry("status", &self.0.status)?;
        map.serialize_entry("timestamp", &self.0.timestamp.as_millis())?;
        if let Some(outcome) = self.0.outcome {
            map.serialize_entry("outcome", &crate::ChildState::Terminal(outcome))?;
        }
        if !self.0.details.is_empty() {
            map.serialize_entry("details", &self.0.details)?;
        }
        map.end()
    }
}

struct LogWire<'a>(&'a LogLine<'a>);

impl serde::Serialize for LogWire<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "log")?;
        map.serialize_entry("stream", &self.0.stream)?;
        map.serialize_entry("line", self.0.text)?;
        map.serialize_entry("timestamp", &self.0.timestamp.as_millis())?;
        map.serialize_entry("number", &self.0.number)?;
        if self.0.truncated {
            map.serialize_entry("truncated", &true)?;
        }
        if self.0.lossy {
            map.serialize_entry("lossy", &true)?;
        }
        map.end()
    }
}

struct ErrorWire<'a> {
    message: &'a str,
    timestamp: Timestamp,
    details: &'a Details,
}

impl serde::Serialize for ErrorWire<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "error")?;
        map.serialize_entry("message", self.message)?;
        map.serialize_entry("timestamp", &self.timestamp.as_millis())?;
        if !self.details.is_empty() {
            map.serialize_entry("details", self.details)?;
        }
        map.end()
    }
}
