//! A sound adapter over a source in memory, which can be told to have one fault.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use futures_core::Stream;
use headcount_conformance::{Actions, Ownership, Rig, RigError, Started};
use headcount_contract::*;

/// What an adapter may do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    UnreadStreamLosesCreated,
    SecondSubscriberSeesAnotherOrder,
    WakesThoseWhoLeft,
    LocksWhileItWakes,
    WakesWithoutCare,
    DropsInSilence,
    StreamOutlivesTheAdapter,
    CloseEndsNothing,
    StreamEndsWithTheLastChild,
    LaterSubscriberIsForgotten,
    NoCreated,
    SequenceHasHoles,
    EndsTwice,
    HeartbeatAfterTheEnd,
    FailedIsCompleted,
    SameEventId,
    RepeatsItself,
    AnotherSourceInEvents,
    EpochStaysTheSame,
    ClaimsHeartbeats,
    ClockIsAhead,
    ActivityIsLost,
    NoHeartbeats,
    LineageChanges,
    RetryIsARoot,
    ClaimsToBeExternal,
    ExternalIsNotMarked,
    SnapshotOmitsAChild,
    SnapshotClaimsToBeComplete,
    SnapshotDisagrees,
    CoverageNamesNobody,
    HoleWhileASnapshotIsTaken,
    EarlyChildrenAreUnseen,
    ReasonMatters,
    OneSnapshotAtATime,
    SnapshotIdIsReused,
    SnapshotOfAnotherSource,
    CancelIsDenied,
    CancelIsUnsupported,
    CancelledIsFailed,
    AcceptedIsTheEnd,
    UnknownChildIsAccepted,
    EndedChildIsAccepted,
    CancelledTwiceEndsTwice,
    CancelsEverybody,
    SaysThatItIsIdle,
    BreakWithoutAWord,
    BreakIsNotInBand,
    HealthIsNotInBand,
    NoLimitations,
    CapabilitiesChange,
    StaysDown,
    BreakIsForgotten,
    BreakKillsEverybody,
    WaitingIsNotTold,
}

use Bug::*;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

fn id<T>(made: Result<T, IdError>) -> T {
    made.unwrap()
}

/// One subscriber.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Signal>,
    waker: Option<Waker>,
    polled: bool,
    ended: bool,
    /// The children that were there before it came.
    knew: Vec<ChildId>,
    held_back: Option<Signal>,
}

struct Subscription {
    queue: Arc<Mutex<Queue>>,
    /// For the fault of taking a lock that whoever wakes it holds.
    locks: Option<Weak<Sample>>,
    /// For the fault of waking those who left.
    keeps_wakers: Option<Weak<Sample>>,
}

impl Stream for Subscription {
    type Item = Signal;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Signal>> {
        if let Some(adapter) = self.keeps_wakers.as_ref().and_then(Weak::upgrade) {
            let waker = cx.waker().clone();
            lock(&adapter.state).kept_wakers.push(waker);
        }
        let mut queue = lock(&self.queue);
        queue.polled = true;
        if let Some(signal) = queue.waiting.pop_front() {
            return Poll::Ready(Some(signal));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        if let Some(adapter) = self.locks.as_ref().and_then(Weak::upgrade) {
            drop(lock(&adapter.state));
        }
    }
}

#[derive(Debug, Clone)]
struct Child {
    identity: ChildIdentity,
    state: ChildState,
    sequence: Option<u64>,
    ignores_cancel: bool,
    cancelled: bool,
    /// It began before anybody had subscribed.
    early: bool,
}

#[derive(Debug)]
struct State {
    children: BTreeMap<ChildId, Child>,
    queues: Vec<Weak<Mutex<Queue>>>,
    /// For the fault of waking those who left.
    kept_wakers: Vec<Waker>,
    to_wake: Vec<Waker>,
    health: Health,
    connected: bool,
    closed: bool,
    epoch: u64,
    events: u64,
    snapshots: u64,
    asking: usize,
    started: u64,
}

impl State {
    fn live(&self) -> Vec<ChildId> {
        let live = self.children.values().filter(|c| !c.state.is_terminal());
        live.map(|child| child.identity.id().clone()).collect()
    }
}

/// The adapter, and its source with it.
#[derive(Debug)]
pub(crate) struct Sample {
    bug: Option<Bug>,
    capabilities: Capabilities,
    external: bool,
    state: Mutex<State>,
}

impl Sample {
    pub(crate) fn new(bug: Option<Bug>, capabilities: Capabilities, external: bool) -> Arc<Self> {
        let mut health = Health::new(HealthStatus::Idle);
        if bug != Some(NoLimitations) {
            health = health.with_limitation("what was before the subscription is not told");
        }
        let state = State {
            children: BTreeMap::new(),
            queues: vec![],
            kept_wakers: vec![],
            to_wake: vec![],
            health,
            connected: true,
            closed: false,
            epoch: 1,
            events: 0,
            snapshots: 0,
            asking: 0,
            started: 0,
        };
        Arc::new(Self {
            bug,
            capabilities,
            external,
            state: Mutex::new(state),
        })
    }

    fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    fn source(state: &State) -> SourceIdentity {
        SourceIdentity::new(
            id(SourceId::new("sample")),
            id(SourceEpoch::new(format!("epoch-{}", state.epoch))),
        )
    }

    /// Changes the state, then wakes whoever has something to read, with the lock released.
    fn act<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = lock(&self.state);
        let done = change(&mut state);
        let to_wake = std::mem::take(&mut state.to_wake);
        let mut held = Some(state);
        if !self.has(LocksWhileItWakes) {
            held = None;
        }
        for waker in to_wake {
            let woken = catch_unwind(AssertUnwindSafe(|| waker.wake()));
            if let (true, Err(panic)) = (self.has(WakesWithoutCare), woken) {
                resume_unwind(panic);
            }
        }
        drop(held);
        done
    }

    fn emit(&self, state: &mut State, signal: &Signal) {
        let is = |kind: EventKind| matches!(signal, Signal::Event(e) if e.kind() == kind);
        let ends_well =
            matches!(signal, Signal::Event(e) if e.state() == Some(ChildState::COMPLETED));
        let mut place = 0;
        let mut wakers = vec![];
        state.queues.retain(|queue| {
            let Some(queue) = queue.upgrade() else {
                return false;
            };
            let mut queue = lock(&queue);
            place += 1;
            let lost =
                (self.has(UnreadStreamLosesCreated) && !queue.polled && is(EventKind::Created))
                    || (self.has(DropsInSilence)
                        && queue.waiting.len() > 1000
                        && is(EventKind::Activity))
                    || (self.has(LaterSubscriberIsForgotten) && ends_well && queue.knows(signal));
            if lost {
                return true;
            }
            if self.has(SecondSubscriberSeesAnotherOrder) && place == 2 && is(EventKind::Activity) {
                queue.held_back = Some(signal.clone());
                return true;
            }
            queue.take(signal, is(EventKind::Activity));
            if let Some(held_back) = queue.held_back.take() {
                queue.take(&held_back, true);
            }
            wakers.extend(queue.waker.take());
            true
        });
        if self.has(WakesThoseWhoLeft) {
            wakers.clone_from(&state.kept_wakers);
        }
        state.to_wake.extend(wakers);
    }

    /// Something happens to a child; it is told unless nobody can see it.
    fn happens(&self, state: &mut State, child: &ChildId, kind: EventKind, text: Option<&str>) {
        let Some(known) = state.children.get_mut(child) else {
            return;
        };
        if let Some(new) = kind.state() {
            known.state = new;
        }
        let unseen = !state.connected
            || (self.has(ActivityIsLost) && kind == EventKind::Activity)
            || (self.has(NoHeartbeats) && kind == EventKind::Heartbeat)
            || (self.has(WaitingIsNotTold) && kind.state() == Some(ChildState::WAITING))
            || (self.has(NoCreated) && kind == EventKind::Created)
            || (self.has(HoleWhileASnapshotIsTaken) && state.asking > 0);
        if unseen {
            return;
        }
        let step = if self.has(SequenceHasHoles) { 2 } else { 1 };
        let sequence = known.sequence.map_or(1, |before| before + step);
        known.sequence = Some(sequence);
        let mut identity = known.identity.clone();
        if self.has(LineageChanges) && kind == EventKind::Activity {
            let lineage = Lineage::new(id(ChildId::new("somebody-else")));
            identity = ChildIdentity::new(child.clone(), lineage).unwrap();
        }
        state.events += 1;
        let event_id = match self.bug {
            Some(SameEventId) => "event".to_owned(),
            _ => format!("event-{}-{}", state.epoch, state.events),
        };
        let mut source = Self::source(state);
        if self.has(AnotherSourceInEvents) {
            source.epoch = id(SourceEpoch::new("another"));
        }
        let mut capabilities = self.capabilities;
        if self.has(ClaimsHeartbeats) {
            capabilities.heartbeat = Capability::Known;
        }
        let mut at = now();
        if self.has(ClockIsAhead) {
            at = at.saturating_add(std::time::Duration::from_hours(24));
        }
        let mut event = LifecycleEvent::new(
            id(EventId::new(event_id)),
            source,
            identity,
            kind,
            at,
            capabilities,
        )
        .with_sequence(Sequence::new(sequence).unwrap());
        if let Some(text) = text {
            event = event.with_activity(Activity::new(text));
        }
        self.emit(state, &Signal::Event(event));
    }

    fn health(&self, state: &mut State, status: HealthStatus, message: Option<&str>) {
        state.health.status = status;
        state.health.message = message.map(str::to_owned);
        let signal = Signal::Health(state.health.clone());
        self.emit(state, &signal);
    }

    fn discontinuity(&self, state: &mut State, cause: DiscontinuityCause) {
        let gap = Gap::Possible;
        self.emit(state, &Signal::Discontinuity(Discontinuity { cause, gap }));
    }

    fn start(&self, before: Option<&ChildId>) -> Started {
        self.act(|state| {
            state.started += 1;
            let child = id(ChildId::new(format!("child-{}", state.started)));
            let mut lineage = Lineage::new(child.clone());
            if let Some(before) = before
                && !self.has(RetryIsARoot)
            {
                let before = state.children[before].identity.lineage();
                lineage = Lineage::new(before.root().clone()).with_attempt(before.attempt() + 1);
            }
            let external = match self.bug {
                Some(ClaimsToBeExternal) => true,
                Some(ExternalIsNotMarked) => false,
                _ => self.external,
            };
            if external {
                lineage = lineage.adopted(now());
            }
            let identity = ChildIdentity::new(child.clone(), lineage).unwrap();
            let new = Child {
                identity,
                state: ChildState::CREATED,
                sequence: None,
                ignores_cancel: false,
                cancelled: false,
                early: state.queues.is_empty(),
            };
            state.children.insert(child.clone(), new);
            self.happens(state, &child, EventKind::Created, None);
            let running = EventKind::StateChanged(ChildState::RUNNING);
            self.happens(state, &child, running, None);
            Started::new(child, ChildState::RUNNING)
        })
    }

    fn tell(&self, child: &ChildId, kind: EventKind, text: Option<&str>) {
        self.act(|state| self.happens(state, child, kind, text));
    }

    fn end(&self, state: &mut State, child: &ChildId, outcome: Outcome) {
        let alone = state.children.len() == 1;
        let told = match (self.bug, outcome) {
            (Some(FailedIsCompleted), Outcome::Failed) if alone => Outcome::Completed,
            (Some(CancelledIsFailed), Outcome::Cancelled) => Outcome::Failed,
            _ => outcome,
        };
        self.happens(state, child, EventKind::Terminal(told), None);
        if self.has(EndsTwice) && outcome == Outcome::Failed {
            self.happens(state, child, EventKind::Terminal(told), None);
        }
        if self.has(HeartbeatAfterTheEnd) {
            self.happens(state, child, EventKind::Heartbeat, None);
        }
        let nobody = state
            .children
            .values()
            .all(|child| child.state.is_terminal());
        if self.has(StreamEndsWithTheLastChild) && nobody {
            Self::end_streams(state);
        }
    }

    fn end_streams(state: &mut State) {
        for queue in state.queues.drain(..).filter_map(|queue| queue.upgrade()) {
            let mut queue = lock(&queue);
            queue.ended = true;
            let held_back = queue.held_back.take();
            queue.waiting.extend(held_back);
            state.to_wake.extend(queue.waker.take());
        }
    }
}

impl Queue {
    fn knows(&self, signal: &Signal) -> bool {
        matches!(signal, Signal::Event(event) if self.knew.contains(event.child_id()))
    }

    /// Room for 1,024 activities; whoever is slower is told how many it missed.
    fn take(&mut self, signal: &Signal, is_activity: bool) {
        if !is_activity || self.waiting.len() < 1024 {
            self.waiting.push_back(signal.clone());
            return;
        }
        if let Some(Signal::Discontinuity(Discontinuity {
            cause: DiscontinuityCause::Lagged { missed },
            ..
        })) = self.waiting.back_mut()
        {
            *missed += 1;
            return;
        }
        self.waiting.push_back(Signal::Discontinuity(Discontinuity {
            cause: DiscontinuityCause::Lagged { missed: 1 },
            gap: Gap::Possible,
        }));
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        if self.has(StreamOutlivesTheAdapter) && !state.closed {
            return;
        }
        Self::end_streams(&mut state);
        let to_wake = std::mem::take(&mut state.to_wake);
        drop(state);
        to_wake.into_iter().for_each(Waker::wake);
    }
}

/// A fault that needs the adapter to know itself.
#[derive(Debug)]
pub(crate) struct Shared(pub(crate) Arc<Sample>);

#[async_trait]
impl ChildLifecycleAdapter for Shared {
    fn identity(&self) -> SourceIdentity {
        Sample::source(&lock(&self.0.state))
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities;
        if self.0.has(CapabilitiesChange) && lock(&self.0.state).started > 0 {
            capabilities.history = Capability::Unknown;
        }
        capabilities
    }

    fn health(&self) -> Health {
        lock(&self.0.state).health.clone()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let sample = &self.0;
        sample.act(|state| {
            if state.closed {
                return Err(AdapterError::new(AdapterErrorKind::Closed, "it is closed"));
            }
            let queue = Queue {
                knew: state.children.keys().cloned().collect(),
                ..Queue::default()
            };
            let queue = Arc::new(Mutex::new(queue));
            state.queues.push(Arc::downgrade(&queue));
            if state.health.status == HealthStatus::Idle && !sample.has(SaysThatItIsIdle) {
                if sample.has(HealthIsNotInBand) {
                    state.health.status = HealthStatus::Healthy;
                } else {
                    sample.health(state, HealthStatus::Healthy, None);
                }
            }
            let stream = Subscription {
                queue,
                locks: sample
                    .has(LocksWhileItWakes)
                    .then(|| Arc::downgrade(sample)),
                keeps_wakers: sample
                    .has(WakesThoseWhoLeft)
                    .then(|| Arc::downgrade(sample)),
            };
            Ok(Box::pin(stream) as SignalStream)
        })
    }

    async fn snapshot(&self, reason: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let sample = &self.0;
        let (source, number, mut children) = sample.act(|state| {
            state.asking += 1;
            state.snapshots += 1;
            if sample.has(OneSnapshotAtATime) && state.asking > 1 {
                state.asking -= 1;
                return Err(AdapterError::new(
                    AdapterErrorKind::Unavailable,
                    "it is busy",
                ));
            }
            let children: Vec<_> = state
                .children
                .values()
                .filter(|child| !(sample.has(EarlyChildrenAreUnseen) && child.early))
                .map(|child| {
                    let listed = SnapshotChild::with_identity(child.identity.clone(), child.state);
                    match child.sequence.and_then(Sequence::new) {
                        Some(sequence) => listed.with_sequence(sequence),
                        None => listed,
                    }
                })
                .collect();
            Ok((Sample::source(state), state.snapshots, children))
        })?;
        tokio::task::yield_now().await;
        sample.act(|state| state.asking -= 1);
        if sample.has(SnapshotOmitsAChild) {
            children.retain(|child| child.state().is_terminal());
        }
        if sample.has(SnapshotDisagrees) {
            for child in &mut children {
                if !child.state().is_terminal() {
                    *child = SnapshotChild::new(child.id().clone(), ChildState::STARTING);
                }
            }
        }
        let source = match sample.bug {
            Some(SnapshotOfAnotherSource) => {
                SourceIdentity::new(id(SourceId::new("other")), source.epoch)
            }
            _ => source,
        };
        let number = if sample.has(SnapshotIdIsReused) {
            1
        } else {
            number
        };
        let name = id(SnapshotId::new(format!("snapshot-{number}")));
        let complete = (sample.capabilities.snapshot.is_known()
            || sample.has(SnapshotClaimsToBeComplete))
            && !(sample.has(ReasonMatters) && reason == SnapshotReason::SessionOpen);
        let snapshot = if complete {
            let coverage = if sample.has(CoverageNamesNobody) {
                let mut covered: Vec<_> = children.iter().map(|child| child.id().clone()).collect();
                covered.push(id(ChildId::new("nobody")));
                Coverage::Children(covered)
            } else {
                Coverage::All
            };
            AuthoritativeSnapshot::new(source, name, now(), coverage, children)
                .map(Snapshot::Complete)
                .unwrap()
        } else {
            PartialSnapshot::new(source, name, now(), children)
                .map(Snapshot::Partial)
                .unwrap()
        };
        Ok(vec![snapshot])
    }

    async fn cancel(
        &self,
        child: &ChildId,
        _reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        let sample = &self.0;
        Ok(sample.act(|state| {
            if !sample.capabilities.cancel.is_known() {
                return match sample.bug {
                    Some(CancelIsDenied) => CancelOutcome::Denied {
                        reason: "it does not do that".into(),
                    },
                    _ => CancelOutcome::Unsupported,
                };
            }
            if sample.has(CancelIsUnsupported) {
                return CancelOutcome::Unsupported;
            }
            let Some(known) = state.children.get_mut(child) else {
                return match sample.bug {
                    Some(UnknownChildIsAccepted) => CancelOutcome::Accepted,
                    _ => CancelOutcome::UnknownChild,
                };
            };
            if known.state.is_terminal() {
                if sample.has(CancelledTwiceEndsTwice) && known.cancelled {
                    sample.end(state, child, Outcome::Cancelled);
                } else if sample.has(EndedChildIsAccepted) && !known.cancelled {
                    return CancelOutcome::Accepted;
                }
                return CancelOutcome::AlreadyEnded;
            }
            known.cancelled = true;
            if !known.ignores_cancel || sample.has(AcceptedIsTheEnd) {
                sample.end(state, child, Outcome::Cancelled);
            }
            if sample.has(CancelsEverybody) {
                let others = state.live().into_iter().filter(|other| other != child);
                let others: Vec<_> = others.collect();
                for other in others {
                    sample.end(state, &other, Outcome::Cancelled);
                }
            }
            CancelOutcome::Accepted
        }))
    }

    async fn close(&self, _urgency: Urgency) -> Result<(), AdapterError> {
        if self.0.has(CloseEndsNothing) {
            return Ok(());
        }
        self.0.act(|state| {
            state.closed = true;
            Sample::end_streams(state);
        });
        Ok(())
    }
}

/// Drives a [`Sample`].
pub(crate) struct SampleRig {
    bug: Option<Bug>,
    capabilities: Capabilities,
    sample: Option<Arc<Sample>>,
    actions: Actions,
    ownership: Ownership,
}

impl SampleRig {
    pub(crate) fn new(
        bug: Option<Bug>,
        capabilities: Capabilities,
        ownership: Ownership,
        actions: Actions,
    ) -> Self {
        let external = ownership == Ownership::External;
        let sample = Some(Sample::new(bug, capabilities, external));
        Self {
            bug,
            capabilities,
            sample,
            actions,
            ownership,
        }
    }

    fn sample(&self) -> Result<&Sample, RigError> {
        self.sample
            .as_deref()
            .ok_or_else(|| "it was released".into())
    }

    fn end(&self, child: &ChildId, outcome: Outcome) -> Result<ChildState, RigError> {
        let sample = self.sample()?;
        sample.act(|state| sample.end(state, child, outcome));
        Ok(outcome.into())
    }
}

#[async_trait]
impl Rig for SampleRig {
    fn actions(&self) -> Actions {
        self.actions
    }

    fn ownership(&self) -> Ownership {
        self.ownership
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let sample = self.sample.clone().ok_or("it was released")?;
        Ok(Arc::new(Shared(sample)))
    }

    fn release(&mut self) {
        self.sample = None;
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let sample = Sample::new(
            self.bug,
            self.capabilities,
            self.ownership == Ownership::External,
        );
        sample.act(|state| {
            // It numbers its events from 1 like every adapter here, so it needs its own epoch.
            if !sample.has(RepeatsItself) {
                state.epoch += 100;
            }
        });
        self.sample = Some(sample);
        self.adapter().await
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        Ok(self.sample()?.start(None))
    }

    async fn retry(&mut self, child: &ChildId) -> Result<Started, RigError> {
        Ok(self.sample()?.start(Some(child)))
    }

    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        self.sample()?
            .tell(child, EventKind::StateChanged(to.into()), None);
        Ok(to.into())
    }

    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        self.sample()?.tell(child, EventKind::Activity, Some(text));
        Ok(())
    }

    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.sample()?.tell(child, EventKind::Heartbeat, None);
        Ok(())
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        for number in 0..count {
            self.activity(child, &number.to_string()).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Completed)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Failed)
    }

    async fn ignore_cancel(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.sample()?.act(|state| {
            if let Some(child) = state.children.get_mut(child) {
                child.ignores_cancel = true;
            }
        });
        Ok(())
    }

    async fn break_source(&mut self) -> Result<(), RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.connected = false;
            let message = "the source was cut off";
            if sample.has(BreakIsNotInBand) {
                state.health.status = HealthStatus::Down;
                state.health.message = Some(message.into());
            } else {
                let message = (!sample.has(BreakWithoutAWord)).then_some(message);
                sample.health(state, HealthStatus::Down, message);
            }
        });
        Ok(())
    }

    async fn restore_source(&mut self) -> Result<(), RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.connected = true;
            if !sample.has(BreakIsForgotten) {
                sample.discontinuity(state, DiscontinuityCause::Reconnected);
            }
            if !sample.has(StaysDown) {
                sample.health(state, HealthStatus::Healthy, None);
            }
            if sample.has(BreakKillsEverybody) {
                for child in state.live() {
                    sample.happens(state, &child, EventKind::Terminal(Outcome::Lost), None);
                }
            }
        });
        Ok(())
    }

    async fn restart_source(&mut self) -> Result<Vec<Started>, RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.children.clear();
            if !sample.has(EpochStaysTheSame) {
                state.epoch += 1;
            }
            sample.discontinuity(state, DiscontinuityCause::SourceRestarted);
        });
        Ok(vec![])
    }
}
