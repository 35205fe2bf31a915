//! Anything that the types of the contract can hold, for properties.

#![allow(dead_code)] // not every test file uses all of it

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

pub fn details() -> impl Strategy<Value = Details> {
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

pub fn event() -> impl Strategy<Value = LifecycleEvent> {
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

pub fn snapshot() -> impl Strategy<Value = Snapshot> {
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
