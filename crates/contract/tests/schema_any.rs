//! What can be built, and what the parser reads, is valid by the schema: whoever holds an adapter to
//! the parser, as the conformance kit does, has held it to the schema.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::sync::LazyLock;

use common::any;
use headcount_contract::{FaultClass, WireFault, WireLimits, parse_event, parse_snapshot, schema};
use jsonschema::Validator;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

static EVENT: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema::event().into()).unwrap());
static SNAPSHOT: LazyLock<Validator> =
    LazyLock::new(|| jsonschema::validator_for(&schema::snapshot().into()).unwrap());

/// Values that are right in one place and wrong in another.
fn value() -> impl Strategy<Value = Value> {
    proptest::sample::select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(9_007_199_254_740_991_u64),
        json!(9_007_199_254_740_992_u64),
        json!(""),
        json!("a"),
        json!("all"),
        json!("created"),
        json!("state_changed"),
        json!("heartbeat"),
        json!("terminal"),
        json!("running"),
        json!("lost"),
        json!("known"),
        json!("a\u{0}b"),
        json!("\u{85}"),
        json!("x".repeat(513)),
        json!("é".repeat(300)),
        json!("2026-08-24T09:15:30Z"),
        json!("2026-02-30T09:15:30Z"),
        json!("2026-08-24T09:15:30+01:00"),
        json!([]),
        json!({}),
        json!(["a"]),
        json!({"rootChildId": "a", "attempt": 0, "external": false}),
        json!([{"childId": "a", "state": "running"}]),
    ])
}

/// What to do to one place of a line.
#[derive(Debug, Clone)]
enum Change {
    Remove,
    Replace(Value),
    Rename,
}

fn changes() -> impl Strategy<Value = Vec<(Index, Change)>> {
    let change = prop_oneof![
        2 => Just(Change::Remove),
        6 => value().prop_map(Change::Replace),
        1 => Just(Change::Rename),
    ];
    proptest::collection::vec((any::<Index>(), change), 1..4)
}

/// The pointers of all members and elements, those of the free details left out.
fn places(value: &Value, at: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let place = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                if key != "details" {
                    places(member, &place, found);
                }
                found.push(place);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let place = format!("{at}/{index}");
                places(element, &place, found);
                found.push(place);
            }
        }
        _ => {}
    }
}

fn mutated(line: &str, changes: &[(Index, Change)]) -> Value {
    let mut value: Value = serde_json::from_str(line).unwrap();
    for (index, change) in changes {
        let mut found = Vec::new();
        places(&value, "", &mut found);
        if found.is_empty() {
            break;
        }
        let place = index.get(&found);
        if let Change::Replace(new) = change {
            *value.pointer_mut(place).unwrap() = new.clone();
            continue;
        }
        let (parent, key) = place.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/").replace("~0", "~");
        match value.pointer_mut(parent).unwrap() {
            Value::Object(members) => {
                let old = members.remove(&key);
                if let (Change::Rename, Some(old)) = (change, old) {
                    members.insert(format!("{key}_"), old);
                }
            }
            Value::Array(elements) => {
                elements.remove(key.parse().unwrap());
            }
            _ => unreachable!("only these two have places"),
        }
    }
    value
}

/// The rules that no schema can express, by what the parser says of them. All else, both refuse.
fn beyond_a_schema(value: &Value, fault: &WireFault) -> bool {
    const SAID: [&str; 6] = [
        // It compares no two fields,
        "other than the root's",
        "another child's id",
        "each child once",
        "no child that the coverage leaves out",
        // knows no calendar,
        "no calendar has this",
        // and counts characters, not bytes.
        "bytes, this one has",
    ];
    let text = fault.to_string();
    fault.class() == FaultClass::LineageConflict
        || SAID.iter().any(|words| text.contains(words))
        // Of a list of ids, the parser says no more than that it is none.
        || text.contains("a list of child ids") && has_a_wide_id(&value["coverage"])
}

fn has_a_wide_id(ids: &Value) -> bool {
    let mut ids = ids
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    ids.any(|id| id.len() > 512 && id.chars().count() <= 512)
}

fn judged_alike<T>(
    value: &Value,
    parsed: &Result<T, WireFault>,
    schema: &Validator,
) -> Result<(), TestCaseError> {
    let valid = schema.is_valid(value);
    match parsed {
        Ok(_) => prop_assert!(valid, "read, but invalid by the schema: {value}"),
        Err(fault) => prop_assert!(
            !valid || beyond_a_schema(value, fault),
            "valid by the schema, but {fault}: {value}"
        ),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn every_event_that_can_be_built_is_valid(event in any::event()) {
        let line = event.to_json();
        prop_assert!(EVENT.is_valid(&serde_json::from_str(&line).unwrap()), "{line}");
    }

    #[test]
    fn every_snapshot_that_can_be_built_is_valid(snapshot in any::snapshot()) {
        let line = snapshot.to_json();
        prop_assert!(SNAPSHOT.is_valid(&serde_json::from_str(&line).unwrap()), "{line}");
    }

    #[test]
    fn a_changed_event_is_judged_alike(event in any::event(), changes in changes()) {
        let value = mutated(&event.to_json(), &changes);
        let parsed = parse_event(&value.to_string(), &WireLimits::default());
        judged_alike(&value, &parsed, &EVENT)?;
    }

    #[test]
    fn a_changed_snapshot_is_judged_alike(snapshot in any::snapshot(), changes in changes()) {
        let value = mutated(&snapshot.to_json(), &changes);
        let parsed = parse_snapshot(&value.to_string(), &WireLimits::default());
        judged_alike(&value, &parsed, &SNAPSHOT)?;
    }
}
