//! Eight writers, killed at random.

use std::collections::HashMap;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headcount_adapter_jsonl::{DecoderLimits, Journal, Sequencing, verify_journal};
use rustix::process::{Pid, Signal, kill_process};

use crate::writer::{lines, options};
use crate::{Outcome, ourselves};

const WRITERS: usize = 8;

pub(crate) fn run(kills: usize) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("j");
    let name = path.to_str().ok_or("a path of UTF-8")?;
    let mut started = 0;
    let mut start = || -> std::io::Result<(String, Child)> {
        started += 1;
        let writer = format!("w{started}");
        let child = ourselves(&["writer", name, &writer, "1000000"])
            .stdin(Stdio::null())
            .spawn()?;
        Ok((writer, child))
    };
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(start()?);
    }
    let mut names: Vec<String> = writers.iter().map(|(name, _)| name.clone()).collect();
    let (mut killed, mut inside) = (0, 0);
    while killed < kills {
        // Varied in steps that are small against an append, and not before somebody has appended.
        std::thread::sleep(Duration::from_micros(fastrand::u64(500..12_000)));
        // Mostly one that was stopped inside, otherwise anybody.
        let stopped = if fastrand::u8(..4) > 0 {
            stop_inside(&path, &writers)
        } else {
            None
        };
        let at = stopped.unwrap_or_else(|| fastrand::usize(..WRITERS));
        let (_, child) = &mut writers[at];
        if let Some(status) = child.try_wait()? {
            return Err(format!("a writer ended by itself: {status}").into());
        }
        let pid = child.id();
        child.kill()?;
        child.wait()?;
        killed += 1;
        inside += usize::from(left_behind(&path, pid));
        writers[at] = start()?;
        names.push(writers[at].0.clone());
    }
    for (_, child) in &mut writers {
        let pid = child.id();
        child.kill()?;
        child.wait()?;
        inside += usize::from(left_behind(&path, pid));
    }

    // Nobody is left: whoever comes gets in.
    let begun = Instant::now();
    let mut journal = Journal::open(&path, options(Duration::from_secs(30)))?;
    let last = match journal.hold() {
        Ok(held) => held.last_sequence(),
        Err(error) if error.blocked().is_some() => {
            journal.repair()?;
            journal.hold()?.last_sequence()
        }
        Err(error) => return Err(error.into()),
    };
    let waited = begun.elapsed();
    let report = verify_journal(&path, DecoderLimits::default(), Sequencing::Journal)?;
    let violations = lines(&format!("{name}.violations"));
    let repairs = lines(&format!("{name}.repairs")).len();
    println!(
        "{killed} kills, {inside} of them left the lock behind; {} entries, {} violations, \
         {repairs} torn lines (all reported), the next one in after {waited:?}",
        report.entries,
        violations.len(),
    );
    if !violations.is_empty() {
        return Err(violations.join("\n").into());
    }
    if !report.ok || report.entries != last {
        return Err(format!("{report:?}, {last} entries were counted").into());
    }
    let entries: HashMap<u64, String> = journal
        .replay()?
        .map(|entry| (entry.sequence, entry.event.event_id().to_string()))
        .collect();
    let acknowledged = acknowledged(name, &names, &entries)?;
    if acknowledged < kills || inside < kills / 20 {
        return Err(
            format!("only {acknowledged} appends and {inside} kills inside the lock").into(),
        );
    }
    // What the dead had prepared is cleared away when a journal is opened.
    Journal::open(&path, options(Duration::from_secs(1)))?;
    let left: Vec<String> = std::fs::read_dir(folder.path())?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.contains(".lock"))
        .collect();
    if left.is_empty() {
        Ok(())
    } else {
        Err(format!("left behind: {left:?}").into())
    }
}

/// How many appends were acknowledged; all of them must be in the journal.
fn acknowledged(
    name: &str,
    writers: &[String],
    entries: &HashMap<u64, String>,
) -> Result<usize, libtest_mimic::Failed> {
    let mut acknowledged = 0;
    for writer in writers {
        for line in lines(&format!("{name}.acknowledged-{writer}")) {
            let Some((sequence, id)) = line.split_once(' ') else {
                continue; // killed while it wrote this down
            };
            let found = sequence.parse().ok().and_then(|n: u64| entries.get(&n));
            if found.is_some_and(|found| found.starts_with(id)) {
                acknowledged += 1;
            } else {
                return Err(format!("{line} was acknowledged, and there is {found:?}").into());
            }
        }
    }
    Ok(acknowledged)
}

/// Stops a writer that is inside the lock, and says which one it is.
fn stop_inside(journal: &Path, writers: &[(String, Child)]) -> Option<usize> {
    for _ in 0..50 {
        let Some(pid) = holder(journal) else {
            continue;
        };
        let Some(at) = writers.iter().position(|(_, child)| child.id() == pid) else {
            continue;
        };
        let target = Pid::from_raw(i32::try_from(pid).ok()?)?;
        kill_process(target, Signal::STOP).ok()?;
        // It finishes the step that it is in.
        std::thread::sleep(Duration::from_micros(300));
        if holder(journal) == Some(pid) {
            return Some(at);
        }
        kill_process(target, Signal::CONT).ok()?;
    }
    None
}

/// Whether the lock bears the name of this process.
fn left_behind(journal: &Path, pid: u32) -> bool {
    holder(journal) == Some(pid)
}

/// Whose name the lock bears.
fn holder(journal: &Path) -> Option<u32> {
    let lock = journal.with_extension("lock");
    std::fs::read_dir(lock).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_prefix("o.v1.")?.split('.').next()?.parse().ok()
    })
}
