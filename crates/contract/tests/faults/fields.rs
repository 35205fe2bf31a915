//! Single fields of an event (rules W1 to W4, W6).

use crate::*;

const LIVE: [&str; 4] = ["created", "starting", "running", "waiting"];
const ENDS: [&str; 4] = ["completed", "failed", "cancelled", "lost"];

#[test]
fn w1_each_kind_goes_with_its_states_and_no_others() {
    let states = || {
        LIVE.iter()
            .chain(&ENDS)
            .map(|state| Some(*state))
            .chain([None])
    };
    for (kind, legal) in [
        ("created", &[Some("created")][..]),
        (
            "state_changed",
            &states().flatten().map(Some).collect::<Vec<_>>(),
        ),
        ("terminal", &ENDS.map(Some)),
        ("activity", &[None]),
        ("heartbeat", &[None]),
        ("reconciliation", &states().collect::<Vec<_>>()),
        ("diagnostic", &states().collect::<Vec<_>>()),
    ] {
        for state in states() {
            if legal.contains(&state) {
                accepts([of_kind(kind, state)]);
            } else {
                violates("state", [of_kind(kind, state)]);
            }
        }
    }
}

#[test]
fn w1_a_name_is_spelled_as_it_is() {
    violates(
        "kind",
        with(
            "kind",
            &[
                r#""Heartbeat""#,
                r#""heart beat""#,
                r#""""#,
                "7",
                r#"{"heartbeat":null}"#,
            ],
        ),
    );
    for state in [
        r#""Running""#,
        r#"" running""#,
        r#""done""#,
        "1",
        r#"["running"]"#,
    ] {
        violates(
            "state",
            [of_kind("state_changed", None).with("state", state)],
        );
    }
}

#[test]
fn w2_integers_are_written_as_integers() {
    let good = ["0", "7", "9007199254740991"];
    let bad = [
        "-0",
        "-1",
        "7.0",
        "7e0",
        "1e3",
        "1E3",
        "0.5",
        "9007199254740992",
        "18446744073709551616",
        "1000000000000000000000000000000",
        r#""7""#,
        "true",
        "null",
        "[7]",
        "{}",
    ];
    accepts(with("sequence", &good));
    violates("sequence", with("sequence", &bad));
    for attempt in good {
        let lineage = format!(r#"{{"rootChildId":"first","attempt":{attempt},"external":false}}"#);
        accepts(with("lineage", &[&lineage]));
    }
    for attempt in bad.iter().filter(|value| **value != "{}") {
        let lineage = format!(r#"{{"rootChildId":"first","attempt":{attempt},"external":false}}"#);
        violates("lineage.attempt", with("lineage", &[&lineage]));
    }
}

#[test]
fn w3_times_are_utc_and_real() {
    for time in [
        "2026-08-24T09:15:30Z",
        "2026-08-24T09:15:30+00:00",
        "2026-08-24T09:15:30.1Z",
        "2026-08-24T09:15:30.123456789Z",
        "2024-02-29T23:59:59Z",
        "2000-02-29T00:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59.999999999Z",
    ] {
        accepts(with("observedAt", &[&format!("\"{time}\"")]));
    }
    for time in [
        "",
        "now",
        "2026-08-24",
        "2026-08-24T09:15Z",
        "2026-08-24 09:15:30Z",
        "2026-08-24t09:15:30Z",
        "2026-08-24T09:15:30z",
        "2026-08-24T09:15:30",
        "2026-08-24T09:15:30+01:00",
        "2026-08-24T09:15:30-00:00",
        "2026-08-24T09:15:30+0000",
        "2026-08-24T09:15:60Z",
        "2026-08-24T24:00:00Z",
        "2026-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-08-00T00:00:00Z",
        "2026-08-24T09:15:30.Z",
        "2026-08-24T09:15:30.1234567890Z",
        "2026-08-24T09:15:30,5Z",
        "+2026-08-24T09:15:30Z",
        "10000-01-01T00:00:00Z",
        " 2026-08-24T09:15:30Z",
        "2026-08-24T09:15:30Z ",
        "２０２６-08-24T09:15:30Z",
    ] {
        violates("observedAt", with("observedAt", &[&format!("\"{time}\"")]));
    }
    violates("observedAt", with("observedAt", &["1787562930250", "null"]));
}

#[test]
fn w4_absent_capabilities_are_unknown_and_that_is_told() {
    let parsed = parse_event(&Line::heartbeat().text(), &WireLimits::default()).unwrap();
    assert!(parsed.capabilities_absent);
    assert_eq!(parsed.event.capabilities(), Capabilities::UNKNOWN);
    let there = parse_event(&parsed.event.to_json(), &WireLimits::default()).unwrap();
    assert!(!there.capabilities_absent);
    assert_eq!(there.event, parsed.event);
}

#[test]
fn w4_capabilities_that_are_there_are_whole() {
    const ALL: &str = r#"{"history":"known","heartbeat":"unknown","snapshot":"known","cancel":"unknown","terminalCause":"known"}"#;
    accepts(with("capabilities", &[ALL]));
    for name in [
        "history",
        "heartbeat",
        "snapshot",
        "cancel",
        "terminalCause",
    ] {
        let field = format!("capabilities.{name}");
        let missing = ALL.replace(&format!("\"{name}\""), "\"else\"");
        let wrong = ALL.replace(
            &format!("\"{name}\":\"known\""),
            &format!("\"{name}\":true"),
        );
        let wrong = wrong.replace(
            &format!("\"{name}\":\"unknown\""),
            &format!("\"{name}\":\"no\""),
        );
        violates(&field, with("capabilities", &[&missing, &wrong]));
    }
    violates(
        "capabilities",
        with("capabilities", &["null", "[]", r#""known""#]),
    );
}

#[test]
fn w6_details_are_an_object_and_activity_is_a_string() {
    violates("details", with("details", &["[]", r#""x""#, "1", "true"]));
    violates("activity", with("activity", &["1", "[]", "{}"]));
    accepts(with("details", &["{}", r#"{"a":null,"b":1e400}"#]));
}

#[test]
fn w6_secrets_and_overlong_activities_do_not_get_in() {
    let line = Line::heartbeat()
        .with("activity", &format!("\"{}\"", "é".repeat(600)))
        .with(
            "details",
            r#"{ "GITHUB_TOKEN" : "ghp_x", "a": [ {"cookie": {"b": 1}} ], "n": 1.50 }"#,
        );
    let event = parse_event(&line.text(), &WireLimits::default())
        .unwrap()
        .event;
    assert_eq!(event.activity().unwrap().as_str(), "é".repeat(512));
    assert_eq!(
        event.details().as_json(),
        r#"{"GITHUB_TOKEN":"[redacted]","a":[{"cookie":"[redacted]"}],"n":1.50}"#
    );
    assert!(!event.to_json().contains("ghp_x"));
}
