//! What the operating system is asked: to start a process, to tell its end, to signal its group.

// `--cfg headcount_portable` builds on Unix what other systems get, so that it can be checked there.
#[cfg(all(unix, not(headcount_portable)))]
mod leader;
mod plan;
#[cfg(any(not(unix), headcount_portable))]
mod portable;
#[cfg(all(unix, not(headcount_portable)))]
mod pressure;
#[cfg(all(unix, not(headcount_portable)))]
mod procfs;
#[cfg(all(unix, not(headcount_portable)))]
mod spawn;
#[cfg(all(target_os = "linux", not(headcount_portable)))]
mod spawner;
#[cfg(all(unix, not(headcount_portable)))]
mod sys;

use std::sync::Arc;

pub(crate) use self::plan::{Output, SpawnPlan, Spawned};
#[cfg(any(not(unix), headcount_portable))]
pub(crate) use self::portable::{
    KILL, Leader, Pipe, Pressure, Processes, find_program, holders, listening_sockets, sockets_of,
    spawn,
};
#[cfg(all(unix, not(headcount_portable)))]
pub(crate) use self::{
    leader::{KILL, Leader},
    pressure::Pressure,
    procfs::{Processes, holders, listening_sockets, sockets_of},
    spawn::{Pipe, find_program, spawn},
};

/// What tells a process from every other one that bears its number (supervision, adopting a PID).
#[derive(Debug, Clone)]
pub(crate) struct ProcessIdentity {
    pub(crate) pid: u32,
    /// When it started, in clock ticks since the boot; unknown is unknown.
    pub(crate) start_ticks: Option<u64>,
    pub(crate) boot_id: Option<Arc<str>>,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    #[cfg_attr(any(not(unix), headcount_portable), allow(dead_code))] // there are none there
    Signal { number: i32, core_dumped: bool },
    /// It is gone and the system did not tell us how.
    Unknown,
}

/// What is left of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Group {
    /// No live member.
    Gone,
    /// These live; nobody is named where the system did not show who.
    #[cfg_attr(any(not(unix), headcount_portable), allow(dead_code))] // nobody can tell there
    Members(Vec<u32>),
}

/// The live processes of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) pids: Vec<u32>,
    /// Those of them that are in another group.
    pub(crate) escaped: Vec<u32>,
}

/// How much is used of what may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share {
    pub(crate) used: u64,
    pub(crate) limit: u64,
}

impl Share {
    /// Nine tenths are used.
    pub(crate) fn is_tight(self) -> bool {
        self.used.saturating_mul(10) >= self.limit.saturating_mul(9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_tenths_are_tight() {
        for (used, limit, tight) in [
            (0, 10, false),
            (8, 10, false),
            (9, 10, true),
            (5, u64::MAX, false),
        ] {
            assert_eq!(Share { used, limit }.is_tight(), tight, "{used} of {limit}");
        }
    }
}
