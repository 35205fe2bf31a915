//! `headcount run`: start one child, show it live, end with its exit code.

use std::sync::Arc;

use headcount::{ChildView, Host, View, duration};
use headcount_contract::{AdapterSpec, ChildState, Lineage, Outcome};
use serde_json::{Map, Value, json};

use crate::args::{Common, OnReadyTimeout, Restart, Run};
use crate::commands::live::{self, Until};
use crate::exit::{Exit, Failure};

pub(super) fn run(common: &Common, run: &Run) -> Result<Exit, Failure> {
    let config = Value::Object(config(run)?);
    let builder = Host::builder().adapter("process", AdapterSpec::new(config));
    let view = live::show(builder, common, Until::Idle)?;
    Ok(last_attempt(&view).map_or(Exit::OURS, |child| of_record(&child)))
}

/// The options as the process adapter's configuration.
fn config(run: &Run) -> Result<Map<String, Value>, Failure> {
    let mut config = Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    let Some((command, args)) = run.command.split_first() else {
        return Err(Failure::usage("no program was given").help("headcount run -- CMD ARG…"));
    };
    set("command", json!(command));
    set("args", json!(args));
    if let Some(name) = &run.name {
        set("name", json!(name));
    }
    let cwd = match &run.cwd {
        Some(cwd) if cwd.is_absolute() => cwd.clone(),
        cwd => {
            let here = std::env::current_dir().map_err(|error| {
                Failure::ours(format_args!("this directory cannot be had: {error}"))
                    .help("--cwd DIR names another, from the root")
            })?;
            cwd.as_ref()
                .map_or_else(|| here.clone(), |cwd| here.join(cwd))
        }
    };
    set("cwd", json!(cwd));
    if !run.env.is_empty() {
        let env: Map<_, _> = run.env.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        set("env", env.into());
    }
    // A person at a shell expects its environment; the library never inherits by itself.
    if run.clean_env {
        set("inherit", json!(run.inherit));
    } else {
        set("inherit_all", json!(true));
    }
    if let Some(signal) = &run.stop_signal {
        set("stop_signal", json!(signal));
    }
    if let Some(grace) = run.grace {
        set("grace", json!(duration::write(grace)));
    }
    if let Some(target) = &run.ready_http {
        let check = json!({ "http": { "port": target.port, "path": target.path } });
        let mut ready = json!({ "check": check });
        if let Some(timeout) = run.ready_timeout {
            ready["timeout"] = json!(duration::write(timeout));
        }
        if let Some(what) = run.on_ready_timeout {
            ready["on_timeout"] = json!(match what {
                OnReadyTimeout::Fail => "fail",
                OnReadyTimeout::Keep => "keep_starting",
            });
        }
        set("ready", ready);
    }
    if let Some(when) = run.restart {
        let when = match when {
            Restart::Never => "never",
            Restart::OnFailure => "on_failure",
            Restart::Always => "always",
        };
        set("restart", json!({ "when": when }));
    }
    if let Some(descriptor) = run.lifecycle_fd {
        set("lifecycle_fd", json!(descriptor));
    }
    Ok(config)
}

/// The last attempt of what was started now: no sub-child, and no earlier run that the journal
/// holds.
fn last_attempt(view: &View) -> Option<Arc<ChildView>> {
    let own = |child: &&Arc<ChildView>| {
        let lineage = child.record.lineage.as_ref();
        lineage.is_some_and(|lineage| lineage.parent().is_none()) && !view.is_history(child)
    };
    let attempt = |child: &&Arc<ChildView>| child.record.lineage.as_ref().map(Lineage::attempt);
    view.children().filter(own).max_by_key(attempt).cloned()
}

fn of_record(child: &ChildView) -> Exit {
    let details = child
        .record
        .terminal
        .as_ref()
        .map(|terminal| terminal.details.to_map());
    let details = details.unwrap_or_default();
    let number = |key: &str| details.get(key).and_then(Value::as_i64);
    let start_error = details.get("startError").and_then(Value::as_str);
    // We ended it, so how it then ended says nothing.
    if details.get("notReady") == Some(&Value::Bool(true)) {
        return Exit::TIMED_OUT;
    }
    match (number("exitCode"), number("signal"), start_error) {
        (Some(code), ..) => Exit::of_code(code),
        (None, Some(signal), _) => Exit::of_signal(signal),
        (None, None, Some("not-found")) => Exit::NOT_FOUND,
        (None, None, Some("not-executable")) => Exit::NOT_EXECUTABLE,
        _ if child.record.state == ChildState::Terminal(Outcome::Completed) => Exit::OK,
        _ => Exit::OURS,
    }
}
