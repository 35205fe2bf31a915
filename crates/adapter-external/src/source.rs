//! All I/O: one task holds the adopted processes, waits for their ends, and says what it sees.

mod runtime;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use headcount_adapter_kit::{Fanout, HealthCell};
use headcount_contract::{
    AdapterError, AuthoritativeSnapshot, CancelOutcome, ChildId, LifecycleEvent, Observation,
    Signal, Timestamp,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use self::runtime::Helpers;
use crate::config::ExternalConfig;
use crate::enrich::{CancelAuthority, Evidence};
use crate::process::{self, AdoptError, Finding, Watch};
use crate::readopt::Readoption;
use crate::report::Report;
use crate::scan::{Found, FoundBy, Scan, Scanner};
use crate::translate::{Facts, Key, Translator, Verified};
use crate::usage::Gauge;

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
    gauge: Gauge,
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
    /// The last process that a heartbeat, and a sample, was made of.
    beaten: Key,
    sampled: Key,
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
            gauge: Gauge::new(),
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
            sampled: 0,
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
                () = tokio::task::yield_now(), if self.has_adoptions() => self.adopt_some(),
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

    fn adopt_some(&mut self) {
        for _ in 0..CHUNK / 4 {
            if let Some(readoption) = self.to_readopt.pop_front() {
                self.readopt(readoption);
            } else if let Some(found) = self.to_adopt.pop_front() {
                let adopted = self.adopt(&found);
                if let Err(why) = adopted {
                    self.refused(&found, &why);
                }
            } else {
                break;
            }
        }
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    fn refused(&mut self, found: &Found, why: &AdoptError) {
        match (why, &found.by) {
            // Found twice, which is no fault.
            (AdoptError::Adopted(_), FoundBy::Matcher(_) | FoundBy::File(..)) => {}
            // Processes come and go while the table of them is read.
            (
                AdoptError::NoSuchProcess | AdoptError::EndedMeanwhile | AdoptError::Ended(_),
                FoundBy::Matcher(_),
            ) => {
                self.report.count("ended_before_adoption");
            }
            (AdoptError::TooMany(_), FoundBy::Matcher(_)) => {
                self.waiting.extend(u32::try_from(found.number));
                self.report.refused(found, why);
            }
            _ => self.report.refused(found, why),
        }
    }

    fn adopt(&mut self, found: &Found) -> Result<ChildId, AdoptError> {
        let pid = process::check_number(found.number)?;
        if let Some(&key) = self.by_pid.get(&pid) {
            self.notice(key);
            if self.watches.contains_key(&key)
                && let Some(id) = self.translator.id(key)
            {
                return Err(AdoptError::Adopted(id.clone()));
            }
        }
        if self.watches.len() >= self.config.max_processes {
            return Err(AdoptError::TooMany(self.config.max_processes));
        }
        let (watch, identity) = process::take(pid, self.config.poll_interval)?;
        let facts = self.facts(pid, &found.by, &watch)?;
        let (key, event) = self
            .translator
            .adopted(identity, &facts, verified(&watch), now());
        self.say(event);
        self.hold(key, pid, watch);
        self.enrich(key, pid, found.enrichment.as_ref());
        self.translator
            .id(key)
            .cloned()
            .ok_or(AdoptError::EndedMeanwhile)
    }

    /// Facts are read after the process is held, and are its own only if it still lives then.
    fn facts(&mut self, pid: u32, by: &FoundBy, watch: &Watch) -> Result<Facts, AdoptError> {
        let facts = self.gauge.facts(pid, by);
        match watch.lives() {
            Some(false) => Err(AdoptError::EndedMeanwhile),
            _ => Ok(facts),
        }
    }

    fn readopt(&mut self, readoption: Readoption) {
        let Readoption {
            child,
            state,
            process: expected,
        } = readoption;
        let taken = process::take(expected.pid, self.config.poll_interval);
        let found = match taken {
            Ok((watch, found)) if expected.is_same(&found) == Some(true) => Some((watch, found)),
            _ => None,
        };
        let facts = match &found {
            Some((watch, found)) => self.facts(found.pid, &FoundBy::Journal, watch).ok(),
            None => None,
        };
        let verified = found
            .as_ref()
            .map(|(watch, _)| verified(watch))
            .unwrap_or_default();
        let (key, event) =
            self.translator
                .readopted(child, state, expected, facts.as_ref(), verified, now());
        self.say(event);
        match (found, facts) {
            (Some((watch, found)), Some(_)) => {
                self.hold(key, found.pid, watch);
                self.enrich(key, found.pid, None);
                let event = self.translator.lives(key, now());
                self.outbox.extend(event.map(Signal::Event));
            }
            // It ended since the host looked: how cannot be known any more.
            _ => self.ended(key, Finding::Gone),
        }
    }

    fn hold(&mut self, key: Key, pid: u32, watch: Watch) {
        self.report.count("adopted");
        if !watch.is_prompt() {
            self.report.limit("some processes have no handle to wait on (no descriptors left, or none on this system): they are looked at now and then, and how they end may stay unknown");
        }
        let waiting = watch.clone();
        self.ends
            .push(async move { (key, waiting.end().await) }.boxed());
        self.watches.insert(key, watch);
        self.by_pid.insert(pid, key);
    }

    fn ended(&mut self, key: Key, finding: Finding) {
        if self.drains(key, finding) {
            return;
        }
        if finding == Finding::Zombie
            && let Some(watch) = self.watches.get(&key)
        {
            let waiting = watch.clone();
            self.ends
                .push(async move { (key, waiting.collected().await) }.boxed());
        }
        self.let_go(key);
        let Some(event) = self.translator.ended(key, finding, now()) else {
            return;
        };
        self.say(event);
        self.report.count(if finding == Finding::Gone {
            "vanished"
        } else {
            "ended"
        });
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    /// The process is no longer watched.
    fn let_go(&mut self, key: Key) {
        self.watches.remove(&key);
        self.helpers.remove(&key);
        self.report.forget(key);
        if let Some(pid) = self.translator.process(key).map(|process| process.pid)
            && self.by_pid.get(&pid) == Some(&key)
        {
            self.by_pid.remove(&pid);
        }
    }

    /// Takes notice of an end that its future has not told yet.
    fn notice(&mut self, key: Key) {
        let ended = self
            .watches
            .get(&key)
            .filter(|watch| watch.lives() == Some(false))
            .and_then(Watch::how);
        if let Some(finding) = ended {
            self.ended(key, finding);
        }
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

    fn begin_scan(&mut self) {
        let Some(mut scanner) = self.scanner.take() else {
            return;
        };
        if self.watches.len() < self.config.max_processes {
            scanner.reconsider(self.waiting.drain(..));
        }
        // The table may be long and a PID file's disk slow.
        self.scanning = Some(tokio::task::spawn_blocking(move || {
            let scan = scanner.scan();
            (scanner, scan)
        }));
    }

    fn scanned(&mut self, result: Option<(Scanner, Scan)>) {
        self.scanning = None;
        let Some((scanner, scan)) = result else {
            self.report.scan_failed();
            return;
        };
        self.scanner = Some(scanner);
        self.to_adopt.extend(scan.found);
        self.report.count("scans");
        self.report.scanned(scan.trouble);
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    /// How long until the next chunk of heartbeats: all have had one after the interval.
    fn beat_pause(&self) -> Duration {
        let chunks = self.watches.len().div_ceil(CHUNK).max(1);
        self.config.heartbeat_interval / u32::try_from(chunks).unwrap_or(u32::MAX)
    }

    fn beat(&mut self) {
        // A subscriber that has not taken the last ones gains nothing by more.
        if self.outbox.len() > CHUNK {
            self.report.count("heartbeats_skipped");
            return;
        }
        let at = now();
        for key in self.next_after(self.beaten) {
            self.beaten = key;
            if self.watches.get(&key).and_then(Watch::lives) == Some(true)
                && let Some(event) = self.translator.lives(key, at)
            {
                self.say(event);
            }
        }
    }

    fn sample(&mut self) {
        // A sample must not stand before the start of its child, nor after its end.
        if self.fanout.subscribers() == 0 || !self.outbox.is_empty() {
            return;
        }
        let some = self.next_after(self.sampled);
        self.sampled = some.last().copied().unwrap_or(0);
        let of_pid: HashMap<_, _> = some
            .iter()
            .filter_map(|&key| Some((self.translator.process(key)?.pid, key)))
            .collect();
        let wanted: Vec<_> = of_pid.keys().copied().collect();
        for (number, usage) in self.gauge.sample(&wanted) {
            let key = of_pid[&number];
            // What was read is this process's only if it lived until after the reading.
            if self.watches.get(&key).and_then(Watch::lives) == Some(true)
                && let Some(id) = self.translator.id(key)
            {
                self.fanout
                    .publish(Signal::Observation(id.clone(), Observation::Usage(usage)));
            }
        }
    }

    /// Up to a chunk of living processes after this one, from the first again after the last.
    fn next_after(&self, key: Key) -> Vec<Key> {
        let after = self.watches.range((Bound::Excluded(key), Bound::Unbounded));
        let up_to = self.watches.range(..=key);
        after
            .chain(up_to)
            .map(|(&key, _)| key)
            .take(CHUNK)
            .collect()
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

fn verified(watch: &Watch) -> Verified {
    Verified {
        exit_status: watch.is_prompt() && process::tells_exit_status(),
        cancel: false,
    }
}

fn now() -> Timestamp {
    SystemTime::now().into()
}
