//! Where children come from, as their events say.

use std::collections::HashMap;

use headcount_contract::{ChildId, Lineage, SourceId};

use super::events::whole_lives;
use crate::Action::{Fail, Retry, StartChild};
use crate::bench::Bench;
use crate::case::Need::{Can, ExternalChildren, OwnChildren};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::events;

pub(super) const CASES: &[Case] = &[
    case!(
        "events::lineage_never_changes",
        "lineage.constant",
        [Can(StartChild)],
        lineage_never_changes
    ),
    case!(
        "events::a_retry_is_a_new_child_of_the_same_root",
        "lineage.retry",
        [Can(StartChild), Can(Fail), Can(Retry)],
        a_retry_is_a_new_child_of_the_same_root
    ),
    case!(
        "events::own_children_are_not_external",
        "lineage.external",
        [OwnChildren, Can(StartChild)],
        own_children_are_not_external
    ),
    case!(
        "events::external_children_are_marked_and_not_overclaimed",
        "lineage.external",
        [ExternalChildren, Can(StartChild)],
        external_children_are_marked_and_not_overclaimed
    ),
];

async fn lineage_never_changes(bench: &mut Bench) -> Result<(), Failure> {
    let mut known: HashMap<(SourceId, ChildId), Lineage> = HashMap::new();
    for event in events(&whole_lives(bench).await?) {
        let key = (event.source().clone(), event.child_id().clone());
        let before = known.entry(key).or_insert_with(|| event.lineage().clone());
        // A parent that becomes known is no contradiction.
        let same = before.root() == event.lineage().root()
            && before.attempt() == event.lineage().attempt()
            && before.is_external() == event.lineage().is_external()
            && (before.parent().is_none() || before.parent() == event.lineage().parent());
        ensure!(
            same,
            "the lineage of {} was {before:?}, then {:?}",
            event.child_id(),
            event.lineage()
        );
        *before = event.lineage().clone();
    }
    Ok(())
}

async fn a_retry_is_a_new_child_of_the_same_root(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let first = bench.start().await?;
    bench.settle(&watch).await?;
    bench.fail(&first).await?;
    bench.settle(&watch).await?;
    bench.waiting_for(format!("the rig to retry {first}"));
    let started = bench.rig()?.retry(&first).await?;
    let second = bench.note(started);
    bench.settle(&watch).await?;
    ensure!(first != second, "the retry of {first} has the same id");
    let lineage_of = |child: &ChildId| {
        let mut of_child = watch
            .events()
            .into_iter()
            .filter(|event| event.child_id() == child);
        of_child.next().map(|event| event.lineage().clone())
    };
    let (Some(one), Some(two)) = (lineage_of(&first), lineage_of(&second)) else {
        return Err(Failure::new("one of the attempts has no event"));
    };
    ensure!(
        two.root() == one.root() && two.attempt() == one.attempt() + 1,
        "attempt {} under {} was retried as attempt {} under {}",
        one.attempt(),
        one.root(),
        two.attempt(),
        two.root()
    );
    Ok(())
}

async fn own_children_are_not_external(bench: &mut Bench) -> Result<(), Failure> {
    for event in events(&whole_lives(bench).await?) {
        ensure!(
            !event.lineage().is_external(),
            "{} is said to be external, but its source started it",
            event.child_id()
        );
    }
    Ok(())
}

async fn external_children_are_marked_and_not_overclaimed(
    bench: &mut Bench,
) -> Result<(), Failure> {
    for event in events(&whole_lives(bench).await?) {
        ensure!(
            event.lineage().is_external(),
            "{} was started by somebody else, and is not said to be external",
            event.child_id()
        );
        ensure!(
            !event.capabilities().history.is_known(),
            "the history of {} before its adoption is said to be known",
            event.child_id()
        );
    }
    Ok(())
}
