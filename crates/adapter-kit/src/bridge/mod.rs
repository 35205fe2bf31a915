//! The bridge: whoever implements [`AgentRuntime`] gets a [`ChildLifecycleAdapter`].

mod children;
mod plan;
mod reported;
mod run;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use futures_util::future::join_all;
use headcount_contract::{
    AdapterError, AdapterErrorKind, AgentRuntime, CancelOutcome, Capabilities, ChildId,
    ChildLifecycleAdapter, Health, RunEvent, RunHandle, SequenceScope, SignalStream, Snapshot,
    SnapshotReason, SourceIdentity, StartError, StartErrorKind, StartInput, Timestamp, Urgency,
    async_trait,
};
use tokio::sync::Notify;

use self::children::{Children, Standing};
pub use self::plan::{EndedRun, NextRun, RunPlan};
use crate::{EventMint, Fanout, HealthCell};

/// A lifecycle adapter of an agent runtime.
///
/// # Behavior
///
/// - Each run is a child. `created` is emitted before the runtime is asked to start or once it has
///   started ([`Announce`]); a start that fails ends the child `failed` with the cause.
/// - `starting`, `ready`, `stopped` and `crashed` become `starting`, `running`, the outcome that the
///   runtime tells (else `completed`, or `cancelled` after a cancel), and `failed`.
/// - A run that the runtime calls `lost` is over and nobody can say how. Only the host finds a child
///   lost (rule L4): it gets a diagnostic, and a snapshot that leaves the child out.
/// - Snapshots are complete for all runs: they are ours.
/// - With a plan it has finished once that is over: its last run has ended, and no other follows.
/// - A slow subscriber misses output first, and is told; it never holds up another.
///
/// ```no_run
/// # fn runtime() -> std::sync::Arc<dyn headcount_contract::AgentRuntime> { panic!("compiled, not run") }
/// use headcount_adapter_kit::{RuntimeAdapter, new_epoch};
/// use headcount_contract::*;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let epoch = new_epoch(std::time::SystemTime::now().into());
/// let source = SourceIdentity::new(SourceId::new("workers")?, epoch);
/// let adapter = RuntimeAdapter::builder(runtime(), source).build();
/// let signals = adapter.subscribe()?;
/// let child = adapter.start(StartInput::new("/srv/agent")).await?;
/// # Ok(()) }
/// ```
pub struct RuntimeAdapter {
    shared: Arc<Shared>,
    plan: Mutex<Option<RunPlan>>,
}

/// When a child's `created` event is emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Announce {
    /// Before the runtime is asked to start, so that a start that takes long is seen.
    #[default]
    Requested,
    /// Once the run has started, with its [facts](RunHandle::facts) as details: for runs that a
    /// later session must be able to find again, such as processes.
    Started,
}

/// What a runtime has told, for the judgement of the adapter's health.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Told<'a> {
    /// An event of a run.
    Event(&'a RunEvent),
    /// A start that failed.
    StartFailed(&'a StartError),
}

/// Judges the adapter's health by what a runtime has told.
type Judge = Box<dyn Fn(&Told<'_>, &HealthCell) + Send + Sync>;

/// Collects what a [`RuntimeAdapter`] is made of.
pub struct RuntimeAdapterBuilder {
    runtime: Arc<dyn AgentRuntime>,
    source: SourceIdentity,
    capabilities: Capabilities,
    health: Health,
    capacity: usize,
    plan: Option<RunPlan>,
    announce: Announce,
    judge: Option<Judge>,
    clock: fn() -> Timestamp,
}

impl fmt::Debug for RuntimeAdapterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeAdapterBuilder")
            .field("runtime", &self.runtime)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl RuntimeAdapterBuilder {
    /// What the adapter has verified that it can do. By default what a runtime's bridge always
    /// can: history, snapshots, cancelling, and telling why a run ended.
    pub fn capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// The health to begin with, for its limitations.
    pub fn health(mut self, health: Health) -> Self {
        self.health = health;
        self
    }

    /// How many signals are kept for each subscriber. 1,024 by default.
    pub fn capacity(mut self, signals: usize) -> Self {
        self.capacity = signals;
        self
    }

    /// What to start when the adapter is first subscribed to.
    pub fn plan(mut self, plan: RunPlan) -> Self {
        self.plan = Some(plan);
        self
    }

    /// When `created` is emitted. Before the start by default.
    pub fn announce(mut self, announce: Announce) -> Self {
        self.announce = announce;
        self
    }

    /// Judges the adapter's health by everything that the runtime tells, before it is translated.
    pub fn judge(mut self, judge: impl Fn(&Told<'_>, &HealthCell) + Send + Sync + 'static) -> Self {
        self.judge = Some(Box::new(judge));
        self
    }

    /// Where the time of `created` events comes from. The system's clock by default.
    pub fn clock(mut self, clock: fn() -> Timestamp) -> Self {
        self.clock = clock;
        self
    }

    /// The adapter. Nothing runs yet.
    pub fn build(self) -> RuntimeAdapter {
        let fanout = Arc::new(Fanout::new(self.capacity));
        let health = HealthCell::new(fanout.clone(), self.health);
        let mint = EventMint::new(self.source, self.capabilities, SequenceScope::Child);
        let shared = Shared {
            runtime: self.runtime,
            capabilities: self.capabilities,
            children: Mutex::new(Children::new(mint, fanout.clone())),
            fanout,
            health,
            announce: self.announce,
            judge: self.judge,
            clock: self.clock,
            closing: AtomicBool::new(false),
            finished: AtomicBool::new(false),
            ended: Notify::new(),
        };
        RuntimeAdapter {
            shared: Arc::new(shared),
            plan: Mutex::new(self.plan),
        }
    }
}

/// What the adapter and the tasks of its runs share. The tasks hold it weakly, so that dropping the
/// adapter drops the handles, and with them the runs.
struct Shared {
    runtime: Arc<dyn AgentRuntime>,
    capabilities: Capabilities,
    children: Mutex<Children>,
    fanout: Arc<Fanout>,
    health: HealthCell,
    announce: Announce,
    judge: Option<Judge>,
    clock: fn() -> Timestamp,
    closing: AtomicBool,
    /// The plan is over: nothing starts by itself any more.
    finished: AtomicBool,
    /// Told whenever a child has ended.
    ended: Notify,
}

impl Shared {
    fn children(&self) -> MutexGuard<'_, Children> {
        self.children.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, told: &Told<'_>) {
        if let Some(judge) = &self.judge {
            judge(told, &self.health);
        }
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

impl fmt::Debug for RuntimeAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeAdapter")
            .field("runtime", &self.shared.runtime)
            .finish_non_exhaustive()
    }
}

impl RuntimeAdapter {
    /// An adapter of this runtime, under this identity.
    pub fn builder(
        runtime: Arc<dyn AgentRuntime>,
        source: SourceIdentity,
    ) -> RuntimeAdapterBuilder {
        use headcount_contract::Capability::{Known, Unknown};
        RuntimeAdapterBuilder {
            runtime,
            source,
            capabilities: Capabilities {
                history: Known,
                heartbeat: Unknown,
                snapshot: Known,
                cancel: Known,
                terminal_cause: Known,
            },
            health: Health::default().with_limitation(
                "runs send no heartbeats: that one lives shows only in what else it tells",
            ),
            capacity: 1024,
            plan: None,
            announce: Announce::default(),
            judge: None,
            clock: || SystemTime::now().into(),
        }
    }

    /// The adapter's health, for a runtime that has something to say about it.
    pub fn health_cell(&self) -> &HealthCell {
        &self.shared.health
    }

    /// Starts one run and returns its child.
    ///
    /// # Errors
    ///
    /// What the runtime answered; the child has then ended `failed`.
    /// [`StartErrorKind::Aborted`] once the adapter is being closed.
    pub async fn start(&self, input: StartInput) -> Result<ChildId, StartError> {
        run::start(&self.shared, input).await
    }
}

#[async_trait]
impl ChildLifecycleAdapter for RuntimeAdapter {
    fn identity(&self) -> SourceIdentity {
        self.shared.children().source().clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.shared.capabilities
    }

    fn health(&self) -> Health {
        self.shared.health.get()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.shared.fanout.subscribe()?;
        let plan = self
            .plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(plan) = plan {
            run::spawn_plan(&self.shared, plan)?;
        }
        Ok(stream)
    }

    fn avoid_ids(&self, taken: &[ChildId]) {
        self.shared.children().avoid(taken);
    }

    fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
            && self.shared.children().live().next().is_none()
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        if self.shared.is_closing() && self.shared.fanout.is_closed() {
            return Err(AdapterError::new(
                AdapterErrorKind::Closed,
                "the adapter has been closed",
            ));
        }
        Ok(vec![
            self.shared
                .children()
                .snapshot((self.shared.clock)())
                .into(),
        ])
    }

    async fn cancel(
        &self,
        child: &ChildId,
        _reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        if !self.shared.capabilities.cancel.is_known() {
            return Ok(CancelOutcome::Unsupported);
        }
        let standing = self.shared.children().request_stop(child);
        Ok(match standing {
            None => CancelOutcome::UnknownChild,
            Some(Standing::Ended) => CancelOutcome::AlreadyEnded,
            Some(Standing::Reported(by)) => CancelOutcome::Denied {
                reason: format!(
                    "only {by}, which told of it, can cancel it; {by} can be cancelled"
                ),
            },
            // It is stopped as soon as there is something to stop.
            Some(Standing::Starting) => CancelOutcome::Accepted,
            Some(Standing::Live(handle)) => {
                run::spawn_stop(&self.shared, child.clone(), handle);
                CancelOutcome::Accepted
            }
        })
    }

    async fn restart(&self, child: &ChildId) -> Result<ChildId, AdapterError> {
        if !self.shared.runtime.capabilities().restartable {
            return Err(AdapterError::unsupported("restart"));
        }
        let standing = self.shared.children().standing(child);
        match standing {
            None => Err(
                AdapterError::new(AdapterErrorKind::UnknownChild, "no such child")
                    .with_context("child", child),
            ),
            Some(Standing::Ended | Standing::Starting | Standing::Reported(_)) => {
                Err(AdapterError::new(
                    AdapterErrorKind::Unavailable,
                    "only a child that runs can be restarted",
                )
                .with_context("child", child))
            }
            Some(Standing::Live(handle)) => run::restart(&self.shared, child, &handle).await,
        }
    }

    async fn close(&self, urgency: Urgency) -> Result<(), AdapterError> {
        self.shared.closing.store(true, Ordering::Release);
        let live = self.shared.children().request_stop_of_all();
        let stops = live.into_iter().map(|(child, handle)| async move {
            let stopped = match urgency {
                Urgency::Graceful => handle.stop().await,
                Urgency::Now => handle.kill().await,
            };
            stopped.map_err(|error| (child, error))
        });
        let failed: Vec<_> = join_all(stops)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        self.wait_for_ends(&failed).await;
        self.shared.fanout.close();
        let mut failed = failed.into_iter();
        match failed.next() {
            None => Ok(()),
            Some((child, error)) => Err(AdapterError::new(
                error.kind(),
                "a run could not be stopped and may still be alive",
            )
            .with_context("child", child)
            .with_context("others", failed.len())
            .with_source(error)),
        }
    }
}

impl RuntimeAdapter {
    /// Waits until the end of every run that was stopped has been told.
    async fn wait_for_ends(&self, failed: &[(ChildId, AdapterError)]) {
        loop {
            let ended = self.shared.ended.notified();
            let waiting = self
                .shared
                .children()
                .live()
                .any(|id| failed.iter().all(|(f, _)| f != id));
            if !waiting {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for RuntimeAdapter {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.fanout.close();
    }
}

/// Says that nothing is started any more.
fn aborted() -> StartError {
    StartError::new(StartErrorKind::Aborted, "the adapter is being closed")
}

/// A handle that is shared with the tasks that stop it.
type Handle = Arc<dyn RunHandle>;

#[cfg(test)]
mod tests;
