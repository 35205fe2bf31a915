//! Parsing one snapshot, complete or partial.

use super::event::{details, lineage};
use super::json::{self, Kind, Raw};
use super::record::{Record, read_line, read_object};
use super::{FaultClass, WireFault, WireLimits};
use crate::{
    AuthoritativeSnapshot, ChildId, Coverage, PartialSnapshot, Sequence, Snapshot, SnapshotChild,
    SnapshotError, SnapshotId, SourceEpoch, SourceId, SourceIdentity,
};

/// Reads one snapshot from one line.
///
/// # Behavior
///
/// - `complete: true` needs a `coverage` that names every child listed (rule N7);
///   `complete: false` is read as a [`PartialSnapshot`] and its coverage, if any, is ignored.
///
/// # Errors
///
/// [`WireFault`] as [`parse_event`](crate::parse_event) has it.
///
/// ```
/// use headcount_contract::{Snapshot, WireLimits, parse_snapshot};
/// let line = r#"{"source":"s","sourceEpoch":"e","snapshotId":"1",
///     "observedAt":"2026-08-24T09:15:30Z","complete":true,"coverage":"all",
///     "children":[{"childId":"a","state":"running"}]}"#;
/// let Snapshot::Complete(snapshot) = parse_snapshot(line, &WireLimits::default())? else {
///     panic!("it says that it is complete");
/// };
/// assert_eq!(snapshot.children().len(), 1);
/// # Ok::<(), headcount_contract::WireFault>(())
/// ```
pub fn parse_snapshot(line: &str, limits: &WireLimits) -> Result<Snapshot, WireFault> {
    const NAMES: [&str; 7] = [
        "source",
        "sourceEpoch",
        "snapshotId",
        "observedAt",
        "complete",
        "coverage",
        "children",
    ];
    let record = read_line(line, *limits, NAMES, &mut |_, _| ())?;
    let source = SourceIdentity::new(
        record.id(0, SourceId::new)?,
        record.id(1, SourceEpoch::new)?,
    );
    let id = record.id(2, SnapshotId::new)?;
    let at = record.time(3)?;
    let complete = record.boolean(4)?;
    let children = elements(&record, 6)?
        .into_iter()
        .map(|child| self::child(child, record.base()))
        .collect::<Result<Vec<_>, _>>()?;
    if !complete {
        return PartialSnapshot::new(source, id, at, children)
            .map(Snapshot::Partial)
            .map_err(|error| record.fault(6, expected(&error)));
    }
    let coverage = coverage(&record, 5)?;
    AuthoritativeSnapshot::new(source, id, at, coverage, children)
        .map(Snapshot::Complete)
        .map_err(|error| record.fault(6, expected(&error)))
}

/// Without the child's id: a fault holds nothing of a line's content.
fn expected(error: &SnapshotError) -> &'static str {
    match error {
        SnapshotError::DuplicateChild(_) => "each child once",
        SnapshotError::NotCovered(_) => "no child that the coverage leaves out",
    }
}

fn coverage<const N: usize>(record: &Record<'_, N>, at: usize) -> Result<Coverage, WireFault> {
    const EXPECTED: &str = "\"all\" or a list of child ids";
    if record.get(at).and_then(|raw| raw.string()).as_deref() == Some("all") {
        return Ok(Coverage::All);
    }
    elements(record, at)?
        .into_iter()
        .map(|raw| {
            raw.string()
                .and_then(|text| ChildId::new(text.as_ref()).ok())
                .ok_or_else(|| record.fault(at, EXPECTED))
        })
        .collect::<Result<_, _>>()
        .map(Coverage::Children)
}

fn child(raw: Raw<'_>, base: usize) -> Result<SnapshotChild, WireFault> {
    const NAMES: [&str; 5] = ["childId", "state", "sequence", "details", "lineage"];
    if raw.kind != Kind::Object {
        let fault = WireFault::new(FaultClass::SchemaViolation, base + raw.at, "an object");
        return Err(fault.in_field("children"));
    }
    let record = read_object(raw, base, "children", NAMES);
    let id = record.id(0, ChildId::new)?;
    let identity = record.optional(4, |record, at| lineage(record, at, id.clone()))?;
    let mut child = match identity {
        Some(identity) => SnapshotChild::with_identity(identity, record.state(1)?),
        None => SnapshotChild::new(id, record.state(1)?),
    };
    if let Some(sequence) = record.optional(2, Record::integer)?.and_then(Sequence::new) {
        child = child.with_sequence(sequence);
    }
    if let Some(object) = record.optional(3, Record::object)? {
        child = child.with_details(details(object));
    }
    Ok(child)
}

/// The elements of an array field.
fn elements<'a, const N: usize>(
    record: &Record<'a, N>,
    at: usize,
) -> Result<Vec<Raw<'a>>, WireFault> {
    match record.get(at) {
        Some(raw) if raw.kind == Kind::Array => Ok(json::elements(raw)),
        _ => Err(record.fault(at, "a list")),
    }
}
