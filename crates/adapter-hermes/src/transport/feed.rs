//! For a host that already owns the connection: it hands in what the gateway sends.

use std::time::SystemTime;

use headcount_adapter_kit::new_epoch;
use headcount_contract::{AdapterError, AdapterErrorKind};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{BATCHES, End, Link, REQUESTS};
use crate::frame::{DEFAULT_MAX_FRAME_BYTES, FrameDecoder, FrameFault, classify};

/// Where a host hands in what a gateway sends; see
/// [`HermesAdapter::feed`](crate::HermesAdapter::feed).
///
/// # Behavior
///
/// - A feed is one connection. After [`Self::disconnected`] the next frame begins another one.
/// - Waits while the adapter is busy; nothing is dropped.
#[derive(Debug)]
pub struct Feed {
    links: mpsc::Sender<Link>,
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    frames: mpsc::Sender<Vec<crate::frame::Decoded>>,
    decoder: FrameDecoder,
    requests: mpsc::Receiver<String>,
    end: oneshot::Sender<End>,
}

impl Feed {
    pub(crate) fn new() -> (Self, mpsc::Receiver<Link>) {
        let (links, opened) = mpsc::channel(1);
        (
            Self {
                links,
                current: None,
            },
            opened,
        )
    }

    /// Hands in bytes as they come from the gateway, cut anywhere.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Closed`] once the adapter has been closed or dropped.
    pub async fn bytes(&mut self, chunk: &[u8]) -> Result<(), AdapterError> {
        let current = self.connected().await?;
        let mut decoded = Vec::new();
        current.decoder.push(chunk, &mut decoded);
        if decoded.is_empty() {
            return Ok(());
        }
        current.frames.send(decoded).await.map_err(|_| closed())
    }

    /// Hands in one frame, or one flat record.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Closed`] once the adapter has been closed or dropped.
    pub async fn frame(&mut self, frame: Value) -> Result<(), AdapterError> {
        let decoded = match frame {
            Value::Object(object) => classify(object),
            _ => Err(FrameFault::NotAFrame),
        };
        let current = self.connected().await?;
        current
            .frames
            .send(vec![decoded])
            .await
            .map_err(|_| closed())
    }

    /// The next request of the adapter, one JSON-RPC frame without a line end, for the host to
    /// send to the gateway. A host that sends none has an adapter that sees what is handed in and
    /// nothing else.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Closed`] once the adapter has been closed or dropped.
    pub async fn request(&mut self) -> Result<String, AdapterError> {
        self.connected()
            .await?
            .requests
            .recv()
            .await
            .ok_or_else(closed)
    }

    /// The host's connection was lost: events may be missing.
    pub fn disconnected(&mut self) {
        if let Some(current) = self.current.take() {
            let end = End::Disconnected("the host lost its connection".to_owned());
            let _ = current.end.send(end);
        }
    }

    async fn connected(&mut self) -> Result<&mut Current, AdapterError> {
        if self.current.is_none() {
            let (frames, incoming) = mpsc::channel(BATCHES);
            let (outgoing, requests) = mpsc::channel(REQUESTS);
            let (end, ended) = oneshot::channel();
            let link = Link {
                incoming,
                outgoing,
                ended,
                epoch: new_epoch(SystemTime::now().into()),
                process: None,
            };
            self.links.send(link).await.map_err(|_| closed())?;
            self.current = Some(Current {
                frames,
                decoder: FrameDecoder::new(DEFAULT_MAX_FRAME_BYTES),
                requests,
                end,
            });
        }
        self.current.as_mut().ok_or_else(closed)
    }
}

fn closed() -> AdapterError {
    AdapterError::new(AdapterErrorKind::Closed, "the adapter has been closed")
}
