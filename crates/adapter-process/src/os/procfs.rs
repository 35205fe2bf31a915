//! The table of processes, read from `/proc` for what nothing else gives: start ticks, groups, and
//! who is whose child.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::{ProcessIdentity, Tree};

/// All processes at one moment.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    /// By pid.
    entries: Vec<Process>,
    /// Places in `entries`, by group and by parent: a thousand runs that end at once ask a thousand
    /// times who is of theirs.
    by_group: Vec<u32>,
    by_parent: Vec<u32>,
    /// The system refused to show some, as it does when no more files can be opened: who is missing
    /// here may live.
    incomplete: bool,
    /// The system hides processes of others (`hidepid`), as the first of all shows, which is always
    /// there.
    hides: bool,
}

/// One process, as its `stat` file has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
    pub(crate) ended: bool,
    pub(crate) start_ticks: u64,
}

impl Processes {
    /// The table as it is now or was at most since `not_before`: those who ask at the same time
    /// share one reading, since a reading costs some ten microseconds a process.
    pub(crate) fn read(not_before: Instant) -> Arc<Self> {
        static LAST: Mutex<Option<(Instant, Arc<Processes>)>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((began, table)) = &*last
            && *began >= not_before
        {
            return table.clone();
        }
        let began = Instant::now();
        let table = Arc::new(Self::read_now());
        *last = Some((began, table.clone()));
        table
    }

    #[cfg(target_os = "linux")]
    fn read_now() -> Self {
        let Ok(listed) = fs::read_dir("/proc") else {
            return Self::unreadable();
        };
        let mut entries = Vec::new();
        let mut incomplete = false;
        for entry in listed {
            let Ok(entry) = entry else {
                incomplete = true;
                break;
            };
            let Some(pid) = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok())
            else {
                continue;
            };
            match Process::read(pid) {
                Ok(process) => entries.extend(process),
                Err(error) => incomplete |= !has_gone(&error),
            }
        }
        Self::of(entries, incomplete)
    }

    /// Elsewhere sysinfo lists the processes, and the system tells their groups.
    #[cfg(not(target_os = "linux"))]
    fn read_now() -> Self {
        use sysinfo::{ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};
        let Ok(mut system) = System::new() else {
            return Self::unreadable();
        };
        let what = ProcessRefreshKind::nothing();
        system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
        let listed = system.processes().iter().filter_map(|(pid, process)| {
            let raw = rustix::process::Pid::from_raw(pid.as_u32().cast_signed())?;
            let group = rustix::process::getpgid(Some(raw)).ok()?;
            Some(Process {
                pid: pid.as_u32(),
                parent: process.parent().map_or(0, sysinfo::Pid::as_u32),
                group: group.as_raw_nonzero().get().unsigned_abs(),
                ended: matches!(
                    process.status(),
                    ProcessStatus::Zombie | ProcessStatus::Dead
                ),
                start_ticks: 0,
            })
        });
        let entries: Vec<_> = listed.collect();
        let incomplete = entries.is_empty();
        Self::of(entries, incomplete)
    }

    fn unreadable() -> Self {
        Self::of(Vec::new(), true)
    }

    fn of(mut entries: Vec<Process>, incomplete: bool) -> Self {
        entries.sort_unstable_by_key(|process| process.pid);
        let sorted = |by: fn(&Process) -> u32| {
            let mut places: Vec<u32> = (0..).take(entries.len()).collect();
            places.sort_by_key(|at| by(&entries[*at as usize]));
            places
        };
        Self {
            by_group: sorted(|process| process.group),
            by_parent: sorted(|process| process.parent),
            hides: !entries.iter().any(|process| process.pid == 1),
            entries,
            incomplete,
        }
    }

    /// Whether everybody is in it who may be seen.
    pub(crate) fn is_complete(&self) -> bool {
        !self.incomplete
    }

    /// Whether there may be others, who may not be seen.
    pub(crate) fn hides(&self) -> bool {
        self.hides
    }

    /// Whether a process lives and is a member of a group at this moment.
    pub(crate) fn is_member_now(pid: u32, group: u32) -> bool {
        let process = Process::read(pid).ok().flatten();
        process.is_some_and(|process| process.group == group && !process.ended)
    }

    /// All pids.
    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.entries.iter().map(|process| process.pid)
    }

    /// Whether a process lives. A zombie does not.
    pub(crate) fn lives(&self, pid: u32) -> bool {
        self.get(pid).is_some_and(|process| !process.ended)
    }

    fn get(&self, pid: u32) -> Option<&Process> {
        let at = self
            .entries
            .binary_search_by_key(&pid, |process| process.pid);
        at.ok().map(|at| &self.entries[at])
    }

    /// The live processes of a run: the members of its group and all their descendants.
    pub(crate) fn tree(&self, leader: u32) -> Tree {
        let mut pids: HashSet<u32> = self.members(leader).into_iter().collect();
        let mut waiting: Vec<u32> = pids.iter().copied().collect();
        while let Some(parent) = waiting.pop() {
            let children = self.live(&self.by_parent, |process| process.parent, parent);
            for child in children {
                if pids.insert(child.pid) {
                    waiting.push(child.pid);
                }
            }
        }
        let mut pids: Vec<u32> = pids.into_iter().collect();
        pids.sort_unstable();
        let escaped = pids.iter().copied();
        let escaped = escaped.filter(|pid| self.get(*pid).is_some_and(|p| p.group != leader));
        Tree {
            escaped: escaped.collect(),
            pids,
        }
    }

    /// The members of a group that have not ended.
    pub(crate) fn members(&self, group: u32) -> Vec<u32> {
        let live = self.live(&self.by_group, |process| process.group, group);
        live.map(|process| process.pid).collect()
    }

    /// Those that have not ended and have this key, found in the places sorted by that key.
    fn live<'a>(
        &'a self,
        places: &'a [u32],
        by: fn(&Process) -> u32,
        key: u32,
    ) -> impl Iterator<Item = &'a Process> {
        let entry = |at: &u32| &self.entries[*at as usize];
        let begin = places.partition_point(|at| by(entry(at)) < key);
        let equal = places[begin..].iter().map(entry);
        equal
            .take_while(move |process| by(process) == key)
            .filter(|process| !process.ended)
    }
}

impl Process {
    fn read(pid: u32) -> io::Result<Option<Self>> {
        // One read gives the whole file or what the buffer holds of it, which is more than what is
        // looked at.
        let mut text = [0; 1024];
        let read = fs::File::open(format!("/proc/{pid}/stat"))?.read(&mut text)?;
        Ok(Self::parse(&text[..read]))
    }

    /// Reads `pid (name) state ppid pgrp …`. A name may hold spaces and brackets, so the fields are
    /// counted from its last bracket.
    fn parse(stat: &[u8]) -> Option<Self> {
        let name_end = memchr::memrchr(b')', stat)?;
        let pid_end = memchr::memchr(b' ', stat)?;
        let mut fields = stat.get(name_end + 2..)?.split(|byte| *byte == b' ');
        let state = *fields.next()?.first()?;
        let parent = number(fields.next()?)?;
        let group = number(fields.next()?)?;
        // Field 22; the state was field 3.
        let start_ticks = number(fields.nth(16)?)?;
        Some(Self {
            pid: number(stat.get(..pid_end)?)?,
            parent,
            group,
            ended: matches!(state, b'Z' | b'X' | b'x'),
            start_ticks,
        })
    }
}

/// Whether a process cannot be read because it is no more.
#[cfg(target_os = "linux")]
fn has_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH)
}

/// Who holds one of these pipes open, among the processes that started no earlier than `since`.
pub(crate) fn holders(pipes: &[u64], since: Option<u64>) -> Vec<u32> {
    let own = std::process::id();
    let table = Processes::read(Instant::now());
    let later = table.entries.iter().filter(|p| !p.ended && p.pid != own);
    later
        .filter(|process| since.is_none_or(|since| process.start_ticks >= since))
        .filter(|process| {
            descriptors(process.pid, "pipe:[")
                .is_some_and(|held| held.iter().any(|p| pipes.contains(p)))
        })
        .map(|process| process.pid)
        .collect()
}

/// The sockets of a process, by the system's number; nothing if it may not be looked at.
pub(crate) fn sockets_of(pid: u32) -> Option<Vec<u64>> {
    descriptors(pid, "socket:[")
}

fn descriptors(pid: u32, kind: &str) -> Option<Vec<u64>> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).ok()?;
    let numbers = entries.flatten().filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target
            .to_str()?
            .strip_prefix(kind)?
            .strip_suffix(']')?
            .parse()
            .ok()
    });
    Some(numbers.collect())
}

/// The sockets that listen on a port, by the system's number.
pub(crate) fn listening_sockets(port: u16) -> HashSet<u64> {
    ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| fs::read_to_string(table).ok())
        .flat_map(|table| {
            let sockets = table
                .lines()
                .skip(1)
                .filter_map(|line| listening(line, port));
            sockets.collect::<Vec<_>>()
        })
        .collect()
}

/// Reads `slot: local remote state … uid timeout inode`; addresses as hexadecimal digits, and the
/// state 0A of a listener.
fn listening(line: &str, port: u16) -> Option<u64> {
    let mut fields = line.split_ascii_whitespace();
    let (_, local_port) = fields.nth(1)?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    if state != "0A" || u16::from_str_radix(local_port, 16) != Ok(port) {
        return None;
    }
    fields.nth(5)?.parse().ok()
}

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl ProcessIdentity {
    /// What `/proc` says of a process; elsewhere the number alone.
    pub(super) fn read(pid: u32) -> Self {
        let process = Process::read(pid);
        Self {
            pid,
            start_ticks: process.ok().flatten().map(|process| process.start_ticks),
            boot_id: boot_id(),
        }
    }
}

fn boot_id() -> Option<Arc<str>> {
    static BOOT_ID: OnceLock<Option<Arc<str>>> = OnceLock::new();
    BOOT_ID
        .get_or_init(|| {
            let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(text.trim().into())
        })
        .clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_is_not_mistaken_for_fields() {
        let stat = b"42 (a) R 7 (b) Z 1 40 40 0 -1 4194304 1 0 0 0 1 2 0 0 20 0 1 0 987654 1 1\n";
        let process = Process::parse(stat).unwrap();
        assert_eq!(
            process,
            Process {
                pid: 42,
                parent: 1,
                group: 40,
                ended: true,
                start_ticks: 987_654
            }
        );
    }

    #[test]
    fn a_tree_is_the_group_and_its_descendants_and_tells_who_left_the_group() {
        let process = |pid, parent, group, ended| Process {
            pid,
            parent,
            group,
            ended,
            start_ticks: 0,
        };
        let entries = vec![
            process(20, 11, 20, false),
            process(5, 20, 5, false),
            process(10, 1, 10, false),
            process(11, 10, 10, false),
            process(12, 1, 10, true),
            process(13, 12, 10, false),
            process(30, 1, 30, false),
            process(31, 31, 31, false),
        ];
        let table = Processes::of(entries, false);
        let tree = Tree {
            pids: vec![5, 10, 11, 13, 20],
            escaped: vec![5, 20],
        };
        assert_eq!(table.tree(10), tree);
        assert_eq!(table.tree(99), Tree::default());
        assert_eq!(table.tree(31).pids, [31], "its own parent, as nobody is");
        assert_eq!(table.members(10), [10, 11, 13]);
        assert!(table.hides(), "there is no first one");
        assert!(!Processes::of(vec![process(1, 0, 1, false)], false).hides());
    }

    #[test]
    fn a_listener_is_told_from_a_connection() {
        let line = |state| {
            format!(
                "   0: 0100007F:1F90 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 68842 1 0 100 0 0 10 0"
            )
        };
        assert_eq!(listening(&line("0A"), 8080), Some(68842));
        assert_eq!(listening(&line("0A"), 8081), None);
        assert_eq!(listening(&line("01"), 8080), None);
        assert_eq!(listening("garbage", 8080), None);
    }

    #[test]
    fn garbage_is_no_process() {
        for stat in [
            &b""[..],
            b"42",
            b"42 (x)",
            b"42 (x) ",
            b"42 (x) R 1",
            b"x (x) R 1 1",
        ] {
            assert_eq!(Process::parse(stat), None);
        }
    }
}
