//! Code of others, called so that its panics stay where they are.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll, Waker};

use headcount_contract::{Signal, SignalStream};

use crate::fault::panic_message;

/// Calls an adapter; a panic becomes a sentence.
pub(crate) fn guarded<T>(what: &str, call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| said(what, &*panic))
}

/// What is told of a panic.
pub(super) fn said(what: &str, panic: &(dyn std::any::Any + Send)) -> String {
    format!("it panicked in {what}: {}", panic_message(panic))
}

/// An adapter's stream, read in batches. Once it panicked it is not polled again.
pub(super) struct Guarded {
    stream: Option<SignalStream>,
    failed: Option<String>,
}

/// What a stream had.
pub(super) enum Taken {
    /// Signals, at least one.
    Signals(Vec<Signal>),
    /// It ended.
    End,
    /// It panicked.
    Panic(String),
}

impl Guarded {
    pub(super) fn new(stream: SignalStream) -> Self {
        Self {
            stream: Some(stream),
            failed: None,
        }
    }

    /// Waits for signals, and takes all that are ready, up to `most`.
    pub(super) async fn next(&mut self, most: usize) -> Taken {
        poll_fn(|cx| self.poll(most, cx)).await
    }

    /// Takes the signals that are ready now, up to `most`.
    pub(super) fn ready(&mut self, most: usize) -> Vec<Signal> {
        // What ended it, if it did, is told to the next caller that waits.
        match self.poll(most, &mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Taken::Signals(signals)) => signals,
            Poll::Ready(Taken::Panic(said)) => {
                self.failed = Some(said);
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn poll(&mut self, most: usize, cx: &mut Context<'_>) -> Poll<Taken> {
        let mut signals = Vec::new();
        while signals.len() < most.max(1) {
            let Some(stream) = &mut self.stream else {
                break;
            };
            match catch_unwind(AssertUnwindSafe(|| stream.as_mut().poll_next(cx))) {
                Ok(Poll::Ready(Some(signal))) => signals.push(signal),
                Ok(Poll::Ready(None)) => self.drop_stream(),
                Ok(Poll::Pending) if signals.is_empty() => return Poll::Pending,
                Ok(Poll::Pending) => break,
                Err(panic) => {
                    self.failed = Some(said("its stream", &*panic));
                    self.drop_stream();
                }
            }
        }
        Poll::Ready(if !signals.is_empty() {
            Taken::Signals(signals)
        } else if let Some(said) = self.failed.take() {
            Taken::Panic(said)
        } else {
            Taken::End
        })
    }

    fn drop_stream(&mut self) {
        let stream = self.stream.take();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(stream)));
        if let Err(panic) = dropped {
            self.failed
                .get_or_insert_with(|| said("the end of its stream", &*panic));
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.drop_stream();
    }
}
