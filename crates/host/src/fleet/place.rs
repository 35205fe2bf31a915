//! Where things stand in a TOML file, and what they are as JSON.

use std::ops::Range;

use serde_json::{Number, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::FleetError;

/// A file's text.
pub(super) struct Text<'a>(pub(super) &'a str);

impl Text<'_> {
    /// An error at the start of a span.
    pub(super) fn error(
        &self,
        span: Range<usize>,
        key: Option<&str>,
        message: String,
    ) -> FleetError {
        let mut at = span.start.min(self.0.len());
        while !self.0.is_char_boundary(at) {
            at -= 1;
        }
        let before = &self.0[..at];
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let end = self.0[at..].find('\n').map_or(self.0.len(), |end| at + end);
        FleetError {
            line: before.matches('\n').count() + 1,
            column: before[start..].chars().count() + 1,
            key: key.map(ToOwned::to_owned),
            message,
            text: self.0[start..end].trim_end_matches('\r').to_owned(),
        }
    }

    /// The place of a table's header: of its first byte, wherever the table's own span begins.
    pub(super) fn header(&self, span: Range<usize>) -> Range<usize> {
        let start = span.start.min(self.0.len());
        start..start
    }
}

/// The place of a key as an adapter names it: `readiness.port`, `args[1]`, or as much of it as
/// stands in the file.
pub(super) fn of_key(table: &DeTable<'_>, path: &str) -> Option<Range<usize>> {
    let mut parts = path
        .split(['.', '['])
        .map(|part| part.trim_end_matches(']'))
        .filter(|part| !part.is_empty());
    let (key, mut value) = find(table, parts.next()?)?;
    let mut span = key;
    for part in parts {
        let next = match value.get_ref() {
            DeValue::Table(table) => find(table, part),
            DeValue::Array(items) => part
                .parse::<usize>()
                .ok()
                .and_then(|at| items.get(at))
                .map(|item| (item.span(), item)),
            _ => None,
        };
        let Some((place, inner)) = next else {
            break;
        };
        (span, value) = (place, inner);
    }
    Some(span)
}

fn find<'t, 'i>(
    table: &'t DeTable<'i>,
    key: &str,
) -> Option<(Range<usize>, &'t Spanned<DeValue<'i>>)> {
    table
        .iter()
        .find(|(name, _)| name.get_ref() == key)
        .map(|(name, value)| (name.span(), value))
}

/// What kind of value it is, for people.
pub(super) fn named(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

/// The value as JSON, or the place that has no JSON form and why.
pub(super) fn to_json(value: &Spanned<DeValue<'_>>) -> Result<Value, (Range<usize>, String)> {
    let fault = |said: &str| (value.span(), said.to_owned());
    Ok(match value.get_ref() {
        DeValue::String(text) => json!(text),
        DeValue::Integer(integer) => {
            let digits = integer.as_str().replace('_', "");
            let signed = i64::from_str_radix(&digits, integer.radix()).map(Number::from);
            let number =
                signed.or_else(|_| u64::from_str_radix(&digits, integer.radix()).map(Number::from));
            Value::Number(number.map_err(|_| fault("the integer is too large"))?)
        }
        DeValue::Float(float) => {
            let number = float
                .as_str()
                .replace('_', "")
                .parse()
                .ok()
                .and_then(Number::from_f64);
            Value::Number(number.ok_or_else(|| fault("the number is not finite"))?)
        }
        DeValue::Boolean(yes) => json!(yes),
        DeValue::Datetime(at) => json!(at.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(to_json).collect::<Result<_, _>>()?),
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(key, value)| Ok((key.get_ref().to_string(), to_json(value)?)))
                .collect::<Result<_, _>>()?,
        ),
    })
}
