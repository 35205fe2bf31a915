//! One host with thousands of live children over four adapters, at thousands of events a second,
//! for minutes: what `cargo xtask soak host` runs.
//!
//! `soak_host [SECONDS] [CHILDREN] [EVENTS_A_SECOND]`; by default 300, 10,000 and 5,000. Fails if memory
//! grows after the warm-up or the time from event to view is too long.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a measuring program talks, and stops at what it does not expect

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use headcount::{AdapterInfo, Change, Histogram, Host, HostSettings, JournalSettings};
use headcount_adapter_kit::{EventMint, Fanout};
use headcount_contract::{
    AdapterError, AuthoritativeSnapshot, Capabilities, Capability, ChildId, ChildIdentity,
    ChildLifecycleAdapter, ChildState, Coverage, EventKind, Health, HealthStatus, Outcome,
    Sequence, SequenceScope, Signal, SignalStream, Snapshot, SnapshotChild, SnapshotId,
    SnapshotReason, SourceEpoch, SourceId, SourceIdentity, Urgency, async_trait,
};
const ADAPTERS: usize = 4;
/// Growth beyond this after the warm-up is a leak.
const MAX_GROWTH: u64 = 16 << 20;
const MAX_P99: Duration = Duration::from_millis(50);

const CAPABILITIES: Capabilities = Capabilities {
    history: Capability::Known,
    heartbeat: Capability::Known,
    snapshot: Capability::Known,
    cancel: Capability::Unknown,
    terminal_cause: Capability::Known,
};

/// A source whose children live in memory.
#[derive(Debug)]
struct Source {
    identity: SourceIdentity,
    fanout: Fanout,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    mint: EventMint,
    live: Vec<Living>,
    next: u64,
    snapshots: u64,
}

/// One child, as its source knows it.
#[derive(Debug, Clone)]
struct Living {
    child: ChildIdentity,
    state: ChildState,
    sequence: Option<Sequence>,
}

impl State {
    /// The next event of a child, of which the source takes note itself.
    fn tell(&mut self, at: usize, kind: EventKind) -> Signal {
        let living = &mut self.live[at];
        let event = self
            .mint
            .event(&living.child, kind, SystemTime::now().into());
        living.sequence = event.sequence();
        living.state = kind.state().unwrap_or(living.state);
        Signal::Event(event)
    }
}

impl Source {
    fn new(number: usize) -> Arc<Self> {
        let source = SourceId::new(format!("source-{number}")).unwrap();
        let identity = SourceIdentity::new(source, SourceEpoch::new("1").unwrap());
        let mint = EventMint::new(identity.clone(), CAPABILITIES, SequenceScope::Child);
        let state = State {
            mint,
            live: Vec::new(),
            next: 0,
            snapshots: 0,
        };
        Arc::new(Self {
            identity,
            fanout: Fanout::new(4_096),
            state: Mutex::new(state),
        })
    }

    /// One more child.
    async fn begin(&self) {
        // Under the lock, so that a snapshot agrees with the events before it.
        self.fanout.ready().await;
        let mut state = self.state.lock().unwrap();
        let id = ChildId::new(format!("child-{}", state.next)).unwrap();
        state.next += 1;
        state.live.push(Living {
            child: ChildIdentity::root(id),
            state: ChildState::CREATED,
            sequence: None,
        });
        let at = state.live.len() - 1;
        let events = [
            EventKind::Created,
            EventKind::StateChanged(ChildState::RUNNING),
        ];
        self.fanout
            .publish_all(events.map(|kind| state.tell(at, kind)));
    }

    /// Something happens to some child; now and then one ends and another begins.
    async fn happen(&self, random: &mut fastrand::Rng) {
        self.fanout.ready().await;
        let ended = {
            let mut state = self.state.lock().unwrap();
            let at = random.usize(0..state.live.len());
            let ends = random.u32(0..200) == 0;
            let kind = match random.u32(0..10) {
                _ if ends => EventKind::Terminal(Outcome::Completed),
                0 => EventKind::StateChanged(ChildState::WAITING),
                1 => EventKind::StateChanged(ChildState::RUNNING),
                _ => EventKind::Heartbeat,
            };
            let told = state.tell(at, kind);
            self.fanout.publish(told);
            if ends {
                let ended = state.live.swap_remove(at);
                state.mint.forget(ended.child.id());
            }
            ends
        };
        if ended {
            self.begin().await;
        }
    }
}

#[async_trait]
impl ChildLifecycleAdapter for Source {
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }

    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn health(&self) -> Health {
        Health::new(HealthStatus::Healthy)
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        self.fanout.subscribe()
    }

    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let mut state = self.state.lock().unwrap();
        state.snapshots += 1;
        let id = SnapshotId::new(format!("snapshot-{}", state.snapshots)).unwrap();
        let listed = state.live.iter().map(|living| {
            let listed = SnapshotChild::with_identity(living.child.clone(), living.state);
            match living.sequence {
                Some(sequence) => listed.with_sequence(sequence),
                None => listed,
            }
        });
        let listed = listed.collect();
        let now = SystemTime::now().into();
        let snapshot =
            AuthoritativeSnapshot::new(self.identity.clone(), id, now, Coverage::All, listed);
        Ok(vec![snapshot.unwrap().into()])
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        self.fanout.close();
        Ok(())
    }
}

/// Resident memory in bytes and processor time, as Linux tells; zero elsewhere.
fn usage() -> (u64, Duration) {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let pages: u64 = read("/proc/self/statm")
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let stat = read("/proc/self/stat");
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0)
    };
    // Linux counts in hundredths of a second wherever this runs.
    (
        pages * 4096,
        Duration::from_millis(10 * (ticks(11) + ticks(12))),
    )
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u64>().expect("a number"));
    let seconds = arguments.next().unwrap_or(300);
    let children = arguments.next().unwrap_or(10_000);
    let rate = arguments.next().unwrap_or(5_000);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(soak(Duration::from_secs(seconds), children, rate));
}

async fn soak(lasting: Duration, children: u64, rate: u64) {
    let folder = tempfile::tempdir().unwrap();
    let sources: Vec<_> = (0..ADAPTERS).map(Source::new).collect();
    let mut settings = HostSettings::default();
    // Ended children are kept up to a bound: low, so that the warm-up reaches it.
    settings.projector.ended_children = 500;
    settings.projector.tombstones = 2_000;
    settings.snapshot_period = Duration::from_secs(5);
    let host = sources
        .iter()
        .fold(Host::builder().settings(settings), |builder, source| {
            builder.adapter_value(AdapterInfo::own("memory"), source.clone())
        })
        .journal(
            folder.path().join("events.jsonl"),
            JournalSettings::default(),
        )
        .build()
        .unwrap();
    let mut changes = host.changes();
    host.start().await.unwrap();
    while sources
        .iter()
        .any(|source| source.fanout.subscribers() == 0)
    {
        tokio::task::yield_now().await;
    }
    // Somebody listens, and somebody looks ten times a second, as a table does.
    let listener = tokio::spawn(async move {
        use futures_util::StreamExt;
        let mut missed = 0;
        while let Some(change) = changes.next().await {
            if let Change::Lagged(some) = change {
                missed += some;
            }
        }
        missed
    });
    for n in 0..children {
        sources[usize::try_from(n).unwrap() % ADAPTERS]
            .begin()
            .await;
    }
    let began = Instant::now();
    let warm_up = lasting / 3;
    let mut warm: Option<(u64, Duration, Instant, Histogram)> = None;
    let mut random = fastrand::Rng::with_seed(9);
    let (mut sent, mut next_look, mut rows) = (0_u64, Instant::now(), 0);
    while began.elapsed() < lasting {
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss
        )]
        let due = (began.elapsed().as_secs_f64() * rate as f64) as u64;
        for _ in sent..due {
            sources[random.usize(0..ADAPTERS)].happen(&mut random).await;
        }
        sent = sent.max(due);
        if next_look.elapsed() > Duration::from_millis(100) {
            next_look = Instant::now();
            rows = host.view().sorted().len();
        }
        if warm.is_none() && began.elapsed() > warm_up {
            let (memory, cpu) = usage();
            // The children were all begun at once, as fast as the host took them: those waited.
            let at_first = host.view().stats().view_latency.clone();
            warm = Some((memory, cpu, Instant::now(), at_first));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let (memory, cpu) = usage();
    let (warm_memory, warm_cpu, since, at_first) = warm.expect("it lasted longer than its warm-up");
    let view = host.view();
    let stats = view.stats();
    let latency = stats.view_latency.since(&at_first);
    let p99 = latency.quantile(0.99).unwrap_or_default();
    let cores = cpu.saturating_sub(warm_cpu).as_secs_f64() / since.elapsed().as_secs_f64();
    println!(
        "children {rows}, events {} ({rate}/s asked for), journaled {}",
        stats.events_in, stats.journaled
    );
    println!("event to view: {latency:?}; while all began: {at_first:?}");
    println!("journal, a batch: {:?}", stats.journal_latency);
    println!("processor: {:.0} % of a core", cores * 100.0);
    println!(
        "memory: {} KiB after warm-up, {} KiB at the end",
        warm_memory >> 10,
        memory >> 10
    );
    assert_eq!(stats.not_journaled, 0, "everything is in the journal");
    assert_eq!(
        stats.duplicates + stats.conflicts + stats.gaps + stats.corrections + stats.lost,
        0,
        "nothing was lost on the way"
    );
    host.shutdown(Urgency::Now).await.unwrap();
    println!("changes missed by a listener: {}", listener.await.unwrap());
    assert!(memory <= warm_memory + MAX_GROWTH, "memory grows");
    // A short run is a check that this program works, on a machine that may be busy.
    if lasting >= Duration::from_mins(1) {
        assert!(p99 < MAX_P99, "from event to view took {p99:?}");
    }
}
