//! Which key of a configuration is at fault, where the adapter does not say.

use headcount_contract::{AdapterRegistration, AdapterSpec};
use serde_json::{Map, Value};

use crate::session::guarded;

/// The path of the key without which the adapter has another complaint, or none.
///
/// Building does no I/O, so it can be tried without each key in turn.
pub(super) fn key(
    registration: &AdapterRegistration,
    spec: &AdapterSpec,
    complaint: &str,
) -> Option<String> {
    let still_wrong = |config: Value| {
        let mut other = AdapterSpec::new(config);
        other.source.clone_from(&spec.source);
        let built = guarded("build", || (registration.build)(other));
        matches!(built, Ok(Err(error)) if error.to_string() == complaint)
    };
    let root = spec.config.as_object()?;
    let mut path: Vec<String> = Vec::new();
    // Deeper and deeper, as long as a key within the one at fault is the one.
    while let Some(found) = members(root, &path)?
        .keys()
        .find(|key| !still_wrong(without(root, &path, key)))
    {
        path.push(found.clone());
        if members(root, &path).is_none() {
            break;
        }
    }
    (!path.is_empty()).then(|| path.join("."))
}

/// The members of the table at a path, if it is one.
fn members<'v>(root: &'v Map<String, Value>, path: &[String]) -> Option<&'v Map<String, Value>> {
    path.iter()
        .try_fold(root, |table, key| table.get(key)?.as_object())
}

/// The configuration without one key.
fn without(root: &Map<String, Value>, path: &[String], key: &str) -> Value {
    let mut config = root.clone();
    let table = path.iter().try_fold(&mut config, |table, key| {
        table.get_mut(key)?.as_object_mut()
    });
    if let Some(table) = table {
        table.remove(key);
    }
    Value::Object(config)
}
