//! What is refused in a snapshot (rule N7).

use crate::*;

fn refuses(line: &Line, field: &str) {
    let text = line.text();
    let fault = parse_snapshot(&text, &WireLimits::default())
        .map(|snapshot| panic!("this was read: {text}\n{snapshot:?}"))
        .unwrap_err();
    assert_eq!(
        (fault.class(), fault.field()),
        (FaultClass::SchemaViolation, field),
        "{fault}\n{text}"
    );
}

fn accepts(line: &Line) {
    let text = line.text();
    let read = parse_snapshot(&text, &WireLimits::default());
    assert!(read.is_ok(), "{text}\n{read:?}");
}

#[test]
fn required_fields_are_required() {
    for field in [
        "source",
        "sourceEpoch",
        "snapshotId",
        "observedAt",
        "complete",
        "coverage",
        "children",
    ] {
        refuses(&Line::snapshot().without(field), field);
        refuses(&Line::snapshot().with(field, "null"), field);
    }
    accepts(
        &Line::snapshot()
            .with("complete", "false")
            .without("coverage"),
    );
}

#[test]
fn n7_a_listed_coverage_names_every_child() {
    let children = r#"[{"childId":"a","state":"running"}]"#;
    let line = Line::snapshot().with("children", children);
    accepts(&line);
    accepts(&line.clone().with("coverage", r#"["a"]"#));
    accepts(&line.clone().with("coverage", r#"["a","b"]"#));
    refuses(&line.clone().with("coverage", r#"["b"]"#), "children");
    refuses(&line.clone().with("coverage", "[]"), "children");
    for wrong in [r#""some""#, "true", "{}", "[7]", r#"[""]"#, "null"] {
        refuses(&line.clone().with("coverage", wrong), "coverage");
    }
}

#[test]
fn children_are_objects_each_listed_once() {
    for (children, field) in [
        ("{}", "children"),
        ("[7]", "children"),
        (r#"[{"state":"running"}]"#, "children.childId"),
        (r#"[{"childId":"","state":"running"}]"#, "children.childId"),
        (r#"[{"childId":"a"}]"#, "children.state"),
        (r#"[{"childId":"a","state":"gone"}]"#, "children.state"),
        (
            r#"[{"childId":"a","state":"running","sequence":1.0}]"#,
            "children.sequence",
        ),
        (
            r#"[{"childId":"a","state":"running","details":[]}]"#,
            "children.details",
        ),
        (
            r#"[{"childId":"a","state":"running","sequence":null}]"#,
            "children.sequence",
        ),
        (
            r#"[{"childId":"a","state":"running","lineage":{}}]"#,
            "lineage.rootChildId",
        ),
        (
            r#"[{"childId":"a","state":"running"},{"childId":"a","state":"lost"}]"#,
            "children",
        ),
    ] {
        refuses(&Line::snapshot().with("children", children), field);
    }
}

/// What is not a value in the second child is found in the second child.
#[test]
fn a_fault_deep_inside_is_placed_in_the_line() {
    let children = r#"[{"childId":"a","state":"running"},{"childId":"b","lineage":{"rootChildId":"b","attempt":-1,"external":false},"state":"running"}]"#;
    let text = Line::snapshot().with("children", children).text();
    let fault = parse_snapshot(&text, &WireLimits::default()).unwrap_err();
    assert_eq!(fault.offset(), text.find(":-1,").unwrap() + 1, "{fault}");
    let children =
        r#"[{"childId":"a","state":"running"} , {"childId":"b","sequence":7.5,"state":"running"}]"#;
    let text = Line::snapshot().with("children", children).text();
    let fault = parse_snapshot(&text, &WireLimits::default()).unwrap_err();
    assert_eq!(fault.offset(), text.find("7.5").unwrap(), "{fault}");
}
