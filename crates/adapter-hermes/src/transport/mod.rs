//! Ways to a gateway. Each opens a [`Link`]: frames in, lines out, and why it ended.

pub(crate) mod feed;
pub(crate) mod stdio;
mod tls;
pub(crate) mod websocket;

use std::fmt;

use headcount_contract::SourceEpoch;
use tokio::sync::{mpsc, oneshot};

use crate::frame::Decoded;

/// How many batches of frames wait to be translated; then the reading waits.
pub(crate) const BATCHES: usize = 64;
/// How many requests wait to be written.
pub(crate) const REQUESTS: usize = 64;

/// A connection to a gateway.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) incoming: mpsc::Receiver<Vec<Decoded>>,
    pub(crate) outgoing: mpsc::Sender<String>,
    /// Resolves once `incoming` has ended.
    pub(crate) ended: oneshot::Receiver<End>,
    /// Names the gateway's life unless it does so itself.
    pub(crate) epoch: SourceEpoch,
    /// The process, if it is ours.
    pub(crate) process: Option<stdio::Process>,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// The gateway process that we started has ended.
    Exited(stdio::Exit),
    /// The connection was closed or broke; the gateway may live.
    Disconnected(String),
    /// It sent more at once than can be taken in.
    Overlong,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(exit) => exit.fmt(f),
            Self::Disconnected(why) => f.write_str(why),
            Self::Overlong => f.write_str("the gateway sent a message far over the limit"),
        }
    }
}
