//! What each event owes, over the whole lives of some children.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime};

use headcount_contract::{
    ChildId, ChildState, EventKind, Sequence, SequenceScope, Signal, SourceEpoch, SourceId,
    Timestamp, WireLimits, parse_event,
};

use crate::Action::{Activity, Fail, Finish, Heartbeat, StartChild};
use crate::bench::Bench;
use crate::case::Ability;
use crate::case::Need::{Can, Known};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::events;

pub(super) const CASES: &[Case] = &[
    case!(
        "events::are_legal_on_the_wire",
        "events.legal",
        [Can(StartChild)],
        are_legal_on_the_wire
    ),
    case!(
        "events::created_comes_first_or_history_is_unknown",
        "events.created",
        [Can(StartChild)],
        created_comes_first_or_history_is_unknown
    ),
    case!(
        "events::sequences_follow_the_declared_scope",
        "events.sequence",
        [Can(StartChild)],
        sequences_follow_the_declared_scope
    ),
    case!(
        "events::a_child_ends_once",
        "events.terminal",
        [Can(StartChild), Can(Finish)],
        a_child_ends_once
    ),
    case!(
        "events::nothing_follows_a_childs_end",
        "events.terminal",
        [Can(StartChild), Can(Finish)],
        nothing_follows_a_childs_end
    ),
    case!(
        "events::a_bad_end_is_told_as_one",
        "events.outcome",
        [Can(StartChild), Can(Fail)],
        a_bad_end_is_told_as_one
    ),
    case!(
        "events::clocks_are_sane",
        "events.clocks",
        [Can(StartChild)],
        clocks_are_sane
    ),
    case!(
        "events::activity_arrives_with_its_text",
        "events.activity",
        [Can(StartChild), Can(Activity)],
        activity_arrives_with_its_text
    ),
    case!(
        "events::heartbeats_come_where_they_are_promised",
        "events.heartbeat",
        [Known(Ability::Heartbeat), Can(StartChild)],
        heartbeats_come_where_they_are_promised
    ),
];

/// Everything that some children's whole lives made the adapter say.
pub(super) async fn whole_lives(bench: &mut Bench) -> Result<Vec<Signal>, Failure> {
    let watch = bench.watch().await?;
    bench.live(&watch).await?;
    let signals = bench.close(&watch).await?;
    ensure!(
        signals
            .iter()
            .any(|signal| matches!(signal, Signal::Event(_))),
        "there was not one event"
    );
    Ok(signals)
}

async fn are_legal_on_the_wire(bench: &mut Bench) -> Result<(), Failure> {
    for event in events(&whole_lives(bench).await?) {
        let line = event.to_json();
        match parse_event(&line, &WireLimits::default()) {
            Ok(parsed) => ensure!(
                parsed.event == event,
                "this event changes when it is written and read: {line}"
            ),
            Err(fault) => return Err(Failure::new(format!("{fault}, in {line}"))),
        }
    }
    Ok(())
}

async fn created_comes_first_or_history_is_unknown(bench: &mut Bench) -> Result<(), Failure> {
    let mut seen = HashSet::new();
    for event in events(&whole_lives(bench).await?) {
        let first = seen.insert((event.source().clone(), event.child_id().clone()));
        if first {
            ensure!(
                event.kind() == EventKind::Created || !event.capabilities().history.is_known(),
                "the first event of {} is {}, but its history is said to be known",
                event.child_id(),
                event.kind().as_str()
            );
        } else {
            ensure!(
                event.kind() != EventKind::Created,
                "{} was created again, after its first event",
                event.child_id()
            );
        }
    }
    Ok(())
}

async fn sequences_follow_the_declared_scope(bench: &mut Bench) -> Result<(), Failure> {
    let scope = bench.plan.scope();
    let mut last: HashMap<(SourceId, SourceEpoch, Option<ChildId>), Sequence> = HashMap::new();
    let mut unsequenced = 0;
    let signals = whole_lives(bench).await?;
    let mut hole_told = false;
    for signal in &signals {
        let event = match signal {
            Signal::Discontinuity(_) => {
                hole_told = true;
                continue;
            }
            Signal::Event(event) => event,
            _ => continue,
        };
        let Some(sequence) = event.sequence() else {
            unsequenced += 1;
            continue;
        };
        let child = (scope == SequenceScope::Child).then(|| event.child_id().clone());
        let key = (event.source().clone(), event.source_epoch().clone(), child);
        if let Some(before) = last.insert(key, sequence) {
            ensure!(
                sequence == before.next() || (hole_told && sequence > before),
                "in {scope:?} scope, {} follows {} at {} of {}",
                sequence.get(),
                before.get(),
                event.kind().as_str(),
                event.child_id()
            );
        }
    }
    ensure!(
        last.is_empty() || unsequenced == 0,
        "{unsequenced} events have no sequence while others have one"
    );
    Ok(())
}

async fn a_child_ends_once(bench: &mut Bench) -> Result<(), Failure> {
    let mut ended = HashMap::new();
    for event in events(&whole_lives(bench).await?) {
        let Some(state) = event.state().filter(|state| state.is_terminal()) else {
            continue;
        };
        if matches!(
            event.kind(),
            EventKind::Reconciliation(_) | EventKind::Diagnostic(_)
        ) {
            continue;
        }
        let key = (event.source().clone(), event.child_id().clone());
        if let Some(before) = ended.insert(key, state) {
            return Err(Failure::new(format!(
                "{} ended as {before}, and again as {state}",
                event.child_id()
            )));
        }
    }
    ensure!(
        bench
            .told
            .keys()
            .any(|child| ended.keys().any(|(_, id)| id == child)),
        "the rig ended a child, no event says so"
    );
    Ok(())
}

async fn nothing_follows_a_childs_end(bench: &mut Bench) -> Result<(), Failure> {
    let mut ended = HashSet::new();
    for event in events(&whole_lives(bench).await?) {
        let key = (event.source().clone(), event.child_id().clone());
        let ends = event.state().is_some_and(ChildState::is_terminal);
        ensure!(
            ends || !ended.contains(&key),
            "{} follows the end of {}",
            event.kind().as_str(),
            event.child_id()
        );
        if ends {
            ended.insert(key);
        }
    }
    Ok(())
}

async fn a_bad_end_is_told_as_one(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    bench.fail(&child).await?;
    bench.settle(&watch).await
}

async fn clocks_are_sane(bench: &mut Bench) -> Result<(), Failure> {
    /// How far two clocks of one machine may be apart.
    const SKEW: Duration = Duration::from_mins(1);
    let signals = whole_lives(bench).await?;
    let now = Timestamp::from(SystemTime::now());
    let mut last: HashMap<ChildId, Timestamp> = HashMap::new();
    for event in events(&signals) {
        let at = event.observed_at();
        ensure!(
            at <= now.saturating_add(SKEW),
            "an event of {} was observed at {at}, which is yet to come",
            event.child_id()
        );
        ensure!(
            at.saturating_add(SKEW) >= bench.began,
            "an event of {} was observed at {at}, before the child began",
            event.child_id()
        );
        if let Some(before) = last.insert(event.child_id().clone(), at) {
            ensure!(
                at.saturating_add(Duration::from_secs(1)) >= before,
                "of {}, {at} follows {before}",
                event.child_id()
            );
        }
        if let Some(adopted) = event.lineage().adopted_at() {
            ensure!(
                adopted <= now.saturating_add(SKEW),
                "{} was adopted at {adopted}, which is yet to come",
                event.child_id()
            );
        }
    }
    Ok(())
}

async fn activity_arrives_with_its_text(bench: &mut Bench) -> Result<(), Failure> {
    const TEXT: &str = "counting heads, é 数";
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    bench.rig()?.activity(&child, TEXT).await?;
    bench.waiting_for("an event that carries the activity");
    watch
        .until(|signals| {
            let mut events = events(signals).into_iter();
            events
                .any(|event| {
                    event.child_id() == &child
                        && event.activity().is_some_and(|text| text.as_str() == TEXT)
                })
                .then_some(())
        })
        .await
}

async fn heartbeats_come_where_they_are_promised(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    if bench.can(Heartbeat) {
        bench.rig()?.heartbeat(&child).await?;
    }
    bench.waiting_for("a heartbeat of a live child");
    watch
        .until(|signals| {
            let mut events = events(signals).into_iter();
            events
                .any(|event| event.child_id() == &child && event.kind() == EventKind::Heartbeat)
                .then_some(())
        })
        .await
}
