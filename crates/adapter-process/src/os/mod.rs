//! What the operating system is asked: to start a process, to tell its end, to signal its group.

#[cfg(unix)]
mod leader;
#[cfg(unix)]
mod pressure;
#[cfg(unix)]
mod procfs;
#[cfg(unix)]
mod spawn;
#[cfg(unix)]
mod spawner;
#[cfg(unix)]
mod sys;

#[cfg(unix)]
pub(crate) use self::{
    leader::{Group, Leader, unreaped},
    pressure::Pressure,
    procfs::{Processes, Tree, holders, listening_sockets, sockets_of},
    spawn::{Output, Pipe, SpawnPlan, Spawned, find_program, spawn},
};

use std::sync::Arc;

/// The signal that no process can refuse.
#[cfg(unix)]
pub(crate) const KILL: i32 = libc::SIGKILL;

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
    Signal { number: i32, core_dumped: bool },
    /// It is gone and the system did not tell us how.
    Unknown,
}
