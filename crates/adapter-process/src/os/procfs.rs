//! The table of processes, read from `/proc` for what nothing else gives: start ticks, groups, and
//! who is whose child.

use std::fs;
use std::io::Read;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use super::ProcessIdentity;

/// All processes at one moment.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    entries: Vec<Process>,
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

    fn read_now() -> Self {
        let mut text = Vec::with_capacity(512);
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let entries = pids.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Process::read(pid, &mut text)
        });
        let mut entries: Vec<_> = entries.collect();
        entries.sort_unstable_by_key(|process| process.pid);
        Self { entries }
    }

    /// The members of a group that have not ended.
    pub(crate) fn members(&self, group: u32) -> Vec<u32> {
        let live = self.entries.iter().filter(|p| p.group == group && !p.ended);
        live.map(|process| process.pid).collect()
    }
}

impl Process {
    fn read(pid: u32, text: &mut Vec<u8>) -> Option<Self> {
        text.clear();
        fs::File::open(format!("/proc/{pid}/stat"))
            .ok()?
            .read_to_end(text)
            .ok()?;
        Self::parse(text)
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

fn number<T: std::str::FromStr>(digits: &[u8]) -> Option<T> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

impl ProcessIdentity {
    /// What `/proc` says of a process; elsewhere the number alone.
    pub(super) fn read(pid: u32) -> Self {
        Self {
            pid,
            start_ticks: Process::read(pid, &mut Vec::with_capacity(512)).map(|p| p.start_ticks),
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
