//! Durations as people write them in configurations: `250ms`, `5s`, `2m`, `1h`.
//!
//! For serde fields of type [`Duration`]: `#[serde(with = "headcount_adapter_kit::duration")]`.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serializer};

/// A text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotADuration(String);

impl fmt::Display for NotADuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a duration; write a number and a unit, such as 250ms, 5s, 2m or 1h",
            self.0.escape_debug()
        )
    }
}

impl std::error::Error for NotADuration {}

const UNITS: [(&str, u32); 4] = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)];

/// Reads a duration: digits with at most three decimals, and a unit.
///
/// ```
/// use std::time::Duration;
/// use headcount_adapter_kit::duration;
/// assert_eq!(duration::parse("250ms"), Ok(Duration::from_millis(250)));
/// assert_eq!(duration::parse("1.5s"), Ok(Duration::from_millis(1500)));
/// assert!(duration::parse("5").is_err());
/// ```
///
/// # Errors
///
/// [`NotADuration`] for anything else, and above 2^32 - 1 hours.
pub fn parse(text: &str) -> Result<Duration, NotADuration> {
    read(text).ok_or_else(|| NotADuration(text.chars().take(64).collect()))
}

fn read(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(unit_at);
    let (_, millis) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (whole, fraction) = match number.split_once('.') {
        None => (number, 0),
        Some((whole, digits)) if (1..=3).contains(&digits.len()) => {
            (whole, digits_only(&format!("{digits:0<3}"))?)
        }
        Some(_) => return None,
    };
    let whole = u64::from(digits_only(whole)?);
    let millis = u64::from(*millis);
    Some(Duration::from_micros(
        (whole * 1_000 + u64::from(fraction)) * millis,
    ))
}

fn digits_only(text: &str) -> Option<u32> {
    text.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
    text.parse().ok()
}

/// Writes a duration in the largest unit that leaves no rest; below a millisecond it is cut.
///
/// ```
/// use std::time::Duration;
/// use headcount_adapter_kit::duration;
/// assert_eq!(duration::write(Duration::from_secs(90)), "90s");
/// assert_eq!(duration::write(Duration::from_millis(1500)), "1500ms");
/// ```
pub fn write(duration: Duration) -> String {
    let millis = duration.as_millis();
    let (name, size) = UNITS
        .into_iter()
        .rev()
        .find(|(_, size)| millis.is_multiple_of(u128::from(*size)) && millis > 0)
        .unwrap_or(UNITS[0]);
    format!("{}{name}", millis / u128::from(size))
}

/// Serialises as text.
///
/// # Errors
///
/// What the serialiser answers.
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&write(*duration))
}

/// Reads text.
///
/// # Errors
///
/// [`NotADuration`] as the deserialiser's own error.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
    parse(&text).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_it_writes() {
        for millis in [0, 1, 250, 999, 1_000, 1_500, 60_000, 90_000, 3_600_000] {
            let duration = Duration::from_millis(millis);
            assert_eq!(parse(&write(duration)), Ok(duration));
        }
    }

    #[test]
    fn refuses_everything_else_and_says_what_would_be_right() {
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1 s",
            "1e3s",
            "1.s",
            "1.0000s",
            "1d",
            "٣s",
            "99999999999s",
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("250ms"), "{error}");
        }
    }
}
