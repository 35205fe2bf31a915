//! An [`AgentRuntime`] in memory, and the controller that plays its runs.
//!
//! Nothing happens in it that its controller was not told to do: tests of hosts and bridges need no
//! processes, and new runtimes can copy its plumbing (one fan-out, one status, one idempotent stop).

mod feed;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

use futures_util::future::{Either, select};
use headcount_contract::{
    AdapterError, AgentRuntime, LineFlags, LogBatch, OutputStream, ProjectIdentity, RunEvent,
    RunEventStream, RunHandle, RunId, RunStatus, RuntimeCapabilities, StartError, StartErrorKind,
    StartInput, StatusChange, StopSignal, Timestamp, async_trait,
};
use tokio::sync::Notify;

use feed::Feed;

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

/// Stops the run when the signal fires, and forgets the signal when the run has ended.
async fn stop_when(stop: StopSignal, run: Arc<Run>) {
    let ended = std::pin::pin!(run.ended());
    if let Either::Left(_) = select(stop, ended).await {
        run.end_as_stopped();
    }
}

/// One run. Its status and its subscribers change together, under one lock.
#[derive(Debug)]
struct Run {
    id: RunId,
    clock: fn() -> Timestamp,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    last: StatusChange,
    stdout_lines: u64,
    stderr_lines: u64,
    feeds: Vec<Weak<Feed>>,
    /// What the first subscriber will get: everything since the start.
    first: Option<Arc<Feed>>,
}

impl Run {
    fn new(id: RunId, clock: fn() -> Timestamp) -> Self {
        let last = StatusChange::new(RunStatus::Starting, clock());
        let first = Arc::new(Feed::starting_with(RunEvent::Status(last.clone()), false));
        Self {
            id,
            clock,
            state: Mutex::new(State {
                last,
                stdout_lines: 0,
                stderr_lines: 0,
                feeds: vec![Arc::downgrade(&first)],
                first: Some(first),
            }),
            ended: Notify::new(),
        }
    }

    fn emit(&self, event: RunEvent) -> Result<(), NotEmitted> {
        self.emit_if(|_| Some(event))
    }

    fn log(&self, stream: OutputStream, line: &str) -> Result<(), NotEmitted> {
        self.emit_if(|state| {
            let count = match stream {
                OutputStream::Stdout => &mut state.stdout_lines,
                OutputStream::Stderr => &mut state.stderr_lines,
            };
            *count += 1;
            let mut batch = LogBatch::new(stream, (self.clock)(), *count);
            batch.push(line, LineFlags::default());
            Some(RunEvent::Log(Arc::new(batch)))
        })
    }

    fn become_ready(&self) {
        // Ended before it was ready: nothing to tell.
        let _ = self.emit_if(|state| {
            let ready = StatusChange::new(RunStatus::Ready, (self.clock)());
            (state.last.status == RunStatus::Starting).then_some(RunEvent::Status(ready))
        });
    }

    fn end_as_stopped(&self) {
        // Ended before: stopping it again does nothing.
        let _ = self.emit(RunEvent::Status(StatusChange::new(
            RunStatus::Stopped,
            (self.clock)(),
        )));
    }

    /// Emits what `make` returns unless the run has ended. Subscribers are woken when no lock is
    /// held, so that they may do anything from there: subscribe, unsubscribe, stop the run, panic.
    fn emit_if(&self, make: impl FnOnce(&mut State) -> Option<RunEvent>) -> Result<(), NotEmitted> {
        let mut state = lock(&self.state);
        if state.last.status.is_terminal() {
            return Err(NotEmitted::Ended);
        }
        let Some(event) = make(&mut state) else {
            return Ok(());
        };
        if let RunEvent::Status(change) = &event {
            state.last = change.clone();
        }
        let ended = state.last.status.is_terminal();
        let mut wakers = Vec::new();
        state.feeds.retain(|feed| match feed.upgrade() {
            Some(feed) => {
                wakers.extend(feed.push(event.clone(), ended));
                true
            }
            None => false,
        });
        if ended {
            state.feeds.clear();
        }
        drop(state);
        if ended {
            self.ended.notify_waiters();
        }
        feed::wake_all(wakers);
        Ok(())
    }

    async fn ended(&self) {
        let notified = self.ended.notified();
        // Registered first, so that an end between the check and the wait is not missed.
        let mut notified = std::pin::pin!(notified);
        notified.as_mut().enable();
        if !lock(&self.state).last.status.is_terminal() {
            notified.await;
        }
    }
}

#[async_trait]
impl RunHandle for Run {
    fn run_id(&self) -> &RunId {
        &self.id
    }

    fn status(&self) -> RunStatus {
        lock(&self.state).last.status
    }

    fn subscribe(&self) -> RunEventStream {
        let mut state = lock(&self.state);
        if let Some(first) = state.first.take() {
            return Box::pin(feed::Subscription::new(first));
        }
        let ended = state.last.status.is_terminal();
        let feed = Arc::new(Feed::starting_with(
            RunEvent::Status(state.last.clone()),
            ended,
        ));
        if !ended {
            state.feeds.push(Arc::downgrade(&feed));
        }
        Box::pin(feed::Subscription::new(feed))
    }

    async fn stop(&self) -> Result<(), AdapterError> {
        self.end_as_stopped();
        Ok(())
    }
}

/// A lock that outlives a panic of whoever held it: every change under it is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
