//! A record of a gateway's frames, played through the adapter.

mod player;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use headcount_adapter_kit::{Fanout, HealthCell};
use headcount_contract::{
    AdapterError, AdapterErrorKind, Capabilities, Capability, ChildLifecycleAdapter, Health,
    HealthStatus, PartialSnapshot, SignalStream, Snapshot, SnapshotId, SnapshotReason, SourceId,
    SourceIdentity, Timestamp, Urgency, async_trait,
};

use self::player::Player;
use crate::frame::{DEFAULT_MAX_FRAME_BYTES, FrameFault};
use crate::translate::Output;

/// How many signals wait for a subscriber; then the reading waits.
const CAPACITY: usize = 1024;

/// An adapter that plays a record and ends.
///
/// # Behavior
///
/// - A record holds one frame a line, as a gateway writes them, or `{"t", "dir", "frame"}` lines
///   with the seconds since its beginning and the direction (`out` of the gateway, `in`, `note`).
/// - It is played to the first subscriber at once, waiting for slow ones, and the streams end with
///   it. A recorded snapshot comes as [`Signal::Snapshot`](headcount_contract::Signal::Snapshot).
/// - With the record all evidence ends: a child that has not ended by then is `lost`, with the basis
///   `end_of_record`.
#[derive(Debug)]
pub struct ReplayAdapter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    clock: fn() -> Timestamp,
    player: Mutex<Player>,
    file: Mutex<Option<File>>,
    fanout: Arc<Fanout>,
    health: HealthCell,
    snapshots: std::sync::atomic::AtomicU64,
}

/// An adapter that plays the record in `path` under the name `source`.
///
/// ```
/// use headcount_adapter_hermes::replay;
/// use headcount_contract::{ChildLifecycleAdapter, SourceId};
/// # let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v0.19.0/01_two_children.jsonl");
/// let adapter = replay::adapter(&path, SourceId::new("hermes")?)?;
/// assert!(!adapter.capabilities().cancel.is_known());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`AdapterErrorKind::InvalidConfig`] if the file cannot be opened.
pub fn adapter(path: &Path, source: SourceId) -> Result<ReplayAdapter, AdapterError> {
    adapter_at(path, source, || SystemTime::now().into())
}

/// The same with another clock: lines without a time of their own happened when it says.
///
/// # Errors
///
/// As for [`adapter`].
pub fn adapter_at(
    path: &Path,
    source: SourceId,
    clock: fn() -> Timestamp,
) -> Result<ReplayAdapter, AdapterError> {
    let cannot = |error: std::io::Error| {
        AdapterError::new(
            AdapterErrorKind::InvalidConfig,
            "the record cannot be read: name a file of gateway frames",
        )
        .with_context("path", path.display())
        .with_source(error)
    };
    let mut file = File::open(path).map_err(cannot)?;
    let name = format!("record-{:016x}", digest(&mut file).map_err(cannot)?);
    // A trace tells how long after its beginning a line happened: unless it tells more, it ends now.
    let span = span(&mut file).map_err(cannot)?;
    let began = earlier(clock(), span);
    let fanout = Arc::new(Fanout::new(CAPACITY));
    let health =
        Health::default().with_limitation("a record is all that is seen: nothing can be asked");
    let shared = Shared {
        path: path.to_owned(),
        clock,
        player: Mutex::new(Player::new(source, &name, began)),
        file: Mutex::new(Some(file)),
        health: HealthCell::new(fanout.clone(), health),
        fanout,
        snapshots: std::sync::atomic::AtomicU64::new(0),
    };
    Ok(ReplayAdapter {
        shared: Arc::new(shared),
    })
}

/// Names a record by how it begins, so that playing it twice gives the same events. Rewinds.
fn digest(file: &mut File) -> std::io::Result<u64> {
    let mut head = Vec::new();
    Read::by_ref(file).take(16 << 10).read_to_end(&mut head)?;
    file.rewind()?;
    // FNV-1a: it need not resist anybody, only stay the same.
    Ok(head.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    }))
}

/// How long a trace lasted, by its last lines; nothing for other records. Rewinds.
fn span(file: &mut File) -> std::io::Result<Duration> {
    const TAIL: u64 = 64 << 10;
    let length = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL)))?;
    let mut tail = Vec::new();
    Read::by_ref(file).take(TAIL).read_to_end(&mut tail)?;
    file.rewind()?;
    let mut lines = tail.rsplit(|byte| *byte == b'\n');
    Ok(lines.find_map(player::time_of).unwrap_or_default())
}

fn earlier(at: Timestamp, by: Duration) -> Timestamp {
    let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_millis(at.as_millis().saturating_sub(by)).unwrap_or(Timestamp::UNIX_EPOCH)
}

impl Shared {
    /// Plays the whole record. Runs on a thread that may block.
    fn play(&self, file: File, runtime: &tokio::runtime::Handle) {
        self.health.healthy();
        let mut lines = BufReader::with_capacity(64 << 10, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let limit = DEFAULT_MAX_FRAME_BYTES as u64 + 1;
            let read = Read::by_ref(&mut lines)
                .take(limit)
                .read_until(b'\n', &mut line);
            match read {
                Ok(0) => break,
                Ok(_) if !line.ends_with(b"\n") && line.len() as u64 == limit => {
                    self.health.count(FrameFault::Oversized.count(), 1);
                    if lines.skip_until(b'\n').is_err() {
                        break;
                    }
                }
                Ok(_) => {
                    let output = self.player().line(&line, (self.clock)());
                    self.hand_on(output, runtime);
                }
                Err(error) => {
                    let message = format!("{} cannot be read on: {error}", self.path.display());
                    self.health.set(HealthStatus::Degraded, message);
                    break;
                }
            }
            if self.fanout.is_closed() {
                return;
            }
        }
        let output = self.player().finish((self.clock)());
        self.hand_on(output, runtime);
        self.fanout.close();
    }

    fn hand_on(&self, output: Output, runtime: &tokio::runtime::Handle) {
        for (name, count) in output.counts {
            self.health.count(name, count);
        }
        for limit in output.limits {
            self.health.limit(limit);
        }
        if !output.signals.is_empty() {
            runtime.block_on(self.fanout.send_all(output.signals));
        }
    }

    fn player(&self) -> std::sync::MutexGuard<'_, Player> {
        self.player.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl ChildLifecycleAdapter for ReplayAdapter {
    fn identity(&self) -> SourceIdentity {
        self.shared.player().identity()
    }

    fn capabilities(&self) -> Capabilities {
        // What the events of a record may show: whether the gateway had verified it then, each event
        // says itself.
        Capabilities {
            history: Capability::Known,
            heartbeat: Capability::Known,
            snapshot: Capability::Known,
            ..Capabilities::UNKNOWN
        }
    }

    fn health(&self) -> Health {
        self.shared.health.get()
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let stream = self.shared.fanout.subscribe()?;
        let mut file = self
            .shared
            .file
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = file.take() {
            let runtime = crate::runtime()?;
            let shared = Arc::downgrade(&self.shared);
            let on = runtime.clone();
            runtime.spawn_blocking(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.play(file, &on);
                }
            });
        }
        Ok(stream)
    }

    /// Says nothing of any child: what was recorded comes in the stream, in its place.
    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        use std::sync::atomic::Ordering::Relaxed;
        let at = (self.shared.clock)();
        let id = format!(
            "asked-{}-{}",
            at.as_millis(),
            self.shared.snapshots.fetch_add(1, Relaxed)
        );
        let refuse = |error: &dyn std::fmt::Display| {
            AdapterError::new(AdapterErrorKind::Internal, "no snapshot").with_context("why", error)
        };
        let id = SnapshotId::new(id).map_err(|error| refuse(&error))?;
        let snapshot = PartialSnapshot::new(self.identity(), id, at, Vec::new());
        Ok(vec![snapshot.map_err(|error| refuse(&error))?.into()])
    }

    fn is_finished(&self) -> bool {
        self.shared.fanout.is_closed()
    }

    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        self.shared.fanout.close();
        Ok(())
    }
}

impl Drop for ReplayAdapter {
    fn drop(&mut self) {
        self.shared.fanout.close();
    }
}
