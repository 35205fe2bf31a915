//! What the parser refuses (rules W1 to W6, I3, I4, N7), with the class, the field and the place.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod fields;
mod identity;
mod lines;
mod snapshots;

use common::Line;
use headcount_contract::*;

/// How a line is read: nothing, or the fault that it has.
fn judge(line: &str) -> Option<WireFault> {
    parse_event(line, &WireLimits::default()).err()
}

/// Where the parser should point: at the field's value or, if it is absent, at the brace that
/// closes the object it should be in.
fn place(text: &str, field: &str) -> usize {
    let (mut start, mut end) = (0, text.len() - 1);
    let mut path = field.split('.').peekable();
    while let Some(name) = path.next() {
        let key = format!("\"{name}\":");
        let Some(at) = text[start..=end].find(&key) else {
            return end;
        };
        start += at + key.len();
        if path.peek().is_some() {
            // The objects of these tables hold no brace but their own.
            end = start + text[start..].find('}').unwrap();
        }
    }
    start
}

fn refuses(line: &Line, class: FaultClass, field: &str) {
    let text = line.text();
    let fault = judge(&text).unwrap_or_else(|| panic!("this was read: {text}"));
    assert_eq!(
        (fault.class(), fault.field(), fault.offset()),
        (class, field, place(&text, field)),
        "{fault}\n{text}"
    );
}

fn violates(field: &str, lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        refuses(&line, FaultClass::SchemaViolation, field);
        refuses(&line.reversed(), FaultClass::SchemaViolation, field);
    }
}

fn accepts(lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        for text in [line.text(), line.reversed().text()] {
            assert_eq!(judge(&text), None, "{text}");
        }
    }
}

fn with(key: &str, values: &[&str]) -> Vec<Line> {
    values
        .iter()
        .map(|value| Line::heartbeat().with(key, value))
        .collect()
}

fn of_kind(kind: &str, state: Option<&str>) -> Line {
    let line = Line::heartbeat().with("kind", &format!("\"{kind}\""));
    match state {
        Some(state) => line.with("state", &format!("\"{state}\"")),
        None => line,
    }
}
