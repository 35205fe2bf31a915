//! Whose events these are: ids, sources, epochs, and what they claim to be verified.

use std::collections::HashMap;

use headcount_contract::{Capabilities, ChildId, EventId, LifecycleEvent, SequenceScope, SourceId};

use super::events::whole_lives;
use crate::Action::{AdapterAgain, RestartSource, StartChild, StartSeveral};
use crate::bench::Bench;
use crate::case::Need::{Can, OwnSource};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::events;

pub(super) const CASES: &[Case] = &[
    case!(
        "events::ids_are_unique",
        "events.ids",
        [Can(StartChild)],
        ids_are_unique
    ),
    case!(
        "events::a_second_adapter_repeats_nothing",
        "events.again",
        [Can(StartChild), Can(StartSeveral), Can(AdapterAgain)],
        a_second_adapter_repeats_nothing
    ),
    case!(
        "events::bear_the_adapters_identity",
        "events.source",
        [OwnSource, Can(StartChild)],
        bear_the_adapters_identity
    ),
    case!(
        "events::the_epoch_changes_when_the_source_restarts",
        "events.epoch",
        [Can(StartChild), Can(RestartSource)],
        the_epoch_changes_when_the_source_restarts
    ),
    case!(
        "events::claim_no_capability_that_is_unknown",
        "events.capabilities",
        [OwnSource, Can(StartChild)],
        claim_no_capability_that_is_unknown
    ),
];

async fn ids_are_unique(bench: &mut Bench) -> Result<(), Failure> {
    let mut seen: HashMap<(SourceId, EventId), LifecycleEvent> = HashMap::new();
    for event in events(&whole_lives(bench).await?) {
        let key = (event.source().clone(), event.event_id().clone());
        if let Some(before) = seen.insert(key, event.clone()) {
            return Err(Failure::new(format!(
                "the id {} names two events: {} of {} and {} of {}",
                event.event_id(),
                before.kind().as_str(),
                before.child_id(),
                event.kind().as_str(),
                event.child_id()
            )));
        }
    }
    Ok(())
}

async fn a_second_adapter_repeats_nothing(bench: &mut Bench) -> Result<(), Failure> {
    let first = events(&whole_lives(bench).await?);
    let watch = bench.watch_again().await?;
    let child = bench.start().await?;
    bench.waiting_for(format!("the second adapter to tell of {child}"));
    let told = |events: &[LifecycleEvent]| events.iter().any(|event| *event.child_id() == child);
    watch
        .until(|signals| told(&events(signals)).then_some(()))
        .await?;
    let second = events(&bench.close(&watch).await?);

    let scope = bench.plan.scope();
    let position = |event: &LifecycleEvent| {
        let of = (scope == SequenceScope::Child).then(|| event.child_id().clone());
        event
            .sequence()
            .map(|at| (event.source_identity().clone(), of, at))
    };
    let by_id: HashMap<_, _> = first
        .iter()
        .map(|event| ((event.source(), event.event_id()), event))
        .collect();
    let by_position: HashMap<_, _> = first
        .iter()
        .filter_map(|event| Some((position(event)?, event)))
        .collect();
    for event in &second {
        let same_id = by_id.get(&(event.source(), event.event_id()));
        let same_place = position(event).and_then(|at| by_position.get(&at));
        for (what, before) in [("id", same_id), ("position", same_place)] {
            // What is read once more from a record is the same event, whoever reads it.
            if let Some(before) = before
                && **before != *event
            {
                return Err(Failure::new(format!(
                    "{} of {}, told by a second adapter in the epoch {}, has the {what} that {} of \
                     {} had: take a new epoch for each adapter, or begin where the first cannot \
                     have been",
                    event.kind().as_str(),
                    event.child_id(),
                    event.source_epoch(),
                    before.kind().as_str(),
                    before.child_id(),
                )));
            }
        }
    }
    Ok(())
}

async fn bear_the_adapters_identity(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    bench.live(&watch).await?;
    let identity = bench.adapter().await?.identity();
    for event in watch.events() {
        ensure!(
            *event.source_identity() == identity,
            "the adapter is {} {}, its event says {} {}",
            identity.source,
            identity.epoch,
            event.source(),
            event.source_epoch()
        );
    }
    Ok(())
}

async fn the_epoch_changes_when_the_source_restarts(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let before = bench.start().await?;
    bench.settle(&watch).await?;
    let epoch_of = |events: Vec<LifecycleEvent>, child: &ChildId| {
        let mut of_child = events.into_iter().filter(|event| event.child_id() == child);
        of_child.next().map(|event| event.source_epoch().clone())
    };
    let old = epoch_of(watch.events(), &before);
    bench.waiting_for("the rig to restart its source");
    let live_on = bench.rig()?.restart_source().await?;
    bench.told.clear();
    for started in live_on {
        bench.note(started);
    }
    let after = bench.start().await?;
    bench.waiting_for(format!(
        "an event of {after}, which began after the restart"
    ));
    let new = watch
        .until(|signals| epoch_of(events(signals), &after))
        .await?;
    ensure!(
        old.as_ref() != Some(&new),
        "the source restarted, and its events still bear the epoch {new}"
    );
    Ok(())
}

async fn claim_no_capability_that_is_unknown(bench: &mut Bench) -> Result<(), Failure> {
    // Of one child more may be verified than of all, but never more than can be at best.
    let best = bench
        .plan
        .registration
        .map_or(Capabilities::UNKNOWN, |registration| {
            registration.capabilities
        });
    let verified = bench.adapter().await?.capabilities();
    for event in events(&whole_lives(bench).await?) {
        let claimed = event.capabilities();
        let pairs = [
            ("history", claimed.history, verified.history, best.history),
            (
                "heartbeat",
                claimed.heartbeat,
                verified.heartbeat,
                best.heartbeat,
            ),
            (
                "snapshot",
                claimed.snapshot,
                verified.snapshot,
                best.snapshot,
            ),
            ("cancel", claimed.cancel, verified.cancel, best.cancel),
            (
                "terminalCause",
                claimed.terminal_cause,
                verified.terminal_cause,
                best.terminal_cause,
            ),
        ];
        for (name, claimed, verified, best) in pairs {
            ensure!(
                !claimed.is_known() || verified.is_known() || best.is_known(),
                "an event of {} claims {name}, which the adapter can never verify",
                event.child_id()
            );
        }
    }
    Ok(())
}
