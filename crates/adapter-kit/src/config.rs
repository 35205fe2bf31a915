//! What every configuration has in common.

use headcount_contract::{AdapterError, AdapterErrorKind};
use serde_json::Value;

/// Takes a configuration that is an object, and refuses any other.
///
/// Derived readers take a list for a struct, its elements in the order of the fields: a
/// configuration must name its keys.
///
/// ```
/// use headcount_adapter_kit::config_object;
/// use serde_json::json;
/// assert!(config_object(json!({ "path": "events.jsonl" })).is_ok());
/// assert!(config_object(json!(["events.jsonl"])).is_err());
/// ```
///
/// # Errors
///
/// [`AdapterErrorKind::InvalidConfig`] that says what was found instead.
pub fn config_object(config: Value) -> Result<Value, AdapterError> {
    let found = match &config {
        Value::Object(_) => return Ok(config),
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
    };
    Err(AdapterError::new(
        AdapterErrorKind::InvalidConfig,
        "a configuration is a table of keys and values",
    )
    .with_context("found", found))
}
