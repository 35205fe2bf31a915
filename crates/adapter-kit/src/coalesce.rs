//! Many requests, one in flight (rule N9).

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};
use headcount_contract::AdapterError;

type Answer<T> = Result<T, Arc<AdapterError>>;
type Flight<T> = Shared<BoxFuture<'static, Answer<T>>>;

/// Lets overlapping requests share one answer.
///
/// # Behavior
///
/// - At most one request is in flight.
/// - Requests made before it was sent share its answer; a request made after that shares the next
///   one, because the answer under way may be older than what its caller has already seen.
/// - A request whose callers are all gone is dropped.
///
/// ```
/// use headcount_adapter_kit::Coalescer;
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let snapshots = Coalescer::new();
/// let answer = snapshots.request(|| async { Ok::<_, headcount_contract::AdapterError>(42) }).await;
/// assert_eq!(answer.unwrap(), 42);
/// # });
/// ```
#[derive(Debug)]
pub struct Coalescer<T> {
    latest: Mutex<Option<Latest<T>>>,
}

#[derive(Debug)]
struct Latest<T> {
    flight: WeakShared<BoxFuture<'static, Answer<T>>>,
    boarding: Arc<Boarding>,
}

/// How many share a request, and whether it is too late to join them.
#[derive(Debug)]
struct Boarding {
    joined: AtomicU32,
    sent: AtomicBool,
}

impl<T: Clone + Send + Sync + 'static> Default for Coalescer<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone + Send + Sync + 'static> Coalescer<T> {
    /// A coalescer with nothing in flight.
    pub fn new() -> Self {
        Self {
            latest: Mutex::new(None),
        }
    }

    /// Asks, through `send` if no request that can be shared is waiting to be sent.
    ///
    /// # Errors
    ///
    /// What `send` answered, to all who shared it.
    pub async fn request<F, Fut>(&self, send: F) -> Result<T, AdapterError>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, AdapterError>> + Send + 'static,
    {
        let flight = self.join_or_begin(send);
        flight.await.map_err(|error| copy(&error))
    }

    fn join_or_begin<F, Fut>(&self, send: F) -> Flight<T>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, AdapterError>> + Send + 'static,
    {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let under_way = latest
            .as_ref()
            .and_then(|l| Some((l.flight.upgrade()?, l.boarding.clone())));
        if let Some((flight, boarding)) = &under_way
            && !boarding.sent.load(Ordering::Acquire)
        {
            boarding.joined.fetch_add(1, Ordering::AcqRel);
            return flight.clone();
        }
        let before = under_way.map(|(flight, _)| flight);
        let boarding = Arc::new(Boarding {
            joined: AtomicU32::new(1),
            sent: AtomicBool::new(false),
        });
        let boarded = boarding.clone();
        let flight = async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            // Whoever asks in the same breath still comes aboard: as long as others do, wait for
            // more. Tokio's yield defers the waking; a plain one would be polled again at once.
            let mut aboard = 0;
            while aboard != boarded.joined.load(Ordering::Acquire) {
                aboard = boarded.joined.load(Ordering::Acquire);
                tokio::task::yield_now().await;
            }
            boarded.sent.store(true, Ordering::Release);
            send().await.map_err(Arc::new)
        }
        .boxed()
        .shared();
        *latest = flight.downgrade().map(|flight| Latest { flight, boarding });
        flight
    }
}

/// An error for each who shared the answer.
fn copy(error: &AdapterError) -> AdapterError {
    let mut copy = AdapterError::new(error.kind(), error.message().to_owned());
    if error.is_retryable() {
        copy = copy.retryable();
    }
    for (key, value) in error.context() {
        copy = copy.with_context(key, value);
    }
    match std::error::Error::source(error) {
        Some(source) => copy.with_source(source.to_string()),
        None => copy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::future::join_all;
    use headcount_contract::AdapterErrorKind;

    #[tokio::test]
    async fn a_hundred_callers_make_one_request() {
        let (coalescer, sent) = (Coalescer::new(), Arc::new(AtomicU32::new(0)));
        let answers = join_all((0..100).map(|_| {
            let sent = sent.clone();
            coalescer.request(move || async move { Ok(sent.fetch_add(1, Ordering::Relaxed)) })
        }))
        .await;
        assert!(answers.into_iter().all(|answer| answer.unwrap() == 0));
        assert_eq!(sent.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_request_made_after_the_sending_gets_a_newer_answer() {
        let coalescer = Arc::new(Coalescer::new());
        let (go, wait) = tokio::sync::oneshot::channel::<()>();
        let first = tokio::spawn({
            let coalescer = coalescer.clone();
            async move {
                coalescer
                    .request(|| async {
                        wait.await.unwrap();
                        Ok(1)
                    })
                    .await
            }
        });
        while !coalescer
            .latest
            .lock()
            .unwrap()
            .as_ref()
            .is_some_and(|l| l.boarding.sent.load(Ordering::Relaxed))
        {
            tokio::task::yield_now().await;
        }
        let mut second = std::pin::pin!(coalescer.request(|| async { Ok(2) }));
        assert!(
            second.as_mut().now_or_never().is_none(),
            "one in flight at most"
        );
        go.send(()).unwrap();
        assert_eq!(second.await.unwrap(), 2);
        assert_eq!(first.await.unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn a_request_that_hangs_does_not_hold_the_next_once_its_callers_are_gone() {
        let coalescer = Coalescer::new();
        let mut hung = Box::pin(coalescer.request(std::future::pending));
        assert!(hung.as_mut().now_or_never().is_none());
        assert!(hung.as_mut().now_or_never().is_none());
        drop(hung);
        assert_eq!(coalescer.request(|| async { Ok(2) }).await.unwrap(), 2);
    }

    #[tokio::test]
    async fn all_who_share_get_the_error() {
        let coalescer = Coalescer::<()>::new();
        let fail = || async {
            Err(AdapterError::new(AdapterErrorKind::TimedOut, "no answer").with_context("s", 5))
        };
        let (a, b) = tokio::join!(coalescer.request(fail), coalescer.request(fail));
        assert_eq!(a.unwrap_err().to_string(), "timed-out: no answer (s: 5)");
        assert_eq!(b.unwrap_err().to_string(), "timed-out: no answer (s: 5)");
    }
}
