//! The adapter: the contract's trait over the task that holds the processes.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use headcount_adapter_kit::{Coalescer, Fanout, HealthCell, config_object, new_epoch};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterSpec, CancelOutcome, Capabilities, ChildId,
    ChildLifecycleAdapter, Health, SignalStream, Snapshot, SnapshotReason, SourceId,
    SourceIdentity, Urgency, async_trait,
};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

use crate::config::{ExternalConfig, invalid};
use crate::enrich::CancelAuthority;
use crate::process::{AdoptError, tells_exit_status};
use crate::readopt::Readoption;
use crate::source::{self, Command, Plan};
use crate::translate::{Translator, Verified};

/// Observes processes that somebody else started, and claims nothing more.
///
/// # Behavior
///
/// - A child is one process, by number, start and boot. Its state stays `created` on presence
///   alone; heartbeats say that it lives. Its exit code ends it, `completed` for 0, else `failed`,
///   both as a fact about the process. One that vanishes without a code is said to have vanished at
///   once; finding it lost is the host's.
/// - Nothing is sent to an adopted process, ever, and closing leaves it alone.
/// - Snapshots are complete for the processes that were adopted.
/// - It has finished once every process that it was given has ended or was refused, unless it looks
///   for others by PID files or matchers.
/// - Its end is noticed by waiting, not by looking again, where the system can (Linux 5.3).
///
/// ```no_run
/// use headcount_adapter_external::{ExternalAdapter, ExternalConfig};
/// use headcount_contract::ChildLifecycleAdapter;
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let adapter = ExternalAdapter::builder().build()?;
/// let signals = adapter.subscribe()?;
/// let child = adapter.adopt(4242).await?;
/// # Ok(()) }
/// ```
pub struct ExternalAdapter {
    identity: SourceIdentity,
    verified: VerifiedByHost,
    fanout: Arc<Fanout>,
    health: Arc<HealthCell>,
    commands: mpsc::Sender<Command>,
    /// Until the first subscriber opens the source.
    plan: Mutex<Option<(Plan, mpsc::Receiver<Command>)>>,
    snapshots: Coalescer<Vec<Snapshot>>,
    finished: Arc<AtomicBool>,
}

/// What the host vouches for.
#[derive(Debug, Clone, Copy)]
struct VerifiedByHost {
    cancel: bool,
}

/// Collects what an [`ExternalAdapter`] is made of.
#[derive(Debug)]
#[must_use]
pub struct ExternalAdapterBuilder {
    identity: Option<SourceIdentity>,
    config: ExternalConfig,
    readoptions: Vec<Readoption>,
    authority: Option<Arc<dyn CancelAuthority>>,
}

impl ExternalAdapterBuilder {
    /// Under this name, and in this life of it. `external` in a new life by default.
    ///
    /// To go on with children of an earlier session, give the name that the journal has for them.
    /// An adapter that starts children under the same name in this session must have the same
    /// epoch: of two epochs, the one that came first would be superseded (rule O7).
    pub fn identity(mut self, identity: SourceIdentity) -> Self {
        self.identity = Some(identity);
        self
    }

    /// With this configuration.
    pub fn config(mut self, config: ExternalConfig) -> Self {
        self.config = config;
        self
    }

    /// With these children of an earlier session.
    pub fn readopt(mut self, readoptions: impl IntoIterator<Item = Readoption>) -> Self {
        self.readoptions.extend(readoptions);
        self
    }

    /// With somebody who may cancel adopted processes, where it has verified that it covers them.
    ///
    /// The adapter then offers to cancel, and answers
    /// [`Denied`](headcount_contract::CancelOutcome::Denied) for the others.
    pub fn authority(mut self, authority: Arc<dyn CancelAuthority>) -> Self {
        self.authority = Some(authority);
        self
    }

    /// The adapter. Nothing is looked at yet.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key.
    pub fn build(self) -> Result<ExternalAdapter, AdapterError> {
        self.config.check()?;
        let cancel = self.authority.is_some()
            || self
                .config
                .targets
                .iter()
                .any(|target| target.control.is_some());
        let identity = match self.identity {
            Some(identity) => identity,
            None => SourceIdentity::new(default_source()?, new_epoch(SystemTime::now().into())),
        };
        let fanout = Arc::new(Fanout::new(CAPACITY));
        let limits = LIMITATIONS.iter().fold(Health::default(), |health, limit| {
            health.with_limitation(*limit)
        });
        let health = Arc::new(HealthCell::new(fanout.clone(), limits));
        let (commands, receiver) = mpsc::channel(16);
        let finished = Arc::new(AtomicBool::new(false));
        let plan = Plan {
            translator: Translator::new(identity.clone()),
            config: self.config,
            readoptions: self.readoptions,
            authority: self.authority,
            fanout: fanout.clone(),
            health: health.clone(),
            finished: finished.clone(),
        };
        Ok(ExternalAdapter {
            identity,
            verified: VerifiedByHost { cancel },
            fanout,
            health,
            commands,
            plan: Mutex::new(Some((plan, receiver))),
            snapshots: Coalescer::new(),
            finished,
        })
    }
}

/// How many signals are kept for each subscriber.
const CAPACITY: usize = 1024;

const LIMITATIONS: [&str; 3] = [
    "what a process did before it was adopted, and what it is for, is unknown",
    "an exit code tells how a process ended, not whether its task succeeded",
    "processor and memory use are those of the adopted process itself, without its children",
];

impl ExternalAdapter {
    /// An adapter of no process yet.
    ///
    /// ```
    /// use headcount_adapter_external::{ExternalAdapter, ExternalConfig};
    /// let adapter = ExternalAdapter::builder().config(ExternalConfig::default()).build()?;
    /// # Ok::<(), headcount_contract::AdapterError>(())
    /// ```
    pub fn builder() -> ExternalAdapterBuilder {
        ExternalAdapterBuilder {
            identity: None,
            config: ExternalConfig::default(),
            readoptions: Vec::new(),
            authority: None,
        }
    }

    /// Adopts one more process.
    ///
    /// # Errors
    ///
    /// [`AdoptError`] with the reason. [`AdoptError::NotOpen`] before the first subscription and
    /// after the end.
    pub async fn adopt(&self, pid: i64) -> Result<ChildId, AdoptError> {
        if self.is_unopened() {
            return Err(AdoptError::NotOpen);
        }
        let (to, answer) = oneshot::channel();
        self.commands
            .send(Command::Adopt(pid, to))
            .await
            .map_err(|_| AdoptError::NotOpen)?;
        answer.await.map_err(|_| AdoptError::NotOpen)?
    }

    fn is_unopened(&self) -> bool {
        self.plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_some()
    }
}

#[async_trait]
impl ChildLifecycleAdapter for ExternalAdapter {
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }

    fn capabilities(&self) -> Capabilities {
        Verified {
            exit_status: tells_exit_status(),
            cancel: self.verified.cancel,
        }
        .capabilities()
    }

    fn health(&self) -> Health {
        self.health.get()
    }

    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.fanout.subscribe()?;
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        if plan.is_some() {
            let runtime = Handle::try_current().map_err(|error| {
                AdapterError::new(
                    AdapterErrorKind::Unavailable,
                    "subscribe within a tokio runtime that has I/O and time enabled",
                )
                .with_source(error)
            })?;
            if let Some((plan, commands)) = plan.take() {
                runtime.spawn(source::run(plan, commands));
            }
        }
        Ok(stream)
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        if self.fanout.is_closed() {
            return Err(closed());
        }
        if let Some((plan, _)) = self
            .plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
        {
            // Nothing is adopted before the source is open: it covers nobody.
            return Ok(vec![
                plan.translator.snapshot(SystemTime::now().into()).into(),
            ]);
        }
        let commands = self.commands.clone();
        let ask = || async move {
            let (to, answer) = oneshot::channel();
            commands
                .send(Command::Snapshot(to))
                .await
                .map_err(|_| closed())?;
            let snapshot = answer.await.map_err(|_| closed())?;
            Ok(vec![Snapshot::from(snapshot)])
        };
        self.snapshots.request(ask).await
    }

    async fn cancel(
        &self,
        child: &ChildId,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        if !self.verified.cancel {
            return Ok(CancelOutcome::Unsupported);
        }
        if self.fanout.is_closed() {
            return Err(closed());
        }
        if self.is_unopened() {
            return Ok(CancelOutcome::UnknownChild);
        }
        let (to, answer) = oneshot::channel();
        let command = Command::Cancel {
            child: child.clone(),
            reason: reason.map(str::to_owned),
            to,
        };
        self.commands.send(command).await.map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        let unopened = self
            .plan
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if unopened.is_none() {
            let (to, answer) = oneshot::channel();
            if self.commands.send(Command::Close(to)).await.is_ok() {
                // An error means that it had ended already.
                let _ = answer.await;
            }
        }
        self.fanout.close();
        Ok(())
    }
}

/// What the registration builds.
pub(crate) fn build(spec: AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
    let config: ExternalConfig =
        serde_json::from_value(config_object(spec.config)?).map_err(|error| {
            AdapterError::new(
                AdapterErrorKind::InvalidConfig,
                "the configuration of the external adapter is wrong",
            )
            .with_source(error)
        })?;
    if !config.names_something() {
        return Err(invalid(
            "pids, pid_files, match",
            "none",
            "nothing to adopt: give at least one process, file or matcher",
        ));
    }
    let mut builder = ExternalAdapter::builder().config(config);
    if let Some(source) = spec.source {
        builder = builder.identity(SourceIdentity::new(
            source,
            new_epoch(SystemTime::now().into()),
        ));
    }
    Ok(Arc::new(builder.build()?))
}

fn default_source() -> Result<SourceId, AdapterError> {
    SourceId::new("external").map_err(|error| {
        AdapterError::new(AdapterErrorKind::Internal, "the default name is wrong")
            .with_source(error)
    })
}

fn closed() -> AdapterError {
    AdapterError::new(AdapterErrorKind::Closed, "the adapter has been closed")
}

impl fmt::Debug for ExternalAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExternalAdapter")
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}
