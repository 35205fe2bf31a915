//! The configuration of one stream.

use std::path::PathBuf;
use std::time::Duration;

use headcount_contract::{AdapterError, AdapterErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::decoder::DecoderLimits;
use crate::follow::StartAt;

/// One stream of JSON lines.
///
/// ```
/// use headcount_adapter_jsonl::{JsonlConfig, StartAt};
/// let config: JsonlConfig = serde_json::from_str(r#"{"path": "events.jsonl", "start": "end"}"#)?;
/// assert_eq!(config.start, StartAt::End);
/// assert!(config.follow);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JsonlConfig {
    /// The file, FIFO or Unix socket to read; `-` is standard input. A file need not exist yet.
    pub path: PathBuf,
    /// Where to start in a file that exists already: `beginning`, `end`, or a saved position.
    #[serde(default)]
    pub start: StartAt,
    /// Whether to wait for more at the end.
    #[serde(default = "yes")]
    pub follow: bool,
    /// The process that writes the stream. When it has exited and all that it wrote was read, the
    /// stream is over; the end of a file alone proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// The longest line that is read, in bytes before its line end.
    #[serde(default = "max_line")]
    pub max_line_bytes: usize,
    /// The deepest nesting that is read, at most 512.
    #[serde(default = "max_depth")]
    pub max_depth: usize,
    /// How often to look, in milliseconds, besides whenever the system tells of a change.
    #[serde(default = "poll_ms")]
    pub poll_ms: u64,
}

fn yes() -> bool {
    true
}

fn max_line() -> usize {
    DecoderLimits::default().max_line()
}

fn max_depth() -> usize {
    DecoderLimits::default().max_depth()
}

fn poll_ms() -> u64 {
    250
}

impl JsonlConfig {
    /// The stream at `path`, from its beginning, waiting for more.
    ///
    /// ```
    /// use headcount_adapter_jsonl::JsonlConfig;
    /// let config = JsonlConfig::new("events.jsonl");
    /// assert_eq!(config.max_line_bytes, 65_536);
    /// ```
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            start: StartAt::default(),
            follow: true,
            pid: None,
            max_line_bytes: max_line(),
            max_depth: max_depth(),
            poll_ms: poll_ms(),
        }
    }

    /// Checks what the types alone do not say.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`] that names the key.
    pub(crate) fn check(&self) -> Result<(), AdapterError> {
        let wrong = |key, expected: &str| {
            Err(
                AdapterError::new(AdapterErrorKind::InvalidConfig, "a value is out of range")
                    .with_context("key", key)
                    .with_context("expected", expected),
            )
        };
        if self.path.as_os_str().is_empty() {
            return wrong("path", "a path, or - for standard input");
        }
        if self.max_line_bytes == 0 || self.max_line_bytes > MAX_LINE {
            return wrong("max_line_bytes", "1 to 67108864");
        }
        if self.max_depth == 0 || self.max_depth > 512 {
            return wrong("max_depth", "1 to 512");
        }
        if self.poll_ms == 0 || self.poll_ms > 60_000 {
            return wrong("poll_ms", "1 to 60000");
        }
        if self.pid == Some(0) {
            return wrong("pid", "the id of a process");
        }
        Ok(())
    }

    pub(crate) fn limits(&self) -> DecoderLimits {
        DecoderLimits::default()
            .with_max_line(self.max_line_bytes)
            .with_max_depth(self.max_depth)
    }

    pub(crate) fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }
}

/// A line is held in memory as a whole.
const MAX_LINE: usize = 64 * 1024 * 1024;
