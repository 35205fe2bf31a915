//! How a run ends: stopped, by itself, or in a crash.

use std::sync::Arc;

use futures_util::future::join_all;
use headcount_contract::{AgentRuntime, RunHandle, RunStatus, StopSignal};
use tokio::sync::oneshot::{self, Sender};

use super::{names, rig, runtime, statuses, up};
use crate::bench::Bench;
use crate::case::{Failure, ensure};

pub(super) async fn stop_ends_it_as_stopped(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let events = run.subscribe();
    bench.waiting_for("stop() to return");
    run.stop().await?;
    ensure!(
        run.status() == RunStatus::Stopped,
        "stop() has returned, the status is {}",
        run.status().as_str()
    );
    let seen = statuses(bench, events).await;
    let terminal = seen.iter().filter(|status| status.is_terminal()).count();
    ensure!(
        terminal == 1 && seen.last() == Some(&RunStatus::Stopped),
        "a run that was stopped said {}",
        names(&seen)
    );
    Ok(())
}

pub(super) async fn all_callers_share_one_stop(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let events = run.subscribe();
    let stop = |run: Arc<dyn RunHandle>| async move {
        let answer = run.stop().await;
        // Whoever has its answer must find the run gone.
        (answer, run.status())
    };
    bench.waiting_for("ten callers of stop()");
    for (answer, status) in join_all((0..10).map(|_| stop(run.clone()))).await {
        answer?;
        ensure!(
            status == RunStatus::Stopped,
            "stop() returned to one of ten callers when the run was {}",
            status.as_str()
        );
    }
    bench.waiting_for("stop() of a run that has been stopped");
    run.stop().await?;
    let seen = statuses(bench, events).await;
    let terminal = seen.iter().filter(|status| status.is_terminal()).count();
    ensure!(
        terminal == 1,
        "stopped by ten callers it said {}",
        names(&seen)
    );
    Ok(())
}

pub(super) async fn stopping_an_ended_run_changes_nothing(
    bench: &mut Bench,
) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let events = run.subscribe();
    rig(bench)?.crash(run.as_ref()).await?;
    let seen = statuses(bench, events).await;
    let before = run.status();
    bench.waiting_for("stop() of a run that has ended");
    run.stop().await?;
    ensure!(
        run.status() == before,
        "it ended with {}, and stop() made it {}",
        names(&seen),
        run.status().as_str()
    );
    Ok(())
}

pub(super) async fn the_stop_signal_equals_stop(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run, fire) = up_with_stop_signal(bench).await?;
    let events = run.subscribe();
    if fire.send(()).is_err() {
        return Err(Failure::new(
            "the stop signal was dropped while the run is up",
        ));
    }
    let seen = statuses(bench, events).await;
    ensure!(
        seen.last() == Some(&RunStatus::Stopped),
        "a run whose stop signal fired said {}",
        names(&seen)
    );
    Ok(())
}

pub(super) async fn the_stop_signal_is_forgotten_with_the_run(
    bench: &mut Bench,
) -> Result<(), Failure> {
    let (_runtime, run, mut fire) = up_with_stop_signal(bench).await?;
    let events = run.subscribe();
    rig(bench)?.finish(run.as_ref()).await?;
    statuses(bench, events).await;
    bench.waiting_for("the stop signal of an ended run to be dropped");
    fire.closed().await;
    Ok(())
}

pub(super) async fn a_stopped_run_leaves_nothing(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    bench.waiting_for("stop() to return");
    run.stop().await?;
    let left = rig(bench)?.leftovers().await?;
    ensure!(left == 0, "stop() has returned, and left {left} behind");
    Ok(())
}

pub(super) async fn a_crash_is_not_a_stop(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let events = run.subscribe();
    bench.waiting_for("the rig to crash the run");
    rig(bench)?.crash(run.as_ref()).await?;
    let seen = statuses(bench, events).await;
    ensure!(
        seen.last() == Some(&RunStatus::Crashed) && run.status() == RunStatus::Crashed,
        "a run that crashed said {}",
        names(&seen)
    );
    Ok(())
}

pub(super) async fn ending_by_itself_is_not_a_crash(bench: &mut Bench) -> Result<(), Failure> {
    let (_runtime, run) = up(bench).await?;
    let events = run.subscribe();
    bench.waiting_for("the rig to let the run end");
    rig(bench)?.finish(run.as_ref()).await?;
    let seen = statuses(bench, events).await;
    ensure!(
        seen.last() == Some(&RunStatus::Stopped),
        "a run that ended by itself, without a fault, said {}",
        names(&seen)
    );
    Ok(())
}

/// A runtime with a run, and what fires the run's stop signal.
async fn up_with_stop_signal(
    bench: &mut Bench,
) -> Result<(Arc<dyn AgentRuntime>, Arc<dyn RunHandle>, Sender<()>), Failure> {
    let runtime = runtime(bench).await?;
    let (fire, fired) = oneshot::channel();
    let mut input = rig(bench)?.input();
    input.stop = Some(StopSignal::new(async move {
        // Dropped without being fired is no request to stop.
        if fired.await.is_err() {
            std::future::pending::<()>().await;
        }
    }));
    bench.waiting_for("start() to return");
    let run = runtime
        .start(input)
        .await
        .map_err(|error| Failure::new(format!("start() failed: {error:?}")))?;
    Ok((runtime, run, fire))
}
