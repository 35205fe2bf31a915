//! Values of options: `K=V`, `PORT[/PATH]`; and durations and sizes for a person.

use std::time::Duration;

/// Writes a duration for a person: `340ms`, `4.2s`, `3m 05s`, `2h 10m`, `3d 4h`.
pub(crate) fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{}ms", duration.as_millis()),
        1..=9 => format!("{:.1}s", duration.as_secs_f64()),
        10..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h {:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// The same in at most four columns, for a table: `340ms` is `0s`.
pub(crate) fn brief(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..=59 => format!("{seconds}s"),
        60..=3599 => format!("{}m", seconds / 60),
        3600..=86_399 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Writes a size for a person: `512 B`, `8.4 MB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "kB", "MB", "GB", "TB"];
    #[allow(clippy::cast_precision_loss)] // shown with two digits
    let mut size = bytes as f64;
    let mut unit = 0;
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        size /= 1000.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{size:.1} {}", UNITS[unit])
    }
}

/// Reads `K=V`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), value.into())),
        // The text itself is not repeated: it may be a secret whose key was forgotten.
        _ => Err("write KEY=VALUE; to pass on a variable of this shell, --inherit KEY".into()),
    }
}

/// A port and a path to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpTarget {
    pub(crate) port: u16,
    pub(crate) path: String,
}

/// Reads `PORT` or `PORT/PATH`.
pub(crate) fn http_target(text: &str) -> Result<HttpTarget, String> {
    let (port, path) = text.find('/').map_or((text, "/"), |at| text.split_at(at));
    match port.parse() {
        Ok(port) if port > 0 => Ok(HttpTarget {
            port,
            path: path.into(),
        }),
        _ => Err("write PORT or PORT/PATH, as 8080/health, with a port from 1 to 65535".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_for_a_person() {
        for (millis, text, short) in [
            (340, "340ms", "0s"),
            (4_240, "4.2s", "4s"),
            (42_000, "42s", "42s"),
            (185_000, "3m 05s", "3m"),
            (7_800_000, "2h 10m", "2h"),
            (273_600_000, "3d 4h", "3d"),
        ] {
            let duration = Duration::from_millis(millis);
            assert_eq!(
                (human(duration).as_str(), brief(duration).as_str()),
                (text, short)
            );
        }
    }

    #[test]
    fn sizes_are_written_for_a_person() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(8_400_000), "8.4 MB");
    }

    #[test]
    fn a_forgotten_key_is_not_repeated() {
        assert!(!assignment("hunter2").unwrap_err().contains("hunter2"));
        assert_eq!(assignment("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(assignment("=b").is_err());
    }

    #[test]
    fn http_targets_are_read() {
        let target = |port, path: &str| {
            Ok(HttpTarget {
                port,
                path: path.into(),
            })
        };
        assert_eq!(http_target("8080"), target(8080, "/"));
        assert_eq!(http_target("8080/health?x=1"), target(8080, "/health?x=1"));
        for text in ["", "0", "65536", "http://x", "/health"] {
            assert!(http_target(text).is_err(), "{text}");
        }
    }
}
