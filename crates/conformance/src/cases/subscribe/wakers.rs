//! Wakers that do something of their own: they are the subscriber's code, run by the adapter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::StreamExt;
use headcount_contract::SignalStream;

use crate::case::Failure;

/// Reads what is there, and leaves the waker behind.
pub(super) fn poll_until_pending(stream: &mut SignalStream, waker: &Waker) -> Result<(), Failure> {
    let mut cx = Context::from_waker(waker);
    loop {
        match stream.poll_next_unpin(&mut cx) {
            Poll::Ready(Some(_)) => {}
            Poll::Ready(None) => {
                return Err(Failure::new("the stream ended while the adapter lives"));
            }
            Poll::Pending => return Ok(()),
        }
    }
}

#[derive(Default)]
pub(super) struct CountsWakes(pub(super) AtomicUsize);

impl Wake for CountsWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
pub(super) struct DropsWhenWoken(Mutex<Vec<SignalStream>>);

impl DropsWhenWoken {
    pub(super) fn put(&self, streams: [SignalStream; 2]) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = streams.into();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .is_empty()
    }
}

impl Wake for DropsWhenWoken {
    fn wake(self: Arc<Self>) {
        let streams = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        drop(streams);
    }
}

#[derive(Default)]
pub(super) struct PanicsWhenWoken(pub(super) AtomicUsize);

impl Wake for PanicsWhenWoken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // Without the panic hook, which would print what is no news.
        std::panic::resume_unwind(Box::new("a subscriber panicked when it was woken"));
    }
}
