//! Eight writers, killed at random moments inside the lock.

use std::collections::HashMap;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use headcount_adapter_jsonl::{DecoderLimits, Journal, Sequencing, verify_journal};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::writer::{holder, lines, options};
use crate::{Outcome, ourselves};

const WRITERS: usize = 8;

/// How long nobody may be found inside the lock. Far longer than it takes on a busy machine.
const DEADLINE: Duration = Duration::from_mins(1);

/// Kills `kills` writers inside the lock: each has stopped itself at a random moment, and bears the
/// lock's name when it is killed. Beside them die those that were killed while they wrote.
pub(crate) fn run(kills: usize) -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("j");
    let name = path.to_str().ok_or("a path of UTF-8")?;
    let mut names = Vec::new();
    let mut start = || -> std::io::Result<Child> {
        let writer = format!("w{}", names.len());
        let child = ourselves(&["doomed-writer", name, &writer])
            .stdin(Stdio::null())
            .spawn()?;
        names.push(writer);
        Ok(child)
    };
    let mut writers = Vec::new();
    for _ in 0..WRITERS {
        writers.push(start()?);
    }
    let (mut inside, mut outside, mut writing) = (0, 0, 0);
    let mut latest = Instant::now();
    while inside < kills {
        if latest.elapsed() > DEADLINE {
            return Err(format!("wedged after {inside} kills").into());
        }
        std::thread::park_timeout(Duration::from_micros(200));
        for child in &mut writers {
            match change(child)? {
                Change::None => continue,
                Change::Stopped if holder(&path) == Some(child.id()) => {
                    child.kill()?;
                    child.wait()?;
                    inside += 1;
                    latest = Instant::now();
                }
                // It was past its release by then.
                Change::Stopped => {
                    outside += 1;
                    kill_process(pid(child)?, Signal::CONT)?;
                    continue;
                }
                Change::Killed => writing += 1,
            }
            *child = start()?;
        }
    }
    for child in &mut writers {
        child.kill()?;
        child.wait()?;
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
        "{inside} killed inside the lock, {writing} while they wrote ({outside} had left it when \
         they stopped); {} entries, {} violations, {repairs} torn lines (all reported), the next \
         one in after {waited:?}",
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
    if acknowledged < kills {
        return Err(format!("only {acknowledged} appends").into());
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

enum Change {
    None,
    Stopped,
    Killed,
}

/// What became of a writer since it was looked at last; it must not end by itself.
fn change(child: &mut Child) -> Result<Change, libtest_mimic::Failed> {
    let options = WaitOptions::NOHANG | WaitOptions::UNTRACED;
    let Some((_, status)) = waitpid(Some(pid(child)?), options)? else {
        return Ok(Change::None);
    };
    if status.stopped() {
        Ok(Change::Stopped)
    } else if status.terminating_signal() == Some(Signal::KILL.as_raw()) {
        Ok(Change::Killed)
    } else {
        Err(format!("a writer ended by itself: {status:?}").into())
    }
}

fn pid(child: &Child) -> Result<Pid, libtest_mimic::Failed> {
    Pid::from_raw(i32::try_from(child.id())?).ok_or_else(|| "a process has a number".into())
}
