//! The adapter.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use headcount_adapter_kit::{Coalescer, Fanout, HealthCell, new_epoch};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterSpec, CancelOutcome, Capabilities, Capability, ChildId,
    ChildLifecycleAdapter, Health, Sequence, SignalStream, Snapshot, SnapshotReason, SourceId,
    SourceIdentity, Urgency, async_trait,
};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::HermesConfig;
use crate::frame::RpcError;
use crate::record::Recorder;
use crate::source::{self, LinkState, Shared, Transport, now, requests};
use crate::translate::{Standing, Translator};
use crate::transport::feed::Feed;

/// The name of the source if the host gives none.
const SOURCE: &str = "hermes";
/// How many signals are kept for each subscriber.
const CAPACITY: usize = 4096;

/// Follows the delegated subagents of a Hermes gateway.
///
/// # Behavior
///
/// - The first `subscribe` starts the gateway or connects to it, on the tokio runtime of the caller.
/// - Subagent events become lifecycle events; what had to be inferred is marked `inferred` in the
///   details, and the gateway's own words are kept there.
/// - Which children run is asked at session open, after a reconnect, and periodically, and
///   whenever a snapshot is wanted; questions at the same time share one answer.
/// - A child that a complete answer omits is looked for in what the gateway and its transcripts
///   remember. A gateway that was started and has ended takes its children with it: who left no
///   trace of an end is `lost`.
/// - A lost connection is made again, and what was missed is replayed where the gateway can.
/// - Capabilities in events are those that the gateway has proven by its answers for that child; the
///   adapter's own, which never change, are those that it can come to prove.
pub struct HermesAdapter {
    shared: Arc<Shared>,
    transport: Mutex<Option<Transport>>,
}

impl fmt::Debug for HermesAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HermesAdapter")
            .field("identity", &self.identity())
            .field("ws", &self.shared.config.ws)
            .finish_non_exhaustive()
    }
}

impl HermesAdapter {
    /// An adapter of the gateway that the configuration names.
    ///
    /// ```
    /// use headcount_adapter_hermes::{HermesAdapter, HermesConfig};
    /// use headcount_contract::{ChildLifecycleAdapter, SourceId};
    /// let adapter = HermesAdapter::new(SourceId::new("hermes")?, HermesConfig::default())?;
    /// assert!(adapter.capabilities().snapshot.is_known());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] if the configuration is wrong.
    pub fn new(source: SourceId, config: HermesConfig) -> Result<Self, AdapterError> {
        config.check()?;
        let transport = match config.ws {
            Some(_) => Transport::WebSocket,
            None => Transport::Stdio,
        };
        Ok(Self::with(source, config, transport))
    }

    /// An adapter of a connection that the host owns, and where the host hands in what comes. Of
    /// the configuration, what is about reaching a gateway does not matter.
    ///
    /// ```
    /// use headcount_adapter_hermes::{HermesAdapter, HermesConfig};
    /// use headcount_contract::{ChildLifecycleAdapter, SourceId};
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
    /// let (adapter, mut feed) = HermesAdapter::feed(SourceId::new("hermes")?, HermesConfig::default());
    /// let signals = adapter.subscribe()?;
    /// feed.frame(serde_json::json!({"child_id": "a", "session_id": "s", "status": "active"})).await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn feed(source: SourceId, config: HermesConfig) -> (Self, Feed) {
        let (feed, links) = Feed::new();
        (Self::with(source, config, Transport::Feed(links)), feed)
    }

    /// What [`REGISTRATION`](crate::REGISTRATION) builds.
    pub(crate) fn build(spec: AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
        if !spec.config.is_object() {
            return Err(AdapterError::new(
                AdapterErrorKind::InvalidConfig,
                "a configuration is an object of keys and values",
            ));
        }
        let config: HermesConfig = serde_json::from_value(spec.config).map_err(|error| {
            AdapterError::new(
                AdapterErrorKind::InvalidConfig,
                "the configuration is not right",
            )
            .with_context("why", error)
        })?;
        let source = match spec.source {
            Some(source) => source,
            None => SourceId::new(SOURCE).map_err(|error| {
                AdapterError::new(AdapterErrorKind::Internal, "no name").with_source(error)
            })?,
        };
        Ok(Arc::new(Self::new(source, config)?))
    }

    fn with(source: SourceId, config: HermesConfig, transport: Transport) -> Self {
        let fanout = Arc::new(Fanout::new(CAPACITY));
        let mut health = Health::default()
            .with_limitation("why a child ended is told only in part")
            .with_limitation("activity of children of children is seen only when asked for");
        if config.polls_every().is_none() {
            health = health
                .with_limitation("nobody is asked which children run: their liveness is unknown");
        }
        let translator = Translator::new(source, new_epoch(now()), Sequence::ZERO);
        let shared = Shared {
            home: home(&config),
            health: HealthCell::new(fanout.clone(), health),
            fanout,
            translator: Mutex::new(translator),
            snapshots: Coalescer::new(),
            link: watch::Sender::new(LinkState::Connecting),
            stop: watch::Sender::new(None),
            finished: AtomicBool::new(false),
            unknown_methods: Mutex::default(),
            replaying: Mutex::default(),
            recorder: OnceLock::new(),
            polls: AtomicU64::new(0),
            config,
        };
        Self {
            shared: Arc::new(shared),
            transport: Mutex::new(Some(transport)),
        }
    }

    /// Asks the gateway something else over the same connection, such as to create a session or to
    /// submit a prompt. A session that is created or resumed so is resumed after a reconnect.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if there is no connection, no answer in time, or a refusal.
    pub async fn call(&self, method: &str, params: &Value) -> Result<Value, AdapterError> {
        let requester = self.shared.connected().await?;
        let answer = requester.call(method, params).await?;
        answer.map_err(|error| requests::refused(method, &error))
    }

    /// The child after a request to cancel it that found nobody.
    async fn after_nobody(&self, child: &ChildId) -> Result<CancelOutcome, AdapterError> {
        // It may have ended unseen: look, as for any child that a listing omits.
        let polled = self.shared.poll().await?;
        if polled.omitted.contains(child) {
            let requester = self.shared.connected().await?;
            source::omitted(&self.shared, &requester, vec![child.clone()]).await;
        }
        let standing = self.shared.with(|translator| translator.standing(child));
        let listed = polled
            .snapshot
            .children()
            .iter()
            .any(|listed| listed.id() == child);
        Ok(match standing {
            Some(standing) if standing.ended => CancelOutcome::AlreadyEnded,
            _ if listed => CancelOutcome::Denied {
                reason: "the gateway lists the child and does not interrupt it".to_owned(),
            },
            _ if polled.omitted.contains(child) => CancelOutcome::UnknownChild,
            _ => CancelOutcome::Denied {
                reason: "the gateway does not see this child (turn isolation?)".to_owned(),
            },
        })
    }
}

/// Where the gateway keeps its transcripts, as far as they are on this host.
fn home(config: &HermesConfig) -> Option<PathBuf> {
    if let Some(home) = &config.hermes_home {
        return Some(home.clone());
    }
    if config.ws.is_some() {
        return None;
    }
    let environment = config.environment(|name| std::env::var_os(name));
    // The last one counts, as it does for the process.
    let value = |wanted: &str| {
        let mut named = environment.iter().rev();
        named
            .find(|(name, _)| name == wanted)
            .map(|(_, value)| PathBuf::from(value))
    };
    value("HERMES_HOME").or_else(|| value("HOME").map(|home| home.join(".hermes")))
}

#[async_trait]
impl ChildLifecycleAdapter for HermesAdapter {
    fn identity(&self) -> SourceIdentity {
        self.shared.with(|translator| translator.identity())
    }

    fn capabilities(&self) -> Capabilities {
        let known = |asked| {
            if asked {
                Capability::Known
            } else {
                Capability::Unknown
            }
        };
        Capabilities {
            history: Capability::Known,
            heartbeat: known(self.shared.config.polls_every().is_some()),
            snapshot: Capability::Known,
            cancel: known(self.shared.config.cancel),
            ..Capabilities::UNKNOWN
        }
    }

    fn health(&self) -> Health {
        self.shared.health.get()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.shared.fanout.subscribe()?;
        let mut transport = self
            .transport
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if transport.is_some() {
            let runtime = crate::runtime()?;
            if let Some(path) = &self.shared.config.record {
                let recorder = Recorder::create(path, now())?;
                let _ = self.shared.recorder.set(Arc::new(recorder));
            }
            if let Some(transport) = transport.take() {
                runtime.spawn(source::run(self.shared.clone(), transport));
            }
        }
        Ok(stream)
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        if self.shared.fanout.is_closed() {
            return Err(AdapterError::new(
                AdapterErrorKind::Closed,
                "the adapter has been closed",
            ));
        }
        if self.shared.is_over() {
            return Ok(vec![
                self.shared
                    .with(|translator| translator.nothing_runs(now())),
            ]);
        }
        Ok(vec![self.shared.poll().await?.snapshot])
    }

    fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    /// The gateway has no place for a reason, so it is not passed on.
    async fn cancel(
        &self,
        child: &ChildId,
        _reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        if !self.shared.config.cancel {
            return Ok(CancelOutcome::Unsupported);
        }
        let Some(standing) = self.shared.with(|translator| translator.standing(child)) else {
            return Ok(CancelOutcome::UnknownChild);
        };
        if standing.ended {
            return Ok(CancelOutcome::AlreadyEnded);
        }
        let Standing {
            raw_id, session, ..
        } = standing;
        let requester = self.shared.connected().await?;
        let asked = requester.interrupt(child, &raw_id, session.as_deref());
        match asked.await? {
            Ok(answer) if source::is_found(&answer) => Ok(CancelOutcome::Accepted),
            Ok(_) => self.after_nobody(child).await,
            Err(error) if error.code == RpcError::NOT_OWNED => {
                self.shared
                    .with(|t| t.cancel_verified(session.as_deref(), Capability::Unknown));
                Ok(CancelOutcome::Denied {
                    reason: "the child's session is not there any more, or belongs to another connection".to_owned(),
                })
            }
            Err(error) if error.code == RpcError::UNKNOWN_METHOD => {
                self.shared.cannot_interrupt();
                Ok(CancelOutcome::Denied {
                    reason: "this gateway cannot interrupt children".to_owned(),
                })
            }
            Err(error) => Err(requests::refused(requests::INTERRUPT, &error)),
        }
    }

    async fn close(&self, urgency: Urgency) -> Result<(), AdapterError> {
        self.shared.stop.send_modify(|stop| {
            // A second, urgent stop counts; a gentle one after an urgent one does not.
            if *stop != Some(Urgency::Now) {
                *stop = Some(urgency);
            }
        });
        let began = self
            .transport
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .is_none();
        if began {
            let mut states = self.shared.link.subscribe();
            let over = states.wait_for(|state| matches!(state, LinkState::Over));
            let _ = over.await;
        }
        self.shared.fanout.close();
        Ok(())
    }
}

impl Drop for HermesAdapter {
    fn drop(&mut self) {
        self.shared.fanout.close();
        self.shared.stop.send_modify(|stop| {
            stop.get_or_insert(Urgency::Graceful);
        });
    }
}
