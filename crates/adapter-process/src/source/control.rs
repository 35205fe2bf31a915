//! How a run's handles and its supervisor reach each other. Small, since every run has one.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::Notify;

use super::StopLevel;
use super::waker::{remember, wake};

/// What was asked for, and how far it has come.
#[derive(Debug, Default)]
pub(crate) struct Control {
    state: Mutex<State>,
    /// Told whenever the run or a stop has come to an end.
    told: Notify,
}

#[derive(Debug, Default)]
struct State {
    level: StopLevel,
    /// More was asked for, and the supervisor has not heard of it.
    news: bool,
    supervisor: Option<Waker>,
    end: Option<Ending>,
    /// How many stops have reached their deadline in vain.
    failed_stops: u64,
}

impl State {
    /// Asks for more than before; whoever is returned is to be woken.
    fn raise(&mut self, level: StopLevel) -> Option<Waker> {
        if level <= self.level {
            return None;
        }
        self.level = level;
        self.news = true;
        self.supervisor.take()
    }
}

/// How a stop came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The run has ended.
    Ended,
    /// The run still lives.
    Failed,
    /// The supervisor was dropped with its runtime, and has killed the group.
    Abandoned,
}

impl Control {
    /// No code of others runs under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the end; asking for less than before changes nothing.
    pub(crate) fn ask(&self, level: StopLevel) {
        let supervisor = self.lock().raise(level);
        wake(supervisor);
    }

    /// Asks for the end and waits for it; all who wait at the same time share one stop.
    pub(crate) async fn stop(&self, level: StopLevel) -> Ending {
        // Under one lock: a stop that fails in between is not this one.
        let (failed_before, supervisor) = {
            let mut state = self.lock();
            (state.failed_stops, state.raise(level))
        };
        wake(supervisor);
        loop {
            let told = self.told.notified();
            {
                let state = self.lock();
                if let Some(end) = state.end {
                    return end;
                }
                if state.failed_stops > failed_before {
                    return Ending::Failed;
                }
            }
            told.await;
        }
    }

    /// Ready when more was asked for than the supervisor has heard of. For the one supervisor.
    pub(super) fn poll_asked(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if std::mem::take(&mut state.news) {
            return Poll::Ready(());
        }
        remember(&mut state.supervisor, context);
        Poll::Pending
    }

    pub(super) fn level(&self) -> StopLevel {
        self.lock().level
    }

    /// A stop has failed; the next request is a new one.
    pub(super) fn stop_failed(&self) {
        let mut state = self.lock();
        state.level = StopLevel::None;
        state.failed_stops += 1;
        drop(state);
        self.told.notify_waiters();
    }

    /// The run is over. Only the first one counts. A waker would keep the supervisor's memory.
    pub(super) fn end(&self, end: Ending) {
        let mut state = self.lock();
        state.end.get_or_insert(end);
        let supervisor = state.supervisor.take();
        drop(state);
        drop(supervisor);
        self.told.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::waker::tests::Wakers;

    fn polled(control: &Control, wakers: &Wakers) -> bool {
        let waker = wakers.waker();
        control
            .poll_asked(&mut Context::from_waker(&waker))
            .is_ready()
    }

    #[test]
    fn each_request_for_more_is_heard_once_whether_it_was_waited_for_or_not() {
        let (control, wakers) = (Control::default(), Wakers::default());
        control.ask(StopLevel::Graceful);
        assert!(polled(&control, &wakers), "it came first");
        assert!(!polled(&control, &wakers));
        control.ask(StopLevel::Graceful);
        assert_eq!(wakers.woken(), 0, "no more than before");
        control.ask(StopLevel::Now);
        assert_eq!(wakers.woken(), 1);
        assert!(polled(&control, &wakers));
        control.stop_failed();
        assert!(!polled(&control, &wakers));
        control.ask(StopLevel::Graceful);
        assert!(polled(&control, &wakers), "the next stop is a new one");
    }

    #[test]
    fn the_memory_of_the_supervisor_is_not_kept_after_the_end() {
        let (control, wakers) = (Control::default(), Wakers::default());
        assert!(!polled(&control, &wakers));
        assert_eq!(wakers.kept(), 1);
        control.end(Ending::Ended);
        assert_eq!(wakers.kept(), 0);
    }
}
