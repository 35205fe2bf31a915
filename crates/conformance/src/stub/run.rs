//! One run, its status and its subscribers.

use std::sync::{Arc, Mutex, Weak};

use futures_util::future::{Either, select};
use headcount_contract::{
    AdapterError, LineFlags, LogBatch, OutputStream, RunEvent, RunEventStream, RunHandle, RunId,
    RunStatus, StatusChange, StopSignal, Timestamp, async_trait,
};
use tokio::sync::Notify;

use super::feed::{self, Feed};
use super::{NotEmitted, lock};

/// Stops the run when the signal fires, and forgets the signal when the run has ended.
pub(super) async fn stop_when(stop: StopSignal, run: Arc<Run>) {
    let ended = std::pin::pin!(run.ended());
    if let Either::Left(_) = select(stop, ended).await {
        run.end_as_stopped();
    }
}

/// One run. Its status and its subscribers change together, under one lock.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) id: RunId,
    pub(super) clock: fn() -> Timestamp,
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug)]
struct State {
    last: StatusChange,
    stdout_lines: u64,
    stderr_lines: u64,
    feeds: Vec<Weak<Feed>>,
    /// What the first subscriber will get: everything since the start.
    first: Option<Arc<Feed>>,
}

impl Run {
    pub(super) fn new(id: RunId, clock: fn() -> Timestamp) -> Self {
        let last = StatusChange::new(RunStatus::Starting, clock());
        let first = Arc::new(Feed::starting_with(RunEvent::Status(last.clone()), false));
        Self {
            id,
            clock,
            state: Mutex::new(State {
                last,
                stdout_lines: 0,
                stderr_lines: 0,
                feeds: vec![Arc::downgrade(&first)],
                first: Some(first),
            }),
            ended: Notify::new(),
        }
    }

    pub(super) fn emit(&self, event: RunEvent) -> Result<(), NotEmitted> {
        self.emit_if(|_| Some(event))
    }

    pub(super) fn log(&self, stream: OutputStream, line: &str) -> Result<(), NotEmitted> {
        self.emit_if(|state| {
            let count = match stream {
                OutputStream::Stdout => &mut state.stdout_lines,
                OutputStream::Stderr => &mut state.stderr_lines,
            };
            *count += 1;
            let mut batch = LogBatch::new(stream, (self.clock)(), *count);
            batch.push(line, LineFlags::default());
            Some(RunEvent::Log(Arc::new(batch)))
        })
    }

    pub(super) fn become_ready(&self) {
        // Ended before it was ready: nothing to tell.
        let _ = self.emit_if(|state| {
            let ready = StatusChange::new(RunStatus::Ready, (self.clock)());
            (state.last.status == RunStatus::Starting).then_some(RunEvent::Status(ready))
        });
    }

    pub(super) fn end_as_stopped(&self) {
        // Ended before: stopping it again does nothing.
        let _ = self.emit(RunEvent::Status(StatusChange::new(
            RunStatus::Stopped,
            (self.clock)(),
        )));
    }

    /// Emits what `make` returns unless the run has ended. Subscribers are woken when no lock is
    /// held, so that they may do anything from there: subscribe, unsubscribe, stop the run, panic.
    fn emit_if(&self, make: impl FnOnce(&mut State) -> Option<RunEvent>) -> Result<(), NotEmitted> {
        let mut state = lock(&self.state);
        if state.last.status.is_terminal() {
            return Err(NotEmitted::Ended);
        }
        let Some(event) = make(&mut state) else {
            return Ok(());
        };
        if let RunEvent::Status(change) = &event {
            state.last = change.clone();
        }
        let ended = state.last.status.is_terminal();
        let mut wakers = Vec::new();
        state.feeds.retain(|feed| match feed.upgrade() {
            Some(feed) => {
                wakers.extend(feed.push(event.clone(), ended));
                true
            }
            None => false,
        });
        if ended {
            state.feeds.clear();
        }
        drop(state);
        if ended {
            self.ended.notify_waiters();
        }
        feed::wake_all(wakers);
        Ok(())
    }

    async fn ended(&self) {
        let notified = self.ended.notified();
        // Registered first, so that an end between the check and the wait is not missed.
        let mut notified = std::pin::pin!(notified);
        notified.as_mut().enable();
        if !lock(&self.state).last.status.is_terminal() {
            notified.await;
        }
    }
}

#[async_trait]
impl RunHandle for Run {
    fn run_id(&self) -> &RunId {
        &self.id
    }

    fn status(&self) -> RunStatus {
        lock(&self.state).last.status
    }

    fn subscribe(&self) -> RunEventStream {
        let mut state = lock(&self.state);
        if let Some(first) = state.first.take() {
            return Box::pin(feed::Subscription::new(first));
        }
        let ended = state.last.status.is_terminal();
        let feed = Arc::new(Feed::starting_with(
            RunEvent::Status(state.last.clone()),
            ended,
        ));
        if !ended {
            state.feeds.push(Arc::downgrade(&feed));
        }
        Box::pin(feed::Subscription::new(feed))
    }

    async fn stop(&self) -> Result<(), AdapterError> {
        self.end_as_stopped();
        Ok(())
    }
}
