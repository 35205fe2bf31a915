//! `headcount watch`, `tail`, `adopt`, `hermes`: everything else that runs live.

use std::path::Path;
use std::sync::Arc;

use headcount::{AdapterInfo, AdapterView, Fleet, Host, HostSettings, View};
use headcount_contract::{AdapterSpec, ChildState, HealthStatus, Outcome, SourceId};
use serde_json::{Value, json};

use crate::args::{Adopt, Common, Hermes, Tail, Watch};
use crate::commands::live::{self, Until};
use crate::exit::{Exit, Failure};
use crate::output::Form;
use crate::term;

pub(super) fn watch(common: &Common, watch: &Watch) -> Result<Exit, Failure> {
    let path = &watch.fleet;
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format_args!(
            "the fleet file {} cannot be read: {error}",
            path.display()
        ))
    })?;
    let registry = headcount::registry().map_err(Failure::ours)?;
    let fleet = Fleet::parse_with(&text, &registry)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))?;
    let view = live::show(Host::builder().fleet(fleet), common, Until::Idle)?;
    saw_something(&view, Failure::negative)?;
    Ok(all_completed(&view))
}

/// 0 if all children of this session completed, else 1.
fn all_completed(view: &View) -> Exit {
    let completed = ChildState::Terminal(Outcome::Completed);
    let bad = view.children().any(|child| {
        let state = child.state();
        state.is_terminal() && state != completed && !view.is_history(child)
    });
    if bad { Exit::NEGATIVE } else { Exit::OK }
}

pub(super) fn tail(common: &Common, tail: &Tail) -> Result<Exit, Failure> {
    // Only who follows may come before the writer.
    if !tail.follow && tail.file != Path::new("-") && !tail.file.exists() {
        let missing = format_args!("there is no file {}", tail.file.display());
        return Err(Failure::usage(missing).help("--follow waits for it"));
    }
    let mut config = json!({ "path": tail.file, "follow": tail.follow });
    if tail.follow && !tail.from_start {
        config["start"] = json!("end");
    }
    if let Some(pid) = tail.pid {
        config["pid"] = json!(pid);
    }
    let mut settings = HostSettings::default();
    settings.projector.scope = tail.scope.into();
    let builder = Host::builder()
        .adapter("jsonl", AdapterSpec::new(config))
        .settings(settings);
    let view = live::show(builder, common, Until::Finished)?;
    saw_something(&view, Failure::negative)?;
    Ok(Exit::OK)
}

pub(super) fn adopt(common: &Common, adopt: &Adopt) -> Result<Exit, Failure> {
    let matchers: Vec<Value> = adopt
        .matches
        .iter()
        .map(|name| json!({ "name": name }))
        .collect();
    let config = json!({ "pids": adopt.pids, "match": matchers });
    // Where nobody has that name yet, nothing else would be seen.
    if !adopt.matches.is_empty() && Form::of(common.output) == Form::Plain {
        term::note(format_args!(
            "every process named {} is adopted from now on; Ctrl-C ends",
            adopt.matches.join(" or ")
        ));
    }
    let builder = Host::builder().adapter("external", AdapterSpec::new(config));
    let view = live::show(builder, common, Until::Finished)?;
    if view.is_empty() && adopt.matches.is_empty() {
        let message = view
            .adapters()
            .iter()
            .find_map(|adapter| adapter.health.message.clone());
        return Err(Failure::negative(
            message.unwrap_or_else(|| "nothing was adopted".into()),
        ));
    }
    Ok(Exit::OK)
}

pub(super) fn hermes(common: &Common, hermes: &Hermes) -> Result<Exit, Failure> {
    if let Some(record) = &hermes.replay {
        return replay(common, record, hermes.final_list.as_deref());
    }
    let mut config = serde_json::Map::new();
    let mut set = |key: &str, value: Value| config.insert(key.to_owned(), value);
    if let Some(url) = &hermes.ws {
        set("ws", json!(url));
        if let Some(name) = &hermes.token_env {
            if std::env::var_os(name).is_none() {
                let wrong = format_args!("--token-env: there is no environment variable {name:?}");
                return Err(Failure::usage(wrong));
            }
            set("token_env", json!(name));
        }
        if let Some(file) = &hermes.ca_file {
            set("ca_file", json!(file));
        }
    } else {
        // A gateway that a person starts at a shell finds what that shell would give it; the
        // library never inherits by itself.
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        set("inherit", json!(names.collect::<Vec<_>>()));
        if !hermes.command.is_empty() {
            set("command", json!(hermes.command));
        }
    }
    if let Some(file) = &hermes.record {
        set("record", json!(file));
    }
    let builder = Host::builder().adapter("hermes", AdapterSpec::new(config.into()));
    let view = live::show(builder, common, Until::Idle)?;
    saw_something(&view, Failure::ours)?;
    Ok(Exit::OK)
}

/// Where every source is down for good, and none has ever shown a child, they say why.
fn saw_something(view: &View, failure: fn(String) -> Failure) -> Result<(), Failure> {
    let sources = || view.adapters().iter().filter(|adapter| !adapter.readopts);
    // A stream that was there and has ended is down as well; it had nothing to tell.
    let down = |adapter: &AdapterView| {
        let health = &adapter.health;
        health.status == HealthStatus::Down && !health.counts.contains_key("streams")
    };
    let shown = view.children().any(|child| !view.is_history(child));
    if shown || sources().next().is_none() || !sources().all(down) {
        return Ok(());
    }
    let several = sources().count() > 1;
    let why: Vec<_> = sources()
        .map(|adapter| {
            let message = adapter.health.message.as_deref();
            let message = message.unwrap_or("the source could not be observed");
            if several {
                format!("{}: {message}", adapter.source)
            } else {
                message.to_owned()
            }
        })
        .collect();
    Err(failure(why.join("\n")))
}

/// Plays a record to its end, and writes what each child is then, if that is asked for.
fn replay(common: &Common, record: &Path, final_list: Option<&Path>) -> Result<Exit, Failure> {
    let source = SourceId::new("hermes").map_err(Failure::ours)?;
    let adapter = headcount::hermes::replay::adapter(record, source).map_err(Failure::usage)?;
    let info = AdapterInfo::from(&headcount::hermes::REGISTRATION);
    let builder = Host::builder().adapter_value(info, Arc::new(adapter));
    let view = live::show(builder, common, Until::Finished)?;
    if let Some(path) = final_list {
        let records: Vec<_> = view
            .sorted()
            .into_iter()
            .map(|child| &child.record)
            .collect();
        let text = serde_json::to_string_pretty(&records).map_err(Failure::ours)?;
        std::fs::write(path, text + "\n").map_err(|error| {
            Failure::usage(format_args!(
                "{} cannot be written: {error}",
                path.display()
            ))
        })?;
    }
    Ok(Exit::OK)
}
