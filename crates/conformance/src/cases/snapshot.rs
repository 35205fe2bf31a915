//! What a snapshot proves, and what it does not.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use headcount_contract::{
    ChildId, ChildLifecycleAdapter, ChildState, Coverage, Snapshot, SnapshotReason, WireLimits,
    parse_snapshot,
};

use crate::Action::{Finish, StartChild, StartEarly, StartSeveral};
use crate::bench::Bench;
use crate::case::Ability;
use crate::case::Need::{Can, Known, NotKnown, OwnSource};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::{Watch, fold};

pub(super) const CASES: &[Case] = &[
    case!(
        "snapshot::is_legal_on_the_wire",
        "events.legal",
        [Can(StartChild)],
        is_legal_on_the_wire
    ),
    case!(
        "snapshot::complete_ones_list_every_live_child",
        "snapshot.complete",
        [Known(Ability::Snapshot), Can(StartChild)],
        complete_ones_list_every_live_child
    ),
    case!(
        "snapshot::is_partial_where_completeness_is_unproven",
        "snapshot.partial",
        [NotKnown(Ability::Snapshot), OwnSource, Can(StartChild)],
        is_partial_where_completeness_is_unproven
    ),
    case!(
        "snapshot::agrees_with_the_events",
        "snapshot.agrees",
        [Can(StartChild)],
        agrees_with_the_events
    ),
    case!(
        "snapshot::coverage_is_true",
        "snapshot.coverage",
        [Known(Ability::Snapshot), Can(StartChild), Can(Finish)],
        coverage_is_true
    ),
    case!(
        "snapshot::has_no_hole_after_subscribe",
        "snapshot.hole",
        [Can(StartChild), Can(StartSeveral)],
        has_no_hole_after_subscribe
    ),
    case!(
        "snapshot::shows_children_that_were_there_before",
        "snapshot.hole",
        [Can(StartEarly)],
        shows_children_that_were_there_before
    ),
    case!(
        "snapshot::the_reason_changes_nothing",
        "snapshot.reason",
        [Can(StartChild)],
        the_reason_changes_nothing
    ),
    case!(
        "snapshot::a_hundred_at_once_all_succeed",
        "snapshot.concurrent",
        [Can(StartChild)],
        a_hundred_at_once_all_succeed
    ),
    case!(
        "snapshot::another_content_has_another_id",
        "snapshot.ids",
        [Can(StartChild), Can(Finish)],
        another_content_has_another_id
    ),
    case!(
        "snapshot::bears_the_adapters_identity",
        "snapshot.source",
        [OwnSource, Can(StartChild)],
        bears_the_adapters_identity
    ),
];

async fn take(bench: &mut Bench, reason: SnapshotReason) -> Result<Vec<Snapshot>, Failure> {
    let adapter = bench.adapter().await?;
    bench.waiting_for("snapshot() to return");
    Ok(adapter.snapshot(reason).await?)
}

async fn periodic(bench: &mut Bench) -> Result<Vec<Snapshot>, Failure> {
    take(bench, SnapshotReason::Periodic).await
}

/// One child alive, and one ended where the rig can do that.
async fn some_children(bench: &mut Bench) -> Result<(Watch, ChildId), Failure> {
    let watch = bench.watch().await?;
    let live = bench.start().await?;
    bench.settle(&watch).await?;
    if bench.can(StartSeveral) && bench.can(Finish) {
        let ends = bench.start().await?;
        bench.settle(&watch).await?;
        bench.finish(&ends).await?;
        bench.settle(&watch).await?;
    }
    Ok((watch, live))
}

/// The states that snapshots list, and whether any of them is complete.
fn listed(snapshots: &[Snapshot]) -> BTreeMap<ChildId, ChildState> {
    snapshots
        .iter()
        .flat_map(Snapshot::children)
        .map(|child| (child.id().clone(), child.state()))
        .collect()
}

async fn is_legal_on_the_wire(bench: &mut Bench) -> Result<(), Failure> {
    let _lives = some_children(bench).await?;
    for snapshot in periodic(bench).await? {
        let line = snapshot.to_json();
        match parse_snapshot(&line, &WireLimits::default()) {
            Ok(read) => ensure!(
                read == snapshot,
                "this snapshot changes when it is written and read: {line}"
            ),
            Err(fault) => return Err(Failure::new(format!("{fault}, in {line}"))),
        }
    }
    Ok(())
}

async fn complete_ones_list_every_live_child(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, live) = some_children(bench).await?;
    let snapshots = periodic(bench).await?;
    let complete: Vec<_> = snapshots
        .iter()
        .filter_map(|snapshot| match snapshot {
            Snapshot::Complete(complete) => Some(complete),
            Snapshot::Partial(_) => None,
        })
        .collect();
    ensure!(
        !complete.is_empty(),
        "the capability snapshot is known, but none of {} snapshots is complete",
        snapshots.len()
    );
    ensure!(
        complete.iter().any(|snapshot| snapshot.covers(&live)),
        "no complete snapshot covers {live}, which lives"
    );
    for snapshot in complete {
        ensure!(
            !snapshot.covers(&live) || snapshot.children().iter().any(|child| *child.id() == live),
            "a complete snapshot covers {live}, which lives, and does not list it"
        );
    }
    Ok(())
}

async fn is_partial_where_completeness_is_unproven(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, _) = some_children(bench).await?;
    let snapshots = periodic(bench).await?;
    ensure!(
        snapshots
            .iter()
            .all(|snapshot| matches!(snapshot, Snapshot::Partial(_))),
        "the capability snapshot is unknown, but a snapshot says that it is complete"
    );
    Ok(())
}

async fn agrees_with_the_events(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, _) = some_children(bench).await?;
    let listed = listed(&periodic(bench).await?);
    let states = fold(&watch.signals());
    for (child, state) in &listed {
        ensure!(
            states.get(child) == Some(state),
            "the snapshot says that {child} is {state}, the events say {:?}",
            states.get(child)
        );
    }
    Ok(())
}

async fn coverage_is_true(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    let end = bench.finish(&child).await?;
    bench.settle(&watch).await?;
    for snapshot in periodic(bench).await? {
        let Snapshot::Complete(snapshot) = snapshot else {
            continue;
        };
        if let Coverage::Children(covered) = snapshot.coverage() {
            for id in covered {
                ensure!(
                    bench.told.contains_key(id),
                    "the coverage names {id}, which the source never had"
                );
            }
        }
        let shown = snapshot
            .children()
            .iter()
            .find(|listed| *listed.id() == child);
        if let Some(shown) = shown {
            ensure!(
                shown.state() == end,
                "{child} ended {end}, the snapshot says {}",
                shown.state()
            );
        }
    }
    Ok(())
}

async fn has_no_hole_after_subscribe(bench: &mut Bench) -> Result<(), Failure> {
    const ROUNDS: usize = 5;
    let watch = bench.watch().await?;
    let adapter = bench.adapter().await?;
    for round in 0..ROUNDS {
        // Whichever of the two begins first, each child is in the snapshot or in an event.
        bench.waiting_for("snapshot() to return while a child is being started");
        let (snapshots, started) = {
            let starting = bench.rig()?.start_child();
            let asking = adapter.snapshot(SnapshotReason::SessionOpen);
            if round % 2 == 0 {
                tokio::join!(asking, starting)
            } else {
                let (started, snapshots) = tokio::join!(starting, asking);
                (snapshots, started)
            }
        };
        let (snapshots, child) = (snapshots?, bench.note(started?));
        bench.waiting_for(format!("{child} in a snapshot or an event"));
        if !listed(&snapshots).contains_key(&child) {
            watch
                .until(|signals| fold(signals).contains_key(&child).then_some(()))
                .await?;
        }
    }
    bench.settle(&watch).await
}

async fn shows_children_that_were_there_before(bench: &mut Bench) -> Result<(), Failure> {
    // The adapter exists, and nobody has subscribed.
    bench.adapter().await?;
    let child = bench.start().await?;
    let watch = bench.watch().await?;
    if listed(&take(bench, SnapshotReason::SessionOpen).await?).contains_key(&child) {
        return Ok(());
    }
    bench.waiting_for(format!("{child}, which was there before, in an event"));
    watch
        .until(|signals| fold(signals).contains_key(&child).then_some(()))
        .await
}

async fn the_reason_changes_nothing(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, _) = some_children(bench).await?;
    let open = content(&take(bench, SnapshotReason::SessionOpen).await?);
    for reason in [SnapshotReason::Reconnect, SnapshotReason::Periodic] {
        let other = content(&take(bench, reason).await?);
        ensure!(
            other == open,
            "asked for {reason:?} it says {other:?}, for SessionOpen {open:?}"
        );
    }
    Ok(())
}

/// What is the same in two snapshots of one moment.
fn content(snapshots: &[Snapshot]) -> Vec<String> {
    let mut content: Vec<_> = snapshots
        .iter()
        .map(|snapshot| {
            let mut children: Vec<_> = snapshot
                .children()
                .iter()
                .map(|child| format!("{} {}", child.id(), child.state()))
                .collect();
            children.sort();
            let coverage = match snapshot {
                Snapshot::Partial(_) => "partial".to_owned(),
                Snapshot::Complete(complete) => match complete.coverage() {
                    Coverage::All => "all".to_owned(),
                    Coverage::Children(covered) => {
                        let mut covered = covered.clone();
                        covered.sort();
                        format!("{covered:?}")
                    }
                },
            };
            format!(
                "{} {}, {coverage}: {}",
                snapshot.source().source,
                snapshot.source().epoch,
                children.join(", ")
            )
        })
        .collect();
    content.sort();
    content
}

async fn a_hundred_at_once_all_succeed(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, _) = some_children(bench).await?;
    let adapter = bench.adapter().await?;
    let ask = |adapter: Arc<dyn ChildLifecycleAdapter>| async move {
        adapter.snapshot(SnapshotReason::Periodic).await
    };
    bench.waiting_for("a hundred snapshots asked for at once");
    let answers = join_all((0..100).map(|_| ask(adapter.clone()))).await;
    let mut contents = Vec::new();
    for (at, answer) in answers.into_iter().enumerate() {
        match answer {
            Ok(snapshots) => contents.push(content(&snapshots)),
            Err(error) => {
                return Err(Failure::new(format!(
                    "of a hundred requests at once, number {} failed: {error:?}",
                    at + 1
                )));
            }
        }
    }
    ensure!(
        contents.windows(2).all(|pair| pair[0] == pair[1]),
        "a hundred requests at once, while nothing changed, had different answers"
    );
    Ok(())
}

async fn another_content_has_another_id(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    let before = periodic(bench).await?;
    bench.finish(&child).await?;
    bench.settle(&watch).await?;
    let after = periodic(bench).await?;
    for one in &before {
        for two in &after {
            ensure!(
                one.id() != two.id() || one.children() == two.children(),
                "two snapshots named {} differ: the second would be taken for the first and \
                 not be applied",
                one.id()
            );
        }
    }
    Ok(())
}

async fn bears_the_adapters_identity(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, _) = some_children(bench).await?;
    let snapshots = periodic(bench).await?;
    let identity = bench.adapter().await?.identity();
    for snapshot in &snapshots {
        ensure!(
            *snapshot.source() == identity,
            "the adapter is {} {}, its snapshot says {} {}",
            identity.source,
            identity.epoch,
            snapshot.source().source,
            snapshot.source().epoch
        );
    }
    Ok(())
}
