//! The JSON Schema of a fleet file, composed from those of the adapters.

use headcount_contract::SourceRole;
use headcount_registry::Registry;
use serde_json::{Map, Value, json};

/// One schema for all kinds: each `[[adapter]]` is the one that its `kind` says.
pub(super) fn of(registry: &Registry) -> Value {
    let mut definitions = Map::new();
    let mut kinds = Vec::new();
    for adapter in registry.iter() {
        let mut schema = (adapter.config_schema)();
        let prefix = format!("{}.", adapter.kind);
        lift_definitions(&mut schema, &prefix, &mut definitions);
        let mut own = Map::new();
        own.insert(
            "kind".into(),
            json!({ "const": adapter.kind, "description": adapter.summary }),
        );
        own.insert(
            "source".into(),
            identifier("What its children are filed under"),
        );
        if adapter.role == SourceRole::Carrier {
            let names = json!({
                "type": "array",
                "items": identifier("A source"),
                "description": "The only sources that it may speak of",
            });
            own.insert("only_sources".into(), names);
        }
        add_keys(&mut schema, &own);
        kinds.push(schema);
    }
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Fleet",
        "description": "The adapters that a host runs",
        "type": "object",
        "properties": {
            "adapter": { "type": "array", "minItems": 1, "items": { "oneOf": kinds } },
        },
        "required": ["adapter"],
        "additionalProperties": false,
    });
    if !definitions.is_empty() {
        schema["$defs"] = Value::Object(definitions);
    }
    schema
}

fn identifier(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "maxLength": 512, "description": description })
}

/// Moves a schema's definitions to the root, under names that no other kind has.
fn lift_definitions(schema: &mut Value, prefix: &str, all: &mut Map<String, Value>) {
    if let Some(root) = schema.as_object_mut() {
        root.remove("$schema");
        if let Some(Value::Object(definitions)) = root.remove("$defs") {
            for (name, mut definition) in definitions {
                rename_references(&mut definition, prefix);
                all.insert(format!("{prefix}{name}"), definition);
            }
        }
    }
    rename_references(schema, prefix);
}

fn rename_references(value: &mut Value, prefix: &str) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                match value {
                    Value::String(target) if key == "$ref" => {
                        if let Some(name) = target.strip_prefix("#/$defs/") {
                            *target = format!("#/$defs/{prefix}{name}");
                        }
                    }
                    other => rename_references(other, prefix),
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| rename_references(item, prefix)),
        _ => (),
    }
}

/// Adds the host's keys wherever the schema lists an adapter's own.
fn add_keys(schema: &mut Value, own: &Map<String, Value>) {
    let Some(root) = schema.as_object_mut() else {
        return;
    };
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let Some(Value::Array(choices)) = root.get_mut(choice) {
            for choice in choices {
                add_keys(choice, own);
            }
        }
    }
    root.entry("type").or_insert_with(|| json!("object"));
    if let Value::Object(properties) = root.entry("properties").or_insert_with(|| json!({})) {
        for (key, schema) in own {
            properties.insert(key.clone(), schema.clone());
        }
    }
    if let Value::Array(required) = root.entry("required").or_insert_with(|| json!([])) {
        required.insert(0, json!("kind"));
    }
}
