//! Parsing one lifecycle event.

use super::json::Raw;
use super::record::{Record, read_line, read_object};
use super::{WireFault, WireLimits};
use crate::{
    Activity, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, EventId,
    EventKind, LifecycleEvent, Lineage, LineageError, Sequence, Snapshot, SourceEpoch, SourceId,
    SourceIdentity,
};

/// An event that was read, and what was odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParsedEvent {
    /// The event.
    pub event: LifecycleEvent,
    /// The line had no `capabilities`; read as all unknown (rule W4).
    pub capabilities_absent: bool,
}

/// Reads one event from one line, with or without white space around it.
///
/// # Behavior
///
/// - Faults are found in the order of [`FaultClass`](crate::FaultClass), whatever the order of
///   the fields.
/// - Unknown fields are ignored but checked: their JSON, their duplicate keys, their nesting.
/// - The text must already be valid UTF-8; bytes that are not are the caller's to refuse.
///
/// # Errors
///
/// [`WireFault`] with the class, the byte offset and the field.
///
/// ```
/// use headcount_contract::{FaultClass, WireLimits, parse_event};
/// let fault = parse_event("[]", &WireLimits::default()).unwrap_err();
/// assert_eq!(fault.class(), FaultClass::SchemaViolation);
/// ```
pub fn parse_event(line: &str, limits: &WireLimits) -> Result<ParsedEvent, WireFault> {
    parse_event_with(line, limits, |_, _| ())
}

/// As [`parse_event`], and calls `extra` with the key and JSON text of each unknown top-level
/// field, such as a journal's own.
///
/// `extra` is called before the event is judged: use what it saw only if an event is returned.
///
/// # Errors
///
/// As [`parse_event`].
pub fn parse_event_with(
    line: &str,
    limits: &WireLimits,
    mut extra: impl FnMut(&str, &str),
) -> Result<ParsedEvent, WireFault> {
    let record = read_line(line, *limits, FIELDS, &mut |key, value| extra(key, value))?;
    event(&record)
}

/// What one line of a lifecycle stream holds.
///
/// Exhaustive: a lifecycle stream holds nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireLine {
    /// An event.
    Event(ParsedEvent),
    /// What a producer says of its children at one moment.
    Snapshot(Snapshot),
}

/// Reads one line of a stream that may hold events and snapshots.
///
/// # Behavior
///
/// - An object with a `snapshotId` and no `eventId` is read as a snapshot, anything else as an
///   event.
/// - A version that is not read is told of before the shape, for both.
///
/// # Errors
///
/// As [`parse_event`] and [`parse_snapshot`](crate::parse_snapshot).
///
/// ```
/// use headcount_contract::{WireLimits, WireLine, parse_line};
/// let line = r#"{"source":"s","sourceEpoch":"e","snapshotId":"1","observedAt":"2026-08-24T09:15:30Z",
///     "complete":false,"children":[]}"#;
/// assert!(matches!(parse_line(line, &WireLimits::default())?, WireLine::Snapshot(_)));
/// # Ok::<(), headcount_contract::WireFault>(())
/// ```
pub fn parse_line(line: &str, limits: &WireLimits) -> Result<WireLine, WireFault> {
    let mut snapshot = false;
    let mut extra = |key: &str, _: &str| snapshot |= key == "snapshotId";
    let record = read_line(line, *limits, FIELDS, &mut extra)?;
    if !snapshot || record.get(EVENT_ID).is_some() {
        return event(&record).map(WireLine::Event);
    }
    record.optional(SCHEMA_VERSION, Record::version)?;
    super::parse_snapshot(line, limits).map(WireLine::Snapshot)
}

fn event(record: &Record<'_, { FIELDS.len() }>) -> Result<ParsedEvent, WireFault> {
    record.version(SCHEMA_VERSION)?;
    let event_id = record.id(EVENT_ID, EventId::new)?;
    let source = SourceIdentity::new(
        record.id(SOURCE, SourceId::new)?,
        record.id(SOURCE_EPOCH, SourceEpoch::new)?,
    );
    let child_id = record.id(CHILD_ID, ChildId::new)?;
    let child = lineage(record, LINEAGE, child_id)?;
    let kind = kind(record)?;
    let observed_at = record.time(OBSERVED_AT)?;
    let sequence = record.optional(SEQUENCE, Record::integer)?;
    let activity = record.optional(ACTIVITY, Record::string)?;
    let details = record.optional(DETAILS, Record::object)?;
    let capabilities = record.optional(CAPABILITIES, capabilities)?;

    let mut event = LifecycleEvent::new(
        event_id,
        source,
        child,
        kind,
        observed_at,
        capabilities.unwrap_or_default(),
    );
    if let Some(sequence) = sequence.and_then(Sequence::new) {
        event = event.with_sequence(sequence);
    }
    if let Some(activity) = activity {
        event = event.with_activity(Activity::new(activity));
    }
    if let Some(details) = details {
        event = event.with_details(Details::from_checked(details.text));
    }
    Ok(ParsedEvent {
        event,
        capabilities_absent: capabilities.is_none(),
    })
}

const FIELDS: [&str; 13] = [
    "schemaVersion",
    "eventId",
    "source",
    "sourceEpoch",
    "childId",
    "lineage",
    "kind",
    "state",
    "observedAt",
    "sequence",
    "activity",
    "details",
    "capabilities",
];
const SCHEMA_VERSION: usize = 0;
const EVENT_ID: usize = 1;
const SOURCE: usize = 2;
const SOURCE_EPOCH: usize = 3;
const CHILD_ID: usize = 4;
const LINEAGE: usize = 5;
const KIND: usize = 6;
const STATE: usize = 7;
const OBSERVED_AT: usize = 8;
const SEQUENCE: usize = 9;
const ACTIVITY: usize = 10;
const DETAILS: usize = 11;
const CAPABILITIES: usize = 12;

/// Kind and state together (rule W1).
fn kind<const N: usize>(record: &Record<'_, N>) -> Result<EventKind, WireFault> {
    let name = record.string(KIND)?;
    let state = record.optional(STATE, Record::state)?;
    let required = |expected: &'static str| {
        state.ok_or_else(|| record.fault(STATE, format!("{expected}, as the kind is {name}")))
    };
    Ok(match &*name {
        "created" => match required("the state created")? {
            ChildState::CREATED => EventKind::Created,
            _ => return Err(record.fault(STATE, "the state created, as the kind is created")),
        },
        "state_changed" => EventKind::StateChanged(required("a state")?),
        "terminal" => match required("a terminal state")? {
            ChildState::Terminal(outcome) => EventKind::Terminal(outcome),
            ChildState::Live(_) => {
                return Err(record.fault(STATE, "a terminal state, as the kind is terminal"));
            }
        },
        "activity" | "heartbeat" if state.is_some() => {
            return Err(record.fault(STATE, format!("no state, as the kind is {name}")));
        }
        "activity" => EventKind::Activity,
        "heartbeat" => EventKind::Heartbeat,
        "reconciliation" => EventKind::Reconciliation(state),
        "diagnostic" => EventKind::Diagnostic(state),
        _ => return Err(record.fault(KIND, format!("one of {}", EventKind::NAMES.join(", ")))),
    })
}

/// A lineage that fits its child (rule I3).
pub(super) fn lineage<const N: usize>(
    record: &Record<'_, N>,
    at: usize,
    child: ChildId,
) -> Result<ChildIdentity, WireFault> {
    const NAMES: [&str; 5] = [
        "rootChildId",
        "attempt",
        "external",
        "parentChildId",
        "adoptedAt",
    ];
    let inner = read_object(record.object(at)?, record.base(), "lineage", NAMES);
    let root = inner.string(0)?;
    let root = if root == child.as_str() {
        child.clone()
    } else {
        inner.id(0, ChildId::new)?
    };
    let mut lineage = Lineage::new(root).with_attempt(inner.integer(1)?);
    let external = inner.boolean(2)?;
    if let Some(parent) = inner.optional(3, |r, at| r.id(at, ChildId::new))? {
        lineage = lineage.with_parent(parent);
    }
    match (external, inner.optional(4, Record::time)?) {
        (true, Some(at)) => lineage = lineage.adopted(at),
        (false, None) => (),
        (true, None) => {
            return Err(inner.fault(4, "the time of adoption, as the child is external"));
        }
        (false, Some(_)) => {
            return Err(inner.fault(4, "no such field, as the child is not external"));
        }
    }
    ChildIdentity::new(child, lineage).map_err(|error| match error {
        LineageError::OwnParent => inner.fault(3, "another child's id"),
        _ => inner.fault(1, "attempt 0, or a child id other than the root's"),
    })
}

fn capabilities<const N: usize>(
    record: &Record<'_, N>,
    at: usize,
) -> Result<Capabilities, WireFault> {
    const NAMES: [&str; 5] = [
        "history",
        "heartbeat",
        "snapshot",
        "cancel",
        "terminalCause",
    ];
    let inner = read_object(record.object(at)?, record.base(), "capabilities", NAMES);
    let one = |at| match &*inner.string(at)? {
        "known" => Ok(Capability::Known),
        "unknown" => Ok(Capability::Unknown),
        _ => Err(inner.fault(at, "known or unknown")),
    };
    Ok(Capabilities {
        history: one(0)?,
        heartbeat: one(1)?,
        snapshot: one(2)?,
        cancel: one(3)?,
        terminal_cause: one(4)?,
    })
}

/// A JSON object inside a scanned line, as details.
pub(super) fn details(raw: Raw<'_>) -> Details {
    Details::from_checked(raw.text)
}
