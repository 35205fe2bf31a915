//! What an [`AgentRuntime`] and its handles promise.

mod ending;
mod lines;

use std::sync::Arc;

use futures_util::StreamExt;
use headcount_contract::{AgentRuntime, RunEvent, RunEventStream, RunHandle, RunId, RunStatus};

use self::ending::{
    a_crash_is_not_a_stop, a_stopped_run_leaves_nothing, all_callers_share_one_stop,
    ending_by_itself_is_not_a_crash, stop_ends_it_as_stopped,
    stopping_an_ended_run_changes_nothing, the_stop_signal_equals_stop,
    the_stop_signal_is_forgotten_with_the_run,
};
use self::lines::{lines_arrive_whole_and_in_order, the_first_subscriber_misses_nothing};
use crate::RunAction::{Crash, FailStart, Finish, Leftovers, Log};
use crate::RuntimeRig;
use crate::bench::Bench;
use crate::case::Need::{RunCan, Runtime};
use crate::case::{Case, Failure, case, ensure};

pub(super) const CASES: &[Case] = &[
    case!(
        "runtime::starts_and_becomes_ready",
        "runtime.start",
        [Runtime],
        starts_and_becomes_ready
    ),
    case!(
        "runtime::the_status_is_what_the_last_event_said",
        "runtime.status",
        [Runtime],
        the_status_is_what_the_last_event_said
    ),
    case!(
        "runtime::a_late_subscriber_first_gets_the_present_status",
        "runtime.late",
        [Runtime],
        a_late_subscriber_first_gets_the_present_status
    ),
    case!(
        "runtime::lines_arrive_whole_and_in_order",
        "runtime.logs",
        [RunCan(Log)],
        lines_arrive_whole_and_in_order
    ),
    case!(
        "runtime::the_first_subscriber_misses_nothing",
        "runtime.late",
        [RunCan(Log)],
        the_first_subscriber_misses_nothing
    ),
    case!(
        "runtime::a_run_bears_the_name_that_the_host_gives",
        "runtime.ids",
        [Runtime],
        a_run_bears_the_name_that_the_host_gives
    ),
    case!(
        "runtime::stop_ends_it_as_stopped",
        "runtime.stop",
        [Runtime],
        stop_ends_it_as_stopped
    ),
    case!(
        "runtime::all_callers_share_one_stop",
        "runtime.stop_shared",
        [Runtime],
        all_callers_share_one_stop
    ),
    case!(
        "runtime::stopping_an_ended_run_changes_nothing",
        "runtime.stop_shared",
        [RunCan(Crash)],
        stopping_an_ended_run_changes_nothing
    ),
    case!(
        "runtime::the_stop_signal_equals_stop",
        "runtime.abort",
        [Runtime],
        the_stop_signal_equals_stop
    ),
    case!(
        "runtime::the_stop_signal_is_forgotten_with_the_run",
        "runtime.abort",
        [RunCan(Finish)],
        the_stop_signal_is_forgotten_with_the_run
    ),
    case!(
        "runtime::a_failed_start_is_an_error",
        "runtime.start_error",
        [RunCan(FailStart)],
        a_failed_start_is_an_error
    ),
    case!(
        "runtime::a_failed_start_leaves_nothing",
        "runtime.start_error",
        [RunCan(FailStart), RunCan(Leftovers)],
        a_failed_start_leaves_nothing
    ),
    case!(
        "runtime::a_stopped_run_leaves_nothing",
        "runtime.stop",
        [RunCan(Leftovers)],
        a_stopped_run_leaves_nothing
    ),
    case!(
        "runtime::a_crash_is_not_a_stop",
        "runtime.crash",
        [RunCan(Crash)],
        a_crash_is_not_a_stop
    ),
    case!(
        "runtime::ending_by_itself_is_not_a_crash",
        "runtime.crash",
        [RunCan(Finish)],
        ending_by_itself_is_not_a_crash
    ),
    case!(
        "runtime::runs_are_told_apart",
        "runtime.ids",
        [Runtime],
        runs_are_told_apart
    ),
    case!(
        "runtime::restart_does_what_the_capabilities_say",
        "runtime.capabilities",
        [Runtime],
        restart_does_what_the_capabilities_say
    ),
];

async fn runtime(bench: &mut Bench) -> Result<Arc<dyn AgentRuntime>, Failure> {
    bench.waiting_for("the rig to make the runtime");
    Ok(rig(bench)?.runtime().await?)
}

fn rig(bench: &mut Bench) -> Result<&mut Box<dyn RuntimeRig>, Failure> {
    let rig = bench.run_rig.as_mut();
    rig.ok_or_else(|| Failure::new("there is no runtime rig"))
}

async fn start(
    bench: &mut Bench,
    runtime: &Arc<dyn AgentRuntime>,
) -> Result<Arc<dyn RunHandle>, Failure> {
    let input = rig(bench)?.input();
    bench.waiting_for("start() to return");
    let run = runtime.start(input).await;
    run.map_err(|error| Failure::new(format!("start() failed: {error:?}")))
}

/// Waits until the run is up: ready where it is observable, else started.
async fn up(bench: &mut Bench) -> Result<(Arc<dyn AgentRuntime>, Arc<dyn RunHandle>), Failure> {
    let runtime = runtime(bench).await?;
    let run = start(bench, &runtime).await?;
    if runtime.capabilities().observable {
        bench.waiting_for("the run to become ready");
        let mut events = run.subscribe();
        loop {
            match status(events.next().await) {
                Some(Some(RunStatus::Ready)) => break,
                Some(Some(ended)) if ended.is_terminal() => {
                    return Err(Failure::new(format!(
                        "the run is {}, it should stay up",
                        ended.as_str()
                    )));
                }
                Some(_) => {}
                None => return Err(Failure::new("the stream ended while the run is up")),
            }
        }
    }
    Ok((runtime, run))
}

/// The status that an event tells: `None` at the end, `Some(None)` for another event.
#[allow(clippy::option_option)] // the two are told apart
fn status(event: Option<RunEvent>) -> Option<Option<RunStatus>> {
    Some(match event? {
        RunEvent::Status(change) => Some(change.status),
        _ => None,
    })
}

/// All statuses up to the end of the stream.
async fn statuses(bench: &Bench, events: RunEventStream) -> Vec<RunStatus> {
    bench.waiting_for("the end of a run's events after its last status");
    events
        .filter_map(async |event| status(Some(event)).flatten())
        .collect()
        .await
}

fn names(statuses: &[RunStatus]) -> String {
    let names: Vec<_> = statuses.iter().map(|status| status.as_str()).collect();
    names.join(", ")
}

async fn starts_and_becomes_ready(bench: &mut Bench) -> Result<(), Failure> {
    let runtime = runtime(bench).await?;
    ensure!(!runtime.name().trim().is_empty(), "the runtime has no name");
    let run = start(bench, &runtime).await?;
    let mut events = run.subscribe();
    bench.waiting_for("the first event, which is a status");
    let first = status(events.next().await);
    ensure!(
        matches!(first, Some(Some(RunStatus::Starting | RunStatus::Ready))),
        "the first event of a fresh run is {first:?}, not its present status"
    );
    let mut seen = first.flatten();
    bench.waiting_for("the run to become ready");
    while runtime.capabilities().observable && seen != Some(RunStatus::Ready) {
        let Some(next) = status(events.next().await) else {
            return Err(Failure::new("the stream ended while the run is up"));
        };
        seen = next.or(seen);
    }
    Ok(())
}

async fn the_status_is_what_the_last_event_said(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let before = run.status();
    ensure!(
        !before.is_terminal(),
        "a run that is up has the status {}",
        before.as_str()
    );
    let events = run.subscribe();
    bench.waiting_for("stop() to return");
    run.stop().await?;
    let seen = statuses(bench, events).await;
    ensure!(
        seen.last() == Some(&run.status()),
        "the events said {}, the handle says {}",
        names(&seen),
        run.status().as_str()
    );
    Ok(())
}

async fn a_late_subscriber_first_gets_the_present_status(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    bench.waiting_for("the present status, given to a late subscriber");
    let first = status(run.subscribe().next().await);
    ensure!(
        first == Some(Some(run.status())),
        "a late subscriber first got {first:?}, the status is {}",
        run.status().as_str()
    );
    bench.waiting_for("stop() to return");
    run.stop().await?;
    let after = statuses(bench, run.subscribe()).await;
    ensure!(
        after == [RunStatus::Stopped],
        "one that subscribed after the end got {}, not the last status and the end",
        names(&after)
    );
    Ok(())
}

async fn a_run_bears_the_name_that_the_host_gives(bench: &mut Bench) -> Result<(), Failure> {
    let runtime = runtime(bench).await?;
    let name = RunId::new("the-hosts-own-name").map_err(|e| Failure::new(e.to_string()))?;
    let mut input = rig(bench)?.input();
    input.run_id = Some(name.clone());
    bench.waiting_for("start() to return");
    let run = runtime
        .start(input)
        .await
        .map_err(|error| Failure::new(format!("start() failed: {error:?}")))?;
    ensure!(
        *run.run_id() == name,
        "the host named the run {name}, its handle says {}",
        run.run_id()
    );
    Ok(())
}

async fn a_failed_start_is_an_error(bench: &mut Bench) -> Result<(), Failure> {
    let runtime = runtime(bench).await?;
    let input = rig(bench)?.failing_input().await?;
    bench.waiting_for("start() of something that cannot be started");
    match runtime.start(input).await {
        Ok(run) => Err(Failure::new(format!(
            "it was started as {}, and is {}",
            run.run_id(),
            run.status().as_str()
        ))),
        Err(error) => {
            ensure!(!error.message().trim().is_empty(), "the error says nothing");
            Ok(())
        }
    }
}

async fn a_failed_start_leaves_nothing(bench: &mut Bench) -> Result<(), Failure> {
    let runtime = runtime(bench).await?;
    let input = rig(bench)?.failing_input().await?;
    bench.waiting_for("start() of something that cannot be started");
    ensure!(runtime.start(input).await.is_err(), "it was started");
    let left = rig(bench)?.leftovers().await?;
    ensure!(left == 0, "a start that failed left {left} behind");
    Ok(())
}

async fn runs_are_told_apart(bench: &mut Bench) -> Result<(), Failure> {
    let (runtime, first) = up(bench).await?;
    let second = start(bench, &runtime).await?;
    ensure!(
        first.run_id() != second.run_id(),
        "two runs are both named {}",
        first.run_id()
    );
    bench.waiting_for("stop() of one of two runs");
    first.stop().await?;
    ensure!(
        !second.status().is_terminal(),
        "stopping {} ended {}",
        first.run_id(),
        second.run_id()
    );
    bench.waiting_for("stop() of the other run");
    second.stop().await?;
    Ok(())
}

async fn restart_does_what_the_capabilities_say(bench: &mut Bench) -> Result<(), Failure> {
    let (runtime, run) = up(bench).await?;
    let events = run.subscribe();
    bench.waiting_for("restart() to return");
    let answer = run.restart().await;
    if !runtime.capabilities().restartable {
        ensure!(
            answer.is_err(),
            "the runtime is not restartable, and restarted a run"
        );
        ensure!(
            !run.status().is_terminal(),
            "a restart that was refused ended the run: {}",
            run.status().as_str()
        );
        return Ok(());
    }
    let next = answer.map_err(|error| Failure::new(format!("restart() failed: {error:?}")))?;
    let seen = statuses(bench, events).await;
    ensure!(
        seen.last() == Some(&RunStatus::Stopped) && next.run_id() != run.run_id(),
        "the run that was restarted said {}, the next one is named {}",
        names(&seen),
        next.run_id()
    );
    ensure!(
        !next.status().is_terminal(),
        "the next run is {}",
        next.status().as_str()
    );
    bench.waiting_for("stop() of the next run");
    next.stop().await?;
    Ok(())
}
