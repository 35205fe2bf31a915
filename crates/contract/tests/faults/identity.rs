//! Who an event is about (rules I3 to I5).

use crate::*;

#[test]
fn i3_external_and_adopted_stand_together() {
    const AT: &str = r#""adoptedAt":"2026-08-24T09:15:30Z""#;
    let lineage = |rest: &str| format!(r#"{{"rootChildId":"child-42","attempt":0,{rest}}}"#);
    accepts(with(
        "lineage",
        &[&lineage(&format!(r#""external":true,{AT}"#))],
    ));
    violates(
        "lineage.adoptedAt",
        with(
            "lineage",
            &[
                &lineage(r#""external":true"#),
                &lineage(&format!(r#""external":false,{AT}"#)),
                &lineage(r#""external":true,"adoptedAt":"yesterday""#),
            ],
        ),
    );
    violates(
        "lineage.external",
        with(
            "lineage",
            &[
                &lineage(r#""external":"true""#),
                &lineage(r#""external":0"#),
            ],
        ),
    );
}

#[test]
fn i3_a_retry_has_another_root_and_nobody_is_their_own_parent() {
    let lineage = |root: &str, attempt: &str, rest: &str| {
        format!(r#"{{"rootChildId":"{root}","attempt":{attempt},"external":false{rest}}}"#)
    };
    accepts(with(
        "lineage",
        &[
            &lineage("first", "1", ""),
            &lineage("top", "0", ""),
            &lineage("child-42", "0", r#","parentChildId":"p""#),
        ],
    ));
    violates(
        "lineage.attempt",
        with("lineage", &[&lineage("child-42", "1", "")]),
    );
    violates(
        "lineage.parentChildId",
        with(
            "lineage",
            &[&lineage("child-42", "0", r#","parentChildId":"child-42""#)],
        ),
    );
    violates("lineage", with("lineage", &["null", "[]", r#""child-42""#]));
}

#[test]
fn i4_ids_are_bounded_and_printable() {
    let long = format!("\"{}\"", "x".repeat(513));
    let wide = format!("\"{}\"", "é".repeat(257));
    for field in ["eventId", "source", "sourceEpoch", "childId"] {
        let bad = [
            r#""""#,
            &long,
            &wide,
            r#""a\u0000""#,
            r#""a\n""#,
            "\"\u{7f}\"",
            r#""\u0085""#,
            "7",
            "[]",
        ];
        violates(field, with(field, &bad));
        let longest = format!("\"{}\"", "x".repeat(512));
        accepts(with(
            field,
            &[
                r#"" spaced ""#,
                &longest,
                r#""\u00e9""#,
                "\"日本\"",
                r#""e\u0301""#,
                r#""\u2028""#,
            ],
        ));
    }
    for field in ["rootChildId", "parentChildId"] {
        let lineage = |value: &str| {
            let other = if field == "rootChildId" {
                "parentChildId"
            } else {
                "rootChildId"
            };
            format!(r#"{{"attempt":0,"external":false,"{other}":"o","{field}":{value}}}"#)
        };
        for value in [r#""""#, &long, r#""a\t""#, "7"] {
            violates(
                &format!("lineage.{field}"),
                with("lineage", &[&lineage(value)]),
            );
        }
    }
}

#[test]
fn i4_ids_are_kept_as_they_are() {
    let line = Line::heartbeat().with("childId", r#"" e\u0301 ""#);
    let event = parse_event(&line.text(), &WireLimits::default())
        .unwrap()
        .event;
    assert_eq!(event.child_id().as_str(), " e\u{301} ");
}

#[test]
fn i5_any_kind_may_come_first() {
    accepts([
        of_kind("terminal", Some("lost")),
        of_kind("activity", None),
        of_kind("state_changed", Some("waiting")),
    ]);
}
