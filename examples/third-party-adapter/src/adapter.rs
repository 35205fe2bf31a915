//! The contract's trait over a task that looks into the folder now and then.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, SystemTime};

use headcount_adapter_kit::{Coalescer, Fanout, HealthCell, new_epoch};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterSpec, Capabilities, ChildLifecycleAdapter,
    Discontinuity, DiscontinuityCause, Gap, Health, HealthStatus, Signal, SignalStream, Snapshot,
    SnapshotReason, SourceId, SourceIdentity, Urgency, async_trait,
};

use crate::config::SpoolConfig;
use crate::translate::Translator;
use crate::{CAPABILITIES, LIMITATIONS, source};

/// Observes the workers of one folder.
pub struct SpoolAdapter {
    shared: Arc<Shared>,
    snapshots: Coalescer<Vec<Snapshot>>,
}

/// What the adapter and its task share. The task holds it weakly, so that dropping the adapter ends
/// the task and the streams.
struct Shared {
    config: SpoolConfig,
    identity: SourceIdentity,
    fanout: Arc<Fanout>,
    health: HealthCell,
    translator: Mutex<Translator>,
    /// One look at a time, so that what it finds is told in order.
    looking: tokio::sync::Mutex<()>,
    opened: Mutex<bool>,
}

/// How many signals are kept for a subscriber before it is told that it missed some.
const CAPACITY: usize = 1024;

/// Checks the configuration, and makes an adapter of it. Does no I/O.
pub(crate) fn build(spec: AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
    let config = SpoolConfig::read(spec.config)?;
    let source = match spec.source {
        Some(source) => source,
        None => SourceId::new("spool")
            .map_err(|error| AdapterError::new(AdapterErrorKind::Internal, error.to_string()))?,
    };
    Ok(Arc::new(SpoolAdapter::new(config, source)))
}

impl SpoolAdapter {
    /// An adapter under this name.
    pub fn new(config: SpoolConfig, source: SourceId) -> Self {
        let identity = SourceIdentity::new(source, new_epoch(SystemTime::now().into()));
        let fanout = Arc::new(Fanout::new(CAPACITY));
        let limited = LIMITATIONS
            .into_iter()
            .fold(Health::default(), Health::with_limitation);
        let shared = Shared {
            config,
            identity: identity.clone(),
            health: HealthCell::new(fanout.clone(), limited),
            fanout,
            translator: Mutex::new(Translator::new(identity)),
            looking: tokio::sync::Mutex::new(()),
            opened: Mutex::new(false),
        };
        Self {
            shared: Arc::new(shared),
            snapshots: Coalescer::new(),
        }
    }
}

impl Shared {
    /// Looks into the folder once, and tells what is new.
    async fn look(&self) -> Result<(), AdapterError> {
        let _turn = self.looking.lock().await;
        let folder = self.config.folder.clone();
        let listed = tokio::task::spawn_blocking(move || source::list(&folder)).await;
        let listed = listed.unwrap_or_else(|panic| Err(std::io::Error::other(panic)));
        let entries = match listed {
            Ok(entries) => entries,
            Err(error) => {
                let message = "the folder cannot be read";
                self.health
                    .set(HealthStatus::Down, format!("{message}: {error}"));
                return Err(AdapterError::new(AdapterErrorKind::Unavailable, message)
                    .retryable()
                    .with_context("folder", self.config.folder.display())
                    .with_source(error));
            }
        };
        if self.health.get().status == HealthStatus::Down {
            // Files that came and went meanwhile were not seen.
            self.fanout.publish(Signal::Discontinuity(Discontinuity {
                cause: DiscontinuityCause::Reconnected,
                gap: Gap::Possible,
            }));
        }
        let mut translator = lock(&self.translator);
        let look = translator.observe(entries, SystemTime::now().into());
        // Told before the lock is given up: a snapshot then agrees with the events before it.
        self.fanout
            .publish_all(look.events.into_iter().map(Signal::Event));
        drop(translator);
        match look.trouble.first() {
            None => self.health.healthy(),
            Some(first) => self.health.set(HealthStatus::Degraded, first.as_str()),
        }
        Ok(())
    }
}

async fn look_now_and_then(shared: Weak<Shared>) {
    while let Some(strong) = shared.upgrade() {
        let interval = Duration::from_millis(strong.config.interval_ms);
        if strong.fanout.is_closed() {
            return;
        }
        // What went wrong is in the health, and may be better at the next look.
        let _ = strong.look().await;
        drop(strong);
        tokio::time::sleep(interval).await;
    }
}

#[async_trait]
impl ChildLifecycleAdapter for SpoolAdapter {
    fn identity(&self) -> SourceIdentity {
        self.shared.identity.clone()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn health(&self) -> Health {
        self.shared.health.get()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.shared.fanout.subscribe()?;
        let mut opened = lock(&self.shared.opened);
        if !*opened {
            let runtime = tokio::runtime::Handle::try_current().map_err(|error| {
                let message = "subscribe within a tokio runtime: the folder is watched by a task";
                AdapterError::new(AdapterErrorKind::Unavailable, message).with_source(error)
            })?;
            runtime.spawn(look_now_and_then(Arc::downgrade(&self.shared)));
            *opened = true;
        }
        Ok(stream)
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let shared = self.shared.clone();
        let ask = move || async move {
            shared.look().await?;
            let snapshot = lock(&shared.translator).snapshot(SystemTime::now().into())?;
            Ok(vec![snapshot])
        };
        self.snapshots.request(ask).await
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        self.shared.fanout.close();
        Ok(())
    }
}

impl fmt::Debug for SpoolAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpoolAdapter")
            .field("config", &self.shared.config)
            .finish_non_exhaustive()
    }
}

/// A lock that outlives a panic of whoever held it: every change under it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
