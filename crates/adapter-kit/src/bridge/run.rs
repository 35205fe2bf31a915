//! One run from its start to its end.

use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use headcount_contract::{
    Activity, AdapterError, AdapterErrorKind, ChildId, ChildIdentity, ChildState, Details,
    Discontinuity, DiscontinuityCause, EventKind, Gap, HealthStatus, Observation, Outcome,
    RunEvent, RunEventStream, RunId, RunStatus, Signal, StartError, StartInput, StatusChange,
};
use serde_json::json;

use super::children::{Changed, Successor, start_error};
use super::reported::NotTaken;
use super::{Announce, EndedRun, Handle, NextRun, RunPlan, Shared, Told, aborted};
use crate::duration;

/// Starts a run as the first of its chain.
pub(super) async fn start(shared: &Arc<Shared>, input: StartInput) -> Result<ChildId, StartError> {
    let begun = begin(shared, input, None, Details::EMPTY).await;
    let Begun { child, events } = begun.ok_or_else(aborted)?;
    tokio::spawn(follow_on(
        Arc::downgrade(shared),
        child.id().clone(),
        events?,
    ));
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
    details: Details,
) -> Option<Begun> {
    if shared.is_closing() {
        return None;
    }
    let wanted = input.run_id.take();
    let child = shared
        .children()
        .create(wanted.as_ref(), before, (shared.clock)());
    if shared.announce == Announce::Requested {
        announce(shared, &child, details.clone());
    }
    // A child's id is a legal run id: both follow rule I4.
    input.run_id = RunId::new(child.id().as_str()).ok();
    let events = match shared.runtime.start(input).await {
        Ok(handle) => {
            announce(shared, &child, handle.facts().with(details.to_map()));
            Ok(attach(shared, &child, handle))
        }
        Err(error) => {
            announce(shared, &child, details);
            let details = start_error(&error);
            shared.judge(&Told::StartFailed(&error));
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
    shared.children().announce(child.id(), details);
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
    shared.judge(&Told::Event(&event));
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
        RunEvent::Child(event) => match children.take_reported(child, &event) {
            Ok(()) => {}
            Err(NotTaken::NoEffect) => shared.health.count("child_events_without_effect", 1),
            Err(NotTaken::Wrong(why)) => {
                shared.health.count("child_events_refused", 1);
                let details = Details::from_iter([
                    (
                        "message",
                        json!("an event that it told of a child was refused"),
                    ),
                    ("reason", json!(why)),
                    ("child", json!(event.child_id())),
                ]);
                let at = event.observed_at();
                children.tell(child, EventKind::Diagnostic(None), at, details, None);
            }
        },
        RunEvent::ChildEventsMissed(missed) => {
            shared.fanout.publish(Signal::Discontinuity(Discontinuity {
                cause: DiscontinuityCause::Lagged { missed },
                gap: Gap::Possible,
            }));
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

/// Stops a run and starts the next attempt, which takes its place in its plan if it has one.
pub(super) async fn restart(
    shared: &Arc<Shared>,
    child: &ChildId,
    handle: &Handle,
) -> Result<ChildId, AdapterError> {
    let before = shared.children().identity(child);
    shared.children().await_successor(child);
    let next = handle.restart().await;
    let settled = next.map(|handle| {
        let details = Details::from_iter([("restartOf", json!(child))]);
        let next = shared
            .children()
            .create(None, before.as_ref(), (shared.clock)());
        announce(shared, &next, handle.facts().with(details.to_map()));
        let events = attach(shared, &next, handle);
        (next, events)
    });
    let (answer, successor) = match settled {
        Ok((next, events)) => (Ok(next.id().clone()), Successor::Begun(next, events)),
        Err(error) => (
            Err(
                AdapterError::new(AdapterErrorKind::Unavailable, "the next run did not start")
                    .with_context("child", child)
                    .with_source(error),
            ),
            Successor::None,
        ),
    };
    shared.children().set_successor(child, successor);
    shared.ended.notify_waiters();
    answer
}

/// Follows the run that a person had started in the place of `child`, if so.
async fn successor(shared: &Weak<Shared>, child: &ChildId) -> Option<Begun> {
    loop {
        let strong = shared.upgrade()?;
        let settled = strong.ended.notified();
        let successor = strong.children().take_successor(child);
        match successor {
            Successor::None => return None,
            Successor::Begun(child, events) => {
                return Some(Begun {
                    child,
                    events: Ok(events),
                });
            }
            Successor::Awaited => settled.await,
        }
    }
}

/// Follows a run that no plan follows, and whatever a person has started in its place.
async fn follow_on(shared: Weak<Shared>, mut child: ChildId, mut events: RunEventStream) {
    while follow(shared.clone(), child.clone(), events)
        .await
        .is_some()
    {
        let Some(Begun {
            child: next,
            events: Ok(next_events),
        }) = successor(&shared, &child).await
        else {
            return;
        };
        (child, events) = (next.id().clone(), next_events);
    }
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
    let strong = shared.upgrade()?;
    let mut begun = begin(&strong, plan.input(), None, Details::EMPTY).await?;
    // The adapter must not be kept alive by its own runs.
    drop(strong);
    loop {
        let Begun { child, events } = begun;
        let ended = match events {
            Ok(events) => follow(shared.clone(), child.id().clone(), events).await?,
            Err(_) => EndedRun::new(Outcome::Failed, Duration::ZERO, child.lineage().attempt()),
        };
        if let Some(next) = successor(&shared, child.id()).await {
            begun = next;
            continue;
        }
        let strong = shared.upgrade()?;
        if strong.is_closing() || strong.children().stop_requested(child.id()) {
            return None;
        }
        let delay = match plan.next(&ended) {
            NextRun::None => return None,
            NextRun::GiveUp(why) => {
                let message = format!("{} is not started again: {why}", child.id());
                strong.health.set(HealthStatus::Degraded, message);
                return None;
            }
            NextRun::After(delay) => delay,
        };
        strong.health.count("restarts", 1);
        let wait = duration::write(delay);
        strong.health.set(
            HealthStatus::Healthy,
            format!("{} is started again in {wait}", child.id()),
        );
        drop(strong);
        tokio::time::sleep(delay).await;
        let strong = shared.upgrade()?;
        strong.health.healthy();
        let millis = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let details = Details::from_iter([
            ("restartOf", json!(child.id())),
            ("restartDelayMs", json!(millis)),
        ]);
        begun = begin(&strong, plan.input(), Some(&child), details).await?;
    }
}
