//! Moments on the wire: RFC 3339 in UTC (rule W3).

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A moment, in UTC, to the nanosecond, from year 0000 to 9999.
///
/// The contract owns no clock: whoever observes something says when. Written with at least three
/// fraction digits and `Z`; read as rule W3 says.
///
/// ```
/// use headcount_contract::Timestamp;
/// let at: Timestamp = "2026-08-24T09:15:30.5Z".parse()?;
/// assert_eq!(at.to_string(), "2026-08-24T09:15:30.500Z");
/// assert_eq!(Timestamp::from_millis(1_500)?.to_string(), "1970-01-01T00:00:01.500Z");
/// # Ok::<(), headcount_contract::TimestampError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    nanos: u32,
}

/// Why a text or number is not a [`Timestamp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimestampError {
    /// Not `YYYY-MM-DDTHH:MM:SS`, with up to 9 fraction digits, and `Z` or `+00:00`.
    Form,
    /// A month, day, hour, minute or second that no calendar has.
    Calendar,
    /// Outside the years 0000 to 9999.
    Range,
}

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => {
                "a time is RFC 3339 in UTC, as 2026-08-24T09:15:30.123Z (up to 9 fraction digits)"
            }
            Self::Calendar => "no calendar has this day or time of day",
            Self::Range => "a time lies in the years 0000 to 9999",
        })
    }
}

impl std::error::Error for TimestampError {}

const NANOS: u32 = 1_000_000_000;
const MIN_SECONDS: i64 = -62_167_219_200; // 0000-01-01T00:00:00Z
const MAX_SECONDS: i64 = 253_402_300_799; // 9999-12-31T23:59:59Z

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self {
        seconds: 0,
        nanos: 0,
    };

    /// Whole seconds since 1970 and the nanoseconds within that second.
    ///
    /// # Errors
    ///
    /// [`TimestampError::Range`] outside the years 0000 to 9999 or for a billion nanoseconds.
    pub const fn from_unix(seconds: i64, nanos: u32) -> Result<Self, TimestampError> {
        if seconds < MIN_SECONDS || seconds > MAX_SECONDS || nanos >= NANOS {
            return Err(TimestampError::Range);
        }
        Ok(Self { seconds, nanos })
    }

    /// Milliseconds since 1970, as JavaScript counts.
    ///
    /// # Errors
    ///
    /// [`TimestampError::Range`] outside the years 0000 to 9999.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rem_euclid is below 1000
    pub const fn from_millis(millis: i64) -> Result<Self, TimestampError> {
        Self::from_unix(
            millis.div_euclid(1000),
            millis.rem_euclid(1000) as u32 * 1_000_000,
        )
    }

    /// Whole seconds since 1970, towards the past.
    pub const fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds within the second.
    pub const fn subsec_nanos(self) -> u32 {
        self.nanos
    }

    /// Milliseconds since 1970, towards the past.
    pub const fn as_millis(self) -> i64 {
        self.seconds * 1000 + (self.nanos / 1_000_000) as i64
    }

    /// Nanoseconds since 1970.
    pub const fn as_nanos(self) -> i128 {
        self.seconds as i128 * NANOS as i128 + self.nanos as i128
    }

    /// This moment plus `by`, at most the end of year 9999.
    pub fn saturating_add(self, by: Duration) -> Self {
        let nanos = self.nanos + by.subsec_nanos();
        let seconds = i64::try_from(by.as_secs())
            .ok()
            .and_then(|by| self.seconds.checked_add(by))
            .and_then(|s| s.checked_add(i64::from(nanos / NANOS)));
        seconds
            .and_then(|seconds| Self::from_unix(seconds, nanos % NANOS).ok())
            .unwrap_or(Self {
                seconds: MAX_SECONDS,
                nanos: NANOS - 1,
            })
    }

    /// How long this moment lies after `earlier`; zero if it does not.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let nanos = self.as_nanos() - earlier.as_nanos();
        u128::try_from(nanos).map_or(Duration::ZERO, |nanos| {
            let seconds = u64::try_from(nanos / u128::from(NANOS)).unwrap_or(u64::MAX);
            #[allow(clippy::cast_possible_truncation)] // a remainder below a billion
            Duration::new(seconds, (nanos % u128::from(NANOS)) as u32)
        })
    }
}

/// What the operating system's clock said, held within the years 0000 to 9999.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::UNIX_EPOCH.saturating_add(after),
            Err(before) => {
                let before = before.duration();
                let borrow = i64::from(before.subsec_nanos() > 0);
                let seconds = i64::try_from(before.as_secs()).map_or(MIN_SECONDS, |s| -s - borrow);
                let nanos = (NANOS - before.subsec_nanos()) % NANOS;
                Self::from_unix(seconds, nanos).unwrap_or(Self {
                    seconds: MIN_SECONDS,
                    nanos: 0,
                })
            }
        }
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        let bytes = text.as_bytes();
        let (head, rest) = bytes.split_at_checked(19).ok_or(TimestampError::Form)?;
        let number = |range: std::ops::Range<usize>| {
            head[range].iter().try_fold(0_u32, |sum, b| {
                if b.is_ascii_digit() {
                    Ok(sum * 10 + u32::from(b - b'0'))
                } else {
                    Err(TimestampError::Form)
                }
            })
        };
        let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if separators.iter().any(|&(at, want)| head[at] != want) {
            return Err(TimestampError::Form);
        }
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        let nanos = fraction(rest)?;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let days = match month {
            1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
            4 | 6 | 9 | 11 => 30,
            2 if leap => 29,
            2 => 28,
            _ => return Err(TimestampError::Calendar),
        };
        if day == 0 || day > days || hour > 23 || minute > 59 || second > 59 {
            return Err(TimestampError::Calendar);
        }
        let day_seconds = i64::from(hour * 3600 + minute * 60 + second);
        Self::from_unix(
            days_from_civil(year, month, day) * 86_400 + day_seconds,
            nanos,
        )
    }
}

/// Reads `[.digits](Z|+00:00)` to nanoseconds.
fn fraction(rest: &[u8]) -> Result<u32, TimestampError> {
    let rest = rest
        .strip_suffix(b"Z")
        .or_else(|| rest.strip_suffix(b"+00:00"));
    match rest.ok_or(TimestampError::Form)? {
        [] => Ok(0),
        [b'.', digits @ ..] if (1..=9).contains(&digits.len()) => {
            let padded = digits
                .iter()
                .copied()
                .chain(std::iter::repeat(b'0'))
                .take(9);
            padded.into_iter().try_fold(0_u32, |sum, b| {
                if b.is_ascii_digit() {
                    Ok(sum * 10 + u32::from(b - b'0'))
                } else {
                    Err(TimestampError::Form)
                }
            })
        }
        _ => Err(TimestampError::Form),
    }
}

// Both directions after Howard Hinnant's "chrono-compatible low-level date algorithms".
fn days_from_civil(year: u32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * i64::from((month + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.seconds.div_euclid(86_400));
        let second = self.seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}."
        )?;
        if self.nanos.is_multiple_of(1_000_000) {
            write!(f, "{:03}Z", self.nanos / 1_000_000)
        } else if self.nanos.is_multiple_of(1_000) {
            write!(f, "{:06}Z", self.nanos / 1_000)
        } else {
            write!(f, "{:09}Z", self.nanos)
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl serde::Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Timestamp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Timestamp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Timestamp".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        crate::schema::timestamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_rule_w3_accepts() {
        let cases = [
            ("2026-08-24T09:15:30Z", "2026-08-24T09:15:30.000Z"),
            ("2026-08-24T09:15:30.1Z", "2026-08-24T09:15:30.100Z"),
            ("2026-08-24T09:15:30.123456Z", "2026-08-24T09:15:30.123456Z"),
            (
                "2026-08-24T09:15:30.123456789Z",
                "2026-08-24T09:15:30.123456789Z",
            ),
            ("2026-08-24T09:15:30+00:00", "2026-08-24T09:15:30.000Z"),
            ("2024-02-29T23:59:59Z", "2024-02-29T23:59:59.000Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
            (
                "9999-12-31T23:59:59.999999999Z",
                "9999-12-31T23:59:59.999999999Z",
            ),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ];
        for (text, written) in cases {
            assert_eq!(text.parse::<Timestamp>().unwrap().to_string(), written);
        }
    }

    #[test]
    fn refuses_what_rule_w3_refuses() {
        use TimestampError::{Calendar, Form};
        let cases = [
            ("", Form),
            ("2026-08-24", Form),
            ("2026-08-24 09:15:30Z", Form),
            ("2026-08-24t09:15:30Z", Form),
            ("2026-08-24T09:15:30z", Form),
            ("2026-08-24T09:15:30", Form),
            ("2026-08-24T09:15Z", Form),
            ("2026-08-24T09:15:30,5Z", Form),
            ("2026-08-24T09:15:30.Z", Form),
            ("2026-08-24T09:15:30.1234567890Z", Form),
            ("2026-08-24T09:15:30+02:00", Form),
            ("2026-08-24T09:15:30-00:00", Form),
            ("+026-08-24T09:15:30Z", Form),
            ("2026-13-24T09:15:30Z", Calendar),
            ("2026-00-24T09:15:30Z", Calendar),
            ("2026-02-29T09:15:30Z", Calendar),
            ("2026-04-31T09:15:30Z", Calendar),
            ("2026-08-24T24:00:00Z", Calendar),
            ("2026-08-24T09:60:30Z", Calendar),
            ("2026-06-30T23:59:60Z", Calendar),
            ("2026-08-24T09:15:3éZ", Form),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Timestamp>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn a_system_time_before_1970_keeps_its_nanoseconds() {
        let time = UNIX_EPOCH - Duration::new(1, 250_000_000);
        assert_eq!(
            Timestamp::from(time).to_string(),
            "1969-12-31T23:59:58.750Z"
        );
    }

    proptest! {
        #[test]
        fn writing_and_reading_is_the_identity(s in MIN_SECONDS..=MAX_SECONDS, n in 0..NANOS) {
            let at = Timestamp::from_unix(s, n).unwrap();
            prop_assert_eq!(at.to_string().parse(), Ok(at));
        }

        #[test]
        fn since_undoes_add(s in 0..4_000_000_000_i64, n in 0..NANOS, by in 0..u64::from(u32::MAX)) {
            let at = Timestamp::from_unix(s, n).unwrap();
            let by = Duration::from_micros(by);
            prop_assert_eq!(at.saturating_add(by).saturating_since(at), by);
        }
    }
}
