//! How near the host is to what the system gives it: open files and processes.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::leader::unreaped;
use super::{Processes, Share};

/// What may soon keep a child from being started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pressure {
    pub(crate) files: Share,
    pub(crate) processes: Share,
    /// Children that were killed and not reaped yet.
    pub(crate) unreaped: usize,
}

/// The table of processes may be this old.
const RECENT: Duration = Duration::from_secs(5);

impl Pressure {
    pub(crate) fn now() -> Self {
        let recent = Instant::now()
            .checked_sub(RECENT)
            .unwrap_or_else(Instant::now);
        let files = file_limit();
        Self {
            files: Share {
                used: lowest_free_descriptor().unwrap_or(files),
                limit: files,
            },
            processes: Share {
                used: Processes::read(recent).pids().count() as u64,
                limit: process_limit(),
            },
            unreaped: unreaped(),
        }
    }
}

/// Descriptors are given lowest first, so that the next one tells how many are open without
/// counting them. None where there is no more to give.
fn lowest_free_descriptor() -> Option<u64> {
    use std::os::fd::AsRawFd;
    let next = std::fs::File::open("/dev/null").ok()?;
    Some(next.as_raw_fd().unsigned_abs().into())
}

fn file_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn process_limit() -> u64 {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/pid_max");
        text.ok()
            .and_then(|text| text.trim().parse().ok())
            .unwrap_or(u64::MAX)
    })
}
