//! Processes that a shell of somebody else's starts, adopted by number, or by a matcher where they
//! are there first.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use headcount_adapter_external::{
    AdoptError, ExternalAdapter, ExternalConfig, Look, child_id, look,
};
use headcount_conformance::{Action, Actions, Ownership, Rig, RigError, Started};
use headcount_contract::{ChildId, ChildLifecycleAdapter, ChildState, async_trait};

/// Each child is a shell under another shell, which collects it when it ends.
#[derive(Debug)]
pub struct ExternalRig {
    /// Part of the command line of this rig's processes, and of no others.
    mark: String,
    adapter: Option<Arc<ExternalAdapter>>,
    running: Vec<Running>,
}

#[derive(Debug)]
struct Running {
    child: ChildId,
    parent: Child,
    stdin: Option<ChildStdin>,
}

impl Default for ExternalRig {
    fn default() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Self {
            mark: format!("headcount-rig-{}-{number}", std::process::id()),
            adapter: None,
            running: Vec::new(),
        }
    }
}

impl ExternalRig {
    /// Lets the process exit with the code that it is told.
    fn exit(&mut self, child: &ChildId, code: u8) -> Result<(), RigError> {
        let running = self.running.iter_mut().find(|r| r.child == *child);
        let running = running.ok_or("this rig did not start the child")?;
        let stdin = running.stdin.as_mut().ok_or("it was told already")?;
        writeln!(stdin, "{code}")?;
        running.stdin = None;
        Ok(())
    }
}

#[async_trait]
impl Rig for ExternalRig {
    fn actions(&self) -> Actions {
        const SEEN: [Action; 5] = [
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::Heartbeat,
            Action::AdapterAgain,
        ];
        const WITH_ENDS: [Action; 7] = [
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::Heartbeat,
            Action::AdapterAgain,
            Action::Finish,
            Action::Fail,
        ];
        // Where the system does not tell how others' children end, no end can be promised.
        let told = ExternalAdapter::builder()
            .build()
            .is_ok_and(|adapter| adapter.capabilities().terminal_cause.is_known());
        Actions::of(if told { &WITH_ENDS } else { &SEEN })
    }

    fn ownership(&self) -> Ownership {
        Ownership::External
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        self.adapter_again().await
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let config: ExternalConfig = serde_json::from_value(serde_json::json!({
            "match": [{ "name": "sh", "command_contains": self.mark, "own_descendants": "adopt" }],
            "scan_interval": "100ms",
            "heartbeat_interval": "100ms",
        }))?;
        let adapter = Arc::new(ExternalAdapter::builder().config(config).build()?);
        self.adapter = Some(adapter.clone());
        Ok(adapter)
    }

    fn release(&mut self) {
        self.adapter = None;
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        // The mark is only in what the inner shell executes: its parent has it in its environment.
        let mut parent = Command::new("sh")
            .args(["-c", r#"exec 3<&0; sh -c 'read code <&3; exit $code' "$MARK" & echo $!; exec 1>&-; wait"#])
            .env("MARK", &self.mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let stdin = parent.stdin.take();
        let mut first = String::new();
        let stdout = parent.stdout.take().ok_or("no output")?;
        BufReader::new(stdout).read_line(&mut first)?;
        let pid: u32 = first.trim().parse()?;
        // It becomes the program that fits only now.
        let command = format!("/proc/{pid}/cmdline");
        while !std::fs::read_to_string(&command).is_ok_and(|line| line.contains(&self.mark)) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let adapter = self.adapter.as_ref().ok_or("there is no adapter")?;
        let child = match adapter.adopt(i64::from(pid)).await {
            // By the matcher, a moment before.
            Ok(child) | Err(AdoptError::Adopted(child)) => child,
            // The matcher will find it.
            Err(AdoptError::NotOpen) => match look(pid) {
                Look::Lives(process) => child_id(&process),
                other => return Err(format!("the process does not live: {other:?}").into()),
            },
            Err(refused) => return Err(refused.into()),
        };
        self.running.push(Running {
            child: child.clone(),
            parent,
            stdin,
        });
        Ok(Started::new(child, ChildState::CREATED))
    }

    /// A process shows all the time that it lives.
    async fn heartbeat(&mut self, _: &ChildId) -> Result<(), RigError> {
        Ok(())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.exit(child, 0)?;
        Ok(ChildState::COMPLETED)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.exit(child, 3)?;
        Ok(ChildState::FAILED)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The end of its input ends the child, and that its parent.
        self.stdin = None;
        let _ = self.parent.wait();
    }
}
