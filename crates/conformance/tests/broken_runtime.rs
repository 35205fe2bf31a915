//! The kit's cases of the runtime seam: a sound runtime passes all, and each fault is found by
//! exactly its case.

#![allow(clippy::unwrap_used)] // helpers of tests may unwrap, as tests may

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::{StreamExt, stream};
use headcount_conformance::stub::{StubController, StubOptions, StubRuntime};
use headcount_conformance::{CaseOutcome, RigError, RunAction, RuntimeRig, Suite};
use headcount_contract::*;

/// What a runtime may do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    HasNoName,
    StatusIsWrongAtFirst,
    LateSubscriberGetsTheFirstStatus,
    LinesAreTrimmed,
    EarlyLinesAreLost,
    NameIsIgnored,
    StoppedIsToldTwice,
    SecondStopIsRefused,
    StopRewritesACrash,
    StopSignalIsIgnored,
    StopSignalIsKept,
    ErrorSaysNothing,
    FailedStartLeavesARun,
    StopLeavesAHelper,
    CrashIsAStop,
    EndIsACrash,
    OneNameForAll,
    RefusedRestartStops,
    RestartIsOnlyPromised,
}

use Fault::*;

/// The stub, with one fault at most.
#[derive(Debug)]
struct Faulty {
    fault: Option<Fault>,
    stub: Arc<StubRuntime>,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }
}

#[async_trait]
impl AgentRuntime for Faulty {
    fn name(&self) -> &str {
        if self.has(HasNoName) {
            " "
        } else {
            self.stub.name()
        }
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        if self.has(RestartIsOnlyPromised) {
            return RuntimeCapabilities::OBSERVABLE.with_restart();
        }
        self.stub.capabilities()
    }

    async fn start(&self, mut input: StartInput) -> Result<Arc<dyn RunHandle>, StartError> {
        if self.has(NameIsIgnored) {
            input.run_id = None;
        }
        let stops_by_signal = input.stop.is_some();
        let mut kept = None;
        match self.fault {
            Some(StopSignalIsIgnored) => input.stop = None,
            Some(StopSignalIsKept) => kept = input.stop.take(),
            _ => {}
        }
        let named = input.run_id.clone();
        let run = match self.stub.start(input).await {
            Ok(run) => run,
            Err(_) if self.has(ErrorSaysNothing) => {
                return Err(StartError::new(StartErrorKind::NotFound, ""));
            }
            Err(error) => {
                if self.has(FailedStartLeavesARun) {
                    self.stub.start(StartInput::new("/srv/agent")).await?;
                }
                return Err(error);
            }
        };
        if self.has(EarlyLinesAreLost) {
            drop(run.subscribe());
        }
        if let Some(signal) = kept {
            // Waits for it for ever, whether the run has ended or not.
            let run = run.clone();
            tokio::spawn(async move {
                signal.await;
                drop(run.stop().await);
            });
        }
        let id = match named {
            None if self.has(OneNameForAll) => RunId::new("run").unwrap(),
            _ => run.run_id().clone(),
        };
        Ok(Arc::new(FaultyRun {
            fault: self.fault,
            stub: self.stub.clone(),
            run,
            id,
            stops_by_signal,
            told: Arc::default(),
            subscribed: AtomicUsize::new(0),
            rewritten: AtomicBool::new(false),
        }))
    }
}

#[derive(Debug)]
struct FaultyRun {
    fault: Option<Fault>,
    stub: Arc<StubRuntime>,
    run: Arc<dyn RunHandle>,
    id: RunId,
    stops_by_signal: bool,
    /// How often it was told to stop.
    told: Arc<AtomicUsize>,
    subscribed: AtomicUsize,
    rewritten: AtomicBool,
}

impl FaultyRun {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// The status that this run makes of the true one.
    fn status_for(&self, status: RunStatus) -> RunStatus {
        let by_itself = !self.stops_by_signal && self.told.load(Ordering::SeqCst) == 0;
        match (self.fault, status) {
            (Some(CrashIsAStop), RunStatus::Crashed) => RunStatus::Stopped,
            (Some(EndIsACrash), RunStatus::Stopped) if by_itself => RunStatus::Crashed,
            _ => status,
        }
    }
}

fn trimmed(batch: &LogBatch) -> RunEvent {
    let first = batch.lines().next().unwrap();
    let mut copy = LogBatch::new(first.stream, SystemTime::now().into(), 1);
    for line in batch.lines() {
        copy.push(line.text.trim(), LineFlags::default());
    }
    RunEvent::Log(Arc::new(copy))
}

#[async_trait]
impl RunHandle for FaultyRun {
    fn run_id(&self) -> &RunId {
        &self.id
    }

    fn status(&self) -> RunStatus {
        if self.has(StatusIsWrongAtFirst) && self.subscribed.load(Ordering::SeqCst) == 1 {
            return RunStatus::Crashed;
        }
        if self.rewritten.load(Ordering::SeqCst) {
            return RunStatus::Stopped;
        }
        self.status_for(self.run.status())
    }

    fn subscribe(&self) -> RunEventStream {
        let late = self.subscribed.fetch_add(1, Ordering::SeqCst) > 0;
        let live = !self.run.status().is_terminal();
        let fault = self.fault;
        let told = self.told.clone();
        let (status, by_signal) = (self.status_for(RunStatus::Stopped), self.stops_by_signal);
        let mut first = late && live && self.has(LateSubscriberGetsTheFirstStatus);
        let events = self.run.subscribe().flat_map(move |event| {
            let mut events = vec![event];
            match (&mut events[0], fault) {
                (RunEvent::Status(change), _) if std::mem::take(&mut first) => {
                    change.status = RunStatus::Starting;
                }
                (RunEvent::Status(change), Some(CrashIsAStop))
                    if change.status == RunStatus::Crashed =>
                {
                    change.status = RunStatus::Stopped;
                }
                (RunEvent::Status(change), Some(EndIsACrash))
                    if change.status == RunStatus::Stopped
                        && !by_signal
                        && told.load(Ordering::SeqCst) == 0 =>
                {
                    change.status = status;
                }
                (RunEvent::Status(change), Some(StoppedIsToldTwice))
                    if change.status.is_terminal() && live && told.load(Ordering::SeqCst) == 1 =>
                {
                    let again = RunEvent::Status(change.clone());
                    events.push(again);
                }
                (RunEvent::Log(batch), Some(LinesAreTrimmed)) => {
                    events[0] = trimmed(batch);
                }
                _ => {}
            }
            stream::iter(events)
        });
        Box::pin(events)
    }

    async fn stop(&self) -> Result<(), AdapterError> {
        let before = self.told.fetch_add(1, Ordering::SeqCst);
        if self.has(SecondStopIsRefused) && before > 0 {
            return Err(AdapterError::new(AdapterErrorKind::Internal, "it was told"));
        }
        if self.has(StopRewritesACrash) && self.run.status() == RunStatus::Crashed {
            self.rewritten.store(true, Ordering::SeqCst);
        }
        if self.has(StopLeavesAHelper) {
            self.stub
                .start(StartInput::new("/srv/agent"))
                .await
                .unwrap();
        }
        self.run.stop().await
    }

    async fn restart(&self) -> Result<Arc<dyn RunHandle>, StartError> {
        if self.has(RefusedRestartStops) {
            self.run.stop().await.unwrap();
        }
        self.run.restart().await
    }
}

struct FaultyRig {
    controller: StubController,
    runtime: Arc<Faulty>,
}

impl FaultyRig {
    fn new(fault: Option<Fault>) -> Self {
        let (stub, controller) = StubRuntime::new(StubOptions::default());
        let runtime = Arc::new(Faulty { fault, stub });
        Self {
            controller,
            runtime,
        }
    }
}

#[async_trait]
impl RuntimeRig for FaultyRig {
    fn actions(&self) -> &'static [RunAction] {
        &[
            RunAction::Log,
            RunAction::Finish,
            RunAction::Crash,
            RunAction::FailStart,
            RunAction::Leftovers,
        ]
    }

    async fn runtime(&mut self) -> Result<Arc<dyn AgentRuntime>, RigError> {
        Ok(self.runtime.clone())
    }

    fn input(&mut self) -> StartInput {
        StartInput::new("/srv/agent")
    }

    async fn log(
        &mut self,
        _run: &dyn RunHandle,
        stream: OutputStream,
        line: &str,
    ) -> Result<(), RigError> {
        Ok(self.controller.emit_log(stream, line)?)
    }

    async fn finish(&mut self, _run: &dyn RunHandle) -> Result<(), RigError> {
        Ok(self.controller.emit_status(RunStatus::Stopped)?)
    }

    async fn crash(&mut self, _run: &dyn RunHandle) -> Result<(), RigError> {
        Ok(self.controller.emit_status(RunStatus::Crashed)?)
    }

    async fn failing_input(&mut self) -> Result<StartInput, RigError> {
        let error = StartError::new(StartErrorKind::NotFound, "there is no such agent");
        self.controller.fail_next_start(error);
        Ok(self.input())
    }

    async fn leftovers(&mut self) -> Result<usize, RigError> {
        let runs = self.controller.handles();
        let live = runs.iter().filter(|run| !run.status().is_terminal());
        Ok(live.count())
    }
}

/// The names of the cases that a runtime with this fault fails.
fn failed(fault: Option<Fault>) -> Vec<&'static str> {
    let reports = Suite::unregistered(Capabilities::UNKNOWN)
        .runtime(move || FaultyRig::new(fault))
        .time_limit(Duration::from_secs(3))
        .check();
    let cases = reports.iter().filter(|r| r.name.starts_with("runtime::"));
    for report in cases {
        assert!(
            !matches!(report.outcome, CaseOutcome::Ignored(_)),
            "{report:?}"
        );
    }
    let failed = reports
        .iter()
        .filter(|report| matches!(report.outcome, CaseOutcome::Failed(_)));
    failed.map(|report| report.name).collect()
}

#[test]
fn a_sound_runtime_passes_every_case() {
    assert_eq!(failed(None), Vec::<&str>::new());
}

macro_rules! faults {
    ($($fault:ident => $case:literal;)*) => {
        mod fault {
            $(
                #[test]
                #[allow(non_snake_case)] // named after the fault
                fn $fault() {
                    assert_eq!(super::failed(Some(super::Fault::$fault)), [$case]);
                }
            )*
        }
    };
}

faults! {
    HasNoName => "runtime::starts_and_becomes_ready";
    StatusIsWrongAtFirst => "runtime::the_status_is_what_the_last_event_said";
    LateSubscriberGetsTheFirstStatus => "runtime::a_late_subscriber_first_gets_the_present_status";
    LinesAreTrimmed => "runtime::lines_arrive_whole_and_in_order";
    EarlyLinesAreLost => "runtime::the_first_subscriber_misses_nothing";
    NameIsIgnored => "runtime::a_run_bears_the_name_that_the_host_gives";
    StoppedIsToldTwice => "runtime::stop_ends_it_as_stopped";
    SecondStopIsRefused => "runtime::all_callers_share_one_stop";
    StopRewritesACrash => "runtime::stopping_an_ended_run_changes_nothing";
    StopSignalIsIgnored => "runtime::the_stop_signal_equals_stop";
    StopSignalIsKept => "runtime::the_stop_signal_is_forgotten_with_the_run";
    ErrorSaysNothing => "runtime::a_failed_start_is_an_error";
    FailedStartLeavesARun => "runtime::a_failed_start_leaves_nothing";
    StopLeavesAHelper => "runtime::a_stopped_run_leaves_nothing";
    CrashIsAStop => "runtime::a_crash_is_not_a_stop";
    EndIsACrash => "runtime::ending_by_itself_is_not_a_crash";
    OneNameForAll => "runtime::runs_are_told_apart";
    RefusedRestartStops => "runtime::restart_does_what_the_capabilities_say";
    RestartIsOnlyPromised => "runtime::restart_does_what_the_capabilities_say";
}
