//! The runtime: starts a command, hands out its run.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt;
use headcount_contract::{
    AdapterError, AdapterErrorKind, AgentRuntime, Details, RunEventStream, RunHandle, RunId,
    RunStatus, RuntimeCapabilities, StartError, StartErrorKind, StartInput, StopSignal,
    async_trait,
};

use crate::config::{Orphan, ProcessOptions, is_variable_name};
use crate::os::{Output, SpawnPlan, find_program, spawn};
use crate::source::{Control, Ending, Hub, StopLevel, Supervisor, Surroundings};

/// Runs one command as a supervised subprocess.
///
/// # Behavior
///
/// - Each run leads its own process group; a stop reaches the whole group.
/// - The child's environment is what the options and the input give, and nothing else.
/// - Exactly one terminal event, after the exit and the end of both outputs; nothing after it.
/// - Dropping the last handle of a run stops it; dropping the tokio runtime kills it.
/// - A start needs a tokio runtime with I/O and time (`enable_all`), whose task supervises the run.
///
/// ```
/// use headcount_adapter_process::{ProcessOptions, ProcessRuntime};
/// let runtime = ProcessRuntime::new(ProcessOptions::new("cargo"))?;
/// # Ok::<(), headcount_contract::AdapterError>(())
/// ```
#[derive(Debug)]
pub struct ProcessRuntime {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Arc<ProcessOptions>,
    started: AtomicU64,
}

impl ProcessRuntime {
    /// A runtime with these options.
    ///
    /// # Errors
    ///
    /// As [`ProcessOptions::check`].
    pub fn new(options: ProcessOptions) -> Result<Self, AdapterError> {
        options.check()?;
        let shared = Shared {
            options: Arc::new(options),
            started: AtomicU64::new(0),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }
}

#[async_trait]
impl AgentRuntime for ProcessRuntime {
    fn name(&self) -> &'static str {
        "process"
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::OBSERVABLE.with_restart()
    }

    async fn start(&self, mut input: StartInput) -> Result<Arc<dyn RunHandle>, StartError> {
        let stop = input.stop.take();
        let wanted = Wanted {
            root: input.project_root,
            env: input.env,
        };
        let run = self.shared.start(wanted, input.run_id, stop)?;
        Ok(run)
    }
}

/// What of a start input the next run of a chain needs again.
#[derive(Debug, Clone)]
struct Wanted {
    root: PathBuf,
    env: BTreeMap<String, String>,
}

impl Shared {
    fn start(
        self: &Arc<Self>,
        wanted: Wanted,
        run_id: Option<RunId>,
        mut stop: Option<StopSignal>,
    ) -> Result<Arc<ProcessRun>, StartError> {
        if let Some(stop) = &mut stop
            && stop.now_or_never().is_some()
        {
            return Err(StartError::new(
                StartErrorKind::Aborted,
                "it was asked to stop before it had started",
            ));
        }
        if tokio::runtime::Handle::try_current().is_err() {
            return Err(StartError::new(
                StartErrorKind::Other,
                "a process is supervised by a task: start it from within a tokio runtime",
            ));
        }
        let options = &self.options;
        let run_id = match run_id {
            Some(run_id) => run_id,
            None => self.next_run_id()?,
        };
        let cwd = working_directory(options, &wanted.root)?;
        let program = find_program(&options.command, &cwd)?;
        let env = environment(options, &wanted.env)?;
        let spawned = spawn(&SpawnPlan {
            program: &program,
            called: OsStr::new(&options.command),
            args: &options.args,
            cwd: &cwd,
            env: &env,
            output: Output::Piped,
            lifecycle_fd: options.lifecycle_fd,
            end_with_host: match options.orphan {
                Orphan::Leave => None,
                Orphan::Terminate => Some(options.stop_signal.number()),
            },
        })?;
        let hub = Arc::new(Hub::default());
        let control = Arc::new(Control::default());
        let mut supervisor = Supervisor::new(spawned, options, hub.clone(), control.clone(), stop);
        let facts = supervisor.facts();
        supervisor.announce(Surroundings { cwd, env });
        tokio::spawn(async move { supervisor.run().await });
        Ok(Arc::new(ProcessRun {
            runtime: self.clone(),
            wanted: Mutex::new(Some(wanted)),
            run_id,
            facts,
            hub,
            control,
        }))
    }

    fn next_run_id(&self) -> Result<RunId, StartError> {
        let number = self.started.fetch_add(1, Ordering::Relaxed) + 1;
        own_run_id(&self.options, number)
    }
}

fn own_run_id(options: &ProcessOptions, number: u64) -> Result<RunId, StartError> {
    RunId::new(format!("{}-{number}", options.child_name())).map_err(|error| {
        StartError::new(
            StartErrorKind::InvalidInput,
            "the name is too long to be numbered",
        )
        .with_source(error)
    })
}

fn working_directory(options: &ProcessOptions, root: &Path) -> Result<PathBuf, StartError> {
    let cwd = match &options.cwd {
        Some(cwd) => root.join(cwd),
        None => root.to_owned(),
    };
    // An empty root is the host's own directory.
    let cwd = if cwd.as_os_str().is_empty() {
        PathBuf::from(".")
    } else {
        cwd
    };
    std::path::absolute(&cwd).map_err(|error| {
        StartError::new(
            StartErrorKind::InvalidInput,
            "the working directory is unknown",
        )
        .with_context("cwd", cwd.display())
        .with_source(error)
    })
}

/// The child's whole environment: what was inherited by name, then the options', then the input's.
fn environment(
    options: &ProcessOptions,
    input: &BTreeMap<String, String>,
) -> Result<BTreeMap<OsString, OsString>, StartError> {
    if let Some((name, _)) = input
        .iter()
        .find(|(name, value)| !is_variable_name(name) || value.contains('\0'))
    {
        return Err(StartError::new(
            StartErrorKind::InvalidInput,
            "a variable of the start input has a bad name or a NUL byte in its value",
        )
        .with_context("variable", name.escape_debug()));
    }
    let mut env = BTreeMap::new();
    if options.inherit_all {
        env.extend(std::env::vars_os());
    }
    for name in &options.inherit {
        env.extend(std::env::var_os(name).map(|value| (name.into(), value)));
    }
    let given = options.env.iter().chain(input);
    env.extend(given.map(|(name, value)| (name.into(), value.into())));
    Ok(env)
}

/// One run. Dropping the last handle of it stops it.
#[derive(Debug)]
struct ProcessRun {
    runtime: Arc<Shared>,
    /// What to start again; none once it was.
    wanted: Mutex<Option<Wanted>>,
    run_id: RunId,
    facts: Details,
    hub: Arc<Hub>,
    control: Arc<Control>,
}

impl ProcessRun {
    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn wanted(&self) -> MutexGuard<'_, Option<Wanted>> {
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_been_restarted(&self) -> StartError {
        StartError::new(
            StartErrorKind::InvalidInput,
            "this run has been restarted before; restart the one that took its place",
        )
        .with_context("run", &self.run_id)
    }

    async fn stop_with(&self, level: StopLevel) -> Result<(), AdapterError> {
        match self.control.stop(level).await {
            Ending::Ended => Ok(()),
            Ending::Failed => Err(AdapterError::new(
                AdapterErrorKind::TimedOut,
                "the run could not be stopped and still lives",
            )
            .with_context("run", &self.run_id)),
            Ending::Abandoned => Err(AdapterError::new(
                AdapterErrorKind::Closed,
                "the supervisor of the run is gone, as with its tokio runtime; its group was killed",
            )
            .with_context("run", &self.run_id)),
        }
    }
}

#[async_trait]
impl RunHandle for ProcessRun {
    fn run_id(&self) -> &RunId {
        &self.run_id
    }

    fn status(&self) -> RunStatus {
        self.hub.status()
    }

    fn facts(&self) -> Details {
        self.facts.clone()
    }

    fn subscribe(&self) -> RunEventStream {
        self.hub.subscribe()
    }

    async fn stop(&self) -> Result<(), AdapterError> {
        self.stop_with(StopLevel::Graceful).await
    }

    async fn kill(&self) -> Result<(), AdapterError> {
        self.stop_with(StopLevel::Now).await
    }

    async fn restart(&self) -> Result<Arc<dyn RunHandle>, StartError> {
        if self.wanted().is_none() {
            return Err(self.has_been_restarted());
        }
        if let Err(error) = self.stop().await {
            return Err(StartError::new(
                StartErrorKind::Other,
                "the run could not be stopped, so the next one was not started",
            )
            .with_source(error));
        }
        // Held until the next one runs: of two who restart it, one starts it.
        let mut wanted = self.wanted();
        let again = wanted.clone().ok_or_else(|| self.has_been_restarted())?;
        let next = self.runtime.start(again, None, None)?;
        *wanted = None;
        Ok(next)
    }
}

impl Drop for ProcessRun {
    fn drop(&mut self) {
        self.control.ask(StopLevel::Graceful);
    }
}
