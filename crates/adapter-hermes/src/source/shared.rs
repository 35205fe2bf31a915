//! What the adapter and its task share.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use headcount_adapter_kit::{Coalescer, Fanout, HealthCell};
use headcount_contract::{
    AdapterError, AdapterErrorKind, ChildId, HealthStatus, Snapshot, Urgency,
};
use tokio::sync::{mpsc, watch};

use super::requests::{self, Requester};
use super::{Notice, lock};
use crate::config::HermesConfig;
use crate::record::Recorder;
use crate::translate::{Output, Translator};

/// How long a request waits for a connection to come up; whoever asks may ask again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// The same where the gateway is known to be out of reach.
const LOST_PATIENCE: Duration = Duration::from_millis(500);

/// What the adapter and its task share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: HermesConfig,
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) health: HealthCell,
    pub(crate) translator: Mutex<Translator>,
    pub(crate) snapshots: Coalescer<Polled>,
    /// The present connection.
    pub(crate) link: watch::Sender<LinkState>,
    pub(crate) stop: watch::Sender<Option<Urgency>>,
    pub(crate) finished: AtomicBool,
    /// Methods that the gateway of this connection does not know.
    pub(crate) unknown_methods: Mutex<HashSet<&'static str>>,
    /// Sessions whose replay was asked for and has not come. One that was longer than can be taken in
    /// is not asked for again, or no connection would outlive it.
    pub(crate) replaying: Mutex<HashSet<String>>,
    /// Where to look for transcripts.
    pub(crate) home: Option<PathBuf>,
    /// Set when the session is opened, if one is wanted.
    pub(crate) recorder: OnceLock<Arc<Recorder>>,
    pub(crate) polls: AtomicU64,
}

/// Whether there is a connection.
#[derive(Debug, Clone)]
pub(crate) enum LinkState {
    /// Not yet, or not any more; there may be one again.
    Connecting,
    /// The gateway has spoken.
    Up(Requester),
    /// There will be none any more.
    Over,
}

/// What came of asking which children run.
#[derive(Debug, Clone)]
pub(crate) struct Polled {
    pub(crate) snapshot: Snapshot,
    pub(crate) omitted: Vec<ChildId>,
}

impl Shared {
    /// Lets `act` change what is known, and hands on what comes of it before anybody else can.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Translator) -> R) -> R {
        let mut translator = lock(&self.translator);
        let result = act(&mut translator);
        let output = translator.take();
        self.hand_on(output);
        result
    }

    /// The same, with what the reading of frames has to tell the driving of the session.
    pub(crate) fn with_notices(
        &self,
        notices: &mpsc::UnboundedSender<Notice>,
        act: impl FnOnce(&mut Translator),
    ) {
        let mut translator = lock(&self.translator);
        act(&mut translator);
        let mut output = translator.take();
        if let Some(ready) = output.ready.take() {
            let _ = notices.send(Notice::Ready(ready));
        }
        for session in output.new_sessions.drain(..) {
            let _ = notices.send(Notice::NewSession(session));
        }
        self.hand_on(output);
    }

    /// A gateway must not wait for whoever looks at it, so what a slow subscriber has no room for
    /// is missed, and it is told.
    fn hand_on(&self, output: Output) {
        for (name, count) in output.counts {
            self.health.count(name, count);
        }
        for limit in output.limits {
            self.health.limit(limit);
        }
        self.fanout.publish_all(output.signals);
    }

    /// Waits for a connection whose gateway has spoken.
    pub(crate) async fn connected(&self) -> Result<Requester, AdapterError> {
        let mut states = self.link.subscribe();
        let up = async {
            loop {
                match &*states.borrow_and_update() {
                    LinkState::Up(requester) => return Some(requester.clone()),
                    LinkState::Over => return None,
                    LinkState::Connecting => {}
                }
                states.changed().await.ok()?;
            }
        };
        let patience = match self.health.get().status {
            HealthStatus::Down => LOST_PATIENCE,
            _ => CONNECT_PATIENCE.min(self.config.request_timeout),
        };
        let error = |message: &'static str| {
            AdapterError::new(AdapterErrorKind::Unavailable, message).retryable()
        };
        match tokio::time::timeout(patience, up).await {
            Ok(Some(requester)) => Ok(requester),
            Ok(None) => Err(error("the gateway has ended")),
            Err(_) => Err(error("there is no connection to the gateway")
                .with_context("health", self.health.get().message.unwrap_or_default())),
        }
    }

    /// Whether the gateway that we started has ended.
    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.link.borrow(), LinkState::Over)
    }

    /// Asks which children run; requests at the same time share one question.
    pub(crate) async fn poll(self: &Arc<Self>) -> Result<Polled, AdapterError> {
        let this = self.clone();
        self.snapshots
            .request(move || async move {
                let requester = this.connected().await?;
                this.polls.fetch_add(1, Ordering::Relaxed);
                let met = this.with(|translator| translator.met());
                match requester.listing(met).await? {
                    Ok(listing) => Ok(Polled {
                        snapshot: listing.snapshot,
                        omitted: listing.omitted,
                    }),
                    Err(error) => Err(requests::refused("delegation.status", &error)),
                }
            })
            .await
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.borrow().is_some() || self.fanout.is_closed()
    }

    /// Tells how many lines the disk was too slow for, if anything is recorded.
    pub(super) fn tell_left_out(&self) {
        if let Some(recorder) = self.recorder.get() {
            self.health
                .gauge("record_lines_left_out", recorder.left_out());
        }
    }

    /// Whether the gateway of this connection has said that it does not know the method.
    pub(crate) fn lacks(&self, method: &str) -> bool {
        lock(&self.unknown_methods).contains(method)
    }

    /// The gateway has said that it does not know how to interrupt a child.
    pub(crate) fn cannot_interrupt(&self) {
        self.note_lack(requests::INTERRUPT);
        self.health.limit("this gateway cannot interrupt children");
    }

    pub(crate) fn note_lack(&self, method: &'static str) {
        lock(&self.unknown_methods).insert(method);
    }
}
