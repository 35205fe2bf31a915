//! A line as a whole: JSON, keys, nesting, versions, required fields (rule W5).

use crate::*;

#[test]
fn w5_unknown_fields_are_passed_over() {
    accepts(with(
        "extra",
        &[
            "null",
            "1e400",
            r#"{"deep":[[[{"a":1}]]]}"#,
            r#""\ud83d\ude00""#,
        ],
    ));
    accepts(with("journalSequence", &["7"]));
    accepts([Line::heartbeat().with(
        "lineage",
        r#"{"rootChildId":"r","attempt":0,"external":false,"x":null}"#,
    )]);
}

#[test]
fn w5_null_is_not_absent() {
    for field in [
        "schemaVersion",
        "eventId",
        "source",
        "sourceEpoch",
        "childId",
        "lineage",
        "kind",
        "observedAt",
        "sequence",
        "activity",
        "details",
        "capabilities",
        "state",
    ] {
        violates(field, with(field, &["null"]));
    }
    for field in ["parentChildId", "adoptedAt"] {
        let lineage = format!(
            r#"{{"rootChildId":"r","attempt":0,"external":true,"adoptedAt":"2026-08-24T09:15:30Z","{field}":null}}"#
        );
        let lineage = match field {
            "adoptedAt" => lineage.replace(r#""adoptedAt":"2026-08-24T09:15:30Z","#, ""),
            _ => lineage,
        };
        violates(&format!("lineage.{field}"), with("lineage", &[&lineage]));
    }
}

#[test]
fn w5_required_fields_are_required() {
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
        violates(field, [Line::heartbeat().without(field)]);
    }
    for (field, lineage) in [
        ("lineage.rootChildId", r#"{"attempt":0,"external":false}"#),
        ("lineage.attempt", r#"{"rootChildId":"r","external":false}"#),
        ("lineage.external", r#"{"rootChildId":"r","attempt":0}"#),
    ] {
        violates(field, with("lineage", &[lineage]));
    }
}

/// The class and the offset of a line that is at fault as a whole.
fn whole(text: &str, class: FaultClass, offset: usize) {
    let fault = judge(text).unwrap_or_else(|| panic!("this was read: {text}"));
    assert_eq!(
        (fault.class(), fault.field(), fault.offset()),
        (class, "", offset),
        "{fault}\n{text}"
    );
}

#[test]
fn w5_no_key_stands_twice_in_one_object() {
    use FaultClass::SchemaViolation;
    let line = Line::heartbeat().text();
    let more = |member: &str| line.replacen('{', &format!("{{{member},"), 1);
    let second = |text: &str, key: &str| text.rfind(key).unwrap();

    let text = more(r#""kind":"heartbeat""#);
    whole(&text, SchemaViolation, second(&text, "\"kind\""));
    let text = more(r#""x":1,"x":1"#);
    whole(&text, SchemaViolation, second(&text, "\"x\""));
    let text = more(r#""x":1,"\u0078":1"#);
    whole(&text, SchemaViolation, second(&text, "\"\\u0078\""));
    let text = more(r#""x":{"y":[{"z":1,"z":2}]}"#);
    whole(&text, SchemaViolation, second(&text, "\"z\""));
    let text = more(r#""details":{"pid":1,"pid":2}"#);
    whole(&text, SchemaViolation, second(&text, "\"pid\""));
    assert_eq!(judge(&more(r#""x":{"k":1},"y":{"k":1}"#)), None);
}

#[test]
fn w5_nesting_is_capped_with_the_line_itself_counted() {
    let nested = |levels: usize| {
        Line::heartbeat()
            .with("x", &("[".repeat(levels) + &"]".repeat(levels)))
            .text()
    };
    assert_eq!(judge(&nested(63)), None);
    let text = nested(64);
    whole(
        &text,
        FaultClass::MalformedJson,
        text.find("[[").unwrap() + 63,
    );
    let strict = WireLimits::default().with_max_depth(2);
    assert!(parse_event(&Line::heartbeat().text(), &strict).is_ok());
    assert!(parse_event(&nested(2), &strict).is_err());
}

#[test]
fn w5_what_is_no_json_object_is_refused() {
    use FaultClass::{MalformedJson, SchemaViolation};
    whole("", MalformedJson, 0);
    whole("   ", MalformedJson, 3);
    whole("hello", MalformedJson, 0);
    whole("\u{feff}{}", MalformedJson, 0);
    whole("{} {}", MalformedJson, 3);
    whole("{\"a\":\"\\ud800\"}", MalformedJson, 12);
    whole("{\"a\":\"\u{1}\"}", MalformedJson, 6);
    whole("[]", SchemaViolation, 0);
    whole(" null", SchemaViolation, 1);
    whole("7", SchemaViolation, 0);
    whole("\"{}\"", SchemaViolation, 0);
}

#[test]
fn versions_other_than_1_are_told_from_wrong_ones() {
    for version in ["0", "2", "10", "4294967297"] {
        // Whatever shape another version has, its number is what is said of it.
        let other = Line::of(&[("schemaVersion", version), ("child", "{}")]);
        refuses(&other, FaultClass::UnsupportedVersion, "schemaVersion");
        refuses(
            &other.reversed(),
            FaultClass::UnsupportedVersion,
            "schemaVersion",
        );
    }
    violates(
        "schemaVersion",
        with(
            "schemaVersion",
            &["1.0", "-1", "1e0", r#""1""#, "true", "[1]"],
        ),
    );
}

/// A fault never shows what a line held: a rejected line may be anything, a secret too.
#[test]
fn a_fault_tells_nothing_of_the_content() {
    const SECRET: &str = "hunter2";
    for field in [
        "eventId",
        "kind",
        "state",
        "observedAt",
        "sequence",
        "activity",
        "details",
        "capabilities",
        "lineage",
        "schemaVersion",
    ] {
        let value = format!("\"{SECRET}\\u0000\"");
        let line = Line::heartbeat()
            .with(field, &value)
            .with("activity", "7")
            .text();
        let fault = judge(&line).unwrap();
        assert!(!format!("{fault} {fault:?}").contains(SECRET), "{fault:?}");
    }
    for text in [
        format!("{SECRET} {{}}"),
        format!("{{\"{SECRET}\":1,\"{SECRET}\":2}}"),
        format!("{{\"lineage\":{{\"{SECRET}\":}}}}"),
    ] {
        let fault = judge(&text).unwrap();
        assert!(!format!("{fault} {fault:?}").contains(SECRET), "{fault:?}");
    }
}

#[test]
fn a_line_with_several_faults_has_the_first_of_its_classes() {
    use FaultClass::{MalformedJson, SchemaViolation, UnsupportedVersion};
    let class = |text: &str| judge(text).unwrap().class();
    assert_eq!(class(r#"{"schemaVersion":2,"x":1,"x":2,"#), MalformedJson);
    assert_eq!(class(r#"{"schemaVersion":2,"x":1,"x":2}"#), SchemaViolation);
    assert_eq!(
        class(r#"{"kind":null,"schemaVersion":2}"#),
        UnsupportedVersion
    );
}
