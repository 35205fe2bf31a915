//! What the processes do.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::time::Duration;

use headcount_adapter_jsonl::{
    BlockedReason, Durability, Journal, JournalError, JournalOptions, LockOptions,
};
use headcount_contract::{
    Capabilities, ChildId, ChildIdentity, EventId, EventKind, LifecycleEvent, SourceEpoch,
    SourceId, SourceIdentity, Timestamp,
};
use rustix::fs::{FlockOperation, flock};

pub(crate) fn options(timeout: Duration) -> JournalOptions {
    let mut lock = LockOptions::default();
    lock.timeout = timeout;
    lock.retry = Duration::from_millis(1);
    lock.stale_after = Duration::ZERO;
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

/// Appends until it has appended so often or is killed. What was acknowledged is written down,
/// and so is whoever was met inside the lock.
pub(crate) fn run(path: &str, name: &str, appends: u64) {
    let mut options = options(Duration::from_mins(1));
    if name.starts_with("ours") {
        // Beside peers that make a directory before they name its owner, age must mean something.
        options.lock.stale_after = Duration::from_mins(5);
    }
    let mut journal = Journal::open(path, options).unwrap();
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
        let mut held = match journal.hold() {
            Ok(held) => held,
            Err(JournalError::Blocked { blocked, .. })
                if blocked.reason == BlockedReason::Truncated =>
            {
                // Killed in the middle of a write: reported, and repaired as a person would.
                journal.repair().unwrap();
                repairs.write_all(b"repaired\n").unwrap();
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        if flock(&witness, FlockOperation::NonBlockingLockExclusive).is_err() {
            violations
                .write_all(format!("{name} was not alone\n").as_bytes())
                .unwrap();
        }
        let ids: Vec<String> = (0..=done % 3)
            .map(|n| format!("{name}-{done}-{n}"))
            .collect();
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
    }
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
