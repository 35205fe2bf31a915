//! Additional facts of an event: a JSON object that never carries identity, order, state or
//! liveness (rule W6).

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value, value::RawValue};

use crate::wire::json;

/// What stands in place of a value under a key that looks secret.
pub const REDACTED: &str = "[redacted]";

/// What stands in place of a value that is nested too deep.
pub const TOO_DEEP: &str = "[nested too deep]";

/// The deepest nesting of built details, their own object included: a snapshot line puts three
/// levels around those of a child.
const MAX_DEPTH: usize = 64 - 3;

/// Additional facts of an event or of a child in a snapshot: a JSON object, or nothing.
///
/// Values under keys that look secret (see [`is_secret_key`]) are replaced by [`REDACTED`] before
/// they are kept. Held as compact JSON text, so that an event that only passes through costs no
/// tree; cloning is cheap. Two are equal if their texts are.
///
/// What is built may nest as deep as it likes: a value deeper than 61 levels is replaced by
/// [`TOO_DEEP`], so that the line it ends up in can be read back under the default cap (rule W5).
///
/// ```
/// use headcount_contract::Details;
/// use serde_json::json;
/// let details = Details::from_iter([("pid", json!(42)), ("api_key", json!("hunter2"))]);
/// assert_eq!(details.get("pid"), Some(json!(42)));
/// assert_eq!(details.as_json(), r#"{"pid":42,"api_key":"[redacted]"}"#);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Details(Option<Arc<str>>);

impl Details {
    /// No details.
    pub const EMPTY: Self = Self(None);

    /// Takes the text of a JSON object that the checking scanner has accepted.
    pub(crate) fn from_checked(text: &str) -> Self {
        let text = json::compact(text);
        if &*text == "{}" {
            Self::EMPTY
        } else {
            Self(Some(text.into()))
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The object as compact JSON text; `{}` if there are none.
    pub fn as_json(&self) -> &str {
        self.0.as_deref().unwrap_or("{}")
    }

    /// The value under `key`; none if there is none or it is a number no `f64` holds.
    pub fn get(&self, key: &str) -> Option<Value> {
        json::member(self.0.as_deref()?, key).and_then(|raw| serde_json::from_str(raw).ok())
    }

    /// The same with the members of `more` added, which replace those of the same name.
    pub fn with(&self, more: impl IntoIterator<Item = (impl Into<String>, Value)>) -> Self {
        let mut map = self.to_map();
        map.extend(more.into_iter().map(|(key, value)| (key.into(), value)));
        map.into()
    }

    /// The object as a map; a number that no `f64` holds is left out with its whole object.
    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(self.as_json()).unwrap_or_default()
    }
}

/// Whether a value under this key must not be kept, shown or journaled (rule W6): the key, without
/// case and separators, contains secret, token, password, passwd, authorization, cookie, apikey,
/// credential or privatekey.
///
/// A number or null under a key that ends in `tokens` is a count, not a secret, and is kept.
///
/// ```
/// use headcount_contract::is_secret_key;
/// assert!(is_secret_key("X-Api-Key") && is_secret_key("sessionToken"));
/// assert!(!is_secret_key("pid"));
/// ```
pub fn is_secret_key(key: &str) -> bool {
    // The shortest mark has five letters: most keys are ruled out without folding them.
    if key.len() < 5 {
        return false;
    }
    // A key of a stream is seen with every line: the usual one is folded in place.
    let mut folded = [0_u8; 64];
    if key.len() <= folded.len() && key.is_ascii() {
        let mut length = 0;
        for byte in key.bytes().filter(|b| !is_separator(char::from(*b))) {
            folded[length] = byte.to_ascii_lowercase();
            length += 1;
        }
        return has_mark(&folded[..length]);
    }
    let folded: String = key
        .chars()
        .filter(|c| !is_separator(*c))
        .flat_map(char::to_lowercase)
        .collect();
    has_mark(folded.as_bytes())
}

fn is_separator(c: char) -> bool {
    matches!(c, '_' | '-' | '.' | ' ')
}

/// Whether a folded key holds one of the words that mark a secret.
fn has_mark(folded: &[u8]) -> bool {
    (0..folded.len()).any(|at| {
        let rest = &folded[at..];
        let marks: &[&[u8]] = match rest[0] {
            b's' => &[b"secret"],
            b't' => &[b"token"],
            b'p' => &[b"password", b"passwd", b"privatekey"],
            b'a' => &[b"authorization", b"apikey"],
            b'c' => &[b"cookie", b"credential"],
            _ => &[],
        };
        marks.iter().any(|mark| rest.starts_with(mark))
    })
}

/// Whether a secret-looking key holds a mere count, as `input_tokens: 512` does.
pub(crate) fn is_token_count(key: &str, value: &str) -> bool {
    let number = value.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    (number || value == "null") && key.to_ascii_lowercase().ends_with("tokens")
}

impl From<Map<String, Value>> for Details {
    fn from(map: Map<String, Value>) -> Self {
        let mut value = Value::Object(map);
        prune(&mut value, MAX_DEPTH);
        Self::from_checked(&value.to_string())
    }
}

/// Replaces what is nested deeper than `levels`.
fn prune(value: &mut Value, levels: usize) {
    match value {
        Value::Object(_) | Value::Array(_) if levels == 0 => *value = TOO_DEEP.into(),
        Value::Object(map) => map.values_mut().for_each(|value| prune(value, levels - 1)),
        Value::Array(values) => values.iter_mut().for_each(|value| prune(value, levels - 1)),
        _ => (),
    }
}

impl<K: Into<String>> FromIterator<(K, Value)> for Details {
    fn from_iter<T: IntoIterator<Item = (K, Value)>>(members: T) -> Self {
        members
            .into_iter()
            .map(|(k, v)| (k.into(), v))
            .collect::<Map<_, _>>()
            .into()
    }
}

impl fmt::Debug for Details {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_json())
    }
}

impl serde::Serialize for Details {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_str::<&RawValue>(self.as_json())
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn details(value: &Value) -> Details {
        Details::from(value.as_object().unwrap().clone())
    }

    #[test]
    fn redacts_at_every_depth() {
        let given = json!({
            "env": [{"GITHUB_TOKEN": "ghp_x", "PATH": "/bin"}],
            "Authorization": {"scheme": "Bearer", "value": "x"},
            "password": 1234,
            "input_tokens": 512,
            "tokens": "abc",
        });
        insta::assert_snapshot!(details(&given).as_json(), @r#"{"env":[{"GITHUB_TOKEN":"[redacted]","PATH":"/bin"}],"Authorization":"[redacted]","password":"[redacted]","input_tokens":512,"tokens":"[redacted]"}"#);
    }

    #[test]
    fn every_mark_is_found_in_every_writing() {
        let marks = [
            "secret",
            "token",
            "password",
            "passwd",
            "authorization",
            "cookie",
            "apikey",
            "credential",
            "privatekey",
        ];
        for mark in marks {
            let (first, rest) = mark.split_at(2);
            for key in [
                mark.to_owned(),
                mark.to_uppercase(),
                format!("x-{first}_{rest}.y"),
                format!("{}{mark}", "long".repeat(40)),
                format!("\u{e9}{first}-{rest}"),
            ] {
                assert!(is_secret_key(&key), "{key}");
            }
            assert!(
                !is_secret_key(&mark[1..]) && !is_secret_key(&mark[..mark.len() - 1]),
                "{mark}"
            );
        }
    }

    #[test]
    fn an_empty_object_is_no_details() {
        assert_eq!(details(&json!({})), Details::EMPTY);
    }

    #[test]
    fn what_is_nested_too_deep_is_replaced() {
        let nested = |levels: usize| (1..levels).fold(json!([]), |inner, _| json!([inner]));
        let kept = nested(60);
        assert_eq!(
            Details::from_iter([("a", kept.clone())]).get("a"),
            Some(kept)
        );
        let cut = Details::from_iter([("a", nested(61))]).as_json().to_owned();
        assert!(cut.contains(&format!("[\"{TOO_DEEP}\"]")), "{cut}");
    }

    #[test]
    fn with_replaces_members_of_the_same_name() {
        let both = details(&json!({"a": 1, "b": 2})).with([("b", json!(3))]);
        assert_eq!(both.as_json(), r#"{"a":1,"b":3}"#);
    }
}
