//! JSON Schemas of the wire types, with the rules that a schema can express.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{ChildState, EventKind, MAX_ACTIVITY_CHARS, MAX_ID_BYTES, MAX_INTEGER};

/// The schema of one lifecycle event line.
///
/// ```
/// assert_eq!(headcount_contract::schema::event().get("title").unwrap(), "LifecycleEvent");
/// ```
pub fn event() -> Schema {
    root::<crate::LifecycleEvent>()
}

/// The schema of one snapshot line, complete or partial.
///
/// ```
/// assert_eq!(headcount_contract::schema::snapshot().get("title").unwrap(), "Snapshot");
/// ```
pub fn snapshot() -> Schema {
    root::<crate::Snapshot>()
}

fn root<T: JsonSchema>() -> Schema {
    SchemaGenerator::default().into_root_schema_for::<T>()
}

pub(crate) fn identifier() -> Schema {
    json_schema!({
        "type": "string",
        "minLength": 1,
        "maxLength": MAX_ID_BYTES,
        "pattern": r"^[^\u0000-\u001f\u007f-\u009f]+$",
        "description": "1 to 512 bytes, no control characters, compared by bytes",
    })
}

pub(crate) fn timestamp() -> Schema {
    json_schema!({
        "type": "string",
        "pattern": concat!(
            r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
            r"T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?(Z|\+00:00)$",
        ),
        "description": "RFC 3339 in UTC, a real calendar day, no leap second",
    })
}

pub(crate) fn one_of_names<const N: usize>(names: [&'static str; N]) -> Schema {
    json_schema!({ "type": "string", "enum": names.to_vec() })
}

fn integer() -> Schema {
    json_schema!({ "type": "integer", "minimum": 0, "maximum": MAX_INTEGER })
}

impl JsonSchema for crate::Lineage {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Lineage".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "external and adoptedAt stand together or not at all",
            "properties": {
                "rootChildId": generator.subschema_for::<crate::ChildId>(),
                "attempt": integer(),
                "external": { "type": "boolean" },
                "parentChildId": generator.subschema_for::<crate::ChildId>(),
                "adoptedAt": generator.subschema_for::<crate::Timestamp>(),
            },
            "required": ["rootChildId", "attempt", "external"],
            "if": { "properties": { "external": { "const": true } } },
            "then": { "required": ["adoptedAt"] },
            "else": { "properties": { "adoptedAt": false } },
        })
    }
}

/// One kind's demands on `state`.
fn kind_rule(kind: &str, state: &Schema, required: bool) -> Schema {
    let required = if required { vec!["state"] } else { vec![] };
    json_schema!({
        "if": { "properties": { "kind": { "const": kind } } },
        "then": { "properties": { "state": state }, "required": required },
    })
}

impl JsonSchema for crate::LifecycleEvent {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LifecycleEvent".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let any = json_schema!(true);
        let none = json_schema!(false);
        let terminal: Vec<_> = ChildState::ALL
            .iter()
            .filter(|s| s.is_terminal())
            .map(|s| s.as_str())
            .collect();
        json_schema!({
            "type": "object",
            "properties": {
                "schemaVersion": { "const": crate::SCHEMA_VERSION },
                "eventId": generator.subschema_for::<crate::EventId>(),
                "source": generator.subschema_for::<crate::SourceId>(),
                "sourceEpoch": generator.subschema_for::<crate::SourceEpoch>(),
                "childId": generator.subschema_for::<crate::ChildId>(),
                "lineage": generator.subschema_for::<crate::Lineage>(),
                "kind": one_of_names(EventKind::NAMES),
                "state": generator.subschema_for::<ChildState>(),
                "observedAt": generator.subschema_for::<crate::Timestamp>(),
                "sequence": integer(),
                "activity": {
                    "type": "string",
                    "description": format!("cut after {MAX_ACTIVITY_CHARS} characters"),
                },
                "details": { "type": "object" },
                "capabilities": generator.subschema_for::<crate::Capabilities>(),
            },
            "required": [
                "schemaVersion", "eventId", "source", "sourceEpoch", "childId", "lineage", "kind",
                "observedAt",
            ],
            "allOf": [
                kind_rule("created", &json_schema!({ "const": "created" }), true),
                kind_rule("state_changed", &any, true),
                kind_rule("terminal", &json_schema!({ "enum": terminal }), true),
                kind_rule("activity", &none, false),
                kind_rule("heartbeat", &none, false),
            ],
        })
    }
}

impl JsonSchema for crate::Snapshot {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Snapshot".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let child = json_schema!({
            "type": "object",
            "properties": {
                "childId": generator.subschema_for::<crate::ChildId>(),
                "state": generator.subschema_for::<ChildState>(),
                "sequence": integer(),
                "details": { "type": "object" },
                "lineage": generator.subschema_for::<crate::Lineage>(),
            },
            "required": ["childId", "state"],
        });
        let ids = json_schema!({
            "type": "array", "items": generator.subschema_for::<crate::ChildId>(),
        });
        json_schema!({
            "type": "object",
            "properties": {
                "source": generator.subschema_for::<crate::SourceId>(),
                "sourceEpoch": generator.subschema_for::<crate::SourceEpoch>(),
                "snapshotId": generator.subschema_for::<crate::SnapshotId>(),
                "observedAt": generator.subschema_for::<crate::Timestamp>(),
                "complete": { "type": "boolean" },
                "children": { "type": "array", "items": child },
            },
            "required": ["source", "sourceEpoch", "snapshotId", "observedAt", "complete", "children"],
            "if": { "properties": { "complete": { "const": true } } },
            "then": {
                "properties": { "coverage": { "oneOf": [{ "const": "all" }, ids] } },
                "required": ["coverage"],
            },
        })
    }
}
