//! As much of JSON Schema as configurations need: enough to say that an example does not fit.

use serde_json::Value;

/// Checks a value; the fault names the place. Keywords it does not know accept everything.
pub(crate) fn check(schema: &Value, value: &Value) -> Result<(), String> {
    at(schema, schema, value, "the configuration", 0)
}

fn at(root: &Value, schema: &Value, value: &Value, place: &str, depth: u8) -> Result<(), String> {
    if depth > 64 {
        return Err(format!("{place}: the schema refers to itself without end"));
    }
    let depth = depth + 1;
    let Some(schema) = schema.as_object() else {
        return match schema {
            Value::Bool(false) => Err(format!("{place} may not be there")),
            _ => Ok(()),
        };
    };
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = reference
            .strip_prefix('#')
            .and_then(|pointer| root.pointer(pointer))
            .ok_or_else(|| format!("{place}: {reference} refers to nothing"))?;
        at(root, target, value, place, depth)?;
    }
    if let Some(types) = schema.get("type")
        && !names(types).any(|name| is_a(name, value))
    {
        return Err(format!("{place} is {value}, not {types}"));
    }
    if let Some(expected) = schema.get("const")
        && expected != value
    {
        return Err(format!("{place} is {value}, not {expected}"));
    }
    if let Some(Value::Array(allowed)) = schema.get("enum")
        && !allowed.contains(value)
    {
        return Err(format!("{place} is {value}, none of {allowed:?}"));
    }
    for (keyword, all) in [("allOf", true), ("anyOf", false), ("oneOf", false)] {
        let Some(Value::Array(options)) = schema.get(keyword) else {
            continue;
        };
        let mut faults = options
            .iter()
            .filter_map(|o| at(root, o, value, place, depth).err());
        let fits = if all {
            faults.next().is_none()
        } else {
            faults.count() < options.len()
        };
        if !fits {
            return Err(format!("{place} is {value}, which does not fit {keyword}"));
        }
    }
    if let (Some(items), Some(elements)) = (schema.get("items"), value.as_array()) {
        for (index, element) in elements.iter().enumerate() {
            at(root, items, element, &format!("{place}[{index}]"), depth)?;
        }
    }
    members(root, schema, value, place, depth)
}

fn members(
    root: &Value,
    schema: &serde_json::Map<String, Value>,
    value: &Value,
    place: &str,
    depth: u8,
) -> Result<(), String> {
    let Some(object) = value.as_object() else {
        return Ok(());
    };
    let properties = schema.get("properties").and_then(Value::as_object);
    for key in schema.get("required").into_iter().flat_map(names) {
        if !object.contains_key(key) {
            return Err(format!("{place} lacks {key}"));
        }
    }
    for (key, member) in object {
        let place = format!("{place}.{key}");
        match properties.and_then(|properties| properties.get(key)) {
            Some(property) => at(root, property, member, &place, depth)?,
            None => {
                if let Some(additional) = schema.get("additionalProperties") {
                    at(root, additional, member, &place, depth)?;
                }
            }
        }
    }
    Ok(())
}

/// One name or a list of them.
fn names(value: &Value) -> impl Iterator<Item = &str> {
    let list = value
        .as_array()
        .map_or(std::slice::from_ref(value), Vec::as_slice);
    list.iter().filter_map(Value::as_str)
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_where_a_value_does_not_fit() {
        let schema = json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["path"],
            "properties": {
                "path": { "type": "string" },
                "cap": { "type": ["integer", "null"] },
                "mode": { "$ref": "#/$defs/Mode" },
                "tags": { "type": "array", "items": { "type": "string" } },
                "either": { "anyOf": [{ "type": "string" }, { "type": "boolean" }] },
            },
            "$defs": { "Mode": { "enum": ["tail", "whole"] } },
        });
        let cases = [
            (json!({ "path": "a" }), Ok(())),
            (
                json!({ "path": "a", "cap": null, "mode": "tail", "tags": ["x"], "either": true }),
                Ok(()),
            ),
            (json!({}), Err("the configuration lacks path")),
            (
                json!({ "path": 1 }),
                Err("the configuration.path is 1, not \"string\""),
            ),
            (
                json!({ "path": "a", "x": 1 }),
                Err("the configuration.x may not be there"),
            ),
            (
                json!({ "path": "a", "mode": "head" }),
                Err(
                    "the configuration.mode is \"head\", none of [String(\"tail\"), String(\"whole\")]",
                ),
            ),
            (
                json!({ "path": "a", "tags": [1] }),
                Err("the configuration.tags[0] is 1, not \"string\""),
            ),
            (
                json!({ "path": "a", "either": 1 }),
                Err("the configuration.either is 1, which does not fit anyOf"),
            ),
            (json!([]), Err("the configuration is [], not \"object\"")),
        ];
        for (value, expected) in cases {
            let found = check(&schema, &value);
            assert_eq!(found, expected.map_err(str::to_owned), "{value}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({ "$ref": "#" });
        assert!(check(&schema, &json!(1)).is_err());
    }
}
