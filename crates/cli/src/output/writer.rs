//! Standard output on a thread of its own: a reader that does not read must not keep us from
//! hearing Ctrl-C.

use std::io::{self, Write};

use tokio::sync::{mpsc, oneshot};

/// How many chunks may wait to be written.
const WAITING: usize = 16;

/// Writes chunks to standard output in order.
#[derive(Debug)]
pub(crate) struct Writer {
    chunks: mpsc::Sender<String>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// Begins a thread that writes.
    pub(crate) fn start() -> Self {
        let (chunks, mut waiting) = mpsc::channel::<String>(WAITING);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut out = io::stdout().lock();
            let mut written = Ok(());
            while let Some(chunk) = waiting.blocking_recv() {
                written = out.write_all(chunk.as_bytes()).and_then(|()| out.flush());
                if written.is_err() {
                    break;
                }
            }
            // Whoever waited for it has been ended by a second Ctrl-C.
            let _ = tell.send(written);
        });
        Self { chunks, done }
    }

    /// Completes when there is room for a chunk; an error means that writing has failed.
    pub(crate) async fn room(&self) -> Result<mpsc::Permit<'_, String>, WriterGone> {
        self.chunks.reserve().await.map_err(|_| WriterGone)
    }

    /// Waits until everything is written, and returns the fault of writing.
    pub(crate) async fn finish(self) -> io::Result<()> {
        drop(self.chunks);
        // The thread answers before it ends, unless it panicked: then nothing more was written.
        self.done
            .await
            .unwrap_or_else(|_| Err(io::Error::other("the writer has ended")))
    }
}

/// Writing has failed; [`Writer::finish`] tells why.
#[derive(Debug)]
pub(crate) struct WriterGone;
