//! The signals that ask us to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Failure;

/// Ctrl-C, a request to terminate, a terminal that hung up.
#[derive(Debug)]
pub(crate) struct Interrupts {
    signals: [Signal; 3],
}

impl Interrupts {
    pub(crate) fn new() -> Result<Self, Failure> {
        let kinds = [
            SignalKind::interrupt(),
            SignalKind::terminate(),
            SignalKind::hangup(),
        ];
        let listen = |kind| {
            signal(kind)
                .map_err(|error| Failure::ours(format_args!("signals cannot be had: {error}")))
        };
        let [interrupt, terminate, hangup] = kinds;
        Ok(Self {
            signals: [listen(interrupt)?, listen(terminate)?, listen(hangup)?],
        })
    }

    /// Completes at the next of them.
    pub(crate) async fn next(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
