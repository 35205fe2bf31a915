//! A record as it is shown, made from what is kept.

use headcount_contract::{Capability, Lineage, SequenceScope, SnapshotId, SourceId};

use crate::audit::Cause;
use crate::child::{Child, Mark};
use crate::fact::{Fact, Origin, Stamp, moment};
use crate::record::{Evidence, Provenance, Record, Terminal};
use crate::source::Source;

pub(crate) fn record(name: &SourceId, source: &Source, child: &Child) -> Record {
    let shared_gap = source.scope == SequenceScope::Epoch && source.counter.has_gap();
    let observed = |fact| child.facts.observed_at(fact);
    let first = child.facts.first().seen.observed_at();
    let since = child.facts.state().observed_at();
    let details = child.extra();
    let times = [Fact::State, Fact::Activity, Fact::Heartbeat].map(observed);
    let last = times
        .into_iter()
        .flatten()
        .chain([first, moment(child.proven)])
        .max();
    Record {
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
        last_sequence: child.counter.high().map(crate::sequence::sequence),
        last_activity: child.activity.clone(),
        last_activity_at: observed(Fact::Activity),
        last_heartbeat_at: observed(Fact::Heartbeat),
        first_observed_at: first,
        observed_at: last.unwrap_or(first),
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
        provenance: provenance(source, child),
    }
}

fn provenance(source: &Source, child: &Child) -> Provenance {
    let fact = |fact| child.facts.get(fact).map(|stamp| evidence(source, &stamp));
    let apart = |stamp: Option<&Stamp>| stamp.map(|stamp| evidence(source, stamp));
    let first = evidence(source, &child.facts.first());
    let extra = child.extra();
    let sighting = source
        .snapshots
        .iter()
        .rev()
        .find(|taken| crate::fact::nanos(taken.seen.known_at()) == child.proven);
    Provenance {
        state: fact(Fact::State).unwrap_or_else(|| first.clone()),
        lineage: (!child.has(Mark::LineageAssumed)).then(|| {
            apart(extra.and_then(|extra| extra.lineage_by.as_deref()))
                .unwrap_or_else(|| first.clone())
        }),
        capabilities: apart(extra.and_then(|extra| extra.capabilities_by.as_deref()))
            .unwrap_or_else(|| first.clone()),
        activity: fact(Fact::Activity),
        heartbeat: fact(Fact::Heartbeat),
        sighting: sighting.map(|taken| {
            let (name, seen) = (taken.name.clone(), taken.seen);
            evidence(source, &Stamp { name, seen })
        }),
        first,
    }
}

fn evidence(source: &Source, stamp: &Stamp) -> Evidence {
    let (cause, kind) = match stamp.seen.origin() {
        Origin::Event(kind) => (Cause::Event(stamp.name.clone()), kind),
        Origin::Snapshot => (
            SnapshotId::new(stamp.name.as_str()).map_or_else(
                |error| unreachable!("it was a snapshot's id: {error}"),
                Cause::Snapshot,
            ),
            "snapshot",
        ),
    };
    Evidence {
        cause,
        kind,
        epoch: source.epoch_name(stamp.seen.epoch()).cloned(),
        observed_at: stamp.seen.observed_at(),
        received_at: stamp.seen.received_at(),
    }
}
