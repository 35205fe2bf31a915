//! The session with a gateway: connecting, reading, asking, connecting again.

mod drive;
mod pump;
mod reconcile;
pub(crate) mod requests;

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use headcount_adapter_kit::{Coalescer, Fanout, HealthCell};
use headcount_contract::{
    AdapterError, AdapterErrorKind, ChildId, DiscontinuityCause, Gap, HealthStatus, Sequence,
    Signal, Snapshot, Timestamp, Urgency,
};
use tokio::sync::{mpsc, watch};

pub(crate) use self::pump::is_found;
pub(crate) use self::reconcile::omitted;
use self::requests::Requester;
use crate::config::HermesConfig;
use crate::record::{Recorder, Remark};
use crate::translate::{Output, Ready, Translator};
use crate::transport::{End, Link, stdio, websocket};

/// The first wait before connecting again; it doubles up to the configured longest.
const RECONNECT_MIN: Duration = Duration::from_millis(250);
/// How long a request waits for a connection to come up; whoever asks may ask again.
const CONNECT_PATIENCE: Duration = Duration::from_secs(3);
/// The same where the gateway is known to be out of reach.
const LOST_PATIENCE: Duration = Duration::from_millis(500);

/// How long a started gateway may live on after its output has ended.
const MUTE_PATIENCE: Duration = Duration::from_secs(2);

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

/// How connections are made.
#[derive(Debug)]
pub(crate) enum Transport {
    /// Start a gateway, once.
    Stdio,
    /// Attach, again and again.
    WebSocket,
    /// Take what a host opens.
    Feed(mpsc::Receiver<Link>),
}

/// What the reading of frames tells the driving of the session.
#[derive(Debug)]
pub(crate) enum Notice {
    Ready(Ready),
    NewSession(String),
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
    fn tell_left_out(&self) {
        if let Some(recorder) = self.recorder.get() {
            self.health
                .gauge("record_lines_left_out", recorder.left_out());
        }
    }

    /// Whether the gateway of this connection has said that it does not know the method.
    pub(crate) fn lacks(&self, method: &str) -> bool {
        lock(&self.unknown_methods).contains(method)
    }

    pub(crate) fn note_lack(&self, method: &'static str) {
        lock(&self.unknown_methods).insert(method);
    }
}

/// No code of others runs under these locks, so a poisoned one is still whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn now() -> Timestamp {
    SystemTime::now().into()
}

/// Keeps the session until it is stopped, or until the gateway that was started has ended.
pub(crate) async fn run(shared: Arc<Shared>, mut transport: Transport) {
    let mut wait = RECONNECT_MIN;
    let mut stop = shared.stop.subscribe();
    while !shared.is_stopping() {
        let opened = tokio::select! {
            opened = open(&shared, &mut transport) => opened,
            () = stopped(&mut stop) => break,
        };
        let link = match opened {
            Ok(Some(link)) => link,
            Ok(None) => break,
            Err(error) => {
                shared.health.set(HealthStatus::Down, error.to_string());
                if matches!(transport, Transport::Stdio) {
                    break;
                }
                tokio::select! {
                    () = tokio::time::sleep(jittered(wait)) => {}
                    () = stopped(&mut stop) => break,
                }
                wait = (wait * 2).min(shared.config.reconnect_max.max(RECONNECT_MIN));
                continue;
            }
        };
        let attaches = link.process.is_none();
        let (end, spoke) = session(&shared, link, &mut stop).await;
        if spoke {
            wait = RECONNECT_MIN;
        }
        if shared.is_stopping() || !attaches {
            break;
        }
        shared.with(|t| t.discontinuity(DiscontinuityCause::Disconnected, Gap::Possible));
        let again = format!("{end}; trying again");
        shared.health.set(HealthStatus::Down, again);
        if matches!(transport, Transport::WebSocket) {
            tokio::select! {
                () = tokio::time::sleep(jittered(wait)) => {}
                () = stopped(&mut stop) => break,
            }
            wait = (wait * 2).min(shared.config.reconnect_max.max(RECONNECT_MIN));
        }
    }
    shared.link.send_replace(LinkState::Over);
    shared.finished.store(true, Ordering::Release);
    // Whoever waits for the end of everything asks after each signal.
    shared.fanout.publish(Signal::Health(shared.health.get()));
    if shared.is_stopping() {
        shared.fanout.close();
    }
}

async fn open(shared: &Shared, transport: &mut Transport) -> Result<Option<Link>, AdapterError> {
    match transport {
        Transport::Stdio => stdio::open(&shared.config).map(Some),
        Transport::WebSocket => websocket::open(&shared.config).await.map(Some),
        Transport::Feed(links) => Ok(links.recv().await),
    }
}

/// One connection, to its end. Also whether the gateway spoke.
async fn session(
    shared: &Arc<Shared>,
    link: Link,
    stop: &mut watch::Receiver<Option<Urgency>>,
) -> (End, bool) {
    let Link {
        incoming,
        outgoing,
        ended,
        epoch,
        process,
    } = link;
    // A gateway that we started lives as long as we do; another may have been here before.
    let first = match process {
        Some(_) => Sequence::ZERO,
        None => u64::try_from(now().as_millis())
            .ok()
            .and_then(Sequence::new)
            .unwrap_or_default(),
    };
    shared.with(|translator| translator.connected(epoch, first));
    lock(&shared.unknown_methods).clear();
    let recorder = shared.recorder.get().cloned();
    let requester = Requester::new(outgoing, shared.config.request_timeout, recorder.clone());
    let (notices, for_the_drive) = mpsc::unbounded_channel();
    let pump = pump::Pump {
        shared: shared.clone(),
        pending: requester.pending(),
        notices,
    };
    let mut pumping = tokio::spawn(pump.run(incoming));
    let mut stopping = false;
    {
        let driving = drive::drive(shared, &requester, for_the_drive, process.as_ref());
        tokio::pin!(driving);
        tokio::select! {
            _ = &mut pumping => {}
            () = &mut driving => {}
            () = stopped(stop) => stopping = true,
        }
    }
    shared.with(|translator| translator.release(now()));
    let spoke = matches!(*shared.link.borrow(), LinkState::Up(_));
    shared.link.send_replace(LinkState::Connecting);
    if let Some(process) = &process {
        if stopping {
            match *stop.borrow_and_update() {
                Some(Urgency::Now) => process.kill(),
                _ => process.ask_to_end(shared.config.grace),
            }
        }
        // What it still says of its children is read to the end; a second stop kills it now.
        let second = async {
            while stop.changed().await.is_ok() {
                if *stop.borrow_and_update() == Some(Urgency::Now) {
                    process.kill();
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::pin!(second);
        // A gateway whose output has ended is of no use to anybody.
        let useless = async {
            tokio::time::sleep(MUTE_PATIENCE).await;
            process.ask_to_end(shared.config.grace);
            std::future::pending::<()>().await;
        };
        let end = tokio::select! {
            end = ended => end.ok(),
            () = &mut second => None,
            () = useless => None,
        };
        if !pumping.is_finished() {
            let _ = (&mut pumping).await;
        }
        let end = end.unwrap_or(End::Disconnected("the gateway is gone".to_owned()));
        reconcile::gateway_ended(shared, process, &end).await;
        shared.tell_left_out();
        return (end, spoke);
    }
    // Dropping the requester ends the connection, and with it the reading.
    drop(requester);
    shared.link.send_replace(LinkState::Connecting);
    pumping.abort();
    let end = tokio::time::timeout(shared.config.request_timeout, ended).await;
    let end = match end {
        Ok(Ok(end)) => end,
        _ => End::Disconnected("the connection was closed".to_owned()),
    };
    if end != End::Overlong {
        lock(&shared.replaying).clear();
    }
    if let Some(recorder) = recorder.filter(|_| !shared.is_stopping()) {
        recorder.remark(&Remark::Disconnected, now());
    }
    shared.tell_left_out();
    (end, spoke)
}

/// Resolves when the session is to be stopped, or nobody is left who could stop it.
async fn stopped(stop: &mut watch::Receiver<Option<Urgency>>) {
    loop {
        if stop.borrow_and_update().is_some() {
            return;
        }
        if stop.changed().await.is_err() {
            return;
        }
    }
}

/// Between half of it and all of it, so that many that lost one gateway do not come back at once.
fn jittered(wait: Duration) -> Duration {
    wait.mul_f64(0.5 + fastrand::f64() / 2.0)
}
