//! A runtime whose runs the test drives, seen through the bridge.

use std::sync::Mutex;

use futures_util::{StreamExt, stream};
use headcount_contract::*;
use serde_json::json;
use tokio::sync::{mpsc, watch};

use super::*;

#[derive(Debug, Default)]
struct Runtime {
    runs: Mutex<Vec<Arc<Run>>>,
    refuse: AtomicBool,
}

#[derive(Debug)]
struct Run {
    id: RunId,
    events: mpsc::UnboundedSender<RunEvent>,
    stream: Mutex<Option<mpsc::UnboundedReceiver<RunEvent>>>,
    ended: watch::Sender<bool>,
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_unix(second, 0).unwrap()
}

impl Run {
    fn new(id: RunId) -> Arc<Self> {
        let (events, stream) = mpsc::unbounded_channel();
        Arc::new(Self {
            id,
            events,
            stream: Mutex::new(Some(stream)),
            ended: watch::Sender::new(false),
        })
    }

    fn told(&self, child: &str, sequence: u64, kind: EventKind) {
        let event = crate::testing::event(child, sequence, kind);
        self.events.send(RunEvent::Child(Box::new(event))).unwrap();
    }

    fn status(&self, status: RunStatus) {
        self.events
            .send(RunEvent::Status(StatusChange::new(status, at(1))))
            .unwrap();
        self.ended.send_replace(status.is_terminal());
    }
}

#[async_trait]
impl AgentRuntime for Runtime {
    fn name(&self) -> &'static str {
        "test"
    }
    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::OBSERVABLE.with_restart()
    }
    async fn start(&self, input: StartInput) -> Result<Arc<dyn RunHandle>, StartError> {
        if self.refuse.load(Ordering::Relaxed) {
            return Err(StartError::new(StartErrorKind::NotFound, "no such program")
                .with_context("program", "/nonexistent"));
        }
        let run = Run::new(input.run_id.unwrap());
        self.runs.lock().unwrap().push(run.clone());
        Ok(run)
    }
}

#[async_trait]
impl RunHandle for Run {
    fn run_id(&self) -> &RunId {
        &self.id
    }
    fn status(&self) -> RunStatus {
        RunStatus::Starting
    }
    fn facts(&self) -> Details {
        Details::from_iter([("pid", 42.into())])
    }
    fn subscribe(&self) -> RunEventStream {
        let stream = self.stream.lock().unwrap().take().unwrap();
        Box::pin(stream::unfold(stream, |mut s| async {
            s.recv().await.map(|e| (e, s))
        }))
    }
    async fn stop(&self) -> Result<(), AdapterError> {
        if !*self.ended.borrow() {
            self.status(RunStatus::Stopped);
        }
        Ok(())
    }
    async fn restart(&self) -> Result<Arc<dyn RunHandle>, StartError> {
        self.stop().await.unwrap();
        Ok(Run::new(RunId::new("next").unwrap()))
    }
}

struct Fixture {
    runtime: Arc<Runtime>,
    adapter: RuntimeAdapter,
    signals: SignalStream,
}

impl Fixture {
    fn new() -> Self {
        Self::build(|builder| builder)
    }

    fn build(with: impl FnOnce(RuntimeAdapterBuilder) -> RuntimeAdapterBuilder) -> Self {
        let runtime = Arc::new(Runtime::default());
        let source =
            SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap());
        let builder = RuntimeAdapter::builder(runtime.clone(), source).clock(|| at(0));
        let adapter = with(builder).build();
        let signals = adapter.subscribe().unwrap();
        Self {
            runtime,
            adapter,
            signals,
        }
    }

    async fn start(&self) -> (ChildId, Arc<Run>) {
        let child = self.adapter.start(StartInput::new("/")).await.unwrap();
        (
            child,
            self.runtime.runs.lock().unwrap().last().unwrap().clone(),
        )
    }

    /// The next events, as `child attempt kind state`.
    async fn events(&mut self, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        while seen.len() < count {
            let signal = self.signals.next().await.expect("the stream goes on");
            if let Signal::Event(event) = signal {
                let state = event.state().map_or("-", ChildState::as_str);
                let (id, attempt) = (event.child_id(), event.lineage().attempt());
                seen.push(format!("{id} {attempt} {} {state}", event.kind().as_str()));
            }
        }
        seen
    }
}

#[tokio::test]
async fn a_run_becomes_a_child_with_one_end() {
    let mut fixture = Fixture::new();
    let (_, run) = fixture.start().await;
    for status in [
        RunStatus::Starting,
        RunStatus::Ready,
        RunStatus::Ready,
        RunStatus::Crashed,
    ] {
        run.status(status);
    }
    assert_eq!(
        fixture.events(4).await,
        [
            "run-e-1 0 created created",
            "run-e-1 0 state_changed starting",
            "run-e-1 0 state_changed running",
            "run-e-1 0 terminal failed",
        ]
    );
}

/// Only the host finds a child lost (rule L4): its adapter tells what it knows and answers for the
/// child no longer.
#[tokio::test]
async fn a_run_of_unknown_outcome_is_told_gone_and_left_to_the_host() {
    let mut fixture = Fixture::new();
    let (child, run) = fixture.start().await;
    run.status(RunStatus::Ready);
    run.told("a", 0, EventKind::Created);
    let gone = StatusChange::new(RunStatus::Crashed, at(1))
        .with_outcome(Outcome::Lost)
        .with_details(Details::from_iter([("observation", json!("vanished"))]));
    run.events.send(RunEvent::Status(gone)).unwrap();
    assert_eq!(
        fixture.events(5).await,
        [
            "run-e-1 0 created created",
            "run-e-1 0 state_changed running",
            "run-e-1/a 0 created created",
            "run-e-1 0 diagnostic -",
            "run-e-1/a 0 diagnostic -",
        ]
    );
    let Some(Signal::Snapshot(Snapshot::Complete(volunteered))) = fixture.signals.next().await
    else {
        panic!("the omission is told at once")
    };
    assert_eq!(*volunteered.coverage(), Coverage::All);
    assert!(volunteered.children().is_empty(), "{volunteered:?}");
    assert_eq!(
        fixture.adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::AlreadyEnded
    );
    fixture.adapter.restart(&child).await.unwrap_err();
    fixture.adapter.close(Urgency::Graceful).await.unwrap();
    assert!(fixture.signals.next().await.is_none(), "nothing follows");
}

#[tokio::test]
async fn a_run_that_is_announced_once_started_bears_its_facts_in_its_first_event() {
    let mut fixture = Fixture::build(|builder| builder.announce(Announce::Started));
    fixture.start().await;
    let Some(Signal::Event(event)) = fixture.signals.next().await else {
        panic!("no event")
    };
    assert_eq!(event.kind(), EventKind::Created);
    assert_eq!(event.details().as_json(), r#"{"pid":42}"#);
    fixture.runtime.refuse.store(true, Ordering::Relaxed);
    fixture
        .adapter
        .start(StartInput::new("/"))
        .await
        .unwrap_err();
    assert_eq!(
        fixture.events(2).await,
        ["run-e-2 0 created created", "run-e-2 0 terminal failed"]
    );
}

#[tokio::test]
async fn a_failed_start_ends_its_child_with_the_cause() {
    let mut fixture = Fixture::new();
    fixture.runtime.refuse.store(true, Ordering::Relaxed);
    let error = fixture
        .adapter
        .start(StartInput::new("/"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::NotFound);
    let _created = fixture.signals.next().await;
    let Some(Signal::Event(event)) = fixture.signals.next().await else {
        panic!("no event")
    };
    assert_eq!(event.state(), Some(ChildState::FAILED));
    insta::assert_snapshot!(event.details().as_json(), @r#"{"basis":"start_failed","startError":"not-found","message":"no such program","context":{"program":"/nonexistent"}}"#);
}

#[tokio::test]
async fn cancel_tells_apart_what_it_meets() {
    let mut fixture = Fixture::new();
    let (child, run) = fixture.start().await;
    run.status(RunStatus::Ready);
    let stranger = ChildId::new("who").unwrap();
    let cancel = |child| fixture.adapter.cancel(child, None);
    assert_eq!(
        cancel(&stranger).await.unwrap(),
        CancelOutcome::UnknownChild
    );
    assert_eq!(cancel(&child).await.unwrap(), CancelOutcome::Accepted);
    assert_eq!(
        fixture.events(3).await.last().unwrap(),
        "run-e-1 0 terminal cancelled"
    );
    let again = fixture.adapter.cancel(&child, None).await.unwrap();
    assert_eq!(again, CancelOutcome::AlreadyEnded);
}

#[tokio::test]
async fn a_snapshot_agrees_with_the_events_before_it() {
    let mut fixture = Fixture::new();
    let (child, run) = fixture.start().await;
    run.status(RunStatus::Ready);
    fixture.events(2).await;
    let snapshots = fixture
        .adapter
        .snapshot(SnapshotReason::SessionOpen)
        .await
        .unwrap();
    let [Snapshot::Complete(snapshot)] = &snapshots[..] else {
        panic!("{snapshots:?}")
    };
    let [listed] = snapshot.children() else {
        panic!("{snapshot:?}")
    };
    assert_eq!((listed.id(), listed.state()), (&child, ChildState::RUNNING));
    assert_eq!(listed.sequence().map(Sequence::get), Some(1));
}

#[tokio::test]
async fn close_stops_every_run_and_then_ends_the_stream() {
    let mut fixture = Fixture::new();
    fixture.start().await;
    fixture.start().await;
    fixture.adapter.close(Urgency::Graceful).await.unwrap();
    let ends = fixture.events(4).await;
    assert_eq!(
        ends.iter()
            .filter(|e| e.ends_with("terminal cancelled"))
            .count(),
        2
    );
    assert!(fixture.signals.next().await.is_none());
    assert_eq!(
        fixture
            .adapter
            .start(StartInput::new("/"))
            .await
            .unwrap_err()
            .kind(),
        StartErrorKind::Aborted
    );
}

#[tokio::test]
async fn a_plan_starts_the_next_attempt_as_a_new_child_of_the_same_root() {
    let plan = RunPlan::once(|| {
        let mut input = StartInput::new("/");
        input.run_id = Some(RunId::new("build").unwrap());
        input
    })
    .restarting(|ended| (ended.attempt < 1).then_some(std::time::Duration::ZERO));
    let mut fixture = Fixture::build(|builder| builder.plan(plan));
    assert_eq!(fixture.events(1).await, ["build 0 created created"]);
    let first = fixture.runtime.runs.lock().unwrap()[0].clone();
    first.status(RunStatus::Crashed);
    assert_eq!(
        fixture.events(2).await,
        ["build 0 terminal failed", "build-1 1 created created"]
    );
}

#[tokio::test]
async fn a_dropped_adapter_drops_its_runs() {
    let fixture = Fixture::new();
    let (_, run) = fixture.start().await;
    let Fixture {
        runtime,
        adapter,
        mut signals,
    } = fixture;
    runtime.runs.lock().unwrap().clear();
    let run = {
        let weak = Arc::downgrade(&run);
        drop(run);
        weak
    };
    drop(adapter);
    assert!(run.upgrade().is_none());
    while signals.next().await.is_some() {}
}

#[tokio::test]
async fn a_restart_on_request_takes_the_place_of_the_run_in_its_plan() {
    let plan = RunPlan::once(|| StartInput::new("/"))
        .restarting(|ended| (ended.attempt < 2).then_some(std::time::Duration::ZERO));
    let mut fixture = Fixture::build(|builder| builder.plan(plan));
    assert_eq!(fixture.events(1).await, ["run-e-1 0 created created"]);
    let first = ChildId::new("run-e-1").unwrap();
    let next = fixture.adapter.restart(&first).await.unwrap();
    assert_eq!(next.as_str(), "run-e-1-2");
    let mut seen = fixture.events(2).await;
    seen.sort();
    assert_eq!(
        seen,
        [
            "run-e-1 0 terminal completed",
            "run-e-1-2 1 created created"
        ]
    );
    // The plan goes on with it: its end is followed by the next attempt, once.
    fixture
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap();
    let Some(Standing::Live(handle)) = fixture.adapter.shared.children().standing(&next) else {
        panic!("it lives")
    };
    handle.stop().await.unwrap();
    assert_eq!(
        fixture.events(2).await,
        [
            "run-e-1-2 1 terminal completed",
            "run-e-1-3 2 created created"
        ]
    );
}

#[tokio::test]
async fn children_that_a_run_tells_of_join_with_the_run_as_their_parent() {
    let mut fixture = Fixture::new();
    let (_, run) = fixture.start().await;
    fixture.events(1).await;
    run.told("a", 0, EventKind::Created);
    run.told("a", 0, EventKind::Created);
    run.told("a", 1, EventKind::StateChanged(ChildState::RUNNING));
    run.told("a", 1, EventKind::Heartbeat);
    run.told("b", 0, EventKind::Created);
    run.told("a", 2, EventKind::Terminal(Outcome::Completed));
    run.told("a", 3, EventKind::StateChanged(ChildState::RUNNING));
    assert_eq!(
        fixture.events(4).await,
        [
            "run-e-1/a 0 created created",
            "run-e-1/a 0 state_changed running",
            "run-e-1/b 0 created created",
            "run-e-1/a 0 terminal completed",
        ]
    );
    let b = ChildId::new("run-e-1/b").unwrap();
    let snapshot = fixture.adapter.shared.children().snapshot(at(2));
    let listed = snapshot
        .children()
        .iter()
        .find(|child| *child.id() == b)
        .unwrap();
    assert_eq!(
        listed.lineage().unwrap().parent().map(ChildId::as_str),
        Some("run-e-1")
    );
    assert!(matches!(
        fixture.adapter.cancel(&b, None).await,
        Ok(CancelOutcome::Denied { .. })
    ));
    run.status(RunStatus::Stopped);
    assert_eq!(
        fixture.events(2).await,
        ["run-e-1 0 terminal completed", "run-e-1/b 0 diagnostic -"]
    );
    // Nobody can say how it stands: it is in no snapshot from now on, and never said to have ended.
    let Some(Signal::Snapshot(Snapshot::Complete(snapshot))) = fixture.signals.next().await else {
        panic!("no snapshot")
    };
    assert!(snapshot.children().iter().all(|child| *child.id() != b));
}

#[tokio::test]
async fn a_given_up_restart_and_what_the_runtime_tells_show_in_health() {
    let plan =
        RunPlan::once(|| StartInput::new("/")).restarting(|_| NextRun::GiveUp("enough".to_owned()));
    let judge = |told: &Told<'_>, health: &HealthCell| {
        if matches!(told, Told::StartFailed(_)) {
            health.count("judged", 1);
        }
    };
    let mut fixture = Fixture::build(|builder| builder.judge(judge));
    fixture.runtime.refuse.store(true, Ordering::Relaxed);
    run::spawn_plan(&fixture.adapter.shared, plan).unwrap();
    fixture.events(2).await;
    while fixture.adapter.health().status != HealthStatus::Degraded {
        tokio::task::yield_now().await;
    }
    let health = fixture.adapter.health();
    assert_eq!(
        health.message.unwrap(),
        "run-e-1 is not started again: enough"
    );
    assert_eq!(health.counts["judged"], 1);
}

#[tokio::test]
async fn ids_of_earlier_lives_are_not_given_again() {
    let plan = RunPlan::once(|| {
        let mut input = StartInput::new("/");
        input.run_id = Some(RunId::new("build").unwrap());
        input
    });
    let runtime = Arc::new(Runtime::default());
    let source = SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap());
    let adapter = RuntimeAdapter::builder(runtime, source).plan(plan).build();
    adapter.avoid_ids(&["build", "build-1"].map(|id| ChildId::new(id).unwrap()));
    let mut signals = adapter.subscribe().unwrap();
    let Some(Signal::Event(created)) = signals.next().await else {
        panic!("no event");
    };
    assert_eq!(created.child_id().as_str(), "build-2");
}
