//! Looking at processes on Linux: handles for the end, `/proc` for the rest.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::param::{clock_ticks_per_second, page_size};
use tokio::io::unix::AsyncFd;

use super::pidfd::{self, Progress};
use super::procfs::{self, Stat};
use super::{Candidate, ExitStatus, Finding, Look, NoHandle, ProcessIdentity, Used};

pub(crate) use super::hold::take;
pub(crate) use super::pidfd::{descriptor_limit, tells_exit_status};
pub(crate) use super::procfs::{boot_id, children, pid_in_own_namespace};

/// A process that is held: its number cannot pass to another unnoticed.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    pub(super) identity: ProcessIdentity,
    /// Without one the process is looked at now and then.
    pub(super) handle: Result<Arc<AsyncFd<OwnedFd>>, NoHandle>,
    pub(super) poll_interval: Duration,
}

/// What is known of the process that was found under this number.
pub(super) fn identity(pid: u32, stat: Option<&Stat>, handle: Option<&OwnedFd>) -> ProcessIdentity {
    ProcessIdentity {
        pid,
        start_ticks: stat.map(|stat| stat.start_ticks),
        boot_id: boot_id(),
        pidfd_inode: handle.and_then(pidfd::inode),
    }
}

/// What is under this number now, without holding it.
pub(crate) fn look(pid: u32) -> Look {
    let handle = match pidfd::open(pid) {
        Err(Errno::SRCH) => return Look::Nobody,
        opened => opened.ok(),
    };
    let stat = Stat::read(pid);
    match stat {
        Ok(stat) => {
            let found = identity(pid, Some(&stat), handle.as_ref());
            if stat.is_zombie() {
                let status = procfs::zombie_status(pid, &stat);
                return Look::Ended(found, status.map(ExitStatus::from_wait_status));
            }
            match handle.as_ref().map(pidfd::progress) {
                Some(Ok(Progress::Zombie | Progress::Collected)) => Look::Ended(found, None),
                _ => Look::Lives(found),
            }
        }
        Err(error) if is_absent(&error) && handle.is_none() => Look::Nobody,
        Err(_) => match handle.as_ref().map(pidfd::progress) {
            Some(Ok(Progress::Lives)) => Look::Lives(identity(pid, None, handle.as_ref())),
            Some(Ok(_)) => Look::Nobody,
            _ => Look::CannotTell,
        },
    }
}

impl Watch {
    /// Why its end is not noticed at once; none if it is.
    pub(crate) fn no_handle(&self) -> Option<NoHandle> {
        self.handle.as_ref().err().copied()
    }

    /// Whether the process lives now; none if that cannot be told.
    pub(crate) fn lives(&self) -> Option<bool> {
        match &self.handle {
            Ok(handle) => pidfd::progress(handle.get_ref())
                .ok()
                .map(|p| p == Progress::Lives),
            Err(_) => match self.find() {
                Seen::Lives => Some(true),
                Seen::Ended(_) => Some(false),
                Seen::Hidden => None,
            },
        }
    }

    /// Completes when the process has ended.
    pub(crate) async fn end(&self) -> Finding {
        let Ok(handle) = &self.handle else {
            return self.end_by_looking().await;
        };
        // Readiness may be a leftover of an earlier look: only the handle itself decides.
        while pidfd::progress(handle.get_ref()) == Ok(Progress::Lives) {
            match handle.readable().await {
                Ok(mut ready) => ready.clear_ready(),
                Err(_) => return self.end_by_looking().await,
            }
        }
        self.how_it_ended(handle)
    }

    /// Completes when a zombie has been collected by its parent. Only after [`Finding::Zombie`].
    pub(crate) async fn collected(&self) -> Finding {
        if let Ok(handle) = &self.handle {
            while pidfd::progress(handle.get_ref()) != Ok(Progress::Collected) {
                match handle.readable().await {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return Finding::Gone,
                }
            }
            return self.how_it_ended(handle);
        }
        Finding::Gone
    }

    /// How it ended, as far as that is known now; none while it lives or if that cannot be told.
    pub(crate) fn how(&self) -> Option<Finding> {
        match &self.handle {
            Ok(handle) => (self.lives() == Some(false)).then(|| self.how_it_ended(handle)),
            Err(_) => match self.find() {
                // Without a handle nothing more will be learnt of a zombie.
                Seen::Ended(Finding::Zombie) => Some(Finding::Gone),
                Seen::Ended(finding) => Some(finding),
                Seen::Lives | Seen::Hidden => None,
            },
        }
    }

    fn how_it_ended(&self, handle: &AsyncFd<OwnedFd>) -> Finding {
        let kept = || pidfd::wait_status(handle.get_ref()).map(ExitStatus::from_wait_status);
        if let Some(status) = kept() {
            return Finding::Exited {
                status,
                read_from: "pidfd_info",
            };
        }
        match self.find() {
            Seen::Ended(finding @ Finding::Exited { .. }) => finding,
            // What others may not read of a zombie, or may not even see, its handle tells once it is
            // collected.
            _ if tells_exit_status()
                && pidfd::progress(handle.get_ref()) == Ok(Progress::Zombie) =>
            {
                Finding::Zombie
            }
            // Collected between the two looks.
            _ => kept().map_or(Finding::Gone, |status| Finding::Exited {
                status,
                read_from: "pidfd_info",
            }),
        }
    }

    fn find(&self) -> Seen {
        let pid = self.identity.pid;
        let stat = match Stat::read(pid) {
            Ok(stat) => stat,
            Err(error) if is_absent(&error) => return Seen::Ended(Finding::Gone),
            Err(_) => return Seen::Hidden,
        };
        let held = self.identity.start_ticks;
        if held.is_some_and(|ticks| ticks != stat.start_ticks) {
            return Seen::Ended(Finding::Gone);
        }
        if !stat.is_zombie() {
            return Seen::Lives;
        }
        match procfs::zombie_status(pid, &stat) {
            Some(word) => Seen::Ended(Finding::Exited {
                status: ExitStatus::from_wait_status(word),
                read_from: "proc_stat",
            }),
            None => Seen::Ended(Finding::Zombie),
        }
    }

    async fn end_by_looking(&self) -> Finding {
        loop {
            tokio::time::sleep(self.poll_interval).await;
            match self.find() {
                Seen::Ended(Finding::Zombie) => return Finding::Gone,
                Seen::Ended(finding) => return finding,
                Seen::Lives | Seen::Hidden => {}
            }
        }
    }
}

/// What `/proc` shows of a held process.
enum Seen {
    Lives,
    Ended(Finding),
    /// It may not be read.
    Hidden,
}

/// `ESRCH` comes from a process that ended while its file was open.
pub(super) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// All processes but kernel threads and ourselves, for the matchers.
pub(crate) fn candidates() -> Vec<Candidate> {
    let Ok(table) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let own = std::process::id();
    let pids = table.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid > 1 && pid != own)
        .filter_map(|pid| {
            let stat = Stat::read(pid).ok()?;
            let adoptable = !stat.is_kernel_thread() && !stat.is_zombie();
            adoptable.then_some(Candidate {
                pid,
                start: stat.start_ticks,
                comm: stat.comm,
            })
        })
        .collect()
}

/// What these processes have used, each for itself. One file is read for each, which is a quarter of
/// what reading them through sysinfo costs.
pub(crate) fn used(pids: &[u32]) -> Vec<(u32, Used)> {
    let tick = Duration::from_secs(1) / u32::try_from(clock_ticks_per_second()).unwrap_or(100);
    let page = u64::try_from(page_size()).unwrap_or(4096);
    let read = pids.iter().filter_map(|&pid| {
        let stat = Stat::read(pid).ok()?;
        let used = Used {
            cpu: tick.saturating_mul(u32::try_from(stat.cpu_ticks).unwrap_or(u32::MAX)),
            memory_bytes: stat.resident_pages.saturating_mul(page),
        };
        Some((pid, used))
    });
    read.collect()
}

/// Whether the process descends from this one, as far as the chain of parents shows.
pub(crate) fn is_own_descendant(pid: u32) -> bool {
    let own = std::process::id();
    let mut at = pid;
    // Chains are short; the bound guards against one that changes under our eyes.
    for _ in 0..256 {
        match Stat::read(at) {
            Ok(stat) if stat.parent == own => return true,
            Ok(stat) if stat.parent > 1 => at = stat.parent,
            _ => return false,
        }
    }
    false
}

/// What cannot be seen from here, for a person.
pub(crate) fn limitations() -> Vec<String> {
    /// The inode that the kernel gives to the namespace it starts with.
    const FIRST_NAMESPACE: &str = "pid:[4026531836]";
    let mut known = Vec::new();
    if fs::read_link("/proc/self/ns/pid").is_ok_and(|ns| ns.as_os_str() != FIRST_NAMESPACE) {
        known.push("this is a PID namespace (a container): processes outside of it cannot be seen, and numbers mean others there".into());
    }
    let mounts = procfs::read_bounded("/proc/self/mounts", 1 << 20).unwrap_or_default();
    if String::from_utf8_lossy(&mounts)
        .lines()
        .any(|line| line.contains(" /proc proc ") && line.contains("hidepid="))
    {
        known.push(
            "/proc hides processes of other users: their start, command and status cannot be seen"
                .into(),
        );
    }
    if !tells_exit_status() {
        known.push("this kernel does not tell the exit status of processes that others started (Linux 6.15 does): a process may vanish without a code".into());
    }
    known
}
