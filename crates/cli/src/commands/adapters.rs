//! `headcount adapters`, `headcount schema`, `headcount completions`: what this program is.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;
use headcount_contract::{AdapterRegistration, Capabilities, Capability, SourceRole, schema};
use serde_json::{Value, json};

use crate::args::{Args, Common, Output, SchemaOf};
use crate::exit::{Exit, Failure};
use crate::term;

pub(super) fn adapters(common: &Common) -> Result<Exit, Failure> {
    let registry = headcount::registry().map_err(Failure::ours)?;
    if common.output == Output::Json {
        let all: Vec<_> = registry.iter().map(as_json).collect();
        term::lines([serde_json::to_string_pretty(&all).map_err(Failure::ours)?])?;
        return Ok(Exit::OK);
    }
    if registry.iter().len() == 0 {
        term::note("no adapter is linked into this program");
    }
    for adapter in registry.iter() {
        term::lines(describe(adapter))?;
    }
    Ok(Exit::OK)
}

fn describe(adapter: &AdapterRegistration) -> Vec<String> {
    let known = names(adapter.capabilities);
    let mut lines = vec![
        format!("{}", adapter.kind),
        format!("  {}", adapter.summary),
        format!("  provided by   {}", adapter.provided_by),
        format!("  role          {}", role(adapter)),
        format!(
            "  at best knows {}",
            if known.is_empty() {
                "nothing".into()
            } else {
                known.join(", ")
            }
        ),
    ];
    if let Value::Object(properties) = &(adapter.config_schema)()["properties"] {
        let keys: Vec<_> = properties.keys().map(String::as_str).collect();
        lines.push(format!("  keys          {}", keys.join(", ")));
    }
    lines
}

fn role(adapter: &AdapterRegistration) -> &'static str {
    match adapter.role {
        SourceRole::Own => "is one source",
        SourceRole::Carrier => "carries other sources",
    }
}

fn names(capabilities: Capabilities) -> Vec<&'static str> {
    [
        (capabilities.history, "history"),
        (capabilities.heartbeat, "heartbeat"),
        (capabilities.snapshot, "snapshot"),
        (capabilities.cancel, "cancel"),
        (capabilities.terminal_cause, "terminal cause"),
    ]
    .into_iter()
    .filter_map(|(capability, name)| (capability == Capability::Known).then_some(name))
    .collect()
}

fn as_json(adapter: &'static AdapterRegistration) -> Value {
    json!({
        "kind": adapter.kind,
        "summary": adapter.summary,
        "providedBy": adapter.provided_by,
        "role": match adapter.role { SourceRole::Own => "own", SourceRole::Carrier => "carrier" },
        "sequenceScope": adapter.sequence_scope,
        "capabilities": adapter.capabilities,
        "configSchema": (adapter.config_schema)(),
        "exampleConfig": (adapter.example_config)(),
    })
}

pub(super) fn print_schema(of: SchemaOf) -> Result<Exit, Failure> {
    let schema = match of {
        SchemaOf::Event => schema::event().to_value(),
        SchemaOf::Snapshot => schema::snapshot().to_value(),
        SchemaOf::Fleet => headcount::Fleet::schema(&headcount::registry().map_err(Failure::ours)?),
    };
    term::lines([serde_json::to_string_pretty(&schema).map_err(Failure::ours)?])?;
    Ok(Exit::OK)
}

pub(super) fn completions(shell: Shell) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "headcount", &mut script);
    let mut out = std::io::stdout().lock();
    out.write_all(&script)?;
    out.flush()?;
    Ok(Exit::OK)
}
