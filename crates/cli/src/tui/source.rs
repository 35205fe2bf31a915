//! From the host's view to what the table shows.

use headcount::{ChildView, View};
use headcount_contract::{Details, Timestamp};

use serde_json::Value;

use super::draw::Fact;
use super::model::Key;
use super::model::{AdapterRow, ChildRow, Doubt, Model};
use crate::text::{run_name, visible};
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
    let ago = |at: Timestamp| format!("{} ago", value::human(now.saturating_since(at)));
    explanation
        .facts
        .into_iter()
        .map(|fact| {
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
        })
        .collect()
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

/// How a child stands, in a line.
pub(super) fn in_a_line(child: &ChildView) -> String {
    let row = row(child);
    let lasted = value::human(child.record.observed_at.saturating_since(row.first_seen));
    let id = visible(run_name(row.key.1.as_str())).into_owned();
    format!("{id}: {}, after {lasted}", row.state_words())
}
