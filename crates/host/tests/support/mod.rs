//! What the host's tests have in common: a scripted adapter, a clock that follows tokio's, events.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_imports
)] // each test file uses a part of it

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use headcount::{AdapterInfo, Change, ChangeStream, Clock, Host, HostSettings};
use headcount_adapter_kit::Fanout;
use headcount_contract::*;
use tokio::sync::Semaphore;

pub(crate) fn source(name: &str) -> SourceId {
    SourceId::new(name).unwrap()
}

pub(crate) fn child(name: &str) -> ChildId {
    ChildId::new(name).unwrap()
}

/// 2026-08-24T00:00:00Z, where the tests' clock begins.
pub(crate) const BEGAN: i64 = 1_787_529_600;

pub(crate) fn at(seconds: f64) -> Timestamp {
    Timestamp::from_unix(BEGAN, 0)
        .unwrap()
        .saturating_add(Duration::from_secs_f64(seconds))
}

/// A clock that starts at [`BEGAN`] and follows tokio's, so that paused time is everybody's.
pub(crate) fn tokio_clock() -> Clock {
    let began = tokio::time::Instant::now();
    Clock::new(move || {
        Timestamp::from_unix(BEGAN, 0)
            .unwrap()
            .saturating_add(began.elapsed())
    })
}

/// Settings whose only surprise is the clock.
pub(crate) fn settings() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.clock = tokio_clock();
    settings.snapshot_jitter = 0.0;
    settings
}

pub(crate) const ALL_KNOWN: Capabilities = Capabilities {
    history: Capability::Known,
    heartbeat: Capability::Known,
    snapshot: Capability::Known,
    cancel: Capability::Known,
    terminal_cause: Capability::Known,
};

/// An event of one source.
pub(crate) fn event_of(
    of: &str,
    epoch: &str,
    id: &str,
    sequence: u64,
    kind: EventKind,
    at: Timestamp,
) -> LifecycleEvent {
    let identity = SourceIdentity::new(source(of), SourceEpoch::new(epoch).unwrap());
    LifecycleEvent::new(
        EventId::new(format!("{of}-{epoch}-{id}-{sequence}")).unwrap(),
        identity,
        ChildIdentity::root(child(id)),
        kind,
        at,
        ALL_KNOWN,
    )
    .with_sequence(Sequence::new(sequence).unwrap())
}

/// What a snapshot request of a [`Scripted`] adapter answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// A complete snapshot of these children.
    Complete(Vec<(&'static str, ChildState)>),
    /// A partial one.
    Partial(Vec<(&'static str, ChildState)>),
    /// One that claims to be another source's.
    Foreign(&'static str),
    Fail(&'static str),
    Hang,
    Panic,
}

/// An adapter that does what a test says.
#[derive(Debug)]
pub(crate) struct Scripted {
    pub(crate) source: SourceIdentity,
    pub(crate) capabilities: Capabilities,
    pub(crate) fanout: Fanout,
    script: Mutex<Script>,
    pub(crate) snapshots: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) most_in_flight: AtomicUsize,
    pub(crate) cancels: AtomicUsize,
    pub(crate) finished: AtomicBool,
    next_snapshot: AtomicU64,
    /// A permit for each snapshot that may answer; plenty by default.
    pub(crate) gate: Semaphore,
    pub(crate) hang_in: Mutex<Vec<&'static str>>,
    pub(crate) panic_in: Mutex<Vec<&'static str>>,
    clock: Clock,
}

/// One snapshot less in flight, however it ends.
struct Landed<'a>(&'a AtomicUsize);

impl Drop for Landed<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Script {
    answers: VecDeque<Answer>,
    otherwise: Answer,
    reasons: Vec<SnapshotReason>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Script")
    }
}

impl Scripted {
    pub(crate) fn new(name: &str, clock: &Clock) -> Arc<Self> {
        Self::with(name, clock, ALL_KNOWN, 4_096)
    }

    pub(crate) fn with(
        name: &str,
        clock: &Clock,
        capabilities: Capabilities,
        capacity: usize,
    ) -> Arc<Self> {
        Self::alive(name, "1", clock, capabilities, capacity)
    }

    /// In this life of the source.
    pub(crate) fn alive(
        name: &str,
        epoch: &str,
        clock: &Clock,
        capabilities: Capabilities,
        capacity: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            source: SourceIdentity::new(source(name), SourceEpoch::new(epoch).unwrap()),
            capabilities,
            fanout: Fanout::new(capacity),
            script: Mutex::new(Script {
                answers: VecDeque::new(),
                otherwise: Answer::Fail("nothing was scripted"),
                reasons: Vec::new(),
            }),
            snapshots: AtomicUsize::new(0),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            cancels: AtomicUsize::new(0),
            finished: AtomicBool::new(false),
            next_snapshot: AtomicU64::new(0),
            gate: Semaphore::new(1 << 20),
            hang_in: Mutex::default(),
            panic_in: Mutex::default(),
            clock: clock.clone(),
        })
    }

    /// What snapshots answer from now on, and what all after these do.
    pub(crate) fn answers(&self, answers: impl IntoIterator<Item = Answer>, otherwise: Answer) {
        let mut script = self.script.lock().unwrap();
        script.answers = answers.into_iter().collect();
        script.otherwise = otherwise;
    }

    pub(crate) fn reasons(&self) -> Vec<SnapshotReason> {
        self.script.lock().unwrap().reasons.clone()
    }

    pub(crate) fn emit(&self, id: &str, sequence: u64, kind: EventKind) {
        self.fanout
            .publish(Signal::Event(self.event(id, sequence, kind)));
    }

    pub(crate) fn event(&self, id: &str, sequence: u64, kind: EventKind) -> LifecycleEvent {
        event_of(
            self.source.source.as_str(),
            self.source.epoch.as_str(),
            id,
            sequence,
            kind,
            self.clock.now(),
        )
    }

    pub(crate) fn break_off(&self, cause: DiscontinuityCause, gap: Gap) {
        self.fanout
            .publish(Signal::Discontinuity(Discontinuity { cause, gap }));
    }

    fn misbehave(&self, what: &str) -> bool {
        assert!(
            !self.panic_in.lock().unwrap().contains(&what),
            "scripted to panic in {what}"
        );
        self.hang_in.lock().unwrap().contains(&what)
    }
}

#[async_trait]
impl ChildLifecycleAdapter for Scripted {
    fn identity(&self) -> SourceIdentity {
        self.source.clone()
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn health(&self) -> Health {
        self.misbehave("health");
        Health::new(HealthStatus::Healthy)
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        self.misbehave("subscribe");
        self.fanout.subscribe()
    }

    fn is_finished(&self) -> bool {
        self.misbehave("is_finished");
        self.finished.load(Ordering::SeqCst)
    }

    async fn snapshot(&self, reason: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        let _landed = Landed(&self.in_flight);
        let answer = {
            let mut script = self.script.lock().unwrap();
            script.reasons.push(reason);
            script
                .answers
                .pop_front()
                .unwrap_or_else(|| script.otherwise.clone())
        };
        self.snapshots.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.unwrap().forget();
        let id = SnapshotId::new(format!(
            "snap-{}",
            self.next_snapshot.fetch_add(1, Ordering::SeqCst)
        ))
        .unwrap();
        let list = |children: Vec<(&str, ChildState)>| {
            children
                .into_iter()
                .map(|(id, state)| SnapshotChild::new(child(id), state))
                .collect()
        };
        let now = self.clock.now();
        Ok(vec![match answer {
            Answer::Complete(children) => AuthoritativeSnapshot::new(
                self.source.clone(),
                id,
                now,
                Coverage::All,
                list(children),
            )
            .unwrap()
            .into(),
            Answer::Partial(children) => {
                PartialSnapshot::new(self.source.clone(), id, now, list(children))
                    .unwrap()
                    .into()
            }
            Answer::Foreign(name) => {
                let other = SourceIdentity::new(source(name), SourceEpoch::new("1").unwrap());
                AuthoritativeSnapshot::new(other, id, now, Coverage::All, vec![])
                    .unwrap()
                    .into()
            }
            Answer::Fail(why) => return Err(AdapterError::new(AdapterErrorKind::Unavailable, why)),
            Answer::Hang => std::future::pending().await,
            Answer::Panic => panic!("scripted to panic in snapshot"),
        }])
    }

    async fn cancel(&self, _: &ChildId, _: Option<&str>) -> Result<CancelOutcome, AdapterError> {
        self.cancels.fetch_add(1, Ordering::SeqCst);
        if self.misbehave("cancel") {
            std::future::pending::<()>().await;
        }
        Ok(CancelOutcome::Accepted)
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        if self.misbehave("close") {
            std::future::pending::<()>().await;
        }
        self.fanout.close();
        Ok(())
    }
}

/// A started host with these adapters.
pub(crate) async fn host_with(settings: HostSettings, adapters: &[Arc<Scripted>]) -> Host {
    let host = adapters
        .iter()
        .fold(Host::builder().settings(settings), |builder, adapter| {
            builder.adapter_value(AdapterInfo::own("scripted"), adapter.clone())
        })
        .build()
        .unwrap();
    host.start().await.unwrap();
    for adapter in adapters {
        while adapter.fanout.subscribers() == 0 && adapter.panic_in.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    }
    host
}

/// The state of one child, and the marks beside it.
pub(crate) fn shown(host: &Host, of: &str, id: &str) -> String {
    let view = host.view();
    let Some(shown) = view.child(&source(of), &child(id)) else {
        return "unknown".into();
    };
    let record = &shown.record;
    let marks = [
        (record.stale, " stale"),
        (record.unproven, " unproven"),
        (record.gap_detected, " gap"),
    ];
    let marks: String = marks
        .iter()
        .filter(|(on, _)| *on)
        .map(|(_, name)| *name)
        .collect();
    format!("{}{marks}", record.state)
}

/// Waits until a child is shown like this.
pub(crate) async fn until_shown(host: &Host, of: &str, id: &str, wanted: &str) {
    let reached = host.wait_until(|_| shown(host, of, id) == wanted);
    if tokio::time::timeout(Duration::from_hours(1), reached)
        .await
        .is_err()
    {
        panic!("{id} is {:?}, never {wanted:?}", shown(host, of, id));
    }
}

/// The next change that `pick` takes.
pub(crate) async fn next_that<T>(
    changes: &mut ChangeStream,
    mut pick: impl FnMut(Change) -> Option<T>,
) -> T {
    let search = async {
        while let Some(change) = changes.next().await {
            if let Some(picked) = pick(change) {
                return picked;
            }
        }
        panic!("the changes ended");
    };
    tokio::time::timeout(Duration::from_hours(1), search)
        .await
        .expect("the change comes")
}
