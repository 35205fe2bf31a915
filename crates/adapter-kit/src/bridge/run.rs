//! One run from its start to its end.

use std::sync::{Arc, Weak};

use futures_util::StreamExt;
use headcount_contract::{
    Activity, AdapterError, AdapterErrorKind, ChildId, ChildIdentity, ChildState, Details,
    EventKind, HealthStatus, Observation, Outcome, RunEvent, RunEventStream, RunId, RunStatus,
    Signal, StartError, StartInput, StatusChange,
};
use serde_json::json;

use super::children::{Changed, start_error};
use super::{Announce, EndedRun, Handle, RunPlan, Shared, aborted};

/// Starts a run as the first of its chain.
pub(super) async fn start(shared: &Arc<Shared>, input: StartInput) -> Result<ChildId, StartError> {
    let Begun { child, events } = begin(shared, input, None).await.ok_or_else(aborted)?;
    tokio::spawn(follow(Arc::downgrade(shared), child.id().clone(), events?));
    Ok(child.id().clone())
}

/// A child that exists, and its run if there is one.
struct Begun {
    child: ChildIdentity,
    events: Result<RunEventStream, StartError>,
}

/// Makes the next attempt of `before`; nothing once the adapter is being closed.
async fn begin(
    shared: &Arc<Shared>,
    mut input: StartInput,
    before: Option<&ChildIdentity>,
) -> Option<Begun> {
    if shared.is_closing() {
        return None;
    }
    let wanted = input.run_id.take();
    let child = shared
        .children()
        .create(wanted.as_ref(), before, (shared.clock)());
    if shared.announce == Announce::Requested {
        announce(shared, &child, Details::EMPTY);
    }
    // A child's id is a legal run id: both follow rule I4.
    input.run_id = RunId::new(child.id().as_str()).ok();
    let events = match shared.runtime.start(input).await {
        Ok(handle) => {
            announce(shared, &child, handle.facts());
            Ok(attach(shared, &child, handle))
        }
        Err(error) => {
            announce(shared, &child, Details::EMPTY);
            let details = start_error(&error);
            shared
                .children()
                .change(child.id(), ChildState::FAILED, (shared.clock)(), details);
            shared.ended.notify_waiters();
            shared.health.count("start_failures", 1);
            Err(error)
        }
    };
    Some(Begun { child, events })
}

fn announce(shared: &Shared, child: &ChildIdentity, details: Details) {
    let now = (shared.clock)();
    shared.children().announce(child.id(), now, details);
}

fn attach(shared: &Arc<Shared>, child: &ChildIdentity, handle: Handle) -> RunEventStream {
    let events = handle.subscribe();
    let to_stop = shared.children().attach(child.id(), handle);
    if let Some(handle) = to_stop {
        spawn_stop(shared, child.id().clone(), handle);
    }
    if shared.health.get().status == HealthStatus::Idle {
        shared.health.healthy();
    }
    events
}

/// Follows a run to its end. Holds the adapter weakly: a dropped adapter drops its runs.
async fn follow(
    shared: Weak<Shared>,
    child: ChildId,
    mut events: RunEventStream,
) -> Option<EndedRun> {
    while let Some(event) = events.next().await {
        let shared = shared.upgrade()?;
        if let Some(ended) = translate(&shared, &child, event) {
            shared.ended.notify_waiters();
            return Some(ended);
        }
    }
    let shared = shared.upgrade()?;
    // The runtime broke its promise. Nothing is known of the run's end, so nothing is said of it.
    shared.health.set(
        HealthStatus::Degraded,
        format!("the events of {child} ended before the run did"),
    );
    None
}

/// Emits what an event of the run means; returns the run's end.
fn translate(shared: &Shared, child: &ChildId, event: RunEvent) -> Option<EndedRun> {
    let mut children = shared.children();
    match event {
        RunEvent::Status(StatusChange {
            status,
            timestamp,
            outcome,
            details,
            ..
        }) => {
            let state = match status {
                RunStatus::Starting => ChildState::STARTING,
                RunStatus::Ready => ChildState::RUNNING,
                RunStatus::Crashed => ChildState::Terminal(outcome.unwrap_or(Outcome::Failed)),
                RunStatus::Stopped => ChildState::Terminal(
                    outcome.unwrap_or_else(|| children.outcome_of_stopped(child)),
                ),
            };
            if let Changed::Ended(ended) = children.change(child, state, timestamp, details) {
                return Some(ended);
            }
        }
        RunEvent::Error {
            message,
            timestamp,
            details,
        } => {
            let details = details.with([("message", json!(message))]);
            children.tell(child, EventKind::Diagnostic(None), timestamp, details, None);
        }
        RunEvent::Activity { text, timestamp } => {
            let activity = Some(Activity::new(text));
            children.tell(
                child,
                EventKind::Activity,
                timestamp,
                Details::EMPTY,
                activity,
            );
        }
        RunEvent::Heartbeat(at) => {
            children.tell(child, EventKind::Heartbeat, at, Details::EMPTY, None);
        }
        RunEvent::Log(batch) => {
            shared.fanout.publish(Signal::Observation(
                child.clone(),
                Observation::Output(batch),
            ));
        }
        RunEvent::LogMissed(lines) => {
            let missed = Observation::OutputMissed(lines);
            shared
                .fanout
                .publish(Signal::Observation(child.clone(), missed));
        }
        RunEvent::Usage(usage) => {
            shared.fanout.publish(Signal::Observation(
                child.clone(),
                Observation::Usage(usage),
            ));
        }
        // A runtime newer than this bridge tells more than is understood here.
        _ => shared.health.count("unknown_run_events", 1),
    }
    None
}

/// Stops a run in the background; a stop that fails shows in health.
pub(super) fn spawn_stop(shared: &Arc<Shared>, child: ChildId, handle: Handle) {
    let shared = Arc::downgrade(shared);
    tokio::spawn(async move {
        if let Err(error) = handle.stop().await
            && let Some(shared) = shared.upgrade()
        {
            shared.health.count("failed_stops", 1);
            let message = format!("{child} could not be stopped: {error}");
            shared.health.set(HealthStatus::Degraded, message);
        }
    });
}

pub(super) async fn restart(
    shared: &Arc<Shared>,
    child: &ChildId,
    handle: &Handle,
) -> Result<ChildId, AdapterError> {
    let before = shared.children().identity(child);
    let handle = handle.restart().await.map_err(|error| {
        AdapterError::new(AdapterErrorKind::Unavailable, "the next run did not start")
            .with_context("child", child)
            .with_source(error)
    })?;
    let next = shared
        .children()
        .create(None, before.as_ref(), (shared.clock)());
    announce(shared, &next, handle.facts());
    let events = attach(shared, &next, handle);
    tokio::spawn(follow(Arc::downgrade(shared), next.id().clone(), events));
    Ok(next.id().clone())
}

/// Runs a plan in the background: its first attempt, and those that follow.
pub(super) fn spawn_plan(shared: &Arc<Shared>, plan: RunPlan) -> Result<(), AdapterError> {
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
        AdapterError::new(
            AdapterErrorKind::Unavailable,
            "subscribe must be called within a tokio runtime, since it starts a run",
        )
    })?;
    let shared = Arc::downgrade(shared);
    runtime.spawn(async move {
        carry_out(shared.clone(), plan).await;
        if let Some(shared) = shared.upgrade() {
            shared
                .finished
                .store(true, std::sync::atomic::Ordering::Release);
            // Whoever waits for the end looks again.
            let health = Signal::Health(shared.health.get());
            shared.fanout.publish(health);
        }
    });
    Ok(())
}

async fn carry_out(shared: Weak<Shared>, mut plan: RunPlan) -> Option<()> {
    let mut before: Option<ChildIdentity> = None;
    loop {
        let strong = shared.upgrade()?;
        let began = (strong.clock)();
        let Begun { child, events } = begin(&strong, plan.input(), before.as_ref()).await?;
        // The adapter must not be kept alive by its own runs.
        drop(strong);
        let ended = match events {
            Ok(events) => follow(shared.clone(), child.id().clone(), events).await?,
            Err(_) => EndedRun {
                outcome: Outcome::Failed,
                lasted: (shared.upgrade()?.clock)().saturating_since(began),
                attempt: child.lineage().attempt(),
            },
        };
        let strong = shared.upgrade()?;
        if strong.is_closing() || strong.children().stop_requested(child.id()) {
            return None;
        }
        drop(strong);
        before = Some(child);
        tokio::time::sleep(plan.next(&ended)?).await;
    }
}
