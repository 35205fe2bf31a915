//! What can be built is written and read back as it was (rule W7), and no text makes the parser
//! panic.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Line;
use headcount_contract::*;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde_json::{Map, Number, Value};

/// Any id there can be; short ones are likelier.
fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => "[a-c]{1,2}",
        2 => r"[ -~]{1,12}",
        2 => r"[^\p{Cc}]{1,20}",
        1 => r"[^\p{Cc}]{100,512}",
    ]
    .prop_map(|mut text| {
        let mut end = text.len().min(MAX_ID_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text
    })
}

fn child_id() -> impl Strategy<Value = ChildId> {
    id().prop_map(|text| ChildId::new(text).unwrap())
}

fn source() -> impl Strategy<Value = SourceIdentity> {
    (id(), id()).prop_map(|(source, epoch)| {
        SourceIdentity::new(
            SourceId::new(source).unwrap(),
            SourceEpoch::new(epoch).unwrap(),
        )
    })
}

/// Any moment from year 0000 to 9999, to the nanosecond.
fn timestamp() -> impl Strategy<Value = Timestamp> {
    let nanos = prop_oneof![Just(0), Just(250_000_000), 0..1_000_000_000_u32];
    (-62_167_219_200..=253_402_300_799_i64, nanos)
        .prop_map(|(seconds, nanos)| Timestamp::from_unix(seconds, nanos).unwrap())
}

fn sequence() -> impl Strategy<Value = Sequence> {
    prop_oneof![0..10_u64, 0..=MAX_INTEGER].prop_map(|value| Sequence::new(value).unwrap())
}

/// Any child with a lineage that fits it; those that do not fit are no child.
fn identity() -> impl Strategy<Value = ChildIdentity> {
    let attempt = prop_oneof![0..3_u64, 0..=MAX_INTEGER];
    let roots = (child_id(), option::of(child_id()), option::of(child_id()));
    (roots, attempt, option::of(timestamp())).prop_filter_map(
        "a lineage that does not fit the child",
        |((id, root, parent), attempt, adopted)| {
            let mut lineage =
                Lineage::new(root.unwrap_or_else(|| id.clone())).with_attempt(attempt);
            if let Some(parent) = parent {
                lineage = lineage.with_parent(parent);
            }
            if let Some(at) = adopted {
                lineage = lineage.adopted(at);
            }
            ChildIdentity::new(id, lineage).ok()
        },
    )
}

fn state() -> impl Strategy<Value = ChildState> {
    proptest::sample::select(ChildState::ALL.to_vec())
}

fn kind() -> impl Strategy<Value = EventKind> {
    prop_oneof![
        Just(EventKind::Created),
        state().prop_map(EventKind::StateChanged),
        Just(EventKind::Activity),
        Just(EventKind::Heartbeat),
        state().prop_filter_map("a live state", |state| state
            .outcome()
            .map(EventKind::Terminal)),
        option::of(state()).prop_map(EventKind::Reconciliation),
        option::of(state()).prop_map(EventKind::Diagnostic),
    ]
}

/// Any number that JSON and an `f64` or a 64-bit integer hold: subnormals and negative zero too.
fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        proptest::sample::select(vec![
            -0.0,
            0.1,
            5e-324,
            f64::MAX,
            f64::MIN_POSITIVE,
            1e21,
            1e-7
        ])
        .prop_map(|value| Number::from_f64(value).map_or(Value::Null, Value::from)),
    ]
}

/// Any text, with what is awkward in JSON more often than chance would have it.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), r#"[\x00-\x1f"\\/\u{2028}\u{1F600}é]{0,8}"#]
}

/// Any key, some of them secret.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-d]{1,3}",
        proptest::sample::select(vec![
            "api_key",
            "Authorization",
            "input_tokens",
            "TOKEN",
            ""
        ])
        .prop_map(str::to_owned),
        text(),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        number(),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 32, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            btree_map(key(), inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn details() -> impl Strategy<Value = Details> {
    btree_map(key(), json(), 0..4).prop_map(|map| map.into_iter().collect::<Map<_, _>>().into())
}

fn capabilities() -> impl Strategy<Value = Capabilities> {
    any::<[bool; 5]>().prop_map(|known| {
        let one = |at: usize| {
            if known[at] {
                Capability::Known
            } else {
                Capability::Unknown
            }
        };
        Capabilities {
            history: one(0),
            heartbeat: one(1),
            snapshot: one(2),
            cancel: one(3),
            terminal_cause: one(4),
        }
    })
}

fn event() -> impl Strategy<Value = LifecycleEvent> {
    let head = (
        id(),
        source(),
        identity(),
        kind(),
        timestamp(),
        capabilities(),
    );
    let rest = (option::of(sequence()), option::of(text()), details());
    (head, rest).prop_map(
        |((id, source, child, kind, at, capabilities), (sequence, activity, details))| {
            let id = EventId::new(id).unwrap();
            let mut event = LifecycleEvent::new(id, source, child, kind, at, capabilities);
            if let Some(sequence) = sequence {
                event = event.with_sequence(sequence);
            }
            if let Some(activity) = activity {
                event = event.with_activity(Activity::new(activity));
            }
            event.with_details(details)
        },
    )
}

fn snapshot_child() -> impl Strategy<Value = SnapshotChild> {
    (
        identity(),
        any::<bool>(),
        state(),
        option::of(sequence()),
        details(),
    )
        .prop_map(|(identity, lineage_known, state, sequence, details)| {
            let child = if lineage_known {
                SnapshotChild::with_identity(identity, state)
            } else {
                SnapshotChild::new(identity.id().clone(), state)
            };
            let child = match sequence {
                Some(sequence) => child.with_sequence(sequence),
                None => child,
            };
            child.with_details(details)
        })
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let head = (source(), id(), timestamp(), vec(snapshot_child(), 0..4));
    // Complete of all, complete of those listed and some more, or partial.
    let coverage = option::of(option::of(vec(child_id(), 0..3)));
    (head, coverage).prop_filter_map("a child twice", |((source, id, at, children), coverage)| {
        let id = SnapshotId::new(id).unwrap();
        let Some(coverage) = coverage else {
            return PartialSnapshot::new(source, id, at, children)
                .ok()
                .map(Snapshot::from);
        };
        let coverage = match coverage {
            None => Coverage::All,
            Some(mut more) => {
                more.extend(children.iter().map(|child| child.id().clone()));
                Coverage::Children(more)
            }
        };
        AuthoritativeSnapshot::new(source, id, at, coverage, children)
            .ok()
            .map(Snapshot::from)
    })
}

proptest! {
    #[test]
    fn every_event_is_read_back_as_it_was(event in event()) {
        let line = event.to_json();
        let parsed = parse_event(&line, &WireLimits::default())
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n{line}")))?;
        prop_assert_eq!(&parsed.event, &event, "{}", line);
        prop_assert!(!parsed.capabilities_absent);
        prop_assert_eq!(parsed.event.to_json(), line);
    }

    #[test]
    fn every_snapshot_is_read_back_as_it_was(snapshot in snapshot()) {
        let line = snapshot.to_json();
        let parsed = parse_snapshot(&line, &WireLimits::default())
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n{line}")))?;
        prop_assert_eq!(&parsed, &snapshot, "{}", line);
        prop_assert_eq!(parsed.to_json(), line);
    }

    /// One event is one line, whatever it holds.
    #[test]
    fn every_event_is_one_line(event in event()) {
        prop_assert!(!event.to_json().contains(['\n', '\r']));
    }

    /// Any JSON reader sees the same values: ours is no dialect.
    #[test]
    fn details_mean_to_serde_json_what_they_mean_to_us(details in details()) {
        let value: Value = serde_json::from_str(details.as_json()).unwrap();
        prop_assert_eq!(&Value::Object(details.to_map()), &value);
        for (key, value) in value.as_object().unwrap() {
            prop_assert_eq!(details.get(key), Some(value.clone()), "{}", key);
        }
    }

    #[test]
    fn any_text_is_judged(text in any::<String>()) {
        judge(&text)?;
    }

    #[test]
    fn text_that_looks_like_json_is_judged(text in r#"[\[\]{}:, "a0e1.\-tfnu\\\u{e9}]{0,40}"#) {
        judge(&text)?;
    }

    /// A good line with a piece cut out and another put in.
    #[test]
    fn a_damaged_line_is_judged(
        event in event(),
        at in any::<prop::sample::Index>(),
        len in 0..12_usize,
        put in prop_oneof![any::<String>(), r#"[\[\]{}:,"0-9ntf\\]{0,6}"#],
    ) {
        let line: Vec<char> = event.to_json().chars().collect();
        let start = at.index(line.len());
        let end = (start + len).min(line.len());
        let damaged: String = line[..start].iter().copied().chain(put.chars()).chain(line[end..].iter().copied()).collect();
        judge(&damaged)?;
    }

    /// The order of the fields decides nothing.
    #[test]
    fn the_order_of_fields_is_free(event in event(), seed in any::<u64>()) {
        let text = event.to_json();
        let Value::Object(map) = serde_json::from_str(&text).unwrap() else { unreachable!() };
        let mut members: Vec<_> = map.into_iter().collect();
        let by = usize::try_from(seed % members.len() as u64).unwrap();
        members.rotate_left(by);
        let members: Vec<_> = members
            .iter()
            // The details are compared as text, so their text has to stay.
            .map(|(key, value)| (key.as_str(), if key == "details" { event.details().as_json().to_owned() } else { value.to_string() }))
            .collect();
        let members: Vec<_> = members.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let line = Line::of(&members).text();
        prop_assert_eq!(parse_event(&line, &WireLimits::default()).map(|parsed| parsed.event), Ok(event));
    }
}

/// Both parsers return; a fault points into the text; what is read can be written and read again.
fn judge(text: &str) -> Result<(), TestCaseError> {
    let limits = WireLimits::default();
    match parse_event(text, &limits) {
        Ok(parsed) => {
            let again = parse_event(&parsed.event.to_json(), &limits).map(|again| again.event);
            prop_assert_eq!(again, Ok(parsed.event));
        }
        Err(fault) => prop_assert!(fault.offset() <= text.len(), "{}", fault),
    }
    match parse_snapshot(text, &limits) {
        Ok(snapshot) => prop_assert_eq!(parse_snapshot(&snapshot.to_json(), &limits), Ok(snapshot)),
        Err(fault) => prop_assert!(fault.offset() <= text.len(), "{}", fault),
    }
    Ok(())
}

/// Details that were built, not read, may be of any depth; what is written must still be readable.
#[test]
fn details_of_any_depth_are_read_back() {
    for levels in [1, 40, 58, 59, 60, 61, 62, 63, 64, 65, 100, 400] {
        let mut value = Value::from("the bottom");
        for level in 0..levels {
            value = match level % 2 {
                0 => Value::from(vec![value]),
                _ => Value::Object(Map::from_iter([("in".to_owned(), value)])),
            };
        }
        let details = Details::from_iter([("deep", value)]);
        let event = common::event(EventKind::Heartbeat).with_details(details.clone());
        let read = parse_event(&event.to_json(), &WireLimits::default()).map(|parsed| parsed.event);
        assert_eq!(read, Ok(event), "{levels} levels");

        let child =
            SnapshotChild::new(common::child("a"), ChildState::RUNNING).with_details(details);
        let id = SnapshotId::new("snap").unwrap();
        let snapshot =
            PartialSnapshot::new(common::source(), id, common::now(), vec![child]).unwrap();
        let snapshot = Snapshot::from(snapshot);
        let read = parse_snapshot(&snapshot.to_json(), &WireLimits::default());
        assert_eq!(read, Ok(snapshot), "{levels} levels in a snapshot");
    }
}
