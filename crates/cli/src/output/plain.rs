//! A line for each thing that happens, for people and logs.

use std::fmt::Write as _;

use headcount_contract::{
    ChildId, ChildState, Details, EventKind, LifecycleEvent, LogBatch, Timestamp,
};
use serde_json::Value;

use crate::text::{fit, plain, run_name, visible};
use crate::value;

/// How wide the column of names is.
const NAME: usize = 18;

/// Writes lines with the time since the first of them.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    began: Option<Timestamp>,
    last: Option<Timestamp>,
}

impl Plain {
    /// An event as a line; nothing for a heartbeat, which says only that nothing is wrong.
    pub(crate) fn event(&mut self, event: &LifecycleEvent) -> Option<String> {
        let what = match event.kind() {
            EventKind::Heartbeat => return None,
            EventKind::Created => "created".to_owned(),
            EventKind::StateChanged(state) => state.as_str().to_owned(),
            EventKind::Terminal(outcome) => outcome.to_string(),
            EventKind::Activity => "activity".to_owned(),
            EventKind::Reconciliation(Some(state)) => format!("corrected to {state}"),
            EventKind::Reconciliation(None) => "reconciled".to_owned(),
            EventKind::Diagnostic(_) => "note".to_owned(),
        };
        let mut facts = facts(event.kind(), event.details());
        if let Some(activity) = event.activity() {
            facts.insert(0, visible(activity.as_str()).into_owned());
        }
        if event.lineage().attempt() > 0 && event.kind() == EventKind::Created {
            facts.push(format!(
                "attempt {} of {}",
                event.lineage().attempt() + 1,
                visible(event.lineage().root().as_str())
            ));
        }
        let line = self.line(event.child_id(), event.observed_at(), &what);
        Some(if facts.is_empty() {
            line
        } else {
            format!("{line:<47}  {}", facts.join(", "))
        })
    }

    /// Output as a line each, with its stream.
    pub(crate) fn output(&mut self, child: &ChildId, batch: &LogBatch) -> Vec<String> {
        let stream = &batch.stream().as_str()[3..];
        let head = self.line(child, batch.timestamp(), stream);
        batch
            .lines()
            .map(|line| {
                let cut = if line.truncated { " [cut]" } else { "" };
                format!("{head} | {}{cut}", plain(line.text))
            })
            .collect()
    }

    /// Lines that were not kept.
    pub(crate) fn missed(&self, child: &ChildId, lines: u64) -> String {
        let why = "they came faster than they could be written";
        self.remark(
            child.as_str(),
            "",
            &format!("{lines} lines not shown: {why}"),
        )
    }

    /// Something about a source or ourselves, at the time of the last line.
    pub(crate) fn remark(&self, of: &str, what: &str, text: &str) -> String {
        let at = self.last.unwrap_or(Timestamp::UNIX_EPOCH);
        let space = if what.is_empty() { "" } else { ": " };
        format!(
            "{}{space}{}",
            self.head(of, at, &format!("note  {what}")),
            visible(text)
        )
    }

    fn line(&mut self, child: &ChildId, at: Timestamp, what: &str) -> String {
        self.began.get_or_insert(at);
        self.last = self.last.max(Some(at));
        self.head(child.as_str(), at, what)
    }

    fn head(&self, name: &str, at: Timestamp, what: &str) -> String {
        let elapsed = self
            .began
            .map_or(0.0, |began| at.saturating_since(began).as_secs_f64());
        let name = visible(run_name(name));
        let name = fit(&name, NAME);
        format!("{elapsed:>8.3}s  {name:<NAME$}  {what}")
    }
}

/// The command of a process, as its adapter has redacted it, or its name.
fn program(details: &serde_json::Map<String, Value>) -> Option<String> {
    /// Columns, enough to tell several of one program apart.
    const COMMAND: usize = 60;
    let words = details.get("command").and_then(Value::as_array);
    let words: Vec<_> = words
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let text = match details.get("name").and_then(Value::as_str) {
        Some(name) if words.is_empty() => name.to_owned(),
        _ => words.join(" "),
    };
    let text = visible(&text);
    (!text.is_empty()).then(|| fit(&text, COMMAND).into_owned())
}

/// What a person wants to know of an event's details.
pub(crate) fn facts(kind: EventKind, details: &Details) -> Vec<String> {
    if details.is_empty() {
        return Vec::new();
    }
    let details = details.to_map();
    let number = |key: &str| details.get(key).and_then(Value::as_i64);
    let text = |key: &str| details.get(key).and_then(Value::as_str).map(visible);
    let says = |key: &str| details.get(key) == Some(&Value::Bool(true));
    let mut facts = Vec::new();
    if let Some(pid) = number("pid")
        && !ends(kind)
    {
        facts.push(format!("pid {pid}"));
    }
    // Of a process that somebody else started, its number says nothing to a person.
    if kind == EventKind::Created {
        facts.extend(program(&details));
    }
    if let Some(code) = number("exitCode") {
        facts.push(format!("exit code {code}"));
    }
    match (text("signalName"), number("signal")) {
        (Some(name), _) => facts.push(format!("by {name}")),
        (None, Some(signal)) => facts.push(format!("by signal {signal}")),
        (None, None) => {}
    }
    for (key, word) in [
        ("coreDumped", "core dumped"),
        ("notReady", "stopped since it was not ready in time"),
        ("stopRequested", "stop requested"),
        ("escalated", "killed after the grace time"),
        ("outputOpen", "its output is still held open"),
        ("outcomeSuspect", "the reported outcome looks wrong"),
    ] {
        if says(key) {
            facts.push(word.to_owned());
        }
    }
    if let Some(Value::Array(pids)) = details.get("leftovers")
        && !pids.is_empty()
    {
        let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
        facts.push(format!("left behind: {}", pids.join(" ")));
    }
    if let Some(message) = text("message") {
        facts.push(message.into_owned());
    }
    if let Some(Value::Object(context)) = details.get("context") {
        facts.extend(context.iter().map(|(key, value)| {
            let value = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            format!("{key}: {}", visible(&value))
        }));
    }
    facts
}

fn ends(kind: EventKind) -> bool {
    kind.state().is_some_and(ChildState::is_terminal)
}

/// How long a child lasted, for its last line.
pub(crate) fn lasted(line: &mut String, first: Timestamp, last: Timestamp) {
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        ", after {}",
        value::human(last.saturating_since(first))
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_contract::{
        Activity, Capabilities, ChildIdentity, EventId, LineFlags, Outcome, OutputStream,
        SourceEpoch, SourceId, SourceIdentity,
    };
    use serde_json::json;

    fn event(kind: EventKind, millis: i64, details: &Value) -> LifecycleEvent {
        LifecycleEvent::new(
            EventId::new("e").unwrap(),
            SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("1").unwrap()),
            ChildIdentity::root(ChildId::new("sh").unwrap()),
            kind,
            Timestamp::from_millis(millis).unwrap(),
            Capabilities::UNKNOWN,
        )
        .with_details(Details::from(details.as_object().unwrap().clone()))
    }

    #[test]
    fn a_run_reads_from_top_to_bottom() {
        let mut plain = Plain::default();
        let mut out = Vec::new();
        let mut batch = LogBatch::new(
            OutputStream::Stderr,
            Timestamp::from_millis(1_009).unwrap(),
            1,
        );
        batch.push("\u{1b}[31mtwo\u{1b}[0m\u{1b}[2J", LineFlags::default());
        batch.push(
            "long",
            LineFlags {
                truncated: true,
                ..LineFlags::default()
            },
        );
        out.extend(plain.event(&event(EventKind::Created, 1_000, &json!({}))));
        out.extend(plain.event(&event(
            EventKind::StateChanged(ChildState::STARTING),
            1_002,
            &json!({"pid": 42, "bootId": "x"}),
        )));
        out.extend(plain.event(&event(EventKind::Heartbeat, 1_003, &json!({}))));
        out.extend(plain.event(
            &event(EventKind::Activity, 1_004, &json!({})).with_activity(Activity::new("thinking")),
        ));
        out.extend(plain.output(&ChildId::new("sh").unwrap(), &batch));
        out.push(plain.missed(&ChildId::new("sh").unwrap(), 7));
        out.extend(plain.event(&event(
            EventKind::Terminal(Outcome::Failed),
            2_010,
            &json!({"pid": 42, "exitCode": 3}),
        )));
        out.extend(plain.event(&event(EventKind::Terminal(Outcome::Cancelled), 9_000, &json!({
            "signal": 9, "signalName": "SIGKILL", "escalated": true, "stopRequested": true, "leftovers": [7, 8],
        }))));
        out.extend(plain.event(&event(
            EventKind::Terminal(Outcome::Failed),
            9_000,
            &json!({
                "message": "no such program", "context": {"program": "/nonexistent"},
            }),
        )));
        insta::assert_snapshot!(out.join("\n"));
    }

    #[test]
    fn an_adopted_process_is_shown_with_its_command() {
        let long = "x".repeat(80);
        let cases = [
            (
                json!({"pid": 7, "command": ["sleep", "300"], "name": "sleep"}),
                "pid 7, sleep 300",
            ),
            (
                json!({"pid": 7, "name": "ag\u{1b}[31ment"}),
                "pid 7, ag\\e[31ment",
            ),
            (json!({"pid": 7}), "pid 7"),
            (
                json!({"command": ["sh", long]}),
                &format!("sh {}…", "x".repeat(56)),
            ),
        ];
        for (details, expected) in cases {
            let details = Details::from(details.as_object().unwrap().clone());
            assert_eq!(facts(EventKind::Created, &details).join(", "), expected);
            let later = facts(EventKind::Heartbeat, &details).join(", ");
            let number = if details.get("pid").is_some() {
                "pid 7"
            } else {
                ""
            };
            assert_eq!(later, number, "once is enough");
        }
    }
}
