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

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    /// Makes wakers, counts the calls, and knows how many of them are kept.
    #[derive(Default)]
    pub(in crate::source) struct Wakers(Arc<Count>);

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Wakers {
        pub(in crate::source) fn waker(&self) -> Waker {
            self.0.clone().into()
        }

        pub(in crate::source) fn woken(&self) -> usize {
            self.0.0.load(Ordering::Relaxed)
        }

        pub(in crate::source) fn kept(&self) -> usize {
            Arc::strong_count(&self.0) - 1
        }
    }
}
