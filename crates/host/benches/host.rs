//! What the host adds to one event: `cargo bench -p headcount --bench host`.
//!
//! One adapter sends as fast as it is read; the time from the first event sent to the last one shown,
//! without a journal, with one that is written after, and with one that is written before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // a measuring program talks, and stops at what it does not expect

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use headcount::{AdapterInfo, Host, HostBuilder, HostSettings, JournalSettings, Journaling};
use headcount_adapter_kit::{EventMint, Fanout};
use headcount_contract::{
    AdapterError, Capabilities, ChildId, ChildIdentity, ChildLifecycleAdapter, EventKind, Health,
    SequenceScope, Signal, SignalStream, Snapshot, SnapshotReason, SourceEpoch, SourceId,
    SourceIdentity, async_trait,
};

const EVENTS: u64 = 200_000;
const CHILDREN: u64 = 1_000;

#[derive(Debug)]
struct Source {
    identity: SourceIdentity,
    fanout: Fanout,
}

#[async_trait]
impl ChildLifecycleAdapter for Source {
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities::UNKNOWN
    }
    fn health(&self) -> Health {
        Health::default()
    }
    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        self.fanout.subscribe()
    }
    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        Err(AdapterError::unsupported("snapshot"))
    }
}

/// Nanoseconds an event, from sending the first to showing the last.
async fn run(builder: HostBuilder, journaling: Journaling) -> u128 {
    let identity = SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("1").unwrap());
    let mut mint = EventMint::new(
        identity.clone(),
        Capabilities::UNKNOWN,
        SequenceScope::Child,
    );
    let children: Vec<_> = (0..CHILDREN)
        .map(|n| ChildIdentity::root(ChildId::new(format!("child-{n}")).unwrap()))
        .collect();
    let events: Vec<_> = (0..EVENTS)
        .map(|n| {
            let child = &children[usize::try_from(n % CHILDREN).unwrap()];
            Signal::Event(mint.event(child, EventKind::Heartbeat, SystemTime::now().into()))
        })
        .collect();
    let source = Arc::new(Source {
        identity,
        fanout: Fanout::new(4_096),
    });
    let mut settings = HostSettings::default();
    settings.journaling = journaling;
    settings.snapshot_period = Duration::from_hours(1);
    let host = builder
        .settings(settings)
        .adapter_value(AdapterInfo::own("memory"), source.clone())
        .build()
        .unwrap();
    host.start().await.unwrap();
    while source.fanout.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    let sending = tokio::spawn(async move {
        for event in events {
            source.fanout.send(event).await;
        }
        source
    });
    host.wait_until(|view| view.stats().events_accepted == EVENTS)
        .await;
    let took = began.elapsed();
    drop(sending.await.unwrap());
    took.as_nanos() / u128::from(EVENTS)
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let mut number = 0;
    let mut median = |journaling: Option<Journaling>| {
        let mut times: Vec<_> = (0..5)
            .map(|_| {
                number += 1;
                let path = folder.path().join(format!("{number}.jsonl"));
                let builder = match journaling {
                    Some(_) => Host::builder().journal(path, JournalSettings::default()),
                    None => Host::builder(),
                };
                runtime.block_on(run(builder, journaling.unwrap_or_default()))
            })
            .collect();
        times.sort_unstable();
        times[2]
    };
    let bare = median(None);
    println!("no journal       {bare:>6} ns an event");
    for (name, journaling) in [
        ("journaled after ", Journaling::Relaxed),
        ("journaled before", Journaling::Before),
    ] {
        let time = median(Some(journaling));
        #[allow(clippy::cast_precision_loss)] // nanoseconds of a bench
        let ratio = time as f64 / bare as f64;
        println!("{name} {time:>6} ns an event, {ratio:.1} times");
    }
}
