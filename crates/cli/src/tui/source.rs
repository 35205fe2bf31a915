//! From the host's view to what the table shows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use headcount::projector::Record;
use headcount::{ChildView, View};
use headcount_contract::{ChildState, Details, EventKind, Outcome, Timestamp};

use serde_json::Value;

use super::draw::Fact;
use super::model::Key;
use super::model::{AdapterRow, ChildRow, Doubt, Model};
use crate::output::facts as end_facts;
use crate::text::{fit, run_name, visible};
use crate::value;

pub(super) fn model(view: &View, now: Timestamp) -> Model {
    let children = view.children().map(|child| row(child)).collect();
    let adapters = view
        .adapters()
        .iter()
        .map(|adapter| AdapterRow {
            source: adapter.source.to_string(),
            status: adapter.health.status,
            message: adapter.health.message.clone(),
        })
        .collect();
    Model {
        now,
        children,
        adapters,
    }
}

fn row(child: &ChildView) -> ChildRow {
    let record = &child.record;
    let lineage = record.lineage.as_ref();
    ChildRow {
        key: (record.source.clone(), record.child_id.clone()),
        parent: lineage.and_then(|lineage| lineage.parent().cloned()),
        attempt: lineage.map_or(0, headcount_contract::Lineage::attempt),
        external: lineage.is_some_and(headcount_contract::Lineage::is_external),
        state: record.state,
        doubt: doubt(child),
        first_seen: record.first_observed_at,
        since: record.state_since,
        activity: record
            .last_activity
            .as_ref()
            .zip(record.last_activity_at)
            .map(|(activity, at)| (activity.as_str().to_owned(), at)),
        last_line: child.last_line.as_ref().map(|line| line.text.to_string()),
        usage: child.usage,
        can_cancel: child.cancellable,
    }
}

fn doubt(child: &ChildView) -> Option<Doubt> {
    let record = &child.record;
    match &record.terminal {
        Some(terminal) => is_suspect(&terminal.details).then_some(Doubt::Suspect),
        None if record.stale || child.stale_unknown => Some(Doubt::Stale),
        None if record.unproven => Some(Doubt::Unproven),
        None => None,
    }
}

/// Looked for in the text first: this is asked for every ended child of every frame.
fn is_suspect(details: &Details) -> bool {
    details.as_json().contains("outcomeSuspect")
        && details.get("outcomeSuspect") == Some(Value::Bool(true))
}

/// What is known of the selected child, and how; `headcount explain` says it in full.
pub(super) fn facts(host: &headcount::Host, selected: Option<&Key>, now: Timestamp) -> Vec<Fact> {
    let explanation = selected.and_then(|(source, child)| host.explain(source, child));
    let Some(explanation) = explanation else {
        return Vec::new();
    };
    let why = selected
        .and_then(|(source, child)| {
            host.view()
                .child(source, child)
                .map(|child| why(&child.record))
        })
        .unwrap_or_default();
    let why = (!why.is_empty()).then(|| Fact {
        name: "why".to_owned(),
        value: why.join(", "),
        basis: String::new(),
    });
    let ago = |at: Timestamp| format!("{} ago", value::human(now.saturating_since(at)));
    let known = explanation.facts.into_iter().map(|fact| {
        let basis = match (fact.set_by, fact.because) {
            (Some(by), _) => format!("{} {}", by.kind, ago(by.received_at)),
            (None, Some(why)) => why.to_owned(),
            (None, None) => String::new(),
        };
        Fact {
            name: fact.name.to_owned(),
            value: in_words(&fact.value, ago),
            basis,
        }
    });
    // What a person looks for first.
    why.into_iter().chain(known).collect()
}

/// A value for a person: times as ages, objects as their members.
fn in_words(value: &Value, ago: impl Fn(Timestamp) -> String + Copy) -> String {
    match value {
        Value::String(text) => text.parse().map_or_else(|_| text.clone(), ago),
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| format!("{key} {}", in_words(value, ago)));
            members.collect::<Vec<_>>().join(", ")
        }
        value => value.to_string(),
    }
}

/// How a child ended, in the words of the plain output; nothing of one that lives.
fn why(record: &Record) -> Vec<String> {
    record.terminal.as_ref().map_or_else(Vec::new, |terminal| {
        end_facts(EventKind::Terminal(terminal.outcome), &terminal.details)
    })
}

/// What is said of the children once the terminal is given back. What the journal tells of other
/// sessions was shown, and is not how this one went.
pub(super) fn farewell(view: &View) -> Vec<String> {
    let children = view.sorted().into_iter();
    let own = children.filter(|child| !view.is_history(child));
    said(own.map(|child| (child.state(), in_lines(child))).collect())
}

/// Who failed comes first, and what is not said one by one is counted.
fn said(mut children: Vec<(ChildState, Vec<String>)>) -> Vec<String> {
    const SAID: usize = 50;
    children.sort_by_key(|(state, _)| Reverse(worry(*state)));
    let rest = children.split_off(children.len().min(SAID));
    let mut lines: Vec<String> = children.into_iter().flat_map(|(_, lines)| lines).collect();
    if !rest.is_empty() {
        let mut counts = BTreeMap::<_, usize>::new();
        for (state, _) in &rest {
            *counts.entry(state.to_string()).or_default() += 1;
        }
        let counts: Vec<_> = counts
            .iter()
            .map(|(state, n)| format!("{n} {state}"))
            .collect();
        lines.push(format!("and {} more: {}", rest.len(), counts.join(", ")));
    }
    lines
}

/// How much a person has to look at it.
fn worry(state: ChildState) -> u8 {
    match state {
        ChildState::Terminal(Outcome::Failed) => 4,
        ChildState::Terminal(Outcome::Lost) => 3,
        state if !state.is_terminal() => 2,
        ChildState::Terminal(Outcome::Cancelled) => 1,
        _ => 0,
    }
}

/// How a child stands, and of one that failed what it said last: the table has taken the rest.
fn in_lines(child: &ChildView) -> Vec<String> {
    let row = row(child);
    let lasted = value::human(child.record.observed_at.saturating_since(row.first_seen));
    let id = visible(run_name(row.key.1.as_str())).into_owned();
    let mut words = vec![format!("{id}: {}", row.state_words())];
    words.extend(why(&child.record));
    words.push(format!("after {lasted}"));
    let mut lines = vec![words.join(", ")];
    if worry(row.state) > 2
        && let Some(last) = &child.last_line
        && !last.text.trim().is_empty()
    {
        lines.push(format!(
            "  its last line: {}",
            fit(&visible(&last.text), LAST_LINE)
        ));
    }
    lines
}

/// How much of a last line is said.
const LAST_LINE: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_failed_is_said_first_and_the_rest_is_counted() {
        let child = |n: usize, state: ChildState| (state, vec![format!("{n} {state}")]);
        let ended = |outcome| ChildState::Terminal(outcome);
        let mut children: Vec<_> = (0..60)
            .map(|n| child(n, ended(Outcome::Completed)))
            .collect();
        children.push(child(60, ChildState::RUNNING));
        children.push(child(61, ended(Outcome::Cancelled)));
        children.push(child(62, ended(Outcome::Lost)));
        children.push(child(63, ended(Outcome::Failed)));
        let lines = said(children);
        assert_eq!(
            lines[..5],
            [
                "63 failed",
                "62 lost",
                "60 running",
                "61 cancelled",
                "0 completed"
            ]
        );
        assert_eq!(lines.len(), 51);
        assert_eq!(lines[50], "and 14 more: 14 completed");
        assert_eq!(said(vec![child(1, ended(Outcome::Failed))]), ["1 failed"]);
    }
}
