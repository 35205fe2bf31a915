//! What a record says: the form of `headcount list`, and where each fact comes from.

// A fixture that cannot be read fails its test.
#![allow(clippy::unwrap_used)]

use headcount_contract::{LifecycleEvent, SourceId, Timestamp, WireLimits, parse_event};
use headcount_projector::{Projector, Settings};

fn at(text: &str) -> Timestamp {
    format!("2026-08-24T{text}Z").parse().unwrap()
}

fn event(id: &str, kind: &str, observed_at: &str, more: &str) -> LifecycleEvent {
    let line = format!(
        r#"{{"schemaVersion":1,"eventId":"{id}","source":"worker","sourceEpoch":"start-1",
        "childId":"build-2","lineage":{{"rootChildId":"build-1","attempt":1,"external":false}},
        "kind":"{kind}","observedAt":"2026-08-24T{observed_at}Z","capabilities":{{"history":"known",
        "heartbeat":"known","snapshot":"unknown","cancel":"unknown","terminalCause":"known"}}{more}}}"#
    );
    parse_event(&line.replace('\n', ""), &WireLimits::default())
        .unwrap()
        .event
}

/// One life: created, running, an activity, a heartbeat.
fn projector() -> Projector {
    let mut projector = Projector::new(Settings::default());
    let events = [
        (
            "09:00:00.1",
            event(
                "e0",
                "created",
                "09:00:00",
                r#","state":"created","sequence":0,"details":{"pid":42,"startTicks":7,"bootId":"b"}"#,
            ),
        ),
        (
            "09:00:01.1",
            event(
                "e1",
                "state_changed",
                "09:00:01",
                r#","state":"running","sequence":1"#,
            ),
        ),
        (
            "09:00:02.1",
            event(
                "e2",
                "activity",
                "09:00:02",
                r#","activity":"linking","sequence":2"#,
            ),
        ),
        (
            "09:00:03.1",
            event("e3", "heartbeat", "09:00:03", r#","sequence":3"#),
        ),
    ];
    for (received_at, event) in events {
        projector.apply(&event, at(received_at), &mut Vec::new());
    }
    projector
}

#[test]
fn is_written_in_the_form_of_list() {
    let mut projector = projector();
    let running = serde_json::to_string_pretty(&projector.records().collect::<Vec<_>>()).unwrap();
    insta::assert_snapshot!("list_running", running);
    let end = event(
        "e4",
        "terminal",
        "09:00:04",
        r#","state":"failed","sequence":5,"details":{"exitCode":2}"#,
    );
    projector.apply(&end, at("09:00:04.1"), &mut Vec::new());
    let ended = serde_json::to_string_pretty(&projector.records().collect::<Vec<_>>()).unwrap();
    insta::assert_snapshot!("list_ended", ended);
}

#[test]
fn c3_every_fact_can_be_explained() {
    let record = projector().record(
        &SourceId::new("worker").unwrap(),
        &"build-2".parse().unwrap(),
    );
    insta::assert_debug_snapshot!("explained", record.unwrap());
}

#[test]
fn records_are_sorted_by_source_and_child() {
    let mut projector = Projector::new(Settings::default());
    for (source, child) in [("b", "1"), ("a", "10"), ("a", "9"), ("b", "0")] {
        let line = format!(
            r#"{{"schemaVersion":1,"eventId":"e","source":"{source}","sourceEpoch":"1","childId":"{child}","lineage":{{"rootChildId":"{child}","attempt":0,"external":false}},"kind":"heartbeat","observedAt":"2026-08-24T09:00:00Z"}}"#
        );
        let event = parse_event(&line, &WireLimits::default()).unwrap().event;
        projector.apply(&event, at("09:00:00"), &mut Vec::new());
    }
    let names = projector
        .records()
        .map(|r| format!("{}/{}", r.source, r.child_id));
    assert_eq!(names.collect::<Vec<_>>(), ["a/10", "a/9", "b/0", "b/1"]);
    assert_eq!(projector.len(), 4);
}
