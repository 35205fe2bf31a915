//! Where there are neither process groups nor signals that we know of: a process alone, started,
//! read and killed. The adapter's limitations say what is missing.

// On the other systems there is more to look at, to wait for and to fail.
#![allow(clippy::unused_self)]

use std::collections::HashSet;
use std::future::{Future, poll_fn};
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use headcount_contract::{StartError, StartErrorKind};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

use super::{Cause, Group, ProcessIdentity, Share, SpawnPlan, Spawned, Tree};

/// There are no signals: a stop is a kill.
pub(crate) const KILL: i32 = 9;

/// A child process.
#[derive(Debug)]
pub(crate) struct Leader {
    child: Mutex<Child>,
    identity: ProcessIdentity,
    cause: Option<Cause>,
}

impl Leader {
    pub(crate) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Completes when the process has ended, and says how.
    pub(crate) async fn ended(&mut self) -> Cause {
        poll_fn(|context| self.poll_ended(context)).await
    }

    /// As [`ended`](Self::ended).
    pub(crate) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Cause> {
        if let Some(cause) = self.cause {
            return Poll::Ready(cause);
        }
        let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
        let cause = cause_of(ready!(pin!(child.wait()).poll(context)));
        self.cause = Some(cause);
        Poll::Ready(cause)
    }

    /// How the process ended, if it has.
    pub(crate) fn has_ended(&mut self) -> Option<Cause> {
        if self.cause.is_none() {
            let child = self.child.get_mut().unwrap_or_else(PoisonError::into_inner);
            self.cause = child.try_wait().transpose().map(cause_of);
        }
        self.cause
    }

    /// The system keeps no ended process.
    pub(crate) fn reap_if_group_stays_in_reach(&mut self) {}

    /// The system keeps no ended process.
    pub(crate) fn reap(&mut self) {}

    /// Kills the process, whatever the signal.
    pub(crate) fn signal_group(&self, _: i32) -> io::Result<()> {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        match child.id() {
            Some(_) => child.start_kill(),
            None => Ok(()),
        }
    }

    /// What the process has started itself is not known.
    pub(crate) fn is_gone(&self) -> bool {
        true
    }

    /// What the process has started itself is not known.
    pub(crate) fn group(&self) -> Group {
        Group::Gone
    }
}

fn cause_of(status: io::Result<std::process::ExitStatus>) -> Cause {
    match status.map(|status| status.code()) {
        Ok(Some(code)) => Cause::Code(code),
        _ => Cause::Unknown,
    }
}

/// The reading end of an output pipe, with what was read and not taken.
pub(crate) struct Pipe(Mutex<Reading>);

struct Reading {
    from: Box<dyn AsyncRead + Send + Unpin>,
    held: Vec<u8>,
    end: bool,
}

impl std::fmt::Debug for Pipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pipe")
    }
}

impl Pipe {
    fn new(from: impl AsyncRead + Send + Unpin + 'static) -> Self {
        Self(Mutex::new(Reading {
            from: Box::new(from),
            held: Vec::new(),
            end: false,
        }))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Reading> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ready when something was read, or the end.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut reading = self.lock();
        let Reading { from, held, end } = &mut *reading;
        if held.is_empty() && !*end {
            let mut buffer = [0; 8192];
            match ready!(pin!(from.read(&mut buffer)).poll(context)) {
                Ok(0) | Err(_) => *end = true,
                Ok(count) => held.extend_from_slice(&buffer[..count]),
            }
        }
        Poll::Ready(())
    }

    /// Takes what was read.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut reading = self.lock();
        if reading.held.is_empty() {
            return if reading.end {
                Ok(0)
            } else {
                Err(io::ErrorKind::WouldBlock.into())
            };
        }
        let count = reading.held.len().min(buffer.len());
        buffer[..count].copy_from_slice(&reading.held[..count]);
        reading.held.drain(..count);
        if reading.held.is_empty() {
            reading.held = Vec::new();
        }
        Ok(count)
    }

    /// Pipes have one size here.
    pub(crate) fn enlarge(&self, _: usize) {}

    /// Pipes have no numbers here.
    pub(crate) fn number(&self) -> u64 {
        0
    }
}

/// Starts a process with no input.
pub(crate) fn spawn(plan: &SpawnPlan<'_>) -> Result<Spawned, StartError> {
    if plan.lifecycle_fd.is_some() {
        return Err(StartError::new(
            StartErrorKind::InvalidInput,
            "this system hands no descriptors to a process; leave `lifecycle_fd` out",
        ));
    }
    let mut command = Command::from(plan.command());
    let mut child = command.kill_on_drop(true).spawn().map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => StartErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => StartErrorKind::NotExecutable,
            _ => StartErrorKind::Other,
        };
        StartError::new(kind, "the system did not start the program")
            .with_context("program", plan.called.display())
            .with_source(error)
    })?;
    Ok(Spawned {
        stdout: child.stdout.take().map(Pipe::new),
        stderr: child.stderr.take().map(Pipe::new),
        lifecycle: None,
        leader: Leader {
            identity: ProcessIdentity {
                pid: child.id().unwrap_or_default(),
                start_ticks: None,
                boot_id: None,
            },
            child: Mutex::new(child),
            cause: None,
        },
    })
}

/// Finds the program: a path relative to `cwd`, a bare name in the host's own `PATH`.
pub(crate) fn find_program(command: &str, cwd: &Path) -> Result<PathBuf, StartError> {
    if !cwd.is_dir() {
        return Err(StartError::new(
            StartErrorKind::InvalidInput,
            "the working directory is not a directory that exists",
        )
        .with_context("cwd", cwd.display()));
    }
    if command.contains(std::path::is_separator) {
        return Ok(cwd.join(command));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let named = format!("{command}{}", std::env::consts::EXE_SUFFIX);
    std::env::split_paths(&path)
        .flat_map(|directory| [directory.join(command), directory.join(&named)])
        .find(|candidate| candidate.is_file())
        .ok_or_else(|| {
            StartError::new(
                StartErrorKind::NotFound,
                "the program is in no directory of the host's PATH",
            )
            .with_context("program", command)
        })
}

/// The processes that sysinfo is asked about: a run's own, alone.
#[derive(Debug)]
pub(crate) struct Processes;

impl Processes {
    pub(crate) fn read(_: Instant) -> Arc<Self> {
        Arc::new(Self)
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        std::iter::empty()
    }

    /// What is not known to be dead is taken to live.
    pub(crate) fn lives(&self, _: u32) -> bool {
        true
    }

    pub(crate) fn tree(&self, leader: u32) -> Tree {
        Tree {
            pids: vec![leader],
            escaped: Vec::new(),
        }
    }
}

pub(crate) fn holders(_: &[u64], _: Option<u64>) -> Vec<u32> {
    Vec::new()
}

pub(crate) fn listening_sockets(_: u16) -> HashSet<u64> {
    HashSet::new()
}

pub(crate) fn sockets_of(_: u32) -> Option<Vec<u64>> {
    None
}

/// What may soon keep a child from being started is not known here.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pressure {
    pub(crate) files: Share,
    pub(crate) processes: Share,
    pub(crate) unreaped: usize,
}

impl Pressure {
    pub(crate) fn now() -> Self {
        let unknown = Share {
            used: 0,
            limit: u64::MAX,
        };
        Self {
            files: unknown,
            processes: unknown,
            unreaped: 0,
        }
    }
}
