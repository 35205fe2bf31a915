//! What the processes do.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use headcount_adapter_jsonl::{
    BlockedReason, Durability, Journal, JournalError, JournalOptions, LockOptions, Repair,
};
use headcount_contract::{
    Capabilities, ChildId, ChildIdentity, EventId, EventKind, LifecycleEvent, SourceEpoch,
    SourceId, SourceIdentity, Timestamp,
};
use rustix::fs::{FlockOperation, flock};
use rustix::process::{Signal, getpid, kill_process};

pub(crate) fn options(timeout: Duration) -> JournalOptions {
    let mut lock = LockOptions::default();
    lock.timeout = timeout;
    lock.retry = Duration::from_millis(1);
    let mut options = JournalOptions::default();
    options.durability = Durability::None;
    options.lock = lock;
    options
}

pub(crate) fn event(id: &str) -> LifecycleEvent {
    LifecycleEvent::new(
        EventId::new(id).unwrap(),
        SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap()),
        ChildIdentity::root(ChildId::new("c").unwrap()),
        EventKind::Heartbeat,
        Timestamp::UNIX_EPOCH,
        Capabilities::UNKNOWN,
    )
}

/// What a writer does to itself in the middle of an append, now and then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doom {
    Never,
    /// Stops, at a random moment while it has the lock, for others to kill it; and sometimes is
    /// killed while it writes.
    Random,
}

/// Appends until it has appended so often or is killed. What was acknowledged is written down,
/// and so is whoever was met inside the lock.
pub(crate) fn run(path: &str, name: &str, appends: u64, doom: Doom) {
    let mut journal = Journal::open(path, options(Duration::from_mins(1))).unwrap();
    let beside = |suffix: &str| {
        let path = format!("{path}.{suffix}");
        OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .unwrap()
    };
    // The kernel frees this when the process dies: if it is taken, its owner is inside the lock.
    let witness = beside("witness");
    let mut violations = beside("violations");
    let mut acknowledged = beside(&format!("acknowledged-{name}"));
    let mut repairs = beside("repairs");
    let mut done = 0;
    while done < appends {
        let deed = match doom {
            Doom::Never => Deed::None,
            Doom::Random => Deed::drawn(),
        };
        let end = deed.begin(path);
        let mut held = match journal.hold() {
            Ok(held) => held,
            Err(JournalError::Blocked { blocked, .. })
                if blocked.reason == BlockedReason::Truncated =>
            {
                // Killed in the middle of a write: reported, and repaired as a person would.
                if let Repair::Cut { .. } = journal.repair().unwrap() {
                    repairs.write_all(b"repaired\n").unwrap();
                }
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        if flock(&witness, FlockOperation::NonBlockingLockExclusive).is_err() {
            violations
                .write_all(format!("{name} was not alone\n").as_bytes())
                .unwrap();
        }
        let count = if deed == Deed::KilledWriting {
            LONG_BATCH
        } else {
            1 + done % 3
        };
        let ids: Vec<String> = (0..count).map(|n| format!("{name}-{done}-{n}")).collect();
        let events: Vec<LifecycleEvent> = ids.iter().map(|id| event(id)).collect();
        let range = held.append_batch(&events).unwrap();
        flock(&witness, FlockOperation::Unlock).unwrap();
        let lines: String = range
            .zip(&ids)
            .flat_map(|(sequence, id)| [sequence.to_string(), " ".into(), id.clone(), "\n".into()])
            .collect();
        if let Err(error) = held.release() {
            violations
                .write_all(format!("{name}: {error}\n").as_bytes())
                .unwrap();
        }
        acknowledged.write_all(lines.as_bytes()).unwrap();
        done += 1;
        drop(end);
    }
}

/// So many events that they take the kernel several steps to write.
const LONG_BATCH: u64 = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Deed {
    None,
    StoppedInside,
    KilledWriting,
}

impl Deed {
    fn drawn() -> Self {
        match fastrand::u8(..) {
            0..64 => Self::StoppedInside,
            64 => Self::KilledWriting,
            _ => Self::None,
        }
    }

    /// Begins to watch for the moment. Whoever drops what is returned waits for the end of that.
    fn begin(self, journal: &str) -> Option<Watch> {
        if self == Self::None {
            return None;
        }
        let over = Arc::new(AtomicBool::new(false));
        let journal = PathBuf::from(journal);
        let until = over.clone();
        let thread = std::thread::spawn(move || self.watch(&journal, &until));
        Some(Watch {
            over,
            thread: Some(thread),
        })
    }

    fn watch(self, journal: &Path, over: &AtomicBool) {
        let pid = std::process::id();
        let is_over = || over.load(Ordering::Acquire);
        while holder(journal) != Some(pid) {
            if is_over() {
                return;
            }
        }
        match self {
            Self::None => (),
            Self::StoppedInside => {
                let moment = Instant::now() + Duration::from_micros(fastrand::u64(..400));
                while Instant::now() < moment && !is_over() {
                    std::hint::spin_loop();
                }
                kill_process(getpid(), Signal::STOP).unwrap();
            }
            Self::KilledWriting => {
                let length = || std::fs::metadata(journal).map_or(0, |about| about.len());
                let before = length();
                while length() == before {
                    if is_over() {
                        return;
                    }
                }
                kill_process(getpid(), Signal::KILL).unwrap();
            }
        }
    }
}

/// The thread that waits for a moment; it is over with the append.
struct Watch {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// Whose name the lock bears.
pub(crate) fn holder(journal: &Path) -> Option<u32> {
    let lock = journal.with_extension("lock");
    std::fs::read_dir(lock).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("o.v1.")?.split('.').next()?.parse().ok()
    })
}

/// Holds the lock until its input ends.
pub(crate) fn hold(path: &str) {
    let mut journal = Journal::open(path, options(Duration::from_secs(20))).unwrap();
    let _held = journal.hold().unwrap();
    println!("held");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Tries to append once and says what came of it.
pub(crate) fn append(path: &str) {
    let mut journal = Journal::open(path, options(Duration::from_millis(300))).unwrap();
    match journal.append(&event("x")) {
        Ok(sequence) => println!("appended {sequence}"),
        Err(error) => println!("{error}"),
    }
}

/// Lines of a file that may not be there.
pub(crate) fn lines(path: &str) -> Vec<String> {
    let mut text = String::new();
    if let Ok(mut file) = File::open(path) {
        file.read_to_string(&mut text).unwrap();
    }
    text.lines().map(ToOwned::to_owned).collect()
}
