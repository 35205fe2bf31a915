//! One subscriber that writes down everything it sees.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use futures_util::StreamExt;
use headcount_contract::{ChildId, ChildState, LifecycleEvent, Observation, Signal, SignalStream};
use tokio::sync::{oneshot, watch};

use crate::case::Failure;

/// Reads a stream in a task of its own.
#[derive(Debug)]
pub(crate) struct Watch {
    log: Arc<Log>,
    news: watch::Receiver<u64>,
    task: tokio::task::JoinHandle<()>,
}

/// What a watch has seen.
#[derive(Debug, Default)]
pub(crate) struct Log {
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    signals: Vec<Signal>,
    ended: bool,
}

impl Log {
    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last signals, one a line, for a failure.
    pub(crate) fn tail(&self, lines: usize) -> String {
        let seen = self.lock();
        let skipped = seen.signals.len().saturating_sub(lines);
        let mut text = String::new();
        if skipped > 0 {
            let _ = writeln!(text, "    … {skipped} before");
        }
        for signal in &seen.signals[skipped..] {
            let _ = writeln!(text, "    {}", describe(signal));
        }
        text.push_str(if seen.ended {
            "    (the stream has ended)"
        } else {
            "    (the stream goes on)"
        });
        text
    }
}

impl Watch {
    /// Returns once the stream has been polled for the first time.
    pub(crate) async fn new(mut stream: SignalStream) -> Self {
        let log = Arc::new(Log::default());
        let (tell, news) = watch::channel(0);
        let writer = log.clone();
        let (begin, polled) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut begin = Some(begin);
            loop {
                let mut next = stream.next();
                let first = futures_util::poll!(&mut next);
                if let Some(begin) = begin.take() {
                    // The watch is dropped already; there is nobody to tell.
                    let _ = begin.send(());
                }
                let signal = match first {
                    Poll::Ready(signal) => signal,
                    Poll::Pending => next.await,
                };
                let Some(signal) = signal else { break };
                writer.lock().signals.push(signal);
                tell.send_modify(|count| *count += 1);
            }
            writer.lock().ended = true;
            tell.send_modify(|count| *count += 1);
        });
        // An error means that the task panicked, which whoever waits for news will see.
        let _ = polled.await;
        Self { log, news, task }
    }

    pub(crate) fn log(&self) -> Arc<Log> {
        self.log.clone()
    }

    /// Everything seen so far.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        self.log.lock().signals.clone()
    }

    /// The events seen so far.
    pub(crate) fn events(&self) -> Vec<LifecycleEvent> {
        events(&self.signals())
    }

    /// Waits until `find` finds something in what was seen. The case's time limit ends the wait.
    pub(crate) async fn until<T>(
        &self,
        mut find: impl FnMut(&[Signal]) -> Option<T>,
    ) -> Result<T, Failure> {
        let mut news = self.news.clone();
        loop {
            news.borrow_and_update();
            let ended = {
                let seen = self.log.lock();
                if let Some(found) = find(&seen.signals) {
                    return Ok(found);
                }
                seen.ended
            };
            if ended {
                return Err(Failure::new("the stream ended before that was seen"));
            }
            // An error means that the task is gone without having set `ended`: it panicked.
            if news.changed().await.is_err() && !self.log.lock().ended {
                return Err(Failure::new("the stream panicked when it was polled"));
            }
        }
    }

    /// Waits for the end of the stream, and returns everything seen.
    pub(crate) async fn to_the_end(&self) -> Result<Vec<Signal>, Failure> {
        let mut news = self.news.clone();
        loop {
            news.borrow_and_update();
            {
                let seen = self.log.lock();
                if seen.ended {
                    return Ok(seen.signals.clone());
                }
            }
            if news.changed().await.is_err() && !self.log.lock().ended {
                return Err(Failure::new("the stream panicked when it was polled"));
            }
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The events among signals.
pub(crate) fn events(signals: &[Signal]) -> Vec<LifecycleEvent> {
    signals
        .iter()
        .filter_map(|signal| match signal {
            Signal::Event(event) => Some(event.clone()),
            _ => None,
        })
        .collect()
}

/// The state of each child by the order of its events; final once terminal.
pub(crate) fn fold(signals: &[Signal]) -> BTreeMap<ChildId, ChildState> {
    let mut states = BTreeMap::new();
    for event in signals.iter().filter_map(|signal| match signal {
        Signal::Event(event) => Some(event),
        _ => None,
    }) {
        let Some(state) = event.state() else { continue };
        let known = states.entry(event.child_id().clone()).or_insert(state);
        if !known.is_terminal() {
            *known = state;
        }
    }
    states
}

/// A signal in one line.
pub(crate) fn describe(signal: &Signal) -> String {
    match signal {
        Signal::Event(event) => {
            let mut text = format!("{} {}", event.child_id(), event.kind().as_str());
            if let Some(state) = event.state() {
                let _ = write!(text, " {state}");
            }
            if let Some(sequence) = event.sequence() {
                let _ = write!(text, " #{}", sequence.get());
            }
            if let Some(activity) = event.activity() {
                let _ = write!(text, " {:?}", activity.as_str());
            }
            let _ = write!(text, " ({} {})", event.source(), event.source_epoch());
            text
        }
        Signal::Discontinuity(at) => format!("discontinuity: {:?}, gap {:?}", at.cause, at.gap),
        Signal::Health(health) => format!(
            "health: {} {}",
            health.status,
            health.message.as_deref().unwrap_or_default()
        ),
        Signal::Snapshot(snapshot) => format!("snapshot: {}", snapshot.to_json()),
        Signal::Observation(child, Observation::Output(batch)) => {
            format!("{child} output: {} lines", batch.len())
        }
        Signal::Observation(child, observation) => format!("{child} {observation:?}"),
        other => format!("{other:?}"),
    }
}
