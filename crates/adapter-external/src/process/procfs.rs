//! What `/proc` says of one process, where a handle cannot tell it.

use std::fs;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use super::pidfd;

/// The members of `/proc/PID/stat` that are used here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The name of the program, at most 15 bytes.
    pub(crate) comm: String,
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) flags: u64,
    pub(crate) threads: u64,
    /// Processor time, its own and the system's for it, in clock ticks.
    pub(crate) cpu_ticks: u64,
    pub(crate) resident_pages: u64,
    /// Clock ticks since the machine started.
    pub(crate) start_ticks: u64,
    /// The wait status, in the zombie of a process that we may inspect; else 0.
    pub(crate) wait_status: i32,
}

impl Stat {
    pub(crate) fn read(pid: u32) -> io::Result<Self> {
        let text = read_bounded(&format!("/proc/{pid}/stat"), 4096)?;
        parse(&text).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
    }

    /// A thread of the kernel, which is no program.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        const PF_KTHREAD: u64 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// Ended, though still in the table. A process whose first thread has ended shows the same
    /// letter, and lives on in its other threads.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, b'Z' | b'X') && self.threads <= 1
    }
}

/// The wait status of a zombie, if we may know it.
pub(crate) fn zombie_status(pid: u32, stat: &Stat) -> Option<i32> {
    if !stat.is_zombie() {
        return None;
    }
    // To those who may not inspect the process, the kernel shows 0.
    let trusted = stat.wait_status != 0 || pidfd::may_inspect(pid);
    trusted.then_some(stat.wait_status)
}

fn parse(text: &[u8]) -> Option<Stat> {
    // The name is chosen by the program and may hold brackets, spaces and line ends.
    let open = text.iter().position(|&b| b == b'(')?;
    let close = text.iter().rposition(|&b| b == b')')?;
    let comm = String::from_utf8_lossy(text.get(open + 1..close)?).into_owned();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // The first field after the name is number 3 of proc(5).
    let field = |number: usize| fields.get(number - 3).copied();
    Some(Stat {
        comm,
        state: *field(3)?.as_bytes().first()?,
        parent: field(4)?.parse().ok()?,
        flags: field(9)?.parse().ok()?,
        threads: field(20)?.parse().ok()?,
        cpu_ticks: field(14)?
            .parse::<u64>()
            .ok()?
            .checked_add(field(15)?.parse().ok()?)?,
        resident_pages: field(24)?.parse().ok()?,
        start_ticks: field(22)?.parse().ok()?,
        wait_status: field(52).and_then(|text| text.parse().ok()).unwrap_or(0),
    })
}

/// The id of the machine's present life.
pub(crate) fn boot_id() -> Option<Arc<str>> {
    static KNOWN: OnceLock<Option<Arc<str>>> = OnceLock::new();
    KNOWN
        .get_or_init(|| {
            let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
            Some(text.trim().into())
        })
        .clone()
}

/// The process that a thread belongs to.
pub(crate) fn process_of_thread(tid: u32) -> Option<u32> {
    status_field(tid, "Tgid:")?.parse().ok()
}

/// The process's number within its own, innermost namespace, if that is not ours.
pub(crate) fn pid_in_own_namespace(pid: u32) -> Option<u32> {
    let numbers = status_field(pid, "NSpid:")?;
    numbers
        .split_ascii_whitespace()
        .skip(1)
        .last()?
        .parse()
        .ok()
}

/// How many processes its threads have started that still live. Looks at 64 threads at most.
pub(crate) fn children(pid: u32) -> Option<u32> {
    let mut count = 0;
    for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.take(64) {
        let path = thread.ok()?.path().join("children");
        let text = read_bounded(path.to_str()?, 1 << 20).ok()?;
        count += text
            .split(|&b| b == b' ')
            .filter(|word| !word.is_empty())
            .count();
    }
    u32::try_from(count).ok()
}

fn status_field(pid: u32, name: &str) -> Option<String> {
    let text = read_bounded(&format!("/proc/{pid}/status"), 16 << 10).ok()?;
    let text = String::from_utf8_lossy(&text);
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(value.trim().to_owned())
}

/// The beginning of a file.
pub(crate) fn read_bounded(path: &str, at_most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(at_most)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(comm: &str) -> Vec<u8> {
        format!("77 ({comm}) Z 5 77 77 0 -1 4194560 0 0 0 0 7 5 0 0 20 0 1 0 9001 0 3 18446744073709551615 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 768\n").into_bytes()
    }

    #[test]
    fn reads_past_any_name() {
        for comm in ["sh", "a b", ") Z 1 (", "((", "a\nb", ""] {
            let stat = parse(&line(comm)).unwrap();
            assert_eq!((&*stat.comm, stat.parent), (comm, 5));
            assert_eq!((stat.start_ticks, stat.wait_status), (9001, 768));
            assert_eq!((stat.cpu_ticks, stat.resident_pages), (12, 3));
            assert!(stat.is_zombie() && !stat.is_kernel_thread());
        }
    }

    #[test]
    fn refuses_what_is_no_stat() {
        for text in ["", "1", "1 (a", "1 (a) Z", "1 )a( Z 1", "\0\0"] {
            assert_eq!(parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn knows_ourselves() {
        let stat = Stat::read(std::process::id()).unwrap();
        assert!(!stat.is_zombie() && !stat.is_kernel_thread() && stat.start_ticks > 0);
        assert_eq!(boot_id().unwrap().len(), 36);
        assert_eq!(
            process_of_thread(std::process::id()),
            Some(std::process::id())
        );
    }
}
