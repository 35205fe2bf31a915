//! One child as a host shows it, and where each fact comes from (rule C3).

use headcount_contract::{
    Activity, Capabilities, Capability, ChildId, ChildState, Details, Lineage, Outcome, Sequence,
    SourceEpoch, SourceId, Timestamp,
};
use serde::ser::SerializeMap;

use crate::Cause;

/// What is known of one child. Written as JSON, it is one item of `headcount list`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Record {
    /// Whose child it is.
    pub source: SourceId,
    /// Which one; with the source, its whole identity (rule I1).
    pub child_id: ChildId,
    /// What it is doing, or how it ended.
    pub state: ChildState,
    /// No proof of life came by the deadline. A mark beside the state (rule L3).
    pub stale: bool,
    /// Nothing has told the state since the source may have lost events (rules O7, N8).
    pub unproven: bool,
    /// Events of it, or of its source where that counts for all its children, are missing (O4).
    pub gap_detected: bool,
    /// Known if its first event was its creation (rules I5, O6).
    pub history: Capability,
    /// Where it comes from; none while nobody has told.
    pub lineage: Option<Lineage>,
    /// What its source has verified for it (rule C1).
    pub capabilities: Capabilities,
    /// The highest sequence seen of it in its epoch.
    pub last_sequence: Option<Sequence>,
    /// What it was last at work on.
    pub last_activity: Option<Activity>,
    /// When that was, by the source's clock.
    pub last_activity_at: Option<Timestamp>,
    /// When it last said that it lives, by the source's clock.
    pub last_heartbeat_at: Option<Timestamp>,
    /// When it was first observed, by the source's clock.
    pub first_observed_at: Timestamp,
    /// When it was last observed, by the source's clock.
    pub observed_at: Timestamp,
    /// When its state began, by the source's clock; after a restart of the source, when the source
    /// first told it again.
    pub state_since: Timestamp,
    /// Until when it is proven to have lived: never later than this host received the proof (L2).
    pub proven_at: Timestamp,
    /// The details of its first event, such as `pid`, `startTicks` and `bootId` of a process.
    pub first_details: Details,
    /// How it ended, if it has.
    pub terminal: Option<Terminal>,
    /// Who set each of these facts.
    pub provenance: Provenance,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terminal {
    /// Its last state.
    pub outcome: Outcome,
    /// When, by the source's clock.
    pub observed_at: Timestamp,
    /// What the event or snapshot said beside it, such as `exitCode` of a process.
    pub details: Details,
}

/// Who set each fact of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Provenance {
    /// That it exists; its history; and its first details.
    pub first: Evidence,
    /// Its state, and how it ended.
    pub state: Evidence,
    /// Its lineage.
    pub lineage: Option<Evidence>,
    /// Its capabilities.
    pub capabilities: Evidence,
    /// Its last activity.
    pub activity: Option<Evidence>,
    /// Its last heartbeat.
    pub heartbeat: Option<Evidence>,
    /// The remembered snapshot that is its last proof of life, if one is.
    pub sighting: Option<Evidence>,
}

/// One event or snapshot that set a fact.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Evidence {
    /// Which one.
    pub cause: Cause,
    /// The kind of the event, by its name on the wire, or `snapshot`.
    pub kind: &'static str,
    /// The epoch of the source; none if it is so long ago that it is no longer remembered.
    pub epoch: Option<SourceEpoch>,
    /// When it was observed, by the source's clock.
    pub observed_at: Timestamp,
    /// When it was received, by the host's clock.
    pub received_at: Timestamp,
}

impl serde::Serialize for Record {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &self.source)?;
        map.serialize_entry("childId", &self.child_id)?;
        map.serialize_entry("state", &self.state)?;
        map.serialize_entry("stale", &self.stale)?;
        map.serialize_entry("observedAt", &self.observed_at)?;
        optional(&mut map, "lineage", self.lineage.as_ref())?;
        map.serialize_entry("capabilities", &self.capabilities)?;
        optional(&mut map, "lastSequence", self.last_sequence.as_ref())?;
        optional(&mut map, "lastActivity", self.last_activity.as_ref())?;
        optional(&mut map, "lastActivityAt", self.last_activity_at.as_ref())?;
        optional(&mut map, "lastHeartbeatAt", self.last_heartbeat_at.as_ref())?;
        map.serialize_entry("gapDetected", &self.gap_detected)?;
        map.serialize_entry("history", &self.history)?;
        optional(&mut map, "terminal", self.terminal.as_ref())?;
        map.end()
    }
}

impl serde::Serialize for Terminal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("state", &ChildState::Terminal(self.outcome))?;
        map.serialize_entry("observedAt", &self.observed_at)?;
        if !self.details.is_empty() {
            map.serialize_entry("details", &self.details)?;
        }
        map.end()
    }
}

/// Writes a value that there is; absent values are left out.
fn optional<M: SerializeMap>(
    map: &mut M,
    key: &'static str,
    value: Option<&impl serde::Serialize>,
) -> Result<(), M::Error> {
    match value {
        Some(value) => map.serialize_entry(key, value),
        None => Ok(()),
    }
}
