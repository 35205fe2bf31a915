//! A runtime's status endpoint: its present state can be told, what came before cannot.

use std::collections::BTreeMap;
use std::time::Duration;

use headcount_contract::{AdapterError, ChildState};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::http::{check_pid, check_url, get_json};
use super::{Evidence, Fits, Tell, check_state, pause_after};
use crate::config::invalid;

/// Where a runtime tells its present state, and how to read it.
///
/// The answer is JSON; what is read of it are JSON pointers (RFC 6901).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StatusEndpoint {
    /// Its address on this machine; `{pid}` stands for the process's number.
    pub url: String,
    /// Where the answer has the state: a JSON pointer to a text, number or truth value.
    pub state: String,
    /// Which state each value means. A value that is not here changes nothing, and is told once.
    #[schemars(with = "BTreeMap<String, String>")]
    pub states: BTreeMap<String, ChildState>,
    /// Where the answer has what the runtime is at work on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activity: Option<String>,
    /// Where the answer has the runtime's own process number, which must be the adopted one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<String>,
    /// The environment variable with the token to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// How often to ask; more rarely while it does not answer.
    #[serde(default = "interval", with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub interval: Duration,
    /// How long an answer may take.
    #[serde(default = "timeout", with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
}

fn interval() -> Duration {
    Duration::from_secs(5)
}

pub(super) fn timeout() -> Duration {
    Duration::from_secs(2)
}

impl StatusEndpoint {
    pub(super) fn check(&self, fits: Fits) -> Result<(), AdapterError> {
        check_url("status.url", &self.url, fits)?;
        check_pointer("status.state", Some(&self.state))?;
        check_pointer("status.activity", self.activity.as_deref())?;
        check_pointer("status.pid", self.pid.as_deref())?;
        if self.states.is_empty() {
            return Err(invalid(
                "status.states",
                "{}",
                "say which state each value means, as { busy = \"running\" }",
            ));
        }
        if self.interval < Duration::from_millis(50) || self.timeout.is_zero() {
            return Err(invalid(
                "status.interval, status.timeout",
                "",
                "at least 50ms, and more than nothing",
            ));
        }
        self.states
            .values()
            .try_for_each(|&state| check_state("status.states", state))
    }

    fn read(&self, answer: &Value, pid: u32) -> Result<StatusReading, String> {
        check_pid(answer, self.pid.as_deref(), pid)?;
        let raw = match answer.pointer(&self.state) {
            Some(Value::String(text)) => text.clone(),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
            _ => {
                return Err(format!(
                    "its answer has no text, number or truth value at {}",
                    self.state
                ));
            }
        };
        let activity = self
            .activity
            .as_ref()
            .and_then(|pointer| answer.pointer(pointer)?.as_str());
        Ok(StatusReading {
            state: self.states.get(&raw).copied(),
            raw: cut(&raw),
            activity: activity.filter(|text| !text.is_empty()).map(str::to_owned),
        })
    }
}

pub(super) fn check_pointer(key: &'static str, pointer: Option<&str>) -> Result<(), AdapterError> {
    match pointer {
        Some(pointer) if !pointer.is_empty() && !pointer.starts_with('/') => {
            Err(invalid(key, pointer, "a JSON pointer, as /status/phase"))
        }
        _ => Ok(()),
    }
}

/// What a status endpoint said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StatusReading {
    /// The value itself.
    pub(crate) raw: String,
    /// What it means, if the host has said.
    pub(crate) state: Option<ChildState>,
    pub(crate) activity: Option<String>,
}

/// Raw values are words; whatever is longer is cut.
fn cut(raw: &str) -> String {
    raw.chars().take(64).collect()
}

/// Asks until nobody listens.
pub(crate) async fn poll(endpoint: StatusEndpoint, tell: Tell) {
    let mut failures = 0;
    loop {
        let answer = get_json(
            &endpoint.url,
            tell.pid,
            endpoint.token_env.as_deref(),
            endpoint.timeout,
        )
        .await;
        let evidence = match answer.and_then(|answer| endpoint.read(&answer, tell.pid)) {
            Ok(reading) => {
                failures = 0;
                Evidence::Status(reading)
            }
            Err(why) => {
                failures += 1;
                Evidence::Condition("status", Err(why))
            }
        };
        if !tell.say(evidence).await {
            return;
        }
        tokio::time::sleep(pause_after(failures, endpoint.interval)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_what_the_host_described_and_nothing_else() {
        let endpoint: StatusEndpoint = serde_json::from_value(json!({
            "url": "http://127.0.0.1:1/", "state": "/a/phase", "activity": "/task", "pid": "/pid",
            "states": { "busy": "running", "true": "waiting", "3": "failed" },
        }))
        .unwrap();
        let reading = |raw: &str, state, activity: Option<&str>| {
            Ok(StatusReading {
                raw: raw.into(),
                state,
                activity: activity.map(str::to_owned),
            })
        };
        let cases = [
            (
                json!({"pid": 7, "a": {"phase": "busy"}, "task": "t"}),
                reading("busy", Some(ChildState::RUNNING), Some("t")),
            ),
            (
                json!({"pid": 7, "a": {"phase": true}}),
                reading("true", Some(ChildState::WAITING), None),
            ),
            (
                json!({"pid": 7, "a": {"phase": 3}, "task": ""}),
                reading("3", Some(ChildState::FAILED), None),
            ),
            (
                json!({"pid": 7, "a": {"phase": "Busy"}, "task": 5}),
                reading("Busy", None, None),
            ),
            (
                json!({"pid": 8, "a": {"phase": "busy"}}),
                Err("it answers for process 8".into()),
            ),
            (
                json!({"a": {"phase": "busy"}}),
                Err("its answer has no process number at /pid".into()),
            ),
            (
                json!({"pid": 7, "a": {"phase": {}}}),
                Err("its answer has no text, number or truth value at /a/phase".into()),
            ),
            (
                json!([]),
                Err("its answer has no process number at /pid".into()),
            ),
        ];
        for (answer, expected) in cases {
            assert_eq!(endpoint.read(&answer, 7), expected, "{answer}");
        }
    }
}
