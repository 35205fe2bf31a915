//! All I/O: one task holds the adopted processes, waits for their ends, and says what it sees.

mod adoption;
mod rounds;
mod runtime;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use headcount_adapter_kit::{Fanout, HealthCell};
use headcount_contract::{
    AdapterError, AuthoritativeSnapshot, CancelOutcome, ChildId, LifecycleEvent, Signal, Timestamp,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use self::runtime::Helpers;
use crate::config::ExternalConfig;
use crate::enrich::{CancelAuthority, Evidence};
use crate::facts::FactReader;
use crate::process::{AdoptError, Finding, Watch};
use crate::readopt::Readoption;
use crate::report::Report;
use crate::sampling::Sampling;
use crate::scan::{Found, Scan, Scanner};
use crate::translate::{Key, Translator};

/// How many signals, processes or samples are handled before others get their turn.
const CHUNK: usize = 256;

/// What the adapter asks of the task.
#[derive(Debug)]
pub(crate) enum Command {
    Snapshot(oneshot::Sender<AuthoritativeSnapshot>),
    Adopt(i64, oneshot::Sender<Result<ChildId, AdoptError>>),
    Cancel {
        child: ChildId,
        reason: Option<String>,
        to: oneshot::Sender<Result<CancelOutcome, AdapterError>>,
    },
    Close(oneshot::Sender<()>),
}

/// What the task begins with.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: ExternalConfig,
    pub(crate) translator: Translator,
    pub(crate) readoptions: Vec<Readoption>,
    /// Who may cancel any of the processes, if it covers them.
    pub(crate) authority: Option<Arc<dyn CancelAuthority>>,
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) health: Arc<HealthCell>,
    pub(crate) finished: Arc<AtomicBool>,
}

/// Runs until the adapter is closed or dropped, which drops the sender of `commands`.
pub(crate) async fn run(plan: Plan, mut commands: mpsc::Receiver<Command>) {
    let fanout = plan.fanout.clone();
    let mut session = Session::new(plan);
    let closed = session.serve(&mut commands).await;
    fanout.publish_all(session.outbox.drain(..));
    fanout.close();
    if let Some(closed) = closed {
        let _ = closed.send(());
    }
}

type End = BoxFuture<'static, (Key, Finding)>;

struct Session {
    config: ExternalConfig,
    translator: Translator,
    fanout: Arc<Fanout>,
    report: Report,
    fact_reader: FactReader,
    sampling: Sampling,
    /// Signals in their order, until every subscriber has room for them. Holds at most one start
    /// and one end a child, and heartbeats only while it is short.
    outbox: VecDeque<Signal>,
    /// The processes that live, as far as is known.
    watches: BTreeMap<Key, Watch>,
    by_pid: HashMap<u32, Key>,
    ends: FuturesUnordered<End>,
    to_readopt: VecDeque<Readoption>,
    to_adopt: VecDeque<Found>,
    /// Found by a matcher when there was no room.
    waiting: Vec<u32>,
    snapshots: Vec<oneshot::Sender<AuthoritativeSnapshot>>,
    scanner: Option<Scanner>,
    scanning: Option<JoinHandle<(Scanner, Scan)>>,
    /// The last process that a heartbeat was made of.
    beaten: Key,
    /// What asks and reads for children beyond presence.
    helpers: HashMap<Key, Helpers>,
    authority: Option<Arc<dyn CancelAuthority>>,
    /// Set once all that was named has ended or was refused, and no other is looked for.
    finished: Arc<AtomicBool>,
    /// Something was named from the start, so there is an end to come to.
    named: bool,
    tell: mpsc::Sender<(Key, Evidence)>,
    learnt: mpsc::Receiver<(Key, Evidence)>,
}

impl Session {
    fn new(plan: Plan) -> Self {
        let scanner = Some(Scanner::new(&plan.config)).filter(Scanner::has_work);
        let (tell, learnt) = mpsc::channel(CHUNK);
        let numbers: VecDeque<_> = Found::named(&plan.config).collect();
        let mut session = Self {
            translator: plan.translator,
            fanout: plan.fanout,
            report: Report::new(plan.health, scanner.is_some()),
            fact_reader: FactReader::new(),
            sampling: Sampling::default(),
            outbox: VecDeque::new(),
            watches: BTreeMap::new(),
            by_pid: HashMap::new(),
            ends: FuturesUnordered::new(),
            finished: plan.finished,
            named: !(numbers.is_empty() && plan.readoptions.is_empty()),
            to_readopt: plan.readoptions.into(),
            to_adopt: numbers,
            waiting: Vec::new(),
            snapshots: Vec::new(),
            scanner,
            scanning: None,
            beaten: 0,
            helpers: HashMap::new(),
            authority: plan.authority,
            tell,
            learnt,
            config: plan.config,
        };
        session.begin_scan();
        session
    }

    /// Returns whom to tell that it is closed.
    async fn serve(
        &mut self,
        commands: &mut mpsc::Receiver<Command>,
    ) -> Option<oneshot::Sender<()>> {
        let sample_interval = self.config.sample_interval;
        let scan_interval = self.config.scan_interval;
        let mut next_beat = Instant::now() + self.beat_pause();
        let mut next_sample = Instant::now() + sample_interval;
        let mut next_scan = Instant::now() + scan_interval;
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command? {
                    Command::Snapshot(to) => self.snapshots.push(to),
                    Command::Adopt(number, to) => {
                        let _ = to.send(self.adopt(&Found::by_number(number)));
                    }
                    Command::Cancel { child, reason, to } => self.cancel(&child, reason, to),
                    Command::Close(to) => return Some(to),
                },
                Some((key, finding)) = self.ends.next(), if !self.ends.is_empty() => self.ended(key, finding),
                Some((key, evidence)) = self.learnt.recv(), if self.outbox.len() < CHUNK => self.learnt(key, evidence),
                () = self.fanout.ready(), if !self.outbox.is_empty() => self.flush().await,
                // Gives way to the executor between chunks.
                () = tokio::task::yield_now(), if self.has_adoptions() => {
                    self.adopt_some();
                    // The more there are, the sooner the first chunk of them must be told to live.
                    next_beat = next_beat.min(Instant::now() + self.beat_pause());
                }
                scanned = next_scan_result(&mut self.scanning), if self.scanning.is_some() => {
                    self.scanned(scanned);
                    next_scan = Instant::now() + scan_interval;
                }
                () = sleep_until(next_scan), if self.scanner.is_some() => self.begin_scan(),
                () = sleep_until(next_beat), if !self.watches.is_empty() => {
                    self.beat();
                    next_beat = Instant::now() + self.beat_pause();
                }
                () = sleep_until(next_sample), if !sample_interval.is_zero() && !self.watches.is_empty() => {
                    self.sample();
                    next_sample = Instant::now() + sample_interval;
                }
            }
            self.answer_snapshots();
            self.finish();
        }
    }

    fn has_adoptions(&self) -> bool {
        !(self.to_adopt.is_empty() && self.to_readopt.is_empty())
    }

    /// Tells whoever waits for the end of everything that this is it.
    fn finish(&mut self) {
        let looking = self.scanner.is_some() || self.scanning.is_some() || self.has_adoptions();
        let watching = !(self.watches.is_empty() && self.ends.is_empty());
        let over = self.named && !looking && !watching && self.outbox.is_empty();
        if over && !self.finished.swap(true, Ordering::AcqRel) {
            self.report.tell_again(&self.fanout);
        }
    }

    async fn flush(&mut self) {
        let some = self.outbox.len().min(CHUNK);
        self.fanout.send_all(self.outbox.drain(..some)).await;
    }

    fn say(&mut self, event: LifecycleEvent) {
        self.outbox.push_back(Signal::Event(event));
    }

    fn answer_snapshots(&mut self) {
        // What the host named is looked at before anything is said of it.
        if self.snapshots.is_empty() || self.has_adoptions() || self.report.is_first_scan_awaited()
        {
            return;
        }
        let keys: Vec<_> = self.watches.keys().copied().collect();
        for key in keys {
            self.notice(key);
        }
        // What ends is told in a moment, with its last words.
        if self.is_draining() {
            return;
        }
        let snapshot = self.translator.snapshot(now());
        for to in self.snapshots.drain(..) {
            let _ = to.send(snapshot.clone());
        }
    }
}

/// Never completes where none is under way.
async fn next_scan_result(
    scanning: &mut Option<JoinHandle<(Scanner, Scan)>>,
) -> Option<(Scanner, Scan)> {
    match scanning {
        Some(scanning) => scanning.await.ok(),
        None => std::future::pending().await,
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}
