//! The process adapter: each child is a shell that does what it is told through a FIFO.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headcount_adapter_kit::RuntimeAdapter;
use headcount_adapter_process::{ProcessOptions, ProcessRuntime, adapter};
use headcount_conformance::{Action, Actions, Rig, RigError, RunAction, RuntimeRig, Started};
use headcount_contract::{
    AgentRuntime, ChildId, ChildLifecycleAdapter, ChildState, OutputStream, RunHandle, RunId,
    SnapshotChild, SnapshotReason, StartInput, async_trait,
};

/// Obeys one order a line until it is told to end. The FIFO is opened for both, so that its reader
/// never sees an end.
const OBEY: &str = r#"
exec 3<>"$ORDERS"
: >"$ORDERS.up"
while IFS= read -r order <&3; do
    case $order in
        finish) exit 0 ;;
        fail) exit 3 ;;
        crash) kill -KILL $$ ;;
        ignore) trap '' TERM ;;
        flood*) seq 1 "${order#flood }" ;;
        stdout*) printf '%s\n' "${order#stdout }" ;;
        stderr*) printf '%s\n' "${order#stderr }" >&2 ;;
    esac
    : >"$ORDERS.done"
done
"#;

/// How long a shell may take to obey; it decides nothing but when a rig gives up.
const PATIENCE: Duration = Duration::from_secs(15);

/// A folder with one FIFO a child.
#[derive(Debug)]
struct Orders {
    folder: tempfile::TempDir,
    made: usize,
}

impl Orders {
    fn new() -> Result<Self, RigError> {
        let folder = tempfile::tempdir()?;
        Ok(Self { folder, made: 0 })
    }

    /// A new FIFO.
    fn make(&mut self) -> Result<PathBuf, RigError> {
        self.made += 1;
        let path = self.folder.path().join(format!("orders-{}", self.made));
        let made = std::process::Command::new("mkfifo").arg(&path).status()?;
        if made.success() {
            Ok(path)
        } else {
            Err(format!("mkfifo ended with {made}").into())
        }
    }
}

/// Gives an order, and returns when it has been obeyed; an order to end is obeyed when it is read.
async fn give(fifo: &Path, order: &str) -> Result<(), RigError> {
    appears(&fifo.with_extension("up")).await?;
    let done = fifo.with_extension("done");
    // Not there before the first order.
    let _ = std::fs::remove_file(&done);
    let mut orders = OpenOptions::new().read(true).write(true).open(fifo)?;
    writeln!(orders, "{order}")?;
    if !matches!(order, "finish" | "fail" | "crash") {
        appears(&done).await?;
    }
    Ok(())
}

async fn appears(path: &Path) -> Result<(), RigError> {
    let wait = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    waited.map_err(|_| {
        format!(
            "the child did not obey within {PATIENCE:?}: {}",
            path.display()
        )
        .into()
    })
}

/// The child that the adapter has started by itself, whose id the adapter chose.
async fn planned(adapter: &RuntimeAdapter) -> Result<ChildId, RigError> {
    // It may obey before the adapter has told of it.
    let told = async {
        loop {
            for snapshot in adapter.snapshot(SnapshotReason::Periodic).await? {
                let mut ids = snapshot.children().iter().map(SnapshotChild::id);
                if let Some(id) = ids.find(|id| id.as_str().starts_with("planned-")) {
                    return Ok(id.clone());
                }
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.map_err(|_| "the planned child is not in the snapshot")?
}

fn options() -> ProcessOptions {
    let mut options = ProcessOptions::new("sh");
    options.args = vec!["-c".into(), OBEY.into()];
    options.inherit = vec!["PATH".into()];
    // Long enough that a child which ignores the signal outlives its case.
    options.grace = Duration::from_secs(30);
    options.heartbeat_interval = Duration::from_millis(100);
    options
}

/// The adapter, with the child of its own plan and those that are started beside it.
#[derive(Debug, Default)]
pub struct ProcessRig {
    orders: Option<Orders>,
    fifos: HashMap<ChildId, PathBuf>,
    /// The FIFO of the child that the adapter starts by itself, until it was given out.
    planned: Option<PathBuf>,
    adapter: Option<Arc<RuntimeAdapter>>,
}

impl ProcessRig {
    fn fifo(&self, child: &ChildId) -> Result<&Path, RigError> {
        let fifo = self.fifos.get(child);
        Ok(fifo.ok_or_else(|| format!("{child} was not started here"))?)
    }
}

#[async_trait]
impl Rig for ProcessRig {
    fn actions(&self) -> Actions {
        Actions::of(&[
            Action::StartChild,
            Action::StartSeveral,
            Action::Flood,
            Action::Finish,
            Action::Fail,
            Action::IgnoreCancel,
        ])
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let mut orders = Orders::new()?;
        let fifo = orders.make()?;
        let mut options = options();
        options.name = Some("planned".into());
        options
            .env
            .insert("ORDERS".into(), fifo.display().to_string());
        let adapter = Arc::new(adapter(options, None)?);
        self.planned = Some(fifo);
        self.orders = Some(orders);
        self.adapter = Some(adapter.clone());
        Ok(adapter)
    }

    fn release(&mut self) {
        self.adapter = None;
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        // The first subscription has started the planned one.
        let adapter = self.adapter.clone().ok_or("there is no adapter")?;
        let (child, fifo) = if let Some(fifo) = self.planned.take() {
            appears(&fifo.with_extension("up")).await?;
            (planned(&adapter).await?, fifo)
        } else {
            let orders = self.orders.as_mut().ok_or("there is no adapter")?;
            let fifo = orders.make()?;
            let mut input = StartInput::new("");
            input
                .env
                .insert("ORDERS".into(), fifo.display().to_string());
            (adapter.start(input).await?, fifo)
        };
        appears(&fifo.with_extension("up")).await?;
        self.fifos.insert(child.clone(), fifo);
        Ok(Started::new(child, ChildState::RUNNING))
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        give(self.fifo(child)?, &format!("flood {count}")).await
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        give(self.fifo(child)?, "finish").await?;
        Ok(ChildState::COMPLETED)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        give(self.fifo(child)?, "fail").await?;
        Ok(ChildState::FAILED)
    }

    async fn ignore_cancel(&mut self, child: &ChildId) -> Result<(), RigError> {
        give(self.fifo(child)?, "ignore").await
    }
}

/// The process runtime by itself.
#[derive(Debug, Default)]
pub struct ProcessRuntimeRig {
    orders: Option<Orders>,
}

impl ProcessRuntimeRig {
    fn fifo(&self, run: &RunId) -> Result<PathBuf, RigError> {
        let orders = self.orders.as_ref().ok_or("there is no runtime")?;
        Ok(orders.folder.path().join(run.as_str()))
    }
}

#[async_trait]
impl RuntimeRig for ProcessRuntimeRig {
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
        self.orders = Some(Orders::new()?);
        Ok(Arc::new(ProcessRuntime::new(options())?))
    }

    fn input(&mut self) -> StartInput {
        let mut input = StartInput::new("");
        let made = self.orders.as_mut().map(Orders::make);
        if let Some(Ok(fifo)) = made {
            // A run is named after its FIFO, so that it can be found by its handle.
            let name = fifo
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            input.run_id = RunId::new(name).ok();
            input
                .env
                .insert("ORDERS".into(), fifo.display().to_string());
        }
        input
    }

    async fn log(
        &mut self,
        run: &dyn RunHandle,
        stream: OutputStream,
        line: &str,
    ) -> Result<(), RigError> {
        give(
            &self.fifo(run.run_id())?,
            &format!("{} {line}", stream.as_str()),
        )
        .await
    }

    async fn finish(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        give(&self.fifo(run.run_id())?, "finish").await
    }

    async fn crash(&mut self, run: &dyn RunHandle) -> Result<(), RigError> {
        give(&self.fifo(run.run_id())?, "crash").await
    }

    async fn failing_input(&mut self) -> Result<StartInput, RigError> {
        let mut input = self.input();
        input.project_root = "/there/is/no/such/folder".into();
        Ok(input)
    }

    /// Processes whose environment names this rig's folder, zombies excepted.
    async fn leftovers(&mut self) -> Result<usize, RigError> {
        let orders = self.orders.as_ref().ok_or("there is no runtime")?;
        let mark = orders.folder.path().as_os_str().as_encoded_bytes().to_vec();
        let mut left = 0;
        for entry in std::fs::read_dir("/proc")? {
            // Those that end while we look, and other users', cannot be read; the environment of a
            // zombie is empty.
            if let Ok(environ) = std::fs::read(entry?.path().join("environ"))
                && environ.windows(mark.len()).any(|part| part == mark)
            {
                left += 1;
            }
        }
        Ok(left)
    }
}
