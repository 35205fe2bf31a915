//! `headcount list`, `wait`, `explain`: what a journal says.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use headcount::History;
use headcount::projector::{Record, Settings};
use headcount_contract::{ChildId, ChildState, Lineage};

use crate::args::{Common, Explain, List, Output, Wait};
use crate::commands::journal_path;
use crate::exit::{Exit, Failure};
use crate::text::{fit, run_name, visible};
use crate::{term, value};

/// Between two looks at a journal that others append to.
const LOOK: Duration = Duration::from_millis(100);

fn read(path: &Path) -> Result<History, Failure> {
    let now = SystemTime::now().into();
    History::read(path, Settings::default(), now).map_err(Failure::usage)
}

pub(super) fn list(common: &Common, list: &List) -> Result<Exit, Failure> {
    let history = read(journal_path(common)?)?;
    let mut records = history.records();
    if !list.state.is_empty() {
        records.retain(|record| list.state.contains(&record.state));
    }
    if common.output == Output::Json {
        term::lines([serde_json::to_string_pretty(&records).map_err(Failure::ours)?])?;
    } else {
        term::lines(table(&records))?;
    }
    sound(&history)
}

/// What stands after a fault in a journal is not known: that is told, and is no success.
fn sound(history: &History) -> Result<Exit, Failure> {
    match history.fault() {
        None => Ok(Exit::OK),
        Some(fault) => Err(Failure::negative(format_args!(
            "the journal was read up to its first fault: {fault}"
        ))
        .help("headcount journal verify FILE says more")),
    }
}

fn table(records: &[Record]) -> Vec<String> {
    if records.is_empty() {
        return vec!["no children".into()];
    }
    let now = SystemTime::now().into();
    let widest = |of: fn(&Record) -> String| {
        records
            .iter()
            .map(|r| of(r).chars().count())
            .max()
            .unwrap_or(0)
            .clamp(6, 40)
    };
    let source = |record: &Record| visible(record.source.as_str()).into_owned();
    let child = |record: &Record| visible(record.child_id.as_str()).into_owned();
    let (wide_source, wide_child) = (widest(source), widest(child));
    let row = |source: &str, child: &str, state: &str, age: &str, activity: &str| {
        let (source, child) = (fit(source, wide_source), fit(child, wide_child));
        let line = format!(
            "{source:wide_source$}  {child:wide_child$}  {state:<18}  {age:>7}  {activity}"
        );
        line.trim_end().to_owned()
    };
    let mut lines = vec![row("SOURCE", "CHILD", "STATE", "SINCE", "ACTIVITY")];
    lines.extend(records.iter().map(|record| {
        let activity = record
            .last_activity
            .as_ref()
            .map(|a| visible(a.as_str()).into_owned());
        let since = value::human(headcount_contract::Timestamp::saturating_since(
            now,
            record.state_since,
        ));
        row(
            &source(record),
            &child(record),
            &state(record),
            &since,
            &activity.unwrap_or_default(),
        )
    }));
    lines
}

fn state(record: &Record) -> String {
    match record.state {
        state if state.is_terminal() => state.to_string(),
        state if record.stale => format!("{state}, stale"),
        state if record.unproven => format!("{state}, unproven"),
        state => state.to_string(),
    }
}

pub(super) fn explain(common: &Common, explain: &Explain) -> Result<Exit, Failure> {
    let history = read(journal_path(common)?)?;
    let Some(record) = find(&history, &explain.child)? else {
        return Err(unknown(&history, &explain.child));
    };
    let Some(explanation) = history.explain(&record.source, &record.child_id) else {
        return Err(unknown(&history, &explain.child));
    };
    if common.output == Output::Json {
        term::lines([serde_json::to_string_pretty(&explanation).map_err(Failure::ours)?])?;
    } else {
        let text = explanation.to_string();
        term::lines(text.lines().map(visible))?;
    }
    sound(&history)
}

fn unknown(history: &History, child: &str) -> Failure {
    let known: Vec<_> = history.records().iter().take(8).map(name).collect();
    let failure = Failure::negative(format_args!("the journal knows no child {child:?}"));
    if known.is_empty() {
        failure.help("it is empty")
    } else {
        failure.help(format!("it knows {}", known.join(", ")))
    }
}

fn name(record: &Record) -> String {
    format!(
        "{}/{}",
        visible(record.source.as_str()),
        visible(record.child_id.as_str())
    )
}

/// The child of that name, which must be the only one: `CHILD`, or `SOURCE/CHILD`. The name of a
/// command that `run` or a fleet file started means its newest run.
fn find(history: &History, wanted: &str) -> Result<Option<Record>, Failure> {
    let mut found = ChildId::new(wanted)
        .map(|id| history.named(&id))
        .unwrap_or_default();
    // Both parts may hold slashes: every way to cut is tried.
    for (at, _) in wanted.match_indices('/') {
        let Ok(id) = ChildId::new(&wanted[at + 1..]) else {
            continue;
        };
        let of_source = |record: &Record| record.source.as_str() == &wanted[..at];
        found.extend(history.named(&id).into_iter().filter(of_source));
    }
    if found.len() > 1 {
        let names: Vec<_> = found.iter().map(name).collect();
        return Err(
            Failure::usage(format_args!("several children are called {wanted:?}"))
                .help(format!("one of {}", names.join(", "))),
        );
    }
    Ok(found.pop().or_else(|| newest_run(history, wanted)))
}

/// The newest of the runs that the process adapter made of one name.
fn newest_run(history: &History, name: &str) -> Option<Record> {
    let mut runs = history.records();
    runs.retain(|record| {
        let root = record
            .lineage
            .as_ref()
            .map_or(&record.child_id, Lineage::root);
        let root = root.as_str();
        run_name(root) == name && root != name
    });
    let attempt = |record: &Record| record.lineage.as_ref().map_or(0, Lineage::attempt);
    runs.into_iter()
        .max_by_key(|record| (record.first_observed_at, attempt(record)))
}

pub(super) fn wait(common: &Common, wait: &Wait) -> Result<Exit, Failure> {
    let path = journal_path(common)?;
    let deadline = wait
        .timeout
        .and_then(|timeout| Instant::now().checked_add(timeout));
    let mut history: Option<History> = None;
    // What keeps it waiting: told at once where a slip is likely, and at the end.
    let mut present = String::new();
    loop {
        match &mut history {
            Some(history) => history
                .refresh(SystemTime::now().into())
                .map_err(Failure::usage)?,
            // Whoever writes the journal may not have begun it yet.
            None if path.exists() || deadline.is_none() => history = Some(read(path)?),
            None => {}
        }
        let found = match &history {
            Some(history) => find(history, &wait.child)?,
            None => None,
        };
        if let Some(record) = &found
            && let Some(exit) = reached(common, wait, record)?
        {
            return Ok(exit);
        }
        if let Some(history) = &history {
            // Nothing will ever be read behind a fault.
            sound(history)?;
        }
        let was = std::mem::replace(
            &mut present,
            waits_for(path, history.as_ref(), found.as_ref()),
        );
        if was.is_empty() && found.is_none() {
            term::note(format_args!("waiting for {:?}: {present}", wait.child));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            term::note(format_args!(
                "timed out: {:?} did not reach {}: {present}",
                wait.child,
                names(&wait.state)
            ));
            return Ok(Exit::TIMED_OUT);
        }
        std::thread::sleep(left.map_or(LOOK, |left| left.min(LOOK)));
    }
}

fn waits_for(path: &Path, history: Option<&History>, found: Option<&Record>) -> String {
    let path = path.display();
    match (history, found) {
        (None, _) => format!("there is no journal {path} yet"),
        (Some(_), None) => format!("the journal {path} knows no such child yet"),
        (Some(_), Some(record)) => format!("it is {}", state(record)),
    }
}

fn reached(common: &Common, wait: &Wait, record: &Record) -> Result<Option<Exit>, Failure> {
    let exit = if wait.state.contains(&record.state) {
        Exit::OK
    } else if record.state.is_terminal() {
        Exit::NEGATIVE
    } else {
        return Ok(None);
    };
    if common.output == Output::Json {
        term::lines([serde_json::to_string(record).map_err(Failure::ours)?])?;
    } else {
        term::lines([format!("{}: {}", name(record), record.state)])?;
    }
    if exit == Exit::NEGATIVE {
        term::note(format_args!(
            "it has ended, and will not reach {}",
            names(&wait.state)
        ));
    }
    Ok(Some(exit))
}

fn names(states: &[ChildState]) -> String {
    states
        .iter()
        .map(|state| state.as_str())
        .collect::<Vec<_>>()
        .join(" or ")
}
