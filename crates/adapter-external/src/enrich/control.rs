//! A control API: cancelling may be offered within the authority that its owner documents.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{AdapterError, AdapterErrorKind, CancelOutcome, async_trait};
use reqwest::{Method, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::http::{self, check_pid, check_url, get_json};
use super::status::{check_pointer, timeout};
use super::{Evidence, Fits, Tell, pause_after};
use crate::config::invalid;
use crate::process::ProcessIdentity;

/// Somebody who may cancel processes that others started.
///
/// The adapter never signals a process. Where a host has such an authority, and it has verified
/// that it covers a process, the adapter passes requests on to it.
#[async_trait]
pub trait CancelAuthority: fmt::Debug + Send + Sync + 'static {
    /// What it may cancel and what that does, for a person.
    fn scope(&self) -> String;

    /// Whether it has verified that this process is within its scope.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if that cannot be found out now; it is asked again.
    async fn covers(&self, process: &ProcessIdentity) -> Result<bool, AdapterError>;

    /// Asks for the process to be cancelled. Called only for processes that it covers and that were
    /// alive a moment before.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if it cannot be asked.
    async fn cancel(
        &self,
        process: &ProcessIdentity,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError>;
}

/// A runtime's own API to cancel it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ControlApi {
    /// Where to post the request, on this machine; `{pid}` stands for the process's number. 2xx
    /// accepts, 404 does not know it, 409 and 410 say that it has ended, 401 and 403 refuse.
    pub url: String,
    /// What this may cancel and what that does, as its owner documents it.
    pub scope: String,
    /// Where the runtime says that this caller may cancel it.
    pub verify: Verify,
    /// The environment variable with the token to send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_env: Option<String>,
    /// How long an answer may take.
    #[serde(default = "timeout", with = "headcount_adapter_kit::duration")]
    #[schemars(with = "String")]
    pub timeout: Duration,
}

/// How authority over a process is verified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Verify {
    /// What to ask, on this machine; `{pid}` stands for the process's number.
    pub url: String,
    /// Where the JSON answer must have `true`.
    pub allowed: String,
    /// Where the answer has the runtime's own process number, which must be the adopted one.
    pub pid: String,
}

impl ControlApi {
    pub(super) fn check(&self, fits: Fits) -> Result<(), AdapterError> {
        check_url("control.url", &self.url, fits)?;
        check_url("control.verify.url", &self.verify.url, fits)?;
        check_pointer("control.verify.allowed", Some(&self.verify.allowed))?;
        check_pointer("control.verify.pid", Some(&self.verify.pid))?;
        if self.scope.trim().is_empty() {
            return Err(invalid(
                "control.scope",
                "\"\"",
                "say what the authority covers, as its owner documents it",
            ));
        }
        if self.timeout.is_zero() {
            return Err(invalid("control.timeout", "0ms", "more than nothing"));
        }
        Ok(())
    }
}

#[async_trait]
impl CancelAuthority for ControlApi {
    fn scope(&self) -> String {
        self.scope.clone()
    }

    async fn covers(&self, process: &ProcessIdentity) -> Result<bool, AdapterError> {
        let answer = get_json(
            &self.verify.url,
            process.pid,
            self.token_env.as_deref(),
            self.timeout,
        )
        .await
        .map_err(unavailable)?;
        check_pid(&answer, Some(&self.verify.pid), process.pid).map_err(unavailable)?;
        Ok(answer.pointer(&self.verify.allowed) == Some(&Value::Bool(true)))
    }

    async fn cancel(
        &self,
        process: &ProcessIdentity,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        let body = json!({ "pid": process.pid, "reason": reason });
        let asked = http::ask(
            Method::POST,
            &self.url,
            process.pid,
            self.token_env.as_deref(),
            Some(&body),
            self.timeout,
        );
        let answer = asked.await.map_err(unavailable)?;
        match answer.status {
            status if status.is_success() => Ok(CancelOutcome::Accepted),
            StatusCode::NOT_FOUND => Ok(CancelOutcome::UnknownChild),
            StatusCode::CONFLICT | StatusCode::GONE => Ok(CancelOutcome::AlreadyEnded),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => Ok(CancelOutcome::Denied {
                reason: format!("the runtime answered {}", answer.status),
            }),
            status => Err(AdapterError::new(
                AdapterErrorKind::Protocol,
                "the control API answered with something unforeseen",
            )
            .with_context("status", status)),
        }
    }
}

fn unavailable(why: String) -> AdapterError {
    AdapterError::new(
        AdapterErrorKind::Unavailable,
        "the control API cannot be asked",
    )
    .retryable()
    .with_context("why", why)
}

/// Asks until the authority says whether it covers the process.
pub(crate) async fn verify(
    authority: Arc<dyn CancelAuthority>,
    process: ProcessIdentity,
    tell: Tell,
) {
    let mut failures = 0;
    loop {
        let evidence = match authority.covers(&process).await {
            Ok(true) => Evidence::Authority(authority.scope()),
            Ok(false) => Evidence::Condition(
                "control",
                Err("it says that this process is not within its authority".into()),
            ),
            Err(error) => Evidence::Condition("control", Err(error.to_string())),
        };
        let done = matches!(evidence, Evidence::Authority(_));
        if !tell.say(evidence).await || done {
            return;
        }
        failures += 1;
        tokio::time::sleep(pause_after(failures, Duration::from_secs(1))).await;
    }
}

/// Passes a request on, bounded in time.
pub(crate) async fn ask(
    authority: Arc<dyn CancelAuthority>,
    process: ProcessIdentity,
    reason: Option<String>,
) -> Result<CancelOutcome, AdapterError> {
    const LONGEST: Duration = Duration::from_secs(30);
    let asked = authority.cancel(&process, reason.as_deref());
    tokio::time::timeout(LONGEST, asked)
        .await
        .unwrap_or_else(|_| {
            Err(AdapterError::new(
                AdapterErrorKind::TimedOut,
                "the authority did not answer in time",
            )
            .retryable())
        })
}
