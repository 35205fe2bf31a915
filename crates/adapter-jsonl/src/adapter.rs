//! The adapter: one stream, any number of sources and children in it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use headcount_adapter_kit::{Fanout, HealthCell, config_object, new_epoch};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterSpec, Capabilities, ChildLifecycleAdapter,
    Discontinuity, DiscontinuityCause, Gap, Health, Signal, SignalStream, Snapshot, SnapshotReason,
    SourceId, SourceIdentity, Urgency,
};
use tokio::sync::Notify;

use crate::config::JsonlConfig;
use crate::health::{limits_of_a_stream, tell};
use crate::observed::Observed;
use crate::position::StreamPosition;
use crate::source::{Arrived, AtEnd, Origin, Source, now};
use crate::translate::Translator;
use crate::wake::{Wake, block_on};

/// How many signals are kept for a subscriber before the stream is no longer read.
const CAPACITY: usize = 1024;

/// Observes what a JSONL lifecycle stream tells.
///
/// # Behavior
///
/// - Events bear the identity of the sources in the stream, as they come; snapshots that a producer
///   writes into the stream are handed on as they are.
/// - The stream is read while there is a subscriber, and not faster than the slowest one takes.
/// - Lines that are refused are counted by class in the health, and located in its message; nothing
///   of their content is kept.
/// - A file that was replaced or truncated is a discontinuity. Its end is not: nobody is completed
///   by it. When the writer was named ([`JsonlConfig::pid`]), its exit is observed; then, and when
///   a pipe has ended, the adapter's stream ends.
/// - [`snapshot`](ChildLifecycleAdapter::snapshot) repeats what the stream showed, as partial
///   snapshots; a producer's own where nothing came after it.
///
/// ```
/// use futures_util::StreamExt;
/// use headcount_adapter_jsonl::{JsonlAdapter, JsonlConfig};
/// use headcount_contract::{ChildLifecycleAdapter, Signal};
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, r#"{"schemaVersion":1,"eventId":"evt-7","source":"worker-cli","sourceEpoch":"start-2","childId":"child-42","lineage":{"rootChildId":"child-42","attempt":0,"external":false},"kind":"state_changed","state":"running","observedAt":"2026-08-24T09:15:30.000Z","sequence":7}
/// "#)?;
/// let adapter = JsonlAdapter::new(JsonlConfig::new(&path), None)?;
/// let mut stream = adapter.subscribe()?;
/// loop {
///     match stream.next().await {
///         Some(Signal::Event(event)) => break assert_eq!(event.child_id().as_str(), "child-42"),
///         Some(_) => (), // health
///         None => panic!("a file that is followed does not end"),
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(()) })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct JsonlAdapter {
    identity: SourceIdentity,
    config: JsonlConfig,
    shared: Arc<Shared>,
    /// Taken when reading begins.
    origin: Mutex<Option<Origin>>,
}

struct Shared {
    fanout: Arc<Fanout>,
    health: HealthCell,
    translator: Mutex<Translator>,
    position: Mutex<Option<StreamPosition>>,
    /// Told when there is a subscriber, or to stop.
    attention: Notify,
    /// Told when reading has ended.
    done: Notify,
    running: AtomicBool,
    stopped: AtomicBool,
    /// Everything was read, and everything was sent.
    finished: AtomicBool,
    writer_exited: AtomicBool,
    wake: Mutex<Option<Wake>>,
}

impl JsonlAdapter {
    /// An adapter for the stream that `config` names; `name` is what the host calls it.
    ///
    /// Does no input or output: reading begins with the first subscriber.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key.
    pub fn new(config: JsonlConfig, name: Option<SourceId>) -> Result<Self, AdapterError> {
        let origin = if config.path.as_os_str() == "-" {
            None
        } else {
            Some(Origin::Path {
                path: config.path.clone(),
                start: config.start.clone(),
            })
        };
        Self::build(config, name, origin)
    }

    /// An adapter for what comes out of an open descriptor, such as the pipe to a child's
    /// `--lifecycle-fd`. `config.path` is only a name.
    ///
    /// # Errors
    ///
    /// As [`JsonlAdapter::new`].
    ///
    /// ```
    /// use headcount_adapter_jsonl::{JsonlAdapter, JsonlConfig};
    /// let (reader, _writer) = std::io::pipe()?;
    /// let adapter = JsonlAdapter::from_descriptor(reader.into(), JsonlConfig::new("child"), None)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_descriptor(
        descriptor: OwnedFd,
        config: JsonlConfig,
        name: Option<SourceId>,
    ) -> Result<Self, AdapterError> {
        Self::build(config, name, Some(Origin::Descriptor(descriptor)))
    }

    fn build(
        config: JsonlConfig,
        name: Option<SourceId>,
        origin: Option<Origin>,
    ) -> Result<Self, AdapterError> {
        config.check()?;
        let epoch = new_epoch(now());
        let source = match name {
            Some(name) => name,
            None => SourceId::new(format!("jsonl:{}", config.path.display()))
                .or_else(|_| SourceId::new("jsonl"))
                .map_err(|error| {
                    AdapterError::new(AdapterErrorKind::InvalidConfig, "the path makes no name")
                        .with_source(error)
                })?,
        };
        let fanout = Arc::new(Fanout::new(CAPACITY));
        let observed = Observed::new(format!("seen-{epoch}"));
        let limits = config.limits();
        Ok(Self {
            identity: SourceIdentity::new(source, epoch),
            config,
            shared: Arc::new(Shared {
                health: HealthCell::new(fanout.clone(), limits_of_a_stream()),
                fanout,
                translator: Mutex::new(Translator::new(limits, observed)),
                position: Mutex::default(),
                attention: Notify::new(),
                done: Notify::new(),
                running: AtomicBool::new(false),
                stopped: AtomicBool::new(false),
                finished: AtomicBool::new(false),
                writer_exited: AtomicBool::new(false),
                wake: Mutex::default(),
            }),
            origin: Mutex::new(origin),
        })
    }

    /// The place behind the last line that was handed to the subscribers, in a file that is
    /// followed: where to start another time ([`StartAt::Position`](crate::StartAt::Position)).
    ///
    /// What a subscriber was handed it may not have dealt with yet. A host that must lose nothing
    /// saves the position only once it has.
    pub fn position(&self) -> Option<StreamPosition> {
        lock(&self.shared.position).clone()
    }

    /// The latest refused lines, oldest first, without a word of their content.
    pub fn diagnostics(&self) -> Vec<crate::Diagnostic> {
        lock(&self.shared.translator)
            .diagnostics
            .kept()
            .cloned()
            .collect()
    }

    fn start(&self) -> Result<(), AdapterError> {
        if self.shared.running.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let failed = |error: std::io::Error| {
            self.shared.running.store(false, Ordering::Release);
            AdapterError::new(
                AdapterErrorKind::Internal,
                "the stream's reader cannot be started",
            )
            .with_source(error)
        };
        let wake = Wake::new().map_err(failed)?;
        let origin = match lock(&self.origin).take() {
            Some(origin) => origin,
            None => Origin::Descriptor(standard_input().map_err(failed)?),
        };
        let at_end = if self.config.follow {
            AtEnd::Wait
        } else {
            AtEnd::Finish
        };
        *lock(&self.shared.wake) = Some(wake.clone());
        let source = Source::new(origin, at_end, self.config.poll(), self.config.pid, wake);
        let shared = self.shared.clone();
        let follow = self.config.follow;
        std::thread::Builder::new()
            .name("headcount-jsonl".to_owned())
            .spawn(move || {
                shared.read(source, follow);
                shared.running.store(false, Ordering::Release);
                shared.done.notify_waiters();
            })
            .map_err(failed)?;
        Ok(())
    }
}

impl Shared {
    /// Reads until the source is finished or nobody wants it any more.
    fn read(&self, mut source: Source, follow: bool) {
        let mut buffer = Vec::new();
        let mut refused = 0;
        loop {
            if !block_on(self.room()) {
                return;
            }
            let arrived = source.next(&mut buffer);
            let signals = self.translate(&arrived, &buffer);
            let sent = !signals.is_empty();
            tell(
                &self.health,
                &arrived,
                &lock(&self.translator),
                source.lag(),
                &mut refused,
            );
            if sent && !block_on(self.send(signals)) {
                return;
            }
            if let Some((offset, line)) = lock(&self.translator).position()
                && !matches!(arrived, Arrived::Nothing)
            {
                *lock(&self.position) = source.position(offset, line);
            }
            match arrived {
                Arrived::Nothing | Arrived::Trouble(_) => source.wait(),
                Arrived::WriterExited(_) => {
                    self.writer_exited.store(true, Ordering::Release);
                    self.fanout.publish(disconnected());
                }
                Arrived::Finished => {
                    if follow && !self.writer_exited.load(Ordering::Acquire) {
                        self.fanout.publish(disconnected());
                    }
                    self.finished.store(true, Ordering::Release);
                    // Whoever asks after each signal whether that was all has one to ask after.
                    self.fanout.publish(Signal::Health(self.health.get()));
                    self.fanout.close();
                    return;
                }
                _ => (),
            }
        }
    }

    /// Waits until there is a subscriber and every one has room; false to stop.
    async fn room(&self) -> bool {
        loop {
            if self.stopped.load(Ordering::Acquire) {
                return false;
            }
            if self.fanout.subscribers() == 0 {
                self.attention.notified().await;
                continue;
            }
            tokio::select! {
                () = self.fanout.ready() => return !self.stopped.load(Ordering::Acquire),
                () = self.attention.notified() => (),
            }
        }
    }

    async fn send(&self, signals: Vec<Signal>) -> bool {
        let mut sending = std::pin::pin!(self.fanout.send_all(signals));
        loop {
            tokio::select! {
                () = &mut sending => return true,
                () = self.attention.notified() => {
                    if self.stopped.load(Ordering::Acquire) {
                        return false;
                    }
                }
            }
        }
    }

    fn translate(&self, arrived: &Arrived, buffer: &[u8]) -> Vec<Signal> {
        let mut signals = Vec::new();
        let mut translator = lock(&self.translator);
        match *arrived {
            Arrived::Began {
                stream,
                offset,
                line,
                after,
            } => translator.began(stream, offset, line, after, &mut signals),
            Arrived::Bytes { stream } => translator.bytes(stream, buffer, &mut signals),
            Arrived::Over { stream } => translator.over(stream, &mut signals),
            Arrived::Broken { stream } => translator.broken(stream),
            _ => (),
        }
        signals
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        if let Some(wake) = &*lock(&self.wake) {
            wake.wake();
        }
        self.attention.notify_one();
        self.fanout.close();
    }
}

#[async_trait]
impl ChildLifecycleAdapter for JsonlAdapter {
    /// The adapter's own name; its events bear the names of the sources in the stream.
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }

    /// Unknown: each event of the stream says what its source can do.
    fn capabilities(&self) -> Capabilities {
        Capabilities::UNKNOWN
    }

    fn health(&self) -> Health {
        self.shared.health.get()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.shared.fanout.subscribe()?;
        self.start()?;
        self.shared.attention.notify_one();
        Ok(stream)
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        if self.shared.writer_exited.load(Ordering::Acquire) {
            return Err(AdapterError::new(
                AdapterErrorKind::Unavailable,
                "the process that wrote the stream has exited: nobody knows more of its children",
            )
            .with_context("pid", self.config.pid.unwrap_or_default()));
        }
        Ok(lock(&self.shared.translator).observed.snapshots())
    }

    fn is_finished(&self) -> bool {
        self.shared.finished.load(Ordering::Acquire)
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        let done = self.shared.done.notified();
        self.shared.stop();
        if self.shared.running.load(Ordering::Acquire) {
            done.await;
        }
        Ok(())
    }
}

impl Drop for JsonlAdapter {
    fn drop(&mut self) {
        self.shared.stop();
    }
}

impl fmt::Debug for JsonlAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonlAdapter")
            .field("identity", &self.identity)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// Checks a configuration and makes an adapter of it.
pub(crate) fn build(spec: AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
    let config = serde_json::from_value(config_object(spec.config)?).map_err(|error| {
        AdapterError::new(
            AdapterErrorKind::InvalidConfig,
            "the configuration of a JSONL stream cannot be read",
        )
        .with_context("because", error)
    })?;
    Ok(Arc::new(JsonlAdapter::new(config, spec.source)?))
}

fn disconnected() -> Signal {
    Signal::Discontinuity(Discontinuity {
        cause: DiscontinuityCause::Disconnected,
        gap: Gap::Possible,
    })
}

/// A descriptor of our own for standard input, which stays open for others.
fn standard_input() -> std::io::Result<OwnedFd> {
    use std::os::fd::AsFd;
    std::io::stdin().as_fd().try_clone_to_owned()
}

/// No code of others runs under these locks, so a poisoned one is still whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
