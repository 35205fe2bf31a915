//! One waker, kept for whoever waits.

use std::task::{Context, Waker};

/// Keeps the waker of whoever polls.
pub(super) fn remember(waker: &mut Option<Waker>, context: &Context<'_>) {
    match waker {
        Some(waker) => waker.clone_from(context.waker()),
        None => *waker = Some(context.waker().clone()),
    }
}

/// Wakes whoever waits. Not to be called under a lock: a waker runs code of others.
pub(super) fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
