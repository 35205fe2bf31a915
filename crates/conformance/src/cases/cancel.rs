//! What a cancel request may and may not do.

use headcount_contract::{CancelOutcome, ChildId, ChildState, Outcome};

use crate::Action::{Activity, Finish, Heartbeat, IgnoreCancel, StartChild, StartSeveral};
use crate::bench::Bench;
use crate::case::Ability;
use crate::case::Need::{Can, Known, NotKnown};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::{Watch, events, fold};

pub(super) const CASES: &[Case] = &[
    case!(
        "cancel::answers_unsupported_where_it_is_unknown",
        "cancel.capability",
        [NotKnown(Ability::Cancel), Can(StartChild)],
        answers_unsupported_where_it_is_unknown
    ),
    case!(
        "cancel::never_answers_unsupported_where_it_is_known",
        "cancel.capability",
        [Known(Ability::Cancel), Can(StartChild)],
        never_answers_unsupported_where_it_is_known
    ),
    case!(
        "cancel::an_accepted_request_ends_a_willing_child",
        "cancel.ends",
        [Known(Ability::Cancel), Can(StartChild)],
        an_accepted_request_ends_a_willing_child
    ),
    case!(
        "cancel::an_accepted_request_is_not_an_ended_child",
        "cancel.accepted",
        [
            Known(Ability::Cancel),
            Can(StartChild),
            Can(IgnoreCancel),
            Can(Finish)
        ],
        an_accepted_request_is_not_an_ended_child
    ),
    case!(
        "cancel::an_unknown_child_is_said_to_be_unknown",
        "cancel.unknown",
        [Known(Ability::Cancel), Can(StartChild)],
        an_unknown_child_is_said_to_be_unknown
    ),
    case!(
        "cancel::an_ended_child_is_not_cancelled_again",
        "cancel.ended",
        [Known(Ability::Cancel), Can(StartChild), Can(Finish)],
        an_ended_child_is_not_cancelled_again
    ),
    case!(
        "cancel::asking_twice_does_no_harm",
        "cancel.twice",
        [Known(Ability::Cancel), Can(StartChild)],
        asking_twice_does_no_harm
    ),
    case!(
        "cancel::leaves_other_children_alone",
        "cancel.others",
        [Known(Ability::Cancel), Can(StartChild), Can(StartSeveral)],
        leaves_other_children_alone
    ),
];

async fn cancel(bench: &mut Bench, child: &ChildId) -> Result<CancelOutcome, Failure> {
    let adapter = bench.adapter().await?;
    bench.waiting_for(format!("cancel({child}) to return"));
    Ok(adapter
        .cancel(child, Some("the conformance kit asks"))
        .await?)
}

async fn one_child(bench: &mut Bench) -> Result<(Watch, ChildId), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    Ok((watch, child))
}

async fn end_of(bench: &Bench, watch: &Watch, child: &ChildId) -> Result<ChildState, Failure> {
    bench.waiting_for(format!("the terminal event of {child}"));
    watch
        .until(|signals| {
            fold(signals)
                .get(child)
                .copied()
                .filter(|state| state.is_terminal())
        })
        .await
}

async fn answers_unsupported_where_it_is_unknown(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, child) = one_child(bench).await?;
    let answer = cancel(bench, &child).await?;
    ensure!(
        answer == CancelOutcome::Unsupported,
        "the capability cancel is unknown, but a request was answered {answer:?}"
    );
    Ok(())
}

async fn never_answers_unsupported_where_it_is_known(bench: &mut Bench) -> Result<(), Failure> {
    let (_watch, child) = one_child(bench).await?;
    let answer = cancel(bench, &child).await?;
    ensure!(
        answer != CancelOutcome::Unsupported,
        "the capability cancel is known, but a request was answered {answer:?}"
    );
    Ok(())
}

async fn an_accepted_request_ends_a_willing_child(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    let answer = cancel(bench, &child).await?;
    ensure!(
        answer == CancelOutcome::Accepted,
        "a request to cancel a live child was answered {answer:?}"
    );
    let end = end_of(bench, &watch, &child).await?;
    let tells_why = Ability::TerminalCause.is_known(bench.plan.capabilities());
    ensure!(
        !tells_why || end == ChildState::Terminal(Outcome::Cancelled),
        "{child} was cancelled, and its source knows why children end, but it ended as {end}"
    );
    Ok(())
}

async fn an_accepted_request_is_not_an_ended_child(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    bench.waiting_for(format!("the rig to have {child} ignore a cancel request"));
    bench.rig()?.ignore_cancel(&child).await?;
    let answer = cancel(bench, &child).await?;
    ensure!(
        answer == CancelOutcome::Accepted,
        "a request to cancel a live child was answered {answer:?}"
    );
    // What the child does next must come before its end.
    let before = watch.events().len();
    if bench.can(Activity) {
        bench.rig()?.activity(&child, "still at it").await?;
    } else if bench.can(Heartbeat) {
        bench.rig()?.heartbeat(&child).await?;
    }
    if bench.can(Activity) || bench.can(Heartbeat) {
        bench.waiting_for(format!("a sign of {child}, which ignores the request"));
        let sign = watch
            .until(|signals| {
                let mut after = events(signals).into_iter().skip(before);
                after.find(|event| event.child_id() == &child)
            })
            .await?;
        ensure!(
            !sign.state().is_some_and(ChildState::is_terminal),
            "{child} was said to be {:?} when its source had only accepted the request",
            sign.state()
        );
    }
    ensure!(
        !fold(&watch.signals())
            .get(&child)
            .is_some_and(|state| state.is_terminal()),
        "{child} lives on, but was said to have ended"
    );
    bench.finish(&child).await?;
    // It may be told as completed or as cancelled: both are true.
    end_of(bench, &watch, &child).await.map(|_| ())
}

async fn an_unknown_child_is_said_to_be_unknown(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    let nobody =
        ChildId::new("nobody-of-this-name").map_err(|error| Failure::new(error.to_string()))?;
    let answer = cancel(bench, &nobody).await?;
    ensure!(
        answer == CancelOutcome::UnknownChild,
        "a request to cancel a child that never was was answered {answer:?}"
    );
    ensure!(
        !fold(&watch.signals())
            .get(&child)
            .is_some_and(|state| state.is_terminal()),
        "a request to cancel nobody ended {child}"
    );
    Ok(())
}

async fn an_ended_child_is_not_cancelled_again(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    let end = bench.finish(&child).await?;
    bench.settle(&watch).await?;
    let answer = cancel(bench, &child).await?;
    ensure!(
        matches!(
            answer,
            CancelOutcome::AlreadyEnded | CancelOutcome::UnknownChild
        ),
        "a request to cancel a child that had ended was answered {answer:?}"
    );
    let signals = bench.close(&watch).await?;
    let ends = events(&signals)
        .into_iter()
        .filter(|event| {
            event.child_id() == &child && event.state().is_some_and(ChildState::is_terminal)
        })
        .count();
    ensure!(
        ends == 1 && fold(&signals).get(&child) == Some(&end),
        "after the request, {child} has {ends} terminal events"
    );
    Ok(())
}

async fn asking_twice_does_no_harm(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    let first = cancel(bench, &child).await?;
    let second = cancel(bench, &child).await?;
    for answer in [&first, &second] {
        ensure!(
            matches!(
                answer,
                CancelOutcome::Accepted | CancelOutcome::AlreadyEnded
            ),
            "asked twice, it answered {first:?} and {second:?}"
        );
    }
    end_of(bench, &watch, &child).await?;
    let signals = bench.close(&watch).await?;
    let ends = events(&signals)
        .into_iter()
        .filter(|event| {
            event.child_id() == &child && event.state().is_some_and(ChildState::is_terminal)
        })
        .count();
    ensure!(ends == 1, "asked twice, {child} ended {ends} times");
    Ok(())
}

async fn leaves_other_children_alone(bench: &mut Bench) -> Result<(), Failure> {
    let (watch, child) = one_child(bench).await?;
    let other = bench.start().await?;
    bench.settle(&watch).await?;
    cancel(bench, &child).await?;
    end_of(bench, &watch, &child).await?;
    // Whatever happened to the other one because of it is seen before a third one begins.
    bench.told.remove(&child);
    bench.start().await?;
    bench.settle(&watch).await?;
    ensure!(
        fold(&watch.signals())
            .get(&other)
            .is_some_and(|state| !state.is_terminal()),
        "a request to cancel {child} ended {other}"
    );
    Ok(())
}
