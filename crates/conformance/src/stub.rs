//! An [`AgentRuntime`] in memory, and the controller that plays its runs.
//!
//! Nothing happens in it that its controller was not told to do: tests of hosts and bridges need no
//! processes, and new runtimes can copy its plumbing (one fan-out, one status, one idempotent stop).

mod feed;
mod run;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use headcount_contract::{
    AgentRuntime, OutputStream, ProjectIdentity, RunEvent, RunHandle, RunId, RunStatus,
    RuntimeCapabilities, StartError, StartErrorKind, StartInput, StatusChange, Timestamp,
    async_trait,
};

use run::{Run, stop_when};

/// How a [`StubRuntime`] behaves.
///
/// ```
/// use headcount_conformance::stub::StubOptions;
/// let options = StubOptions::default().named("worker").manual_ready();
/// ```
#[derive(Debug, Clone)]
pub struct StubOptions {
    name: String,
    ready: Ready,
    clock: fn() -> Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    ByItself,
    WhenTold,
}

impl Default for StubOptions {
    /// Named `stub`, ready by itself, on the system's clock.
    fn default() -> Self {
        Self {
            name: "stub".into(),
            ready: Ready::ByItself,
            clock: || SystemTime::now().into(),
        }
    }
}

impl StubOptions {
    /// The same under another name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The same, but runs stay `starting` until the controller says that they are ready.
    pub fn manual_ready(mut self) -> Self {
        self.ready = Ready::WhenTold;
        self
    }

    /// The same with timestamps from this clock.
    pub fn with_clock(mut self, clock: fn() -> Timestamp) -> Self {
        self.clock = clock;
        self
    }
}

/// A runtime whose runs exist in memory only.
///
/// Requires a tokio runtime around [`start`](AgentRuntime::start).
///
/// # Behavior
///
/// - A run starts in `starting` and becomes `ready` by itself, after `start` has returned, unless
///   it was told or stopped before; with [`StubOptions::manual_ready`] only when told.
/// - Stopping a run makes it `stopped` at once; a stop signal that fires does the same.
/// - A run bears the name that its input gives it, else `stub-run-1`, `stub-run-2`, …
/// - Log lines beyond 4,096 that a subscriber has not taken are counted for it as
///   [`RunEvent::LogMissed`]; everything else is kept for it.
/// - Two stubs share nothing.
///
/// ```
/// use headcount_conformance::stub::{StubOptions, StubRuntime};
/// use headcount_contract::{AgentRuntime, RunStatus, StartInput};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let (runtime, controller) = StubRuntime::new(StubOptions::default().manual_ready());
/// let run = runtime.start(StartInput::new("/srv/agent")).await?;
/// assert_eq!(run.status(), RunStatus::Starting);
/// controller.emit_status(RunStatus::Ready)?;
/// assert_eq!(run.status(), RunStatus::Ready);
/// run.stop().await?;
/// assert_eq!(controller.handles().len(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StubRuntime {
    options: StubOptions,
    shared: Arc<Shared>,
}

impl StubRuntime {
    /// A runtime and the controller of its runs.
    pub fn new(options: StubOptions) -> (Arc<Self>, StubController) {
        let shared = Arc::new(Shared::default());
        let controller = StubController {
            shared: shared.clone(),
        };
        (Arc::new(Self { options, shared }), controller)
    }
}

#[async_trait]
impl AgentRuntime for StubRuntime {
    fn name(&self) -> &str {
        &self.options.name
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::OBSERVABLE
    }

    async fn start(&self, mut input: StartInput) -> Result<Arc<dyn RunHandle>, StartError> {
        let stop = input.stop.take();
        let run = {
            let mut book = lock(&self.shared.book);
            book.last_input = Some(Input::of(&input));
            if let Some(error) = book.next_error.take() {
                return Err(error);
            }
            let id = match input.run_id.take() {
                Some(id) => id,
                None => {
                    RunId::new(format!("stub-run-{}", book.runs.len() + 1)).map_err(|error| {
                        StartError::new(StartErrorKind::Other, "no run id").with_source(error)
                    })?
                }
            };
            let run = Arc::new(Run::new(id, self.options.clock));
            book.runs.push(run.clone());
            run
        };
        if let Some(stop) = stop {
            tokio::spawn(stop_when(stop, run.clone()));
        }
        if self.options.ready == Ready::ByItself {
            let run = run.clone();
            tokio::spawn(async move {
                // After the caller's own code that follows `start` has had its turn.
                tokio::task::yield_now().await;
                run.become_ready();
            });
        }
        Ok(run)
    }
}

/// Plays the runs of one [`StubRuntime`].
#[derive(Debug, Clone)]
pub struct StubController {
    shared: Arc<Shared>,
}

/// Why the controller emitted nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotEmitted {
    /// There is no such run; start one first.
    NoRun,
    /// The run has ended; nothing comes after its last status.
    Ended,
}

impl fmt::Display for NotEmitted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoRun => "the stub has no such run; call start() first",
            Self::Ended => "the run has ended; nothing comes after its last status",
        })
    }
}

impl std::error::Error for NotEmitted {}

impl StubController {
    /// What the last `start` was given, its stop signal aside: the run holds that one.
    pub fn last_input(&self) -> Option<StartInput> {
        lock(&self.shared.book)
            .last_input
            .as_ref()
            .map(Input::to_start_input)
    }

    /// All runs that were ever started, oldest first.
    pub fn handles(&self) -> Vec<Arc<dyn RunHandle>> {
        let book = lock(&self.shared.book);
        book.runs.iter().map(|run| run.clone() as _).collect()
    }

    /// Makes the next `start` fail with this error.
    pub fn fail_next_start(&self, error: StartError) {
        lock(&self.shared.book).next_error = Some(error);
    }

    /// Changes the status of the latest run.
    ///
    /// # Errors
    ///
    /// [`NotEmitted`] if there is no run or it has ended.
    pub fn emit_status(&self, status: RunStatus) -> Result<(), NotEmitted> {
        let run = self.latest()?;
        run.emit(RunEvent::Status(StatusChange::new(status, (run.clock)())))
    }

    /// Writes a line in the latest run.
    ///
    /// # Errors
    ///
    /// [`NotEmitted`] if there is no run or it has ended.
    pub fn emit_log(&self, stream: OutputStream, line: &str) -> Result<(), NotEmitted> {
        self.latest()?.log(stream, line)
    }

    /// Reports an error in the latest run.
    ///
    /// # Errors
    ///
    /// [`NotEmitted`] if there is no run or it has ended.
    pub fn emit_error(&self, message: impl Into<String>) -> Result<(), NotEmitted> {
        let run = self.latest()?;
        run.emit(RunEvent::Error {
            message: message.into(),
            timestamp: (run.clock)(),
            details: headcount_contract::Details::EMPTY,
        })
    }

    /// Emits any event in the latest run; a status event changes its status.
    ///
    /// # Errors
    ///
    /// [`NotEmitted`] if there is no run or it has ended.
    pub fn emit(&self, event: RunEvent) -> Result<(), NotEmitted> {
        self.latest()?.emit(event)
    }

    /// Emits any event in one run; a status event changes its status.
    ///
    /// # Errors
    ///
    /// [`NotEmitted`] if there is no such run or it has ended.
    pub fn emit_in(&self, run: &RunId, event: RunEvent) -> Result<(), NotEmitted> {
        let book = lock(&self.shared.book);
        let found = book.runs.iter().find(|other| other.id == *run).cloned();
        drop(book);
        found.ok_or(NotEmitted::NoRun)?.emit(event)
    }

    fn latest(&self) -> Result<Arc<Run>, NotEmitted> {
        lock(&self.shared.book)
            .runs
            .last()
            .cloned()
            .ok_or(NotEmitted::NoRun)
    }
}

#[derive(Debug, Default)]
struct Shared {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    last_input: Option<Input>,
    next_error: Option<StartError>,
    runs: Vec<Arc<Run>>,
}

/// What can be kept of a [`StartInput`].
#[derive(Debug)]
struct Input {
    project_root: PathBuf,
    project: ProjectIdentity,
    entry: Option<String>,
    env: BTreeMap<String, String>,
    port_hint: Option<u16>,
    run_id: Option<RunId>,
}

impl Input {
    fn of(input: &StartInput) -> Self {
        Self {
            project_root: input.project_root.clone(),
            project: input.project.clone(),
            entry: input.entry.clone(),
            env: input.env.clone(),
            port_hint: input.port_hint,
            run_id: input.run_id.clone(),
        }
    }

    fn to_start_input(&self) -> StartInput {
        let mut input = StartInput::new(self.project_root.clone());
        input.project = self.project.clone();
        input.entry.clone_from(&self.entry);
        input.env = self.env.clone();
        input.port_hint = self.port_hint;
        input.run_id.clone_from(&self.run_id);
        input
    }
}

/// A lock that outlives a panic of whoever held it: every change under it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
