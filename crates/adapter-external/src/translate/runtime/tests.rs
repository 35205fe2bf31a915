//! What a runtime's own word lets us say, as transcripts.

use headcount_contract::{Sequence, WireLimits, parse_event};

use super::super::tests::{ALL, at, exited, facts, lines, process, translator};
use super::*;
use crate::process::Finding;

fn reading(raw: &str, state: Option<ChildState>, activity: Option<&str>) -> StatusReading {
    StatusReading {
        raw: raw.into(),
        state,
        activity: activity.map(str::to_owned),
    }
}

/// An event of the runtime's own stream, `second` after the adoption.
fn event(second: i64, sequence: Option<u64>, rest: &str) -> LifecycleEvent {
    let sequence = sequence.map_or(String::new(), |n| format!(r#","sequence":{n}"#));
    let line = format!(
        r#"{{"schemaVersion":1,"eventId":"own-{second}","source":"agent","sourceEpoch":"a1","childId":"main","lineage":{{"rootChildId":"main","attempt":0,"external":false}},"observedAt":"{}"{sequence},{rest}}}"#,
        at(second)
    );
    parse_event(&line, &WireLimits::default()).unwrap().event
}

fn snapshot(second: i64, state: Option<ChildState>, sequence: Option<u64>) -> StreamSnapshot {
    StreamSnapshot {
        source: event(0, None, r#""kind":"heartbeat""#)
            .source_identity()
            .clone(),
        observed_at: at(second),
        state,
        sequence: sequence.and_then(Sequence::new),
    }
}

#[test]
fn a_status_endpoint_tells_the_present_state_and_no_history() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let mut said = Vec::new();
    let readings = [
        reading(
            "busy",
            Some(ChildState::RUNNING),
            Some("reading src/lib.rs"),
        ),
        reading(
            "busy",
            Some(ChildState::RUNNING),
            Some("reading src/lib.rs"),
        ),
        reading("idle", Some(ChildState::WAITING), None),
        reading("dreaming", None, None),
        reading("dreaming", None, None),
        reading("idle", Some(ChildState::WAITING), None),
    ];
    for (second, reading) in (1..).zip(readings) {
        said.extend(translator.status(key, reading, at(second)));
    }
    let in_snapshot = translator.snapshot(at(8));
    assert_eq!(in_snapshot.children()[0].state(), ChildState::WAITING);
    assert_eq!(
        in_snapshot.children()[0].details().get("basis"),
        Some(json!("status_endpoint"))
    );
    said.extend(translator.ended(key, exited(0), at(9)));
    assert!(
        translator
            .status(
                key,
                reading("busy", Some(ChildState::RUNNING), None),
                at(10)
            )
            .is_empty()
    );
    insta::assert_snapshot!(lines(said));
}

#[test]
fn a_runtime_may_end_its_run_before_its_process() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let said = translator.status(
        key,
        reading("aborted", Some(ChildState::CANCELLED), None),
        at(1),
    );
    assert_eq!(said[0].kind(), EventKind::Terminal(Outcome::Cancelled));
    assert_eq!(
        translator.ended(key, exited(0), at(2)),
        None,
        "it has ended"
    );
    assert_eq!(translator.lives(key, at(3)), None);
    assert_eq!(
        translator.snapshot(at(4)).children()[0].state(),
        ChildState::CANCELLED
    );
}

#[test]
fn a_stream_with_a_snapshot_is_visible_from_the_adoption_on() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let mut said =
        translator.stream_snapshot(key, snapshot(1, Some(ChildState::RUNNING), Some(4)), at(1));
    let events = vec![
        // Included in the snapshot, or before the adoption.
        event(-5, Some(3), r#""kind":"state_changed","state":"starting""#),
        event(0, Some(4), r#""kind":"state_changed","state":"running""#),
        event(
            2,
            Some(5),
            r#""kind":"activity","activity":"reading","details":{"file":"a","token":"x"}"#,
        ),
        event(3, Some(6), r#""kind":"heartbeat""#),
        event(4, Some(7), r#""kind":"state_changed","state":"waiting""#),
        event(4, Some(7), r#""kind":"state_changed","state":"waiting""#),
        event(5, Some(8), r#""kind":"diagnostic","details":{"note":"n"}"#),
        event(6, Some(9), r#""kind":"created","state":"created""#),
        event(
            7,
            Some(10),
            r#""kind":"terminal","state":"cancelled","details":{"by":"user"}"#,
        ),
        event(8, Some(11), r#""kind":"state_changed","state":"running""#),
    ];
    let result = translator.stream_events(key, events);
    assert_eq!((result.gap, result.passed_over), (false, 3));
    said.extend(result.events);
    insta::assert_snapshot!(lines(said));
}

#[test]
fn a_gap_in_the_stream_asks_for_the_snapshot_again() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    translator.stream_snapshot(key, snapshot(1, Some(ChildState::RUNNING), Some(4)), at(1));
    let later = vec![event(2, Some(9), r#""kind":"heartbeat""#)];
    assert!(translator.stream_events(key, later).gap);
    // What the new snapshot includes is not told again by its events.
    let said =
        translator.stream_snapshot(key, snapshot(3, Some(ChildState::WAITING), Some(9)), at(3));
    assert_eq!(said[0].kind(), EventKind::StateChanged(ChildState::WAITING));
    let again = vec![event(
        2,
        Some(9),
        r#""kind":"state_changed","state":"running""#,
    )];
    assert_eq!(translator.stream_events(key, again).passed_over, 1);
}

#[test]
fn without_sequences_time_tells_what_the_snapshot_includes() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    translator.stream_snapshot(key, snapshot(5, Some(ChildState::WAITING), None), at(5));
    let events = vec![
        event(4, None, r#""kind":"state_changed","state":"running""#),
        event(6, None, r#""kind":"state_changed","state":"running""#),
    ];
    let result = translator.stream_events(key, events);
    assert_eq!((result.events.len(), result.passed_over), (1, 1));
}

#[test]
fn lost_never_comes_from_here() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let lost = Some(ChildState::Terminal(Outcome::Lost));
    let mut said = translator.stream_snapshot(key, snapshot(1, lost, None), at(1));
    said.extend(translator.stream_snapshot(key, snapshot(2, None, None), at(2)));
    let events = ["terminal", "state_changed"]
        .map(|kind| event(3, None, &format!(r#""kind":"{kind}","state":"lost""#)));
    said.extend(translator.stream_events(key, events.into()).events);
    said.extend(translator.ended(key, Finding::Gone, at(4)));
    assert_eq!(said.len(), 5);
    assert!(
        said.iter()
            .all(|event| event.kind() == EventKind::Diagnostic(None)),
        "{said:?}"
    );
}

#[test]
fn cancelling_is_claimed_from_the_verification_on() {
    let mut translator = translator();
    let (key, created) = translator.adopted(process(7), &facts(), ALL, at(0));
    assert!(!created.capabilities().cancel.is_known());
    let verified = translator
        .authority(key, "may stop its own runs", at(1))
        .unwrap();
    assert_eq!(translator.authority(key, "again", at(2)), None);
    insta::assert_snapshot!(lines([verified, translator.lives(key, at(3)).unwrap()]));
}
