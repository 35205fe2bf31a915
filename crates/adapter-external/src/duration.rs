//! Durations as a person writes them: `250ms`, `5s`, `2m`, `1h`.

use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A duration in the configuration: a whole number with `ms`, `s`, `m` or `h`.
///
/// ```
/// use std::time::Duration;
/// let every: headcount_adapter_external::HumanDuration = serde_json::from_str(r#""250ms""#)?;
/// assert_eq!(Duration::from(every), Duration::from_millis(250));
/// assert!(serde_json::from_str::<headcount_adapter_external::HumanDuration>(r#""250""#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HumanDuration(Duration);

impl From<HumanDuration> for Duration {
    fn from(duration: HumanDuration) -> Self {
        duration.0
    }
}

impl From<Duration> for HumanDuration {
    /// Below a millisecond is nothing here.
    fn from(duration: Duration) -> Self {
        Self(Duration::from_millis(
            u64::try_from(duration.as_millis()).unwrap_or(u64::MAX),
        ))
    }
}

const UNITS: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];

fn parse(text: &str) -> Option<Duration> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    Some(Duration::from_millis(
        number.parse::<u64>().ok()?.checked_mul(*millis)?,
    ))
}

impl<'de> Deserialize<'de> for HumanDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        parse(&text).map(Self).ok_or_else(|| {
            D::Error::custom(format_args!(
                "{text:?} is no duration, write one as \"250ms\", \"5s\" or \"2m\""
            ))
        })
    }
}

impl Serialize for HumanDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let (name, of) = UNITS
            .iter()
            .rev()
            .find(|(_, of)| millis > 0 && millis.is_multiple_of(*of))
            .unwrap_or(&UNITS[0]);
        serializer.collect_str(&format_args!("{}{name}", millis / of))
    }
}

impl JsonSchema for HumanDuration {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Duration".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_what_a_person_does() {
        let cases = [
            ("0ms", 0, "0ms"),
            ("250ms", 250, "250ms"),
            ("1000ms", 1000, "1s"),
            ("90s", 90_000, "90s"),
            ("120s", 120_000, "2m"),
            ("2h", 7_200_000, "2h"),
        ];
        for (text, millis, written) in cases {
            let read: HumanDuration = serde_json::from_value(text.into()).unwrap();
            assert_eq!(Duration::from(read).as_millis(), millis);
            assert_eq!(serde_json::to_value(read).unwrap(), written);
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5 s",
            "5S",
            "5d",
            "99999999999999999999s",
            "18446744073709551615h",
        ] {
            assert!(
                serde_json::from_value::<HumanDuration>(text.into()).is_err(),
                "{text:?}"
            );
        }
    }
}
