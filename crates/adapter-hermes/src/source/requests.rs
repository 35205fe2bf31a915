//! Requests to a gateway, and their answers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headcount_contract::{AdapterError, AdapterErrorKind, ChildId};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::frame::RpcError;
use crate::record::Recorder;
use crate::translate::Listing;

/// How a child is interrupted.
pub(crate) const INTERRUPT: &str = "subagent.interrupt";
/// How many requests may wait for their answers.
const PENDING_MAX: usize = 1024;

/// Asks the gateway at the other end of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Requester {
    outgoing: mpsc::Sender<String>,
    pending: Arc<Pending>,
    timeout: Duration,
    recorder: Option<Arc<Recorder>>,
}

/// The requests that have no answer yet.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    waiting: Mutex<HashMap<String, Waiting>>,
    sent: AtomicU64,
}

/// Who waits for an answer.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) method: &'static str,
    pub(crate) answer: Answer,
}

/// What to do with it. A listing and the acceptance of an interrupt are read in their places among the
/// events, so that they are no older and no newer than those.
#[derive(Debug)]
pub(crate) enum Answer {
    Plain(oneshot::Sender<Result<Value, RpcError>>),
    Listing {
        answer: oneshot::Sender<Result<Listing, RpcError>>,
        /// How many children had been met when it was asked for.
        met: u64,
    },
    Interrupt {
        answer: oneshot::Sender<Result<Value, RpcError>>,
        child: ChildId,
    },
}

impl Pending {
    /// Takes who waits for the answer to `id`.
    pub(crate) fn take(&self, id: &str) -> Option<Waiting> {
        self.lock().remove(id)
    }

    /// No answer will come any more: whoever waits is told.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Requester {
    pub(crate) fn new(
        outgoing: mpsc::Sender<String>,
        timeout: Duration,
        recorder: Option<Arc<Recorder>>,
    ) -> Self {
        Self {
            outgoing,
            pending: Arc::default(),
            timeout,
            recorder,
        }
    }

    pub(crate) fn pending(&self) -> Arc<Pending> {
        self.pending.clone()
    }

    /// Asks, and returns what the gateway answered or refused.
    pub(crate) async fn ask(
        &self,
        method: &'static str,
        params: &Value,
    ) -> Result<Result<Value, RpcError>, AdapterError> {
        let (answer, answered) = oneshot::channel();
        self.send(method, method, params, Answer::Plain(answer), answered)
            .await
    }

    /// Asks to interrupt a child, by the gateway's id for it.
    pub(crate) async fn interrupt(
        &self,
        child: &ChildId,
        raw_id: &str,
        session: Option<&str>,
    ) -> Result<Result<Value, RpcError>, AdapterError> {
        let (answer, answered) = oneshot::channel();
        let child = child.clone();
        let answer = Answer::Interrupt { answer, child };
        // Gateways before 0.21.5 need no session, and do not mind one.
        let params = json!({"session_id": session.unwrap_or_default(), "subagent_id": raw_id});
        self.send(INTERRUPT, INTERRUPT, &params, answer, answered)
            .await
    }

    /// Asks for a method that a host names.
    pub(crate) async fn call(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, RpcError>, AdapterError> {
        let known = match method {
            "session.create" => "session.create",
            "session.resume" => "session.resume",
            _ => "call",
        };
        let (answer, answered) = oneshot::channel();
        self.send(known, method, params, Answer::Plain(answer), answered)
            .await
    }

    /// Asks which children run, after `met` have been met.
    pub(crate) async fn listing(
        &self,
        met: u64,
    ) -> Result<Result<Listing, RpcError>, AdapterError> {
        let (answer, answered) = oneshot::channel();
        let method = "delegation.status";
        let answer = Answer::Listing { answer, met };
        self.send(method, method, &json!({}), answer, answered)
            .await
    }

    async fn send<T>(
        &self,
        known: &'static str,
        method: &str,
        params: &Value,
        answer: Answer,
        answered: oneshot::Receiver<T>,
    ) -> Result<T, AdapterError> {
        let failed = |kind, message: &'static str| {
            Err(AdapterError::new(kind, message)
                .retryable()
                .with_context("method", method))
        };
        let id = format!("hc-{}", self.pending.sent.fetch_add(1, Ordering::Relaxed));
        {
            let mut waiting = self.pending.lock();
            if waiting.len() >= PENDING_MAX {
                return failed(
                    AdapterErrorKind::Unavailable,
                    "too many requests wait for the gateway",
                );
            }
            waiting.insert(
                id.clone(),
                Waiting {
                    method: known,
                    answer,
                },
            );
        }
        // Forgotten when nobody waits any more, answered or not.
        let _forget = Forget {
            pending: &self.pending,
            id: &id,
        };
        if let Some(recorder) = &self.recorder {
            recorder.sent(&id, method, params, super::now());
        }
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let asking = async {
            self.outgoing.send(line.to_string()).await.ok()?;
            answered.await.ok()
        };
        match tokio::time::timeout(self.timeout, asking).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => failed(
                AdapterErrorKind::Unavailable,
                "the connection to the gateway is lost",
            ),
            Err(_) => failed(AdapterErrorKind::TimedOut, "the gateway does not answer"),
        }
    }
}

struct Forget<'a> {
    pending: &'a Pending,
    id: &'a str,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.pending.take(self.id);
    }
}

/// A refusal as an error.
pub(crate) fn refused(method: &str, error: &RpcError) -> AdapterError {
    let (kind, message) = match error.code {
        RpcError::UNKNOWN_METHOD => (
            AdapterErrorKind::Unsupported,
            "this gateway does not know the method",
        ),
        RpcError::INVALID_PARAMS => (
            AdapterErrorKind::Protocol,
            "this gateway refuses the parameters",
        ),
        RpcError::NOT_OWNED => (
            AdapterErrorKind::Denied,
            "the session is not there, or is another connection's",
        ),
        _ => (
            AdapterErrorKind::Protocol,
            "the gateway answers with an error",
        ),
    };
    AdapterError::new(kind, message)
        .with_context("method", method)
        .with_context("code", error.code)
        .with_context("answer", &error.message)
}
