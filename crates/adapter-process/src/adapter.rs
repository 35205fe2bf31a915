//! The lifecycle adapter of one supervised command.

use std::sync::Arc;
use std::time::SystemTime;

use headcount_adapter_kit::{
    Announce, HealthCell, RunPlan, RuntimeAdapter, Told, config_object, new_epoch,
};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterRegistration, AdapterSpec, Capabilities, Capability,
    ChildLifecycleAdapter, Health, HealthStatus, RunEvent, RunId, SequenceScope, SourceId,
    SourceIdentity, SourceRole, StartErrorKind, StartInput,
};
use serde_json::{Value, json};

use crate::config::Orphan;
use crate::os::Pressure;
use crate::{ProcessOptions, ProcessRuntime};

/// What is verified of every child that we start ourselves.
const CAPABILITIES: Capabilities = Capabilities {
    history: Capability::Known,
    heartbeat: Capability::Known,
    snapshot: Capability::Known,
    cancel: Capability::Known,
    terminal_cause: Capability::Known,
};

/// The kind `process`: starts one command at the first subscription and supervises it.
pub static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "process",
    summary: "starts a command and supervises it",
    provided_by: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")),
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: CAPABILITIES,
    config_schema,
    example_config,
    build,
};

fn config_schema() -> Value {
    schemars::schema_for!(ProcessOptions).to_value()
}

fn example_config() -> Value {
    json!({
        "command": "cargo",
        "args": ["build"],
        "inherit": ["PATH", "HOME"],
        "grace": "5s",
    })
}

fn build(spec: AdapterSpec) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
    let options = ProcessOptions::read(&config_object(spec.config)?)?;
    let adapter = adapter(options, spec.source)?;
    Ok(Arc::new(adapter))
}

/// An adapter that starts the command of these options when it is first subscribed to, in the
/// host's working directory unless the options name one.
///
/// ```
/// use headcount_adapter_process::{ProcessOptions, adapter};
/// let adapter = adapter(ProcessOptions::new("cargo"), None)?;
/// # Ok::<(), headcount_contract::AdapterError>(())
/// ```
///
/// # Errors
///
/// As [`ProcessOptions::check`].
pub fn adapter(
    options: ProcessOptions,
    source: Option<SourceId>,
) -> Result<RuntimeAdapter, AdapterError> {
    let name = options.child_name();
    let source = match source {
        Some(source) => source,
        None => SourceId::new(format!("process:{name}")).map_err(|error| {
            AdapterError::new(AdapterErrorKind::InvalidConfig, "the name is too long")
                .with_context("key", "name")
                .with_source(error)
        })?,
    };
    let mut capabilities = CAPABILITIES;
    if options.heartbeat_interval.is_zero() {
        capabilities.heartbeat = Capability::Unknown;
    }
    let health = limitations(&options);
    let mut restarts = options.restart.clone().decide(fastrand::f64);
    let runtime = Arc::new(ProcessRuntime::new(options)?);
    let identity = SourceIdentity::new(source, new_epoch(SystemTime::now().into()));
    let run_id = RunId::new(one_run(&name)).ok();
    let plan = RunPlan::once(move || {
        let mut input = StartInput::new("");
        input.run_id.clone_from(&run_id);
        input
    })
    .restarting(move |ended| restarts.next(ended));
    Ok(RuntimeAdapter::builder(runtime, identity)
        .capabilities(capabilities)
        .health(health)
        .judge(judge)
        .announce(Announce::Started)
        .plan(plan)
        .build())
}

/// The name of one run of a command of that name. A source outlives the program that runs it, in
/// its journal, and there a child is one run (rule I2).
fn one_run(name: &str) -> String {
    format!("{name}-{:010x}", fastrand::u64(..1 << 40))
}

/// What can never be told or done with these options on this system.
fn limitations(options: &ProcessOptions) -> Health {
    let mut health = Health::default()
        .with_limitation("a process that leaves its group is told of, and not reached by a stop");
    if options.orphan == Orphan::Terminate {
        health = health.with_limitation(if cfg!(target_os = "linux") {
            "if the host dies, the process itself is ended and the rest of its group is not"
        } else {
            "if the host dies, the process goes on: this system ends no children"
        });
    }
    if !cfg!(target_os = "linux") {
        health = health.with_limitation("this system tells neither start ticks nor boot id");
    }
    if cfg!(any(not(unix), headcount_portable)) {
        health = health
            .with_limitation("a stop kills the process at once, and not what it has started")
            .with_limitation("what the process has started is neither seen nor measured");
    }
    health
}

/// What the runtime tells that says something about the adapter itself.
fn judge(told: &Told<'_>, health: &HealthCell) {
    match told {
        Told::StartFailed(error) if error.kind() == StartErrorKind::Exhausted => {
            health.set(HealthStatus::Degraded, format!("{EXHAUSTED}: {error}"));
        }
        Told::Event(RunEvent::Status(change)) => {
            if let Some(Value::Array(left)) = change.details.get("leftovers") {
                health.count("leftovers", left.len() as u64);
            }
            judge_pressure(health);
        }
        Told::Event(RunEvent::Error { details, .. }) => {
            if let Some(Value::Array(escaped)) = details.get("escaped") {
                health.count("escaped", escaped.len() as u64);
            }
        }
        Told::Event(RunEvent::Heartbeat(_)) => judge_pressure(health),
        _ => {}
    }
}

/// How the messages begin that are taken back once there is room again.
const EXHAUSTED: &str = "the system has nearly no more to give";

fn judge_pressure(health: &HealthCell) {
    let pressure = Pressure::now();
    health.gauge("unreaped", pressure.unreaped as u64);
    health.gauge("open_files", pressure.files.used);
    health.gauge("processes", pressure.processes.used);
    let tight = [
        ("open files", pressure.files),
        ("processes", pressure.processes),
    ]
    .into_iter()
    .find(|(_, of)| of.is_tight());
    let present = health.get();
    if let Some((what, of)) = tight {
        let message = format!("{EXHAUSTED}: {} of {} {what}", of.used, of.limit);
        health.set(HealthStatus::Degraded, message);
    } else if present
        .message
        .is_some_and(|message| message.starts_with(EXHAUSTED))
    {
        health.healthy();
    }
}
