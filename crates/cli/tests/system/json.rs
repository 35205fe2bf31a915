//! `--output json`: lifecycle events in the wire form, and nothing else.

use headcount_contract::{ChildState, EventKind, LifecycleEvent, Sequence};
use serde_json::json;

use crate::program::{ends, events, headcount, run, text};

/// Lives long enough to be seen running: what has exited already is never called so.
const SCRIPT: &str = "echo one; echo two >&2; sleep 1; exit 3";

fn kinds(events: &[LifecycleEvent]) -> Vec<(&'static str, Option<ChildState>)> {
    events
        .iter()
        .map(|event| (event.kind().as_str(), event.state()))
        .collect()
}

#[test]
fn the_kinds_come_in_order_and_the_end_comes_once() {
    let output = run(&["--output", "json"], SCRIPT);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let events = events(&output);
    let kinds = kinds(&events);
    assert_eq!(
        kinds[..3],
        [
            ("created", Some(ChildState::CREATED)),
            ("state_changed", Some(ChildState::STARTING)),
            ("state_changed", Some(ChildState::RUNNING)),
        ]
    );
    assert_eq!(kinds.last(), Some(&("terminal", Some(ChildState::FAILED))));
    let ends = ends(&events);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].details().get("exitCode"), Some(json!(3)));
    assert_eq!(ends[0].details().get("basis"), Some(json!("process_exit")));
}

#[test]
fn sequences_have_no_hole_and_identity_does_not_change() {
    let events = events(&run(&["--output", "json"], SCRIPT));
    let numbers: Vec<_> = events
        .iter()
        .filter_map(LifecycleEvent::sequence)
        .map(Sequence::get)
        .collect();
    let first = numbers[0];
    assert_eq!(numbers, (first..).take(events.len()).collect::<Vec<_>>());
    for event in &events {
        assert_eq!(event.source_identity(), events[0].source_identity());
        assert_eq!(event.child(), events[0].child());
    }
    let mut ids: Vec<_> = events.iter().map(LifecycleEvent::event_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), events.len(), "an event id was given twice");
}

/// What the child prints never looks like an event of ours.
#[test]
fn output_of_the_child_is_no_event() {
    let forged =
        r#"echo '{"schemaVersion":1}'; echo '{"kind":"terminal","state":"completed"}'; exit 4"#;
    let output = run(&["--output", "json"], forged);
    let events = events(&output);
    assert!(ends(&events)[0].state() == Some(ChildState::FAILED) && ends(&events).len() == 1);
}

/// Our output is a stream that we ourselves find nothing wrong with.
#[test]
fn what_run_writes_check_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    let output = run(&["--output", "json"], SCRIPT);
    std::fs::write(&file, &output.stdout).unwrap();
    let checked = headcount(&["check", "--output", "json", file.to_str().unwrap()])
        .output()
        .unwrap();
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stdout));
    let lines = text(&output.stdout).lines().count();
    assert_eq!(
        text(&checked.stdout)
            .matches(r#""verdict":"accept""#)
            .count(),
        lines
    );
}

/// A journal holds the same events as standard output.
#[test]
fn the_journal_holds_what_was_shown() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.jsonl");
    let output = run(
        &["--output", "json", "--journal", journal.to_str().unwrap()],
        SCRIPT,
    );
    let shown: Vec<_> = events(&output)
        .iter()
        .map(|event| event.event_id().clone())
        .collect();
    let kept = std::fs::read_to_string(&journal).unwrap();
    let kept: Vec<_> = kept
        .lines()
        .map(|line| {
            headcount_contract::parse_event(line, &headcount_contract::WireLimits::default())
                .unwrap()
                .event
        })
        .collect();
    assert_eq!(
        kept.iter()
            .map(|event| event.event_id().clone())
            .collect::<Vec<_>>(),
        shown
    );
    assert!(matches!(
        kept.last().unwrap().kind(),
        EventKind::Terminal(_)
    ));
}

/// One command run twice is two children, although its source has one name (rules I1, I2).
#[test]
fn a_journal_tells_the_runs_of_one_command_apart() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("journal.jsonl");
    let journal = journal.to_str().unwrap();
    for code in [1, 2] {
        let options = ["--output", "json", "--journal", journal, "--name", "job"];
        let output = run(&options, &format!("exit {code}"));
        assert_eq!(output.status.code(), Some(code));
        assert_eq!(ends(&events(&output)).len(), 1);
    }
    let ask = |args: &[&str]| headcount(args).output().unwrap();
    let listed = ask(&["list", "--journal", journal, "--output", "json"]);
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let codes: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|child| &child["terminal"])
        .collect();
    assert_eq!(codes.len(), 2, "{listed:#}");

    // By its name, the newest.
    let newest = ask(&[
        "wait",
        "job",
        "--state",
        "failed",
        "--journal",
        journal,
        "--output",
        "json",
    ]);
    assert_eq!(newest.status.code(), Some(0), "{}", text(&newest.stderr));
    let newest: serde_json::Value = serde_json::from_slice(&newest.stdout).unwrap();
    assert_eq!(
        newest["terminal"]["details"]["exitCode"],
        json!(2),
        "{newest:#}"
    );
}
