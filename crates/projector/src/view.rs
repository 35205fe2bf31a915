//! A record as it is shown, made from what is kept.

use headcount_contract::{Capability, Lineage, SequenceScope, SnapshotId, SourceId};

use crate::audit::Cause;
use crate::child::{Child, Mark};
use crate::fact::{Fact, Facts, Name, Origin, Seen, Stamp, moment, nanos};
use crate::record::{Evidence, Provenance, Record, Terminal};
use crate::sequence::sequence;
use crate::source::Source;

/// The record of the child of a slot; none if nobody has it.
pub(crate) fn record(name: &SourceId, source: &Source, slot: u32) -> Option<Record> {
    let (child, facts) = (source.children.get(slot)?, source.children.facts(slot)?);
    let shared_gap = source.scope == SequenceScope::Epoch && source.counter.has_gap();
    let observed = |fact| facts.seen(fact).map(Seen::observed_at);
    let first = facts.first().observed_at();
    let since = facts.state().observed_at();
    let worked_at = observed(Fact::Activity).max(observed(Fact::Heartbeat));
    let last = first.max(since).max(moment(child.proven));
    let details = child.extra();
    Some(Record {
        source: name.clone(),
        child_id: child.id.clone(),
        state: child.state(),
        stale: child.has(Mark::Stale),
        unproven: child.is_live() && child.generation != source.generation,
        gap_detected: child.counter.has_gap() || child.is_live() && shared_gap,
        history: if child.has(Mark::HistoryUnknown) {
            Capability::Unknown
        } else {
            Capability::Known
        },
        lineage: (!child.has(Mark::LineageAssumed)).then(|| {
            child
                .lineage()
                .cloned()
                .unwrap_or_else(|| Lineage::new(child.id.clone()))
        }),
        capabilities: child.capabilities(),
        last_sequence: child.counter.high().map(sequence),
        last_activity: facts.activity.clone(),
        last_activity_at: observed(Fact::Activity),
        last_heartbeat_at: observed(Fact::Heartbeat),
        first_observed_at: first,
        observed_at: worked_at.map_or(last, |at| at.max(last)),
        state_since: since,
        proven_at: moment(child.proven),
        first_details: details
            .map(|extra| extra.first_details.clone())
            .unwrap_or_default(),
        terminal: child.state().outcome().map(|outcome| Terminal {
            outcome,
            observed_at: since,
            details: details
                .map(|extra| extra.terminal_details.clone())
                .unwrap_or_default(),
        }),
        provenance: provenance(source, child, facts),
    })
}

fn provenance(source: &Source, child: &Child, facts: &Facts) -> Provenance {
    let by = |stamp: &Stamp| evidence(source, cause(stamp), &stamp.seen);
    let of = |fact| by(&facts.by(fact));
    let first = of(Fact::First);
    let apart = |stamp: Option<&Stamp>| stamp.map_or_else(|| first.clone(), by);
    let extra = child.extra();
    let lineage_by = extra.and_then(|extra| extra.lineage_by.as_deref());
    let capabilities_by = extra.and_then(|extra| extra.capabilities_by.as_deref());
    let mut taken = source.snapshots.iter().rev();
    let sighting = taken.find(|taken| nanos(taken.seen.known_at()) == child.proven);
    Provenance {
        state: of(Fact::State),
        lineage: (!child.has(Mark::LineageAssumed)).then(|| apart(lineage_by)),
        capabilities: apart(capabilities_by),
        activity: facts.seen(Fact::Activity).map(|_| of(Fact::Activity)),
        heartbeat: facts.seen(Fact::Heartbeat).map(|_| of(Fact::Heartbeat)),
        sighting: sighting
            .map(|taken| evidence(source, Cause::Snapshot(taken.id.clone()), &taken.seen)),
        first,
    }
}

fn evidence(source: &Source, cause: Cause, seen: &Seen) -> Evidence {
    Evidence {
        cause,
        kind: match seen.origin() {
            Origin::Event(kind) => kind,
            Origin::Snapshot => "snapshot",
        },
        epoch: source.epoch_name(seen.epoch()).cloned(),
        observed_at: seen.observed_at(),
        received_at: seen.received_at(),
    }
}

fn cause(stamp: &Stamp) -> Cause {
    match (&stamp.name, stamp.seen.origin()) {
        (Name::Place(place), _) => Cause::EventAt(sequence(place.get().unwrap_or_default())),
        (Name::Id(id), Origin::Event(_)) => Cause::Event(id.clone()),
        (Name::Id(id), Origin::Snapshot) => SnapshotId::new(id.as_str()).map_or_else(
            |error| unreachable!("it was a snapshot's id: {error}"),
            Cause::Snapshot,
        ),
    }
}
