//! The task of one adapter: reads its stream in batches, holds events back after a discontinuity,
//! and takes its snapshots. Whatever the adapter does stays in here.

mod guard;
mod snapshots;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{
    AdapterErrorKind, ChildId, ChildLifecycleAdapter, Discontinuity, Gap, Health, Signal, Snapshot,
    SnapshotReason, SourceId,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::guard::guarded;
use self::guard::{Guarded, Taken};
use self::snapshots::Snapshots;
use crate::HostSettings;

/// What a session hands to the engine, in the order in which it is to be applied.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) adapter: usize,
    pub(crate) items: Vec<Item>,
    /// When the first of it reached the host.
    pub(crate) since: Instant,
    /// Given back when the engine is done, so that no adapter takes up all of its time.
    pub(crate) _permit: OwnedSemaphorePermit,
}

/// One thing for the engine.
#[derive(Debug)]
pub(crate) enum Item {
    /// As the adapter sent it.
    Signal(Signal),
    /// A snapshot that the session took.
    Snapshot(Snapshot),
    /// A snapshot could not be taken; children that were to be reconciled were not found.
    SnapshotFailed { why: String },
    /// The attempts to find these children are over: whoever no snapshot spoke of was not found.
    Searched {
        children: Vec<(SourceId, ChildId)>,
        answered: bool,
    },
    /// Events are held back from here on, or go on.
    Holding(bool),
    /// Snapshots were tried for in vain after a discontinuity (rule N8).
    GaveUp,
    /// What the adapter says of its health, when asked.
    Health(Health),
    /// Nothing more can come.
    Finished,
    /// The adapter failed; its stream has ended. What happened, and whether it is tried again.
    Failed { why: String },
}

/// What the engine asks of a session.
#[derive(Debug)]
pub(crate) enum Request {
    /// Take a snapshot.
    Snapshot(SnapshotReason),
    /// Look for a child.
    Find(SourceId, ChildId),
}

/// Everything that a session's task owns.
pub(crate) struct Session {
    pub(crate) index: usize,
    pub(crate) adapter: Arc<dyn ChildLifecycleAdapter>,
    pub(crate) settings: Arc<HostSettings>,
    /// The journal says that children of this source were running: nothing is trusted before the
    /// first snapshot.
    pub(crate) has_past: bool,
    pub(crate) out: mpsc::Sender<Batch>,
    pub(crate) requests: mpsc::UnboundedReceiver<Request>,
}

/// How many batches of one adapter the engine has at most.
const BATCHES_UNDER_WAY: usize = 2;
/// How often counts of health are looked at: they change without a signal.
const HEALTH_PERIOD: Duration = Duration::from_secs(1);

impl Session {
    /// Runs until the adapter has finished or has failed too often.
    pub(crate) async fn run(mut self) {
        let outbox = Outbox {
            adapter: self.index,
            sender: self.out.clone(),
            permits: Arc::new(Semaphore::new(BATCHES_UNDER_WAY)),
        };
        let mut failures = 0;
        loop {
            let began = Instant::now();
            let ended = match guarded("subscribe", || self.adapter.subscribe()) {
                Ok(Ok(stream)) => self.follow(Guarded::new(stream), &outbox).await,
                Ok(Err(error)) if error.kind() == AdapterErrorKind::Closed => End::Finished,
                Ok(Err(error)) => End::Failed(format!("it cannot be subscribed to: {error}")),
                Err(panic) => End::Failed(panic),
            };
            let why = match ended {
                End::Finished => {
                    let _ = outbox.send(vec![Item::Finished]).await;
                    return;
                }
                End::HostGone => return,
                End::Failed(why) => why,
            };
            // A session that lasted was a good one: its failure is the first again.
            failures = if began.elapsed() > self.settings.reconnect_backoff_max {
                1
            } else {
                failures + 1
            };
            let over = failures >= self.settings.reconnect_attempts.max(1);
            let mut items = vec![Item::Failed { why }];
            if over {
                items.push(Item::Finished);
            }
            if outbox.send(items).await.is_err() || over {
                return;
            }
            self.has_past = true;
            tokio::time::sleep(self.settings.backoff(failures)).await;
        }
    }

    /// Follows one stream to its end.
    async fn follow(&mut self, mut stream: Guarded, outbox: &Outbox) -> End {
        let mut snapshots = Snapshots::new(self.adapter.clone(), self.settings.clone());
        snapshots.want(SnapshotReason::SessionOpen);
        let mut hold = Hold::default();
        let mut asking = true;
        let mut health = Health::default();
        let mut next_health = Instant::now();
        let mut period = Instant::now() + self.settings.next_period();
        if self.has_past {
            hold.begin();
            if outbox.send(vec![Item::Holding(true)]).await.is_err() {
                return End::HostGone;
            }
        }
        loop {
            let room = hold.signals.len() < self.settings.held_signals.max(1);
            let mut items = Vec::new();
            let mut end = None;
            tokio::select! {
                biased;
                request = self.requests.recv(), if asking => match request {
                    Some(request) => snapshots.asked(request),
                    None => asking = false,
                },
                answer = snapshots.answer() => {
                    // What was in the stream when the answer was made comes before it.
                    if !hold.active {
                        let ready = stream.ready(self.settings.held_signals);
                        take_signals(ready, &mut snapshots, &mut hold, &mut items);
                        hold.again |= hold.active;
                    }
                    self.take_answer(answer, &mut snapshots, &mut hold, &mut items);
                }
                () = sleep_until(period) => {
                    snapshots.want(SnapshotReason::Periodic);
                    period = Instant::now() + self.settings.next_period();
                }
                () = sleep_until(next_health) => {
                    next_health = Instant::now() + HEALTH_PERIOD;
                    match guarded("health", || self.adapter.health()) {
                        Ok(now) if now != health => {
                            health = now.clone();
                            items.push(Item::Health(now));
                        }
                        Ok(_) => (),
                        Err(panic) => end = Some(End::Failed(panic)),
                    }
                }
                taken = stream.next(self.settings.batch), if room => match taken {
                    Taken::Signals(signals) => take_signals(signals, &mut snapshots, &mut hold, &mut items),
                    Taken::End => end = Some(End::Finished),
                    Taken::Panic(said) => end = Some(End::Failed(said)),
                },
            }
            if end.is_none() && !hold.active {
                match guarded("is_finished", || self.adapter.is_finished()) {
                    Ok(true) => {
                        // What was sent before it finished still counts.
                        loop {
                            let rest = stream.ready(self.settings.batch);
                            if rest.is_empty() {
                                break;
                            }
                            items.extend(rest.into_iter().map(Item::Signal));
                        }
                        end = Some(End::Finished);
                    }
                    Ok(false) => (),
                    Err(panic) => end = Some(End::Failed(panic)),
                }
            }
            if end.is_some() {
                items.extend(hold.release());
            }
            if outbox.send(items).await.is_err() {
                return End::HostGone;
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Takes over what a snapshot said, or that it failed.
    fn take_answer(
        &self,
        answer: snapshots::Answer,
        snapshots: &mut Snapshots,
        hold: &mut Hold,
        items: &mut Vec<Item>,
    ) {
        let answered = answer.result.is_ok();
        match answer.result {
            Ok(taken) => items.extend(taken.into_iter().map(Item::Snapshot)),
            Err(why) => items.push(Item::SnapshotFailed { why }),
        }
        if !answer.searched.is_empty() {
            items.push(Item::Searched {
                children: answer.searched,
                answered,
            });
        }
        if !hold.active {
            return;
        }
        if answered && !hold.again {
            items.extend(hold.release());
            return;
        }
        if answered {
            // The stream broke again after this snapshot was asked for.
            hold.again = false;
            snapshots.want(SnapshotReason::Reconnect);
            return;
        }
        hold.failed += 1;
        if hold.failed >= self.settings.reconnect_attempts.max(1) {
            items.push(Item::GaveUp);
            items.extend(hold.release());
        } else {
            snapshots.want_after(
                SnapshotReason::Reconnect,
                self.settings.backoff(hold.failed),
            );
        }
    }
}

fn take_signals(
    signals: Vec<Signal>,
    snapshots: &mut Snapshots,
    hold: &mut Hold,
    items: &mut Vec<Item>,
) {
    for signal in signals {
        take_signal(signal, snapshots, hold, items);
    }
}

/// Takes over one signal, or holds it back.
fn take_signal(signal: Signal, snapshots: &mut Snapshots, hold: &mut Hold, items: &mut Vec<Item>) {
    if matches!(
        signal,
        Signal::Discontinuity(Discontinuity {
            gap: Gap::Possible,
            ..
        })
    ) {
        if hold.active {
            hold.again |= snapshots.is_under_way();
            hold.signals.push_back(signal);
        } else {
            items.push(Item::Signal(signal));
            items.push(Item::Holding(true));
            hold.begin();
            // An answer under way may be older than what was missed.
            hold.again = snapshots.is_under_way();
        }
        snapshots.want(SnapshotReason::Reconnect);
    } else if hold.active && !matches!(signal, Signal::Health(_)) {
        hold.signals.push_back(signal);
    } else {
        items.push(Item::Signal(signal));
    }
}

/// What is held back until a snapshot has been applied (rule N8).
#[derive(Debug, Default)]
struct Hold {
    active: bool,
    signals: VecDeque<Signal>,
    failed: u32,
    /// The next snapshot does not suffice: events may be missing after it.
    again: bool,
}

impl Hold {
    fn begin(&mut self) {
        *self = Self {
            active: true,
            ..Self::default()
        };
    }

    /// Everything that was held back, in order.
    fn release(&mut self) -> Vec<Item> {
        if !self.active {
            return Vec::new();
        }
        let held = std::mem::take(self).signals;
        std::iter::once(Item::Holding(false))
            .chain(held.into_iter().map(Item::Signal))
            .collect()
    }
}

/// Why a stream is no longer followed.
enum End {
    Finished,
    HostGone,
    Failed(String),
}

/// The way to the engine.
struct Outbox {
    adapter: usize,
    sender: mpsc::Sender<Batch>,
    permits: Arc<Semaphore>,
}

#[derive(Debug)]
struct HostGone;

impl Outbox {
    /// Waits until the engine takes it.
    async fn send(&self, items: Vec<Item>) -> Result<(), HostGone> {
        if items.is_empty() {
            return Ok(());
        }
        let since = Instant::now();
        let permit = self
            .permits
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| HostGone)?;
        let batch = Batch {
            adapter: self.adapter,
            items,
            since,
            _permit: permit,
        };
        self.sender.send(batch).await.map_err(|_| HostGone)
    }
}

/// Tells of a panic that came through all of the session's own guards.
pub(crate) async fn report_panic(adapter: usize, said: &str, out: &mpsc::Sender<Batch>) {
    let outbox = Outbox {
        adapter,
        sender: out.clone(),
        permits: Arc::new(Semaphore::new(1)),
    };
    let why = format!("its session panicked: {said}");
    let _ = outbox
        .send(vec![Item::Failed { why }, Item::Finished])
        .await;
}
