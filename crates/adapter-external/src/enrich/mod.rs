//! What a host can add to presence: a status endpoint, an event stream with a snapshot, a control
//! API. Each raises exactly the claims that its row of "External Adoption Limits" allows.

mod control;
mod http;
mod lines;
mod status;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{
    AdapterError, ChildState, DiscontinuityCause, LifecycleEvent, LiveState, Outcome, Timestamp,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::control::{CancelAuthority, ControlApi, Verify};
pub(crate) use self::control::{ask, verify};
pub use self::status::StatusEndpoint;
pub(crate) use self::status::{StatusReading, poll};
pub(crate) use self::stream::{Cues, StreamSnapshot, follow};
pub use self::stream::{EventStream, SnapshotSource};
use crate::config::{Matcher, invalid};
use crate::process::check_number;
use crate::translate::Key;

/// A process, or the processes of a matcher, of which the host knows more than that it is there.
///
/// ```
/// use headcount_adapter_external::Target;
/// let target: Target = serde_json::from_value(serde_json::json!({
///     "pid_file": "/run/agent.pid",
///     "status": {
///         "url": "http://127.0.0.1:7000/status",
///         "state": "/phase",
///         "states": { "busy": "running", "idle": "waiting" },
///     },
/// }))?;
/// assert!(target.check().is_ok());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Target {
    /// One process by its number. Exactly one of `pid`, `pid_file` and `match` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i64>,
    /// One process by a PID file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid_file: Option<PathBuf>,
    /// Every process that fits. Addresses and paths must then contain `{pid}`.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub matcher: Option<Matcher>,
    /// Where the runtime tells its present state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<StatusEndpoint>,
    /// Where the runtime writes its lifecycle events, and its complete snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<EventStream>,
    /// Where the runtime takes requests to cancel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<ControlApi>,
}

impl Target {
    /// Refuses what names no process, or could not tell one from another.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::InvalidConfig`](headcount_contract::AdapterErrorKind::InvalidConfig)
    /// that names the key and says what would be right.
    pub fn check(&self) -> Result<(), AdapterError> {
        let ways = [
            self.pid.is_some(),
            self.pid_file.is_some(),
            self.matcher.is_some(),
        ];
        if ways.iter().filter(|given| **given).count() != 1 {
            return Err(invalid(
                "process",
                "",
                "give exactly one of pid, pid_file and match",
            ));
        }
        if let Some(pid) = self.pid {
            check_number(pid).map_err(|why| invalid("process.pid", pid, why.to_string()))?;
        }
        if let Some(matcher) = &self.matcher {
            matcher.check()?;
        }
        let fits = if self.matcher.is_some() {
            Fits::Many
        } else {
            Fits::One
        };
        if let Some(status) = &self.status {
            status.check(fits)?;
        }
        if let Some(events) = &self.events {
            events.check(fits)?;
        }
        if let Some(control) = &self.control {
            control.check(fits)?;
        }
        Ok(())
    }

    /// What there is beyond presence.
    pub(crate) fn enrichment(&self) -> Option<Arc<Enrichment>> {
        let any = self.status.is_some() || self.events.is_some() || self.control.is_some();
        any.then(|| {
            Arc::new(Enrichment {
                status: self.status.clone(),
                events: self.events.clone(),
                control: self.control.clone(),
            })
        })
    }
}

/// How many processes a target may mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fits {
    One,
    Many,
}

impl Fits {
    /// Refuses an address that would mean the same for several processes.
    fn check_place(self, key: &'static str, place: &str) -> Result<(), AdapterError> {
        if self == Self::Many && !place.contains(PID) {
            return Err(invalid(
                key,
                place,
                "a matcher may fit several processes: write {pid} where each one's number belongs",
            ));
        }
        Ok(())
    }
}

/// What stands for the process's number in addresses and paths.
const PID: &str = "{pid}";

fn place_of(template: &str, pid: u32) -> String {
    template.replace(PID, &pid.to_string())
}

/// What the host knows of one target beyond presence.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Enrichment {
    pub(crate) status: Option<StatusEndpoint>,
    pub(crate) events: Option<EventStream>,
    pub(crate) control: Option<ControlApi>,
}

/// What was learnt of one child beyond presence.
#[derive(Debug)]
pub(crate) enum Evidence {
    Status(StatusReading),
    Snapshot(StreamSnapshot),
    Events(Vec<LifecycleEvent>),
    /// Events may be missing.
    Broken(DiscontinuityCause),
    /// All that the process had written when it ended was read.
    Drained,
    /// Somebody with this documented scope can cancel it.
    Authority(String),
    /// The named source works, or why it does not.
    Condition(&'static str, Result<(), String>),
}

/// Hands evidence to the task that speaks, at that task's pace.
#[derive(Debug, Clone)]
pub(crate) struct Tell {
    pub(crate) key: Key,
    pub(crate) pid: u32,
    pub(crate) adopted_at: Timestamp,
    pub(crate) to: tokio::sync::mpsc::Sender<(Key, Evidence)>,
}

impl Tell {
    /// Returns whether anybody still listens.
    async fn say(&self, evidence: Evidence) -> bool {
        self.to.send((self.key, evidence)).await.is_ok()
    }
}

/// The states that a runtime may be said to be in. It cannot be `created`, which is what presence
/// is, and `lost` is for the host to find.
fn check_state(key: &'static str, state: ChildState) -> Result<(), AdapterError> {
    match state {
        ChildState::Live(LiveState::Created) => Err(invalid(
            key,
            state,
            "a runtime that answers is more than created: starting, running, waiting, completed, failed or cancelled",
        )),
        ChildState::Terminal(Outcome::Lost) => Err(invalid(
            key,
            state,
            "only the host finds a child lost: starting, running, waiting, completed, failed or cancelled",
        )),
        _ => Ok(()),
    }
}

/// Waits longer after each failure, up to a minute.
fn pause_after(failures: u32, interval: Duration) -> Duration {
    interval
        .saturating_mul(1 << failures.min(6))
        .min(Duration::from_mins(1))
        .max(interval)
}
