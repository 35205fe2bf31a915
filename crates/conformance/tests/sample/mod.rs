//! A sound adapter over a source in memory, which can be told to have one fault.

mod adapter;
mod bug;
mod rig;

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::SystemTime;

use futures_core::Stream;
use headcount_conformance::Started;
use headcount_contract::*;

pub(crate) use adapter::Shared;
pub(crate) use bug::Bug;
pub(crate) use rig::SampleRig;

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
