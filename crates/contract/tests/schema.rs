//! The generated schemas judge as the parser does, where a schema can.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Line;
use headcount_contract::{WireLimits, parse_event, parse_snapshot, schema};
use jsonschema::Validator;
use serde_json::Value;

/// What both say of one line.
#[derive(Debug, PartialEq, Eq)]
struct Verdicts {
    parser: bool,
    schema: bool,
}

const BOTH_READ: Verdicts = Verdicts {
    parser: true,
    schema: true,
};
const BOTH_REFUSE: Verdicts = Verdicts {
    parser: false,
    schema: false,
};
/// A rule that a schema cannot express.
const ONLY_THE_PARSER_REFUSES: Verdicts = Verdicts {
    parser: false,
    schema: true,
};

fn validator(schema: impl Into<Value>) -> Validator {
    let schema = schema.into();
    assert!(
        jsonschema::meta::is_valid(&schema),
        "this is no schema: {schema}"
    );
    jsonschema::validator_for(&schema).unwrap()
}

fn event(line: &Line) -> Verdicts {
    let text = line.text();
    Verdicts {
        parser: parse_event(&text, &WireLimits::default()).is_ok(),
        schema: validator(schema::event()).is_valid(&serde_json::from_str(&text).unwrap()),
    }
}

fn snapshot(line: &Line) -> Verdicts {
    let text = line.text();
    Verdicts {
        parser: parse_snapshot(&text, &WireLimits::default()).is_ok(),
        schema: validator(schema::snapshot()).is_valid(&serde_json::from_str(&text).unwrap()),
    }
}

fn check_events(expected: &Verdicts, lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        assert_eq!(event(&line), *expected, "{}", line.text());
    }
}

fn check_snapshots(expected: &Verdicts, lines: impl IntoIterator<Item = Line>) {
    for line in lines {
        assert_eq!(snapshot(&line), *expected, "{}", line.text());
    }
}

fn with(field: &'static str, values: &[&str]) -> Vec<Line> {
    values
        .iter()
        .map(|value| Line::heartbeat().with(field, value))
        .collect()
}

#[test]
fn each_kind_goes_with_the_same_states() {
    let names = headcount_contract::EventKind::NAMES;
    let states = headcount_contract::ChildState::ALL.map(|state| Some(state.as_str()));
    let mut pairs = 0;
    for kind in names {
        for state in states.into_iter().chain([None]) {
            let mut line = Line::heartbeat().with("kind", &format!("\"{kind}\""));
            if let Some(state) = state {
                line = line.with("state", &format!("\"{state}\""));
            }
            let verdicts = event(&line);
            assert_eq!(verdicts.parser, verdicts.schema, "{kind} with {state:?}");
            pairs += usize::from(verdicts.parser);
        }
    }
    // created, 8 changes, activity, heartbeat, 4 ends, and 9 each of the two that may have a state.
    assert_eq!(pairs, 1 + 8 + 1 + 1 + 4 + 9 + 9);
}

#[test]
fn both_read_what_is_legal() {
    let everything = Line::heartbeat()
        .with("sequence", "9007199254740991")
        .with("activity", r#""""#)
        .with("details", r#"{"pid":1,"deep":[{}]}"#)
        .with("capabilities", r#"{"history":"known","heartbeat":"unknown","snapshot":"known","cancel":"unknown","terminalCause":"known"}"#)
        .with("lineage", r#"{"rootChildId":"r","attempt":1,"external":true,"parentChildId":"p","adoptedAt":"2026-08-24T09:15:30.1Z"}"#)
        .with("unknown", "null");
    check_events(&BOTH_READ, [Line::heartbeat(), everything]);
    check_events(
        &BOTH_READ,
        with(
            "observedAt",
            &[
                r#""2026-08-24T09:15:30Z""#,
                r#""2026-08-24T09:15:30.123456789+00:00""#,
            ],
        ),
    );
    check_events(
        &BOTH_READ,
        with("childId", &["\"日本\"", r#"" e\u0301 ""#, r#""\u2028""#]),
    );
}

#[test]
fn both_refuse_what_a_schema_can_express() {
    for field in [
        "schemaVersion",
        "eventId",
        "source",
        "sourceEpoch",
        "childId",
        "lineage",
        "kind",
        "observedAt",
    ] {
        check_events(&BOTH_REFUSE, [Line::heartbeat().without(field)]);
        check_events(&BOTH_REFUSE, with(field, &["null", "[]", "true"]));
    }
    for field in ["sequence", "activity", "details", "capabilities"] {
        check_events(&BOTH_REFUSE, with(field, &["null", "[]", "true"]));
    }
    check_events(&BOTH_REFUSE, with("schemaVersion", &["0", "2", r#""1""#]));
    check_events(
        &BOTH_REFUSE,
        with("sequence", &["-1", "0.5", "9007199254740992", r#""7""#]),
    );
    check_events(
        &BOTH_REFUSE,
        with(
            "kind",
            &[r#""Heartbeat""#, r#""""#, r#"{"heartbeat":null}"#],
        ),
    );
    let long = format!("\"{}\"", "x".repeat(513));
    for field in ["eventId", "source", "sourceEpoch", "childId"] {
        check_events(
            &BOTH_REFUSE,
            with(
                field,
                &[
                    r#""""#,
                    r#""a\u0000""#,
                    r#""a\n""#,
                    r#""\u007f""#,
                    r#""\u0085""#,
                    &long,
                ],
            ),
        );
    }
    check_events(
        &BOTH_REFUSE,
        with(
            "observedAt",
            &[
                r#""2026-08-24T09:15Z""#,
                r#""2026-08-24t09:15:30Z""#,
                r#""2026-08-24T09:15:30z""#,
                r#""2026-08-24T09:15:30+01:00""#,
                r#""2026-08-24T09:15:30-00:00""#,
                r#""2026-08-24T09:15:30.Z""#,
                r#""2026-08-24T09:15:30.1234567890Z""#,
                r#""２０２６-08-24T09:15:30Z""#,
                r#""2026-08-24T09:15:60Z""#,
                r#""2026-08-24T24:00:00Z""#,
                r#""2026-13-01T00:00:00Z""#,
                r#""2026-00-01T00:00:00Z""#,
                r#""2026-08-32T00:00:00Z""#,
                r#""2026-08-00T00:00:00Z""#,
            ],
        ),
    );
    check_events(
        &BOTH_REFUSE,
        with(
            "lineage",
            &[
                r#"{"attempt":0,"external":false}"#,
                r#"{"rootChildId":"r","external":false}"#,
                r#"{"rootChildId":"r","attempt":0}"#,
                r#"{"rootChildId":"r","attempt":-1,"external":false}"#,
                r#"{"rootChildId":"r","attempt":0,"external":true}"#,
                r#"{"rootChildId":"r","attempt":0,"external":false,"adoptedAt":"2026-08-24T09:15:30Z"}"#,
                r#"{"rootChildId":"r","attempt":0,"external":false,"parentChildId":null}"#,
                r#"{"rootChildId":"","attempt":0,"external":false}"#,
            ],
        ),
    );
    check_events(
        &BOTH_REFUSE,
        with(
            "capabilities",
            &[
                "{}",
                r#"{"history":"yes","heartbeat":"unknown","snapshot":"known","cancel":"unknown","terminalCause":"known"}"#,
            ],
        ),
    );
}

/// Where a schema falls short of the rules: it compares no two fields, sees values instead of how
/// they are written, counts characters and not bytes, and knows no calendar.
#[test]
fn only_the_parser_refuses_what_a_schema_cannot_express() {
    let retry_of_itself = r#"{"rootChildId":"child-42","attempt":1,"external":false}"#;
    let own_parent =
        r#"{"rootChildId":"r","attempt":0,"external":false,"parentChildId":"child-42"}"#;
    check_events(
        &ONLY_THE_PARSER_REFUSES,
        with("lineage", &[retry_of_itself, own_parent]),
    );
    check_events(
        &ONLY_THE_PARSER_REFUSES,
        with("sequence", &["7.0", "7e0", "-0"]),
    );
    check_events(&ONLY_THE_PARSER_REFUSES, with("schemaVersion", &["1.0"]));
    let wide = format!("\"{}\"", "é".repeat(257));
    check_events(&ONLY_THE_PARSER_REFUSES, with("childId", &[&wide]));
    let no_days = [r#""2026-02-29T00:00:00Z""#, r#""2026-04-31T00:00:00Z""#];
    check_events(&ONLY_THE_PARSER_REFUSES, with("observedAt", &no_days));
    let deep = "[".repeat(64) + &"]".repeat(64);
    check_events(&ONLY_THE_PARSER_REFUSES, with("unknown", &[&deep]));
    // A reader that has a tree has lost the second of two equal keys.
    check_events(
        &ONLY_THE_PARSER_REFUSES,
        with("unknown", &[r#"{"a":1,"a":1}"#]),
    );

    let children = r#"[{"childId":"a","state":"running"}]"#;
    let listed = Line::snapshot().with("children", children);
    check_snapshots(
        &ONLY_THE_PARSER_REFUSES,
        [listed.with("coverage", r#"["b"]"#)],
    );
    let twice = r#"[{"childId":"a","state":"running"},{"childId":"a","state":"lost"}]"#;
    check_snapshots(
        &ONLY_THE_PARSER_REFUSES,
        [Line::snapshot().with("children", twice)],
    );
}

#[test]
fn snapshots_are_judged_alike() {
    let child = |more: &str| {
        Line::snapshot().with(
            "children",
            &format!(r#"[{{"childId":"a","state":"running"{more}}}]"#),
        )
    };
    check_snapshots(
        &BOTH_READ,
        [
            Line::snapshot(),
            Line::snapshot().with("coverage", "[]"),
            Line::snapshot().with("coverage", r#"["a","b"]"#),
            Line::snapshot()
                .with("complete", "false")
                .without("coverage"),
            Line::snapshot().with("unknown", "null"),
            child(""),
            child(
                r#","sequence":0,"details":{},"lineage":{"rootChildId":"a","attempt":0,"external":false}"#,
            ),
        ],
    );
    for field in [
        "source",
        "sourceEpoch",
        "snapshotId",
        "observedAt",
        "complete",
        "coverage",
        "children",
    ] {
        check_snapshots(
            &BOTH_REFUSE,
            [
                Line::snapshot().without(field),
                Line::snapshot().with(field, "null"),
            ],
        );
    }
    check_snapshots(
        &BOTH_REFUSE,
        [
            Line::snapshot().with("coverage", r#""some""#),
            Line::snapshot().with("coverage", r#"[""]"#),
            Line::snapshot().with("children", "{}"),
            Line::snapshot().with("children", "[7]"),
            Line::snapshot().with("children", r#"[{"childId":"a"}]"#),
            Line::snapshot().with("children", r#"[{"state":"running"}]"#),
            Line::snapshot().with("children", r#"[{"childId":"a","state":"gone"}]"#),
            child(r#","sequence":-1"#),
            child(r#","sequence":null"#),
            child(r#","details":[]"#),
            child(r#","lineage":{"rootChildId":"a","attempt":0}"#),
        ],
    );
}

#[test]
fn what_we_write_is_what_the_schema_reads() {
    let schema = validator(schema::event());
    for state in headcount_contract::ChildState::ALL {
        for kind in [
            headcount_contract::EventKind::StateChanged(state),
            headcount_contract::EventKind::Diagnostic(Some(state)),
        ] {
            let line = common::event(kind).to_json();
            let value = serde_json::from_str(&line).unwrap();
            assert!(schema.is_valid(&value), "{line}");
        }
    }
}
