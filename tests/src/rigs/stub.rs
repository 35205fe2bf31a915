//! The stub runtime, by itself and under the runtime bridge.

use std::sync::Arc;
use std::time::SystemTime;

use headcount_adapter_kit::{RuntimeAdapter, new_epoch};
use headcount_conformance::stub::{StubController, StubOptions, StubRuntime};
use headcount_conformance::{Action, Actions, Rig, RigError, RunAction, RuntimeRig, Started};
use headcount_contract::{
    AgentRuntime, ChildId, ChildLifecycleAdapter, ChildState, LineFlags, LogBatch, OutputStream,
    RunEvent, RunHandle, RunId, RunStatus, SourceId, SourceIdentity, StartError, StartErrorKind,
    StartInput, StatusChange, Timestamp, async_trait,
};

/// The bridge over a stub: a child is a run.
#[derive(Debug)]
pub struct StubRig {
    controller: StubController,
    runtime: Arc<StubRuntime>,
    adapter: Option<Arc<RuntimeAdapter>>,
}

impl Default for StubRig {
    fn default() -> Self {
        let (runtime, controller) = StubRuntime::new(StubOptions::default());
        Self {
            controller,
            runtime,
            adapter: None,
        }
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

impl StubRig {
    fn emit(&self, child: &ChildId, event: RunEvent) -> Result<(), RigError> {
        // The bridge names a run after its child.
        let run = RunId::new(child.as_str())?;
        Ok(self.controller.emit_in(&run, event)?)
    }

    fn end(&self, child: &ChildId, status: RunStatus) -> Result<(), RigError> {
        self.emit(child, RunEvent::Status(StatusChange::new(status, now())))
    }
}

#[async_trait]
impl Rig for StubRig {
    fn actions(&self) -> Actions {
        Actions::of(&[
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::Activity,
            Action::Heartbeat,
            Action::Flood,
            Action::Finish,
            Action::Fail,
        ])
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let source = SourceIdentity::new(SourceId::new("stub")?, new_epoch(now()));
        let adapter = RuntimeAdapter::builder(self.runtime.clone(), source).build();
        let adapter = Arc::new(adapter);
        self.adapter = Some(adapter.clone());
        Ok(adapter)
    }

    fn release(&mut self) {
        self.adapter = None;
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        let adapter = self.adapter.as_ref().ok_or("there is no adapter")?;
        let child = adapter.start(StartInput::new("/srv/agent")).await?;
        Ok(Started::new(child, ChildState::RUNNING))
    }

    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        let activity = RunEvent::Activity {
            text: text.to_owned(),
            timestamp: now(),
        };
        self.emit(child, activity)
    }

    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.emit(child, RunEvent::Heartbeat(now()))
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        for number in 1..=count {
            let mut batch = LogBatch::new(OutputStream::Stdout, now(), number);
            batch.push("a line", LineFlags::default());
            self.emit(child, RunEvent::Log(Arc::new(batch)))?;
        }
        Ok(())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, RunStatus::Stopped)?;
        Ok(ChildState::COMPLETED)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, RunStatus::Crashed)?;
        Ok(ChildState::FAILED)
    }
}

/// The stub as a runtime.
#[derive(Debug)]
pub struct StubRuntimeRig {
    controller: StubController,
    runtime: Arc<StubRuntime>,
}

impl Default for StubRuntimeRig {
    fn default() -> Self {
        let (runtime, controller) = StubRuntime::new(StubOptions::default());
        Self {
            controller,
            runtime,
        }
    }
}

impl StubRuntimeRig {
    fn end(&self, run: &dyn RunHandle, status: RunStatus) -> Result<(), RigError> {
        let event = RunEvent::Status(StatusChange::new(status, now()));
        Ok(self.controller.emit_in(run.run_id(), event)?)
    }
}

#[async_trait]
impl RuntimeRig for StubRuntimeRig {
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
        run: &dyn RunHandle,
        stream: OutputStream,
        line: &str,
    ) -> Result<(), RigError> {
        let mut batch = LogBatch::new(stream, now(), 1);
        batch.push(line, LineFlags::default());
        let event = RunEvent::Log(Arc::new(batch));
        Ok(self.controller.emit_in(run.run_id(), event)?)
    }

    async fn finish(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        self.end(run, RunStatus::Stopped)
    }

    async fn crash(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        self.end(run, RunStatus::Crashed)
    }

    async fn failing_input(&mut self) -> Result<StartInput, RigError> {
        let error = StartError::new(StartErrorKind::NotFound, "there is no such agent");
        self.controller.fail_next_start(error);
        Ok(self.input())
    }

    async fn leftovers(&mut self) -> Result<usize, RigError> {
        let runs = self.controller.handles();
        Ok(runs
            .iter()
            .filter(|run| !run.status().is_terminal())
            .count())
    }
}
