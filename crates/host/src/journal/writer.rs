//! The thread that appends: group commit, patience, and loud faults.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headcount_contract::LifecycleEvent;
use tokio::sync::watch;

use super::{JournalFault, JournalFaultKind, JournalStore};
use crate::fault::panic_message;
use crate::stats::Histogram;
use crate::{JournalHealth, JournalStatus};

/// How many events are appended at once.
const CHUNK: usize = 4_096;
/// The pause after a fault that may pass, and after one that somebody has to repair.
const RETRY: Duration = Duration::from_millis(100);
const RETRY_BLOCKED: Duration = Duration::from_secs(2);

/// A journal that is appended to by a thread of its own.
///
/// Events are appended in the order in which they were pushed. A fault keeps them waiting, up to a
/// bound; beyond it, further ones are given up and counted.
#[derive(Debug)]
pub(crate) struct Writer {
    queue: Arc<Queue>,
    progress: watch::Receiver<Progress>,
    patience: Duration,
}

#[derive(Debug)]
struct Queue {
    backlog: usize,
    state: Mutex<State>,
    work: Condvar,
    /// Never told while `state` is locked: whoever waits for it holds a lock of its own. Dropped when
    /// the thread ends.
    progress: Mutex<Option<watch::Sender<Progress>>>,
}

/// How far the thread has come.
#[derive(Debug, Clone, Copy)]
struct Progress {
    /// How many events have been settled: appended or given up.
    settled: u64,
    /// Nothing is known to be wrong.
    appending: bool,
}

#[derive(Debug)]
struct State {
    waiting: VecDeque<Arc<LifecycleEvent>>,
    /// How many were pushed; the position of the last one.
    pushed: u64,
    settled: u64,
    appended: u64,
    lost: u64,
    status: JournalStatus,
    message: Option<String>,
    closed: Option<Instant>,
    latency: Histogram,
}

/// What the view shows of a writer.
#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub(crate) health: JournalHealth,
    pub(crate) appended: u64,
    pub(crate) latency: Histogram,
}

impl Writer {
    /// Starts the thread. `blocked` is what is known to be wrong from the start.
    pub(crate) fn start(
        store: Box<dyn JournalStore>,
        patience: Duration,
        backlog: usize,
        blocked: Option<JournalFault>,
    ) -> std::io::Result<Self> {
        let (sender, progress) = watch::channel(Progress {
            settled: 0,
            appending: blocked.is_none(),
        });
        let state = State {
            waiting: VecDeque::new(),
            pushed: 0,
            settled: 0,
            appended: 0,
            lost: 0,
            status: blocked.as_ref().map_or(JournalStatus::Appending, status_of),
            message: blocked.map(|fault| fault.message),
            closed: None,
            latency: Histogram::default(),
        };
        let queue = Arc::new(Queue {
            backlog,
            state: Mutex::new(state),
            work: Condvar::new(),
            progress: Mutex::new(Some(sender)),
        });
        let thread = queue.clone();
        std::thread::Builder::new()
            .name("headcount-journal".into())
            .spawn(move || thread.run(store))?;
        Ok(Self {
            queue,
            progress,
            patience,
        })
    }

    /// Puts events in the queue, and returns the position of the last one.
    pub(crate) fn push(&self, events: impl IntoIterator<Item = Arc<LifecycleEvent>>) -> u64 {
        let mut state = self.queue.lock();
        for event in events {
            if state.waiting.len() < self.queue.backlog {
                state.waiting.push_back(event);
                state.pushed += 1;
            } else {
                state.lost += 1;
            }
        }
        let position = state.pushed;
        drop(state);
        self.queue.work.notify_one();
        position
    }

    /// Waits until everything up to a position is settled; at once if the journal is known not to
    /// answer, else as long as patience lasts.
    pub(crate) async fn settled(&mut self, position: u64) {
        if self.queue.lock().status != JournalStatus::Appending {
            return;
        }
        let done = self
            .progress
            .wait_for(|now| now.settled >= position || !now.appending);
        // An error says that the thread has ended: there is nothing to wait for.
        if tokio::time::timeout(self.patience, done).await.is_err() {
            let mut state = self.queue.lock();
            if state.status == JournalStatus::Appending {
                state.status = JournalStatus::Stalled;
                let patience = self.patience;
                state.message = Some(format!(
                    "the journal has not answered for {patience:?}; events are shown before they are in it"
                ));
            }
        }
    }

    /// Completes when something was settled or went wrong.
    pub(crate) async fn changed(&mut self) {
        if self.progress.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// How it stands.
    pub(crate) fn report(&self) -> Report {
        let state = self.queue.lock();
        Report {
            health: JournalHealth {
                status: state.status,
                message: state.message.clone(),
                waiting: state.waiting.len() as u64,
                lost: state.lost,
            },
            appended: state.appended,
            latency: state.latency.clone(),
        }
    }

    /// Appends what waits, as far as that can be done in time, and ends the thread.
    pub(crate) async fn close(mut self, within: Duration) -> Report {
        self.queue.lock().closed = Some(Instant::now() + within);
        self.queue.work.notify_one();
        let ended = async { while self.progress.changed().await.is_ok() {} };
        let _ = tokio::time::timeout(within, ended).await;
        self.report()
    }
}

impl Drop for Writer {
    /// The thread appends what it can at once, and ends.
    fn drop(&mut self) {
        self.queue.lock().closed.get_or_insert_with(Instant::now);
        self.queue.work.notify_one();
    }
}

fn status_of(fault: &JournalFault) -> JournalStatus {
    match fault.kind {
        JournalFaultKind::Blocked => JournalStatus::Blocked,
        JournalFaultKind::Retry | JournalFaultKind::Unwritable => JournalStatus::Stalled,
    }
}

impl Queue {
    /// Nothing panics under the lock, so a poisoned one is still whole.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut store: Box<dyn JournalStore>) {
        let died = catch_unwind(AssertUnwindSafe(|| self.append_until_closed(&mut *store)));
        if let Err(panic) = died {
            let message = format!("the journal panicked: {}", panic_message(&*panic));
            tracing::error!("{message}");
            let mut state = self.lock();
            state.status = JournalStatus::Blocked;
            state.message = Some(message);
        }
        let mut state = self.lock();
        state.lost += state.waiting.len() as u64;
        state.waiting.clear();
        drop(state);
        // Whoever waits learns that nothing more is settled.
        self.progress
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
    }

    fn append_until_closed(&self, store: &mut dyn JournalStore) {
        while let Some(events) = self.next() {
            let began = Instant::now();
            match store.append(&events) {
                Ok(()) => self.settle(&events, began.elapsed()),
                Err(fault) if fault.kind == JournalFaultKind::Unwritable && events.len() > 1 => {
                    if !self.append_one_by_one(store, &events) {
                        return;
                    }
                }
                Err(fault) if fault.kind == JournalFaultKind::Unwritable => self.give_up(1, &fault),
                Err(fault) => {
                    if !self.wait_after(&fault) {
                        return;
                    }
                }
            }
        }
    }

    /// The events at the head of the queue, which stay there until they are settled; none once
    /// there are none and it is closed.
    fn next(&self) -> Option<Vec<Arc<LifecycleEvent>>> {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                return Some(state.waiting.iter().take(CHUNK).cloned().collect());
            }
            if state.closed.is_some() {
                return None;
            }
            state = self
                .work
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn settle(&self, events: &[Arc<LifecycleEvent>], took: Duration) {
        let mut state = self.lock();
        let count = events.len();
        state.waiting.drain(..count);
        state.settled += count as u64;
        state.appended += count as u64;
        state.latency.record(took, 1);
        if state.status != JournalStatus::Appending {
            tracing::info!("the journal is appended to again");
            state.status = JournalStatus::Appending;
            state.message = None;
        }
        self.tell(state);
    }

    /// Drops the first events of the queue, which cannot be written.
    fn give_up(&self, count: usize, fault: &JournalFault) {
        tracing::error!("an event is not in the journal: {fault}");
        let mut state = self.lock();
        state.waiting.drain(..count);
        state.settled += count as u64;
        state.lost += count as u64;
        state.message = Some(format!("an event could not be written: {fault}"));
        self.tell(state);
    }

    /// Appends each alone and drops the one that cannot be; whether to go on.
    fn append_one_by_one(
        &self,
        store: &mut dyn JournalStore,
        events: &[Arc<LifecycleEvent>],
    ) -> bool {
        for event in events {
            let one = std::slice::from_ref(event);
            loop {
                let began = Instant::now();
                match store.append(one) {
                    Ok(()) => self.settle(one, began.elapsed()),
                    Err(fault) if fault.kind == JournalFaultKind::Unwritable => {
                        self.give_up(1, &fault);
                    }
                    Err(fault) => {
                        if !self.wait_after(&fault) {
                            return false;
                        }
                        continue;
                    }
                }
                break;
            }
        }
        true
    }

    /// Tells of a fault and waits before the next try; whether there is to be one.
    fn wait_after(&self, fault: &JournalFault) -> bool {
        let mut state = self.lock();
        let status = status_of(fault);
        if state.status != status || state.message.as_deref() != Some(&fault.message) {
            tracing::error!("events are not appended to the journal: {fault}");
        }
        state.status = status;
        state.message = Some(fault.message.clone());
        self.tell(state);
        let mut state = self.lock();
        let pause = if status == JournalStatus::Blocked {
            RETRY_BLOCKED
        } else {
            RETRY
        };
        let until = Instant::now() + pause;
        loop {
            let now = Instant::now();
            match state.closed {
                // What cannot pass by itself is not waited for at the end.
                Some(_) if status == JournalStatus::Blocked => return false,
                Some(end) if now >= end => return false,
                _ if now >= until => return true,
                _ => (),
            }
            let (next, _) = self
                .work
                .wait_timeout(state, until - now)
                .unwrap_or_else(PoisonError::into_inner);
            state = next;
        }
    }

    /// Tells how far the thread has come; lets go of the state first.
    fn tell(&self, state: MutexGuard<'_, State>) {
        let progress = Progress {
            settled: state.settled,
            appending: state.status == JournalStatus::Appending,
        };
        drop(state);
        let sender = self.progress.lock();
        if let Some(sender) = &*sender.unwrap_or_else(PoisonError::into_inner) {
            sender.send_replace(progress);
        }
    }
}
