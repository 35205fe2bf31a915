//! Every type that goes over the wire, as it is written.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fmt::Write;
use std::sync::Arc;

use common::{at, child, event, event_of, now, source};
use headcount_contract::*;
use serde_json::json;

/// One line a value: its name, and the JSON.
fn transcript(lines: impl IntoIterator<Item = (String, String)>) -> String {
    let mut text = String::new();
    for (name, json) in lines {
        writeln!(text, "{name}\n    {json}").unwrap();
    }
    text
}

fn json_of<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn an_event_of_each_kind_and_state() {
    let mut kinds = vec![EventKind::Created];
    kinds.extend(ChildState::ALL.map(EventKind::StateChanged));
    kinds.extend([EventKind::Activity, EventKind::Heartbeat]);
    kinds.extend(
        ChildState::ALL
            .into_iter()
            .filter_map(ChildState::outcome)
            .map(EventKind::Terminal),
    );
    kinds.extend([
        EventKind::Reconciliation(None),
        EventKind::Reconciliation(Some(ChildState::WAITING)),
        EventKind::Diagnostic(None),
        EventKind::Diagnostic(Some(ChildState::FAILED)),
    ]);
    let text = transcript(
        kinds
            .into_iter()
            .map(|kind| (format!("{kind:?}"), event(kind).to_json())),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn an_event_with_everything() {
    let known = Capability::Known;
    let parent = child("parent");
    let lineage = Lineage::new(child("first"))
        .with_attempt(2)
        .with_parent(parent)
        .adopted(now());
    let full = LifecycleEvent::new(
        EventId::new("evt \u{1f9d1}\u{200d}\u{1f680} \" \\").unwrap(),
        source(),
        ChildIdentity::new(child("third"), lineage).unwrap(),
        EventKind::Diagnostic(Some(ChildState::RUNNING)),
        at("2026-08-24T09:15:30.123456789+00:00"),
        Capabilities {
            history: known,
            heartbeat: known,
            snapshot: known,
            cancel: known,
            terminal_cause: known,
        },
    )
    .with_sequence(Sequence::new(MAX_INTEGER).unwrap())
    .with_activity(Activity::new("reading \"src/lib.rs\"\n\u{1b}[31mred"))
    .with_details(Details::from_iter([
        ("pid", json!(42)),
        ("load", json!(0.1)),
        ("session_token", json!("x")),
        (
            "nested",
            json!({"Authorization": ["Bearer x"], "list": [null, true, {}]}),
        ),
    ]));
    let text = full.to_json();
    insta::assert_snapshot!(text);
}

#[test]
fn every_form_of_lineage() {
    let identity = |lineage| ChildIdentity::new(child("c"), lineage).unwrap();
    let forms = [
        ("its own root", ChildIdentity::root(child("c"))),
        ("under another root", identity(Lineage::new(child("top")))),
        (
            "a retry",
            identity(Lineage::new(child("first")).with_attempt(1)),
        ),
        (
            "the last attempt there can be",
            identity(Lineage::new(child("first")).with_attempt(MAX_INTEGER)),
        ),
        (
            "with a parent",
            identity(Lineage::new(child("c")).with_parent(child("p"))),
        ),
        ("adopted", identity(Lineage::new(child("c")).adopted(now()))),
    ];
    let text = transcript(forms.into_iter().map(|(name, form)| {
        (
            name.to_owned(),
            json_of(event_of(form, EventKind::Heartbeat).lineage()),
        )
    }));
    insta::assert_snapshot!(text);
}

#[test]
fn every_form_of_snapshot() {
    let id = || SnapshotId::new("snap-1").unwrap();
    let retry = Lineage::new(child("a")).with_attempt(1);
    let children = vec![
        SnapshotChild::new(child("a"), ChildState::FAILED),
        SnapshotChild::with_identity(
            ChildIdentity::new(child("b"), retry).unwrap(),
            ChildState::RUNNING,
        )
        .with_sequence(Sequence::ZERO)
        .with_details(Details::from_iter([
            ("pid", json!(7)),
            ("apiKey", json!("x")),
        ])),
    ];
    let complete = |coverage, children: &[SnapshotChild]| {
        AuthoritativeSnapshot::new(source(), id(), now(), coverage, children.to_vec())
            .map(Snapshot::from)
            .unwrap()
    };
    let listed = Coverage::Children(vec![child("a"), child("b"), child("gone")]);
    let partial = |children: &[SnapshotChild]| {
        Snapshot::from(PartialSnapshot::new(source(), id(), now(), children.to_vec()).unwrap())
    };
    let forms = [
        (
            "complete, of all, nobody there",
            complete(Coverage::All, &[]),
        ),
        ("complete, of all", complete(Coverage::All, &children)),
        (
            "complete, of some, one of them absent",
            complete(listed, &children),
        ),
        ("partial, empty", partial(&[])),
        ("partial", partial(&children)),
    ];
    let text = transcript(
        forms
            .into_iter()
            .map(|(name, form)| (name.to_owned(), form.to_json())),
    );
    insta::assert_snapshot!(text);
}

#[test]
fn every_run_event() {
    let mut batch = LogBatch::new(OutputStream::Stderr, now(), 41);
    batch.push("plain", LineFlags::default());
    batch.push(
        "\u{1b}[2Jcut",
        LineFlags {
            truncated: true,
            lossy: false,
        },
    );
    batch.push(
        "\u{fffd}",
        LineFlags {
            truncated: false,
            lossy: true,
        },
    );
    let facts = || Details::from_iter([("exitCode", json!(3))]);
    let events = [
        RunEvent::Status(StatusChange::new(RunStatus::Starting, now())),
        RunEvent::Status(StatusChange::new(RunStatus::Ready, now())),
        RunEvent::Status(
            StatusChange::new(RunStatus::Stopped, now()).with_outcome(Outcome::Cancelled),
        ),
        RunEvent::Status(StatusChange::new(RunStatus::Crashed, now()).with_details(facts())),
        RunEvent::Log(Arc::new(LogBatch::new(OutputStream::Stdout, now(), 1))),
        RunEvent::Log(Arc::new(batch)),
        RunEvent::LogMissed(3),
        RunEvent::Error {
            message: "not ready".into(),
            timestamp: now(),
            details: Details::EMPTY,
        },
        RunEvent::Error {
            message: "exited".into(),
            timestamp: now(),
            details: facts(),
        },
        RunEvent::Activity {
            text: "compiling".into(),
            timestamp: now(),
        },
        RunEvent::Heartbeat(now()),
        RunEvent::Usage(Usage::new(99.5, 1 << 20, 2)),
    ];
    let name = |event: &RunEvent| match event {
        RunEvent::Status(change) => format!("status {}", change.status.as_str()),
        RunEvent::Log(batch) => format!("log of {} lines", batch.len()),
        other => format!("{other:?}")
            .split(['(', ' '])
            .next()
            .unwrap()
            .to_owned(),
    };
    let text = transcript(events.iter().map(|event| {
        let lines = event.to_json_lines();
        let json = if lines.is_empty() {
            "nothing".to_owned()
        } else {
            lines.join("\n    ")
        };
        (name(event), json)
    }));
    insta::assert_snapshot!(text);
}

#[test]
fn the_smaller_types() {
    let health = Health::new(HealthStatus::Degraded)
        .with_message("2 lines were rejected")
        .with_limitation("the exit code is not ours to see")
        .with_count("rejected_lines", 2);
    let text = |name: &str, json: String| (name.to_owned(), json);
    let text = transcript([
        text("capability known", json_of(&Capability::Known)),
        text("capability unknown", json_of(&Capability::Unknown)),
        text("capabilities", json_of(&Capabilities::UNKNOWN)),
        text("cancel accepted", json_of(&CancelOutcome::Accepted)),
        text(
            "cancel already ended",
            json_of(&CancelOutcome::AlreadyEnded),
        ),
        text(
            "cancel unknown child",
            json_of(&CancelOutcome::UnknownChild),
        ),
        text(
            "cancel denied",
            json_of(&CancelOutcome::Denied {
                reason: "not our session".into(),
            }),
        ),
        text("cancel unsupported", json_of(&CancelOutcome::Unsupported)),
        text("health", json_of(&health)),
        text("health by default", json_of(&Health::default())),
        text(
            "health statuses",
            json_of(&[
                HealthStatus::Idle,
                HealthStatus::Healthy,
                HealthStatus::Degraded,
                HealthStatus::Down,
            ]),
        ),
        text(
            "snapshot reasons",
            json_of(&[
                SnapshotReason::SessionOpen,
                SnapshotReason::Reconnect,
                SnapshotReason::Periodic,
            ]),
        ),
        text(
            "run statuses",
            json_of(&[
                RunStatus::Starting,
                RunStatus::Ready,
                RunStatus::Stopped,
                RunStatus::Crashed,
            ]),
        ),
        text(
            "runtime capabilities",
            json_of(&RuntimeCapabilities::OBSERVABLE.with_restart()),
        ),
        text(
            "output streams",
            json_of(&[OutputStream::Stdout, OutputStream::Stderr]),
        ),
        text(
            "sequence scopes",
            json_of(&[SequenceScope::Child, SequenceScope::Epoch]),
        ),
        text("fault classes", json_of(&FaultClass::ALL)),
        text(
            "project",
            json_of(&ProjectIdentity {
                slug: "site".into(),
                name: "The site".into(),
                protocol: "1.1".into(),
            }),
        ),
    ]);
    insta::assert_snapshot!(text);
}

/// A name in an output is the name on the wire.
#[test]
fn names_are_the_same_as_on_the_wire() {
    fn check<T: serde::Serialize + Copy>(values: &[T], name: fn(T) -> &'static str) {
        for value in values {
            assert_eq!(json_of(value), json_of(&name(*value)));
        }
    }
    check(&ChildState::ALL, ChildState::as_str);
    check(
        &[Capability::Known, Capability::Unknown],
        Capability::as_str,
    );
    check(&FaultClass::ALL, FaultClass::as_str);
    check(
        &[OutputStream::Stdout, OutputStream::Stderr],
        OutputStream::as_str,
    );
    check(
        &[
            RunStatus::Starting,
            RunStatus::Ready,
            RunStatus::Stopped,
            RunStatus::Crashed,
        ],
        RunStatus::as_str,
    );
    check(
        &[
            HealthStatus::Idle,
            HealthStatus::Healthy,
            HealthStatus::Degraded,
            HealthStatus::Down,
        ],
        HealthStatus::as_str,
    );
}
