//! The lifecycle adapter of one supervised command.

use std::sync::Arc;
use std::time::SystemTime;

use headcount_adapter_kit::{Announce, RunPlan, RuntimeAdapter, new_epoch};
use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterRegistration, AdapterSpec, Capabilities, Capability,
    ChildLifecycleAdapter, RunId, SequenceScope, SourceId, SourceIdentity, SourceRole, StartInput,
};
use serde_json::{Value, json};

use crate::{ProcessOptions, ProcessRuntime};

/// What is verified of every child that we start ourselves.
const CAPABILITIES: Capabilities = Capabilities {
    history: Capability::Known,
    heartbeat: Capability::Unknown,
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
    let options: ProcessOptions = serde_json::from_value(spec.config)
        .map_err(|error| AdapterError::new(AdapterErrorKind::InvalidConfig, error.to_string()))?;
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
    let runtime = Arc::new(ProcessRuntime::new(options)?);
    let identity = SourceIdentity::new(source, new_epoch(SystemTime::now().into()));
    let run_id = RunId::new(name).ok();
    let plan = RunPlan::once(move || {
        let mut input = StartInput::new("");
        input.run_id.clone_from(&run_id);
        input
    });
    Ok(RuntimeAdapter::builder(runtime, identity)
        .capabilities(CAPABILITIES)
        .announce(Announce::Started)
        .plan(plan)
        .build())
}
