//! The second seam: start a run and supervise it.

use std::collections::BTreeMap;
use std::fmt::{self, Debug};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use futures_core::Stream;

use crate::{AdapterError, Details, RunEvent, RunId, RunStatus, StartError};

/// What [`RunHandle::subscribe`] returns. Dropping it unsubscribes.
pub type RunEventStream = Pin<Box<dyn Stream<Item = RunEvent> + Send>>;

/// Whatever runs an agent: a subprocess, a worker, a service. Knows no agent framework.
///
/// Whoever implements this gets a [`ChildLifecycleAdapter`](crate::ChildLifecycleAdapter) through
/// the bridge of `headcount-adapter-kit`.
#[async_trait]
pub trait AgentRuntime: Debug + Send + Sync + 'static {
    /// A name for people.
    fn name(&self) -> &str;

    /// What its handles can do.
    fn capabilities(&self) -> RuntimeCapabilities;

    /// Starts one run.
    ///
    /// # Behavior
    ///
    /// - Returns once there is a handle; the run may still be starting.
    /// - A run that ends later says so in its events, never here.
    /// - Only the environment in `input` crosses over, never the host's own.
    ///
    /// # Errors
    ///
    /// [`StartError`] if nothing was started; nothing is left behind then.
    async fn start(&self, input: StartInput) -> Result<Arc<dyn RunHandle>, StartError>;
}

/// One run that was started.
#[async_trait]
pub trait RunHandle: Debug + Send + Sync + 'static {
    /// Names this run among all runs of its runtime.
    fn run_id(&self) -> &RunId;

    /// What the last status event said.
    fn status(&self) -> RunStatus;

    /// What tells this run from every other one outside this program, such as a process's pid, start
    /// and boot. Never changes.
    fn facts(&self) -> Details {
        Details::EMPTY
    }

    /// Subscribes: first the present status, then everything that happens from now on. The first
    /// subscriber misses nothing since the start. At a run that has ended, its last status and then
    /// the end.
    fn subscribe(&self) -> RunEventStream;

    /// Stops the run, and returns when it is gone. At a run that has ended, returns at once. All
    /// callers share one stop.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::TimedOut`](crate::AdapterErrorKind::TimedOut) if it could not be
    /// stopped; the run then still lives, and no event says otherwise.
    async fn stop(&self) -> Result<(), AdapterError>;

    /// Stops the run at once, without grace. Where a runtime knows no difference, as `stop`.
    ///
    /// # Errors
    ///
    /// As [`stop`](Self::stop).
    async fn kill(&self) -> Result<(), AdapterError> {
        self.stop().await
    }

    /// Stops the run and starts the next one from the same input.
    ///
    /// # Errors
    ///
    /// [`StartError`] where the runtime is not restartable or the next run did not start.
    async fn restart(&self) -> Result<Arc<dyn RunHandle>, StartError> {
        Err(StartError::new(
            crate::StartErrorKind::InvalidInput,
            "this runtime is not restartable; stop the run and start another",
        ))
    }
}

/// What a runtime's handles can do, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub struct RuntimeCapabilities {
    /// A run tells more than its end: at least that it became ready.
    pub observable: bool,
    /// [`RunHandle::restart`] works on an active handle.
    pub restartable: bool,
}

impl RuntimeCapabilities {
    /// Observable, not restartable.
    ///
    /// ```
    /// use headcount_contract::RuntimeCapabilities;
    /// assert!(RuntimeCapabilities::OBSERVABLE.with_restart().restartable);
    /// ```
    pub const OBSERVABLE: Self = Self {
        observable: true,
        restartable: false,
    };

    /// The same, restartable.
    pub const fn with_restart(mut self) -> Self {
        self.restartable = true;
        self
    }
}

/// Which project a run belongs to. For logs and titles.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProjectIdentity {
    /// A short name for paths and ids.
    pub slug: String,
    /// A name for people.
    pub name: String,
    /// The version of the host's protocol, such as `1.1`.
    pub protocol: String,
}

/// A future that completes when the host wants the run stopped; the same as calling
/// [`RunHandle::stop`]. Nothing of it is kept once the run has ended.
pub struct StopSignal(Pin<Box<dyn Future<Output = ()> + Send>>);

impl StopSignal {
    /// Takes any future.
    ///
    /// ```
    /// let never = headcount_contract::StopSignal::new(std::future::pending());
    /// ```
    pub fn new(stop: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Box::pin(stop))
    }
}

impl Future for StopSignal {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.0.as_mut().poll(cx)
    }
}

impl Debug for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopSignal")
    }
}

/// What to start. Everything else is the runtime's own configuration.
#[derive(Debug)]
#[non_exhaustive]
pub struct StartInput {
    /// The absolute root of the project; entries and files are relative to it.
    pub project_root: PathBuf,
    /// Which project.
    pub project: ProjectIdentity,
    /// What to run within it, as the runtime understands it.
    pub entry: Option<String>,
    /// The environment that crosses over; nothing else does.
    pub env: BTreeMap<String, String>,
    /// The port to bind, for a runtime that binds one.
    pub port_hint: Option<u16>,
    /// The name that the host gives the run; the runtime makes one if there is none.
    pub run_id: Option<RunId>,
    /// Completes when the run shall stop.
    pub stop: Option<StopSignal>,
}

impl StartInput {
    /// A project root and nothing else.
    ///
    /// ```
    /// use headcount_contract::StartInput;
    /// let mut input = StartInput::new("/srv/agent");
    /// input.env.insert("PATH".into(), "/usr/bin".into());
    /// ```
    pub fn new(project_root: impl Into<PathBuf>) -> Self {
        Self {
            project_root: project_root.into(),
            project: ProjectIdentity::default(),
            entry: None,
            env: BTreeMap::new(),
            port_hint: None,
            run_id: None,
            stop: None,
        }
    }
}
