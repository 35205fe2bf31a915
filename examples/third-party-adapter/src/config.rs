//! The keys that a host may set.

use std::path::PathBuf;

use headcount_adapter_kit::config_object;
use headcount_contract::{AdapterError, AdapterErrorKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Where the workers keep their files.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct SpoolConfig {
    /// The folder. It need not be there yet.
    pub folder: PathBuf,
    /// How often to look, in milliseconds.
    #[serde(default = "interval_ms")]
    pub interval_ms: u64,
}

fn interval_ms() -> u64 {
    500
}

impl SpoolConfig {
    /// Reads and checks a configuration; touches nothing.
    pub(crate) fn read(config: Value) -> Result<Self, AdapterError> {
        let config: Self = serde_json::from_value(config_object(config)?).map_err(|error| {
            // The text names the key that is unknown, missing or wrong.
            AdapterError::new(AdapterErrorKind::InvalidConfig, error.to_string())
        })?;
        if !(1..=60_000).contains(&config.interval_ms) {
            let wrong = AdapterError::new(AdapterErrorKind::InvalidConfig, "give 1 to 60000");
            return Err(wrong
                .with_context("key", "interval_ms")
                .with_context("value", config.interval_ms));
        }
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_is_wrong() {
        let cases = [
            (json!({}), "missing field `folder`"),
            (json!({ "folder": "/a", "x": 1 }), "unknown field `x`"),
            (
                json!({ "folder": "/a", "interval_ms": 0 }),
                "give 1 to 60000",
            ),
        ];
        for (config, expected) in cases {
            let error = SpoolConfig::read(config).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
