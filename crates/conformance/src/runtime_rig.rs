//! What a test author writes for an [`AgentRuntime`].

use std::sync::Arc;

use headcount_contract::{AgentRuntime, OutputStream, RunHandle, StartInput, async_trait};

use crate::RigError;

/// One thing that a runtime rig may be able to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunAction {
    /// [`RuntimeRig::log`].
    Log,
    /// [`RuntimeRig::finish`].
    Finish,
    /// [`RuntimeRig::crash`].
    Crash,
    /// [`RuntimeRig::failing_input`].
    FailStart,
    /// [`RuntimeRig::leftovers`].
    Leftovers,
}

impl RunAction {
    /// What the rig would have to do, for the reason of an ignored case.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Log => "have a run write a line",
            Self::Finish => "let a run end by itself",
            Self::Crash => "crash a run",
            Self::FailStart => "make a start fail",
            Self::Leftovers => "count what is left of runs",
        }
    }
}

/// Drives the runs of one fresh runtime.
///
/// # Behavior
///
/// - Each case makes its own rig; a constructor should do no I/O.
/// - A method returns once the *run* has done it; the kit waits for the handle to tell.
#[async_trait]
pub trait RuntimeRig: Send + 'static {
    /// What this rig can do. Always the same.
    fn actions(&self) -> &'static [RunAction];

    /// The runtime. Called once.
    async fn runtime(&mut self) -> Result<Arc<dyn AgentRuntime>, RigError>;

    /// The input of a run that becomes ready and stays up until told otherwise.
    fn input(&mut self) -> StartInput;

    /// Has a run write a line.
    async fn log(
        &mut self,
        run: &dyn RunHandle,
        stream: OutputStream,
        line: &str,
    ) -> Result<(), RigError> {
        let _ = (run, stream, line);
        Err("the rig declares that runs can write lines, but does not implement it".into())
    }

    /// Lets a run end by itself, without a fault.
    async fn finish(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        let _ = run;
        Err("the rig declares that it can finish runs, but does not implement it".into())
    }

    /// Lets a run end by itself, with a fault.
    async fn crash(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        let _ = run;
        Err("the rig declares that it can crash runs, but does not implement it".into())
    }

    /// An input that cannot be started; or arranges that the next start fails, and returns any.
    async fn failing_input(&mut self) -> Result<StartInput, RigError> {
        Err("the rig declares that it can make a start fail, but does not implement it".into())
    }

    /// How many things of runs that have ended or never began are still there, such as processes.
    async fn leftovers(&mut self) -> Result<usize, RigError> {
        Err("the rig declares that it can count leftovers, but does not implement it".into())
    }
}
