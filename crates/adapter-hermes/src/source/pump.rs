//! Reads frames in their order.

use std::sync::Arc;

use headcount_contract::{Capability, HealthStatus};
use serde_json::Value;
use tokio::sync::mpsc;

use super::requests::{Answer, Pending, Waiting};
use super::{Notice, Shared, now};
use crate::frame::{Decoded, Frame, RpcError};
use crate::translate::Translator;

/// The reader of one connection.
pub(super) struct Pump {
    pub(super) shared: Arc<Shared>,
    pub(super) pending: Arc<Pending>,
    pub(super) notices: mpsc::UnboundedSender<Notice>,
}

impl Pump {
    /// Reads until the connection ends.
    pub(super) async fn run(self, mut incoming: mpsc::Receiver<Vec<Decoded>>) {
        while let Some(batch) = incoming.recv().await {
            for decoded in batch {
                match decoded {
                    Ok(frame) => self.frame(frame),
                    Err(fault) => {
                        self.shared.health.count(fault.count(), 1);
                        self.shared.health.set(
                            HealthStatus::Degraded,
                            format!("the gateway sent {fault}; the counts say how many"),
                        );
                    }
                }
            }
        }
        self.pending.clear();
    }

    fn frame(&self, frame: Frame) {
        let at = now();
        if let Some(recorder) = self.shared.recorder.get() {
            recorder.received(&frame, at);
        }
        match frame {
            Frame::Response { id, outcome } => match self.pending.take(&id) {
                Some(waiting) => self.answered(waiting, outcome),
                None => self.shared.health.count("responses_unexpected", 1),
            },
            frame => self
                .shared
                .with_notices(&self.notices, |translator| translator.frame(frame, at)),
        }
    }

    fn answered(&self, waiting: Waiting, outcome: Result<Value, RpcError>) {
        match waiting.answer {
            Answer::Plain(answer) => {
                if let ("session.create" | "session.resume", Ok(result)) =
                    (waiting.method, &outcome)
                {
                    self.shared
                        .with_notices(&self.notices, |translator| name_session(translator, result));
                }
                // Nobody may be waiting any more.
                let _ = answer.send(outcome);
            }
            Answer::Interrupt { answer, child } => {
                if outcome.as_ref().is_ok_and(is_found) {
                    self.shared.with(|translator| {
                        let standing = translator.standing(&child);
                        let session = standing.and_then(|standing| standing.session);
                        translator.cancel_verified(session.as_deref(), Capability::Known);
                        translator.cancel_accepted(&child);
                    });
                }
                let _ = answer.send(outcome);
            }
            Answer::Listing { answer, met } => {
                let listing = outcome.and_then(|result| {
                    let listing = self
                        .shared
                        .with(|translator| translator.status(&result, met, now()));
                    listing.ok_or_else(|| RpcError {
                        code: 0,
                        message: "no listing of children in the answer".to_owned(),
                    })
                });
                let _ = answer.send(listing);
            }
        }
    }
}

/// Whether the gateway found the child that it was asked to interrupt.
pub(crate) fn is_found(answer: &Value) -> bool {
    answer.get("found") == Some(&Value::Bool(true))
}

/// A session that was created or resumed over this connection is ours.
fn name_session(translator: &mut Translator, result: &Value) {
    let text = |key: &str| result.get(key).and_then(Value::as_str);
    if let Some(live) = text("session_id") {
        let stored = text("stored_session_id").or_else(|| text("session_key"));
        translator.session_named(live, stored);
    }
}
