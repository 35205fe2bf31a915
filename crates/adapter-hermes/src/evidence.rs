//! What a gateway on this host has left behind: transcripts of its children, and processes.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use headcount_contract::ChildId;

use crate::translate::{Ending, Unfinished, manifest_ending, transcript_ending};

/// How much is read of a transcript's beginning and of its end.
const PART: u64 = 8 << 10;
/// The longest manifest that is read; it holds a goal a task.
const MANIFEST_MAX: u64 = 1 << 20;
/// How many delegations are looked through for a child whose own is not known.
const DELEGATIONS_MAX: usize = 256;
/// How many orphans are named.
#[cfg(target_os = "linux")]
const ORPHANS_MAX: usize = 64;

/// How the children ended of whom the gateway's home tells it: by their live transcripts, or else by
/// their delegations' manifests. Blocks.
///
/// A child's transcript is that of its delegation and task. Where the delegation is not known, it is
/// the only one with the child's task and goal; if there are several, none proves anything.
pub(crate) fn look(home: &Path, children: &[Unfinished]) -> Vec<(ChildId, Ending)> {
    let folder = home.join("cache/delegation/live");
    children
        .iter()
        .filter_map(|child| {
            let task = child.task_index?;
            let delegation = match child.delegation.as_deref() {
                Some(delegation) if is_plain(delegation) => folder.join(delegation),
                Some(_) => return None,
                None => only_match(&folder, task, child.goal.as_deref()?)?,
            };
            let transcript = tail(&transcript(&delegation, task));
            let ending = transcript
                .and_then(|text| transcript_ending(&text))
                .or_else(|| {
                    let manifest = delegation.join("manifest.json");
                    manifest_ending(&part(&manifest, 0, MANIFEST_MAX)?, task)
                })?;
            Some((child.id.clone(), ending))
        })
        .collect()
}

fn transcript(delegation: &Path, task: u64) -> PathBuf {
    delegation.join(format!("task-{task}.log"))
}

/// Whether a name that came over the wire leads nowhere but to its own folder.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 128
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
}

/// The only delegation whose task has this goal.
fn only_match(folder: &Path, task: u64, goal: &str) -> Option<PathBuf> {
    let delegations = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .take(DELEGATIONS_MAX);
    let mut matching = delegations
        .map(|delegation| delegation.path())
        .filter(|delegation| has_goal(&transcript(delegation, task), goal));
    let one = matching.next()?;
    matching.next().is_none().then_some(one)
}

fn has_goal(path: &Path, goal: &str) -> bool {
    let Some(head) = part(path, 0, PART) else {
        return false;
    };
    head.lines()
        .take(16)
        .filter_map(|line| line.strip_prefix("goal: "))
        .any(|told| told.trim_end() == goal)
}

fn tail(path: &Path) -> Option<String> {
    let length = std::fs::metadata(path).ok()?.len();
    part(path, length.saturating_sub(PART), PART)
}

/// As much as `most` bytes of a file, from there on.
fn part(path: &Path, from: u64, most: u64) -> Option<String> {
    let mut file = File::open(path).ok()?;
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The live processes that bear the mark of a gateway in their environment, which is how those are
/// known that it started and left behind. Blocks.
#[cfg(target_os = "linux")]
pub(crate) fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("{}={mark}", crate::transport::stdio::MARK);
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut found: Vec<u32> = processes
        .flatten()
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            // Another user's cannot be read, and cannot be ours.
            let environment = std::fs::read(entry.path().join("environ")).ok()?;
            let bears = environment
                .split(|byte| *byte == 0)
                .any(|v| v == wanted.as_bytes());
            bears.then_some(pid)
        })
        .take(ORPHANS_MAX)
        .collect();
    found.sort_unstable();
    found
}

/// Elsewhere nobody's environment can be read.
#[cfg(not(target_os = "linux"))]
pub(crate) fn marked(_: &str) -> Vec<u32> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn child(delegation: Option<&str>, task: u64, goal: &str) -> Unfinished {
        Unfinished {
            id: ChildId::new(format!("sa-{task}")).unwrap(),
            session: None,
            delegation: delegation.map(str::to_owned),
            task_index: Some(task),
            goal: Some(goal.to_owned()),
        }
    }

    fn write(home: &Path, delegation: &str, task: u64, goal: &str, last: &str) {
        let folder = home.join("cache/delegation/live").join(delegation);
        std::fs::create_dir_all(&folder).unwrap();
        let text = format!(
            "=== Hermes subagent live transcript ===\ndelegation: {delegation}   task: {task}\n\
             goal: {goal}\nstarted: 2026-11-30 16:57:58\n{}\n{last}\n",
            "16:57:58 tool | x\n".repeat(2000)
        );
        std::fs::write(folder.join(format!("task-{task}.log")), text).unwrap();
    }

    fn check(home: &Path, child: &Unfinished, expected: Option<&str>) {
        let found = look(home, std::slice::from_ref(child));
        let status = found.first().map(|(_, ending)| ending.status.as_str());
        assert_eq!(status, expected, "{child:?}");
    }

    #[test]
    fn the_transcript_of_the_childs_own_task_counts() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path();
        write(
            home,
            "deleg_a",
            0,
            "one",
            "16:58:01 final | status=interrupted duration=1.93s",
        );
        write(
            home,
            "deleg_a",
            1,
            "two",
            "16:58:01 tool | -> terminal(sleep 100)",
        );
        write(
            home,
            "deleg_b",
            0,
            "twice",
            "16:58:01 final | status=completed",
        );
        write(
            home,
            "deleg_c",
            0,
            "twice",
            "16:58:01 final | status=failed",
        );
        // What its own transcript does not tell, the manifest of the batch may.
        let manifest = home.join("cache/delegation/live/deleg_a/manifest.json");
        let tasks =
            r#"{"tasks": [{"index": 0, "status": "completed"}, {"index": 2, "status": "failed"}]}"#;
        std::fs::write(manifest, tasks).unwrap();
        check(home, &child(Some("deleg_a"), 0, "one"), Some("interrupted"));
        check(home, &child(Some("deleg_a"), 1, "two"), None);
        check(home, &child(Some("deleg_a"), 2, "three"), Some("failed"));
        check(home, &child(Some("deleg_a"), 3, "four"), None);
        check(home, &child(Some("../live/deleg_a"), 0, "one"), None);
        check(home, &child(None, 0, "one"), Some("interrupted"));
        check(home, &child(None, 0, "twice"), None);
        check(home, &child(None, 1, "one"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_marked_process_is_found_and_no_other() {
        use std::process::{Command, Stdio};
        let mark = format!("{:016x}", fastrand::u64(..));
        let mut sleeper = Command::new("sleep")
            .arg("60")
            .env(crate::transport::stdio::MARK, &mark)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // A process that has just begun has no environment for a moment.
        let deadline = std::time::Instant::now() + std::time::Duration::from_mins(1);
        let found = loop {
            let found = marked(&mark);
            if !found.is_empty() || std::time::Instant::now() > deadline {
                break found;
            }
            std::thread::yield_now();
        };
        sleeper.kill().unwrap();
        let pid = sleeper.id();
        sleeper.wait().unwrap();
        assert_eq!(found, [pid]);
        assert_eq!(marked(&mark), [] as [u32; 0]);
    }
}
