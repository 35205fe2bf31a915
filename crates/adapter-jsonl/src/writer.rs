//! Whether the process that writes a stream still runs: the end of its file proves nothing.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::process::Pid;

use crate::lock::{Probe, probe};

/// The process that writes a stream.
#[derive(Debug)]
pub(crate) struct Writer {
    pid: u32,
    watch: Watch,
}

#[derive(Debug)]
enum Watch {
    /// Readable when the process has ended; no other process is ever meant by it.
    Descriptor(OwnedFd),
    /// For systems without: the PID with the start time that it had.
    StartTicks(Option<u64>),
    Exited,
}

impl Writer {
    /// The process that has this PID now. If there is none, it has exited.
    pub(crate) fn new(pid: u32) -> Self {
        let target = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let watch = match target.map(watch) {
            Some(Ok(descriptor)) => Watch::Descriptor(descriptor),
            None | Some(Err(Errno::SRCH)) => Watch::Exited,
            Some(Err(_)) => match probe(pid) {
                Probe::There { start_ticks } => Watch::StartTicks(start_ticks),
                Probe::NotThere | Probe::Zombie => Watch::Exited,
            },
        };
        Self { pid, watch }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// What becomes readable when the process ends, if there is such a thing.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.watch {
            Watch::Descriptor(descriptor) => Some(descriptor.as_fd()),
            _ => None,
        }
    }

    /// Looks whether it has exited.
    pub(crate) fn has_exited(&mut self) -> bool {
        let exited = match &self.watch {
            Watch::Exited => true,
            Watch::Descriptor(descriptor) => super::wake::is_readable(descriptor.as_fd()),
            Watch::StartTicks(then) => match probe(self.pid) {
                Probe::There { start_ticks } => start_ticks != *then,
                Probe::NotThere | Probe::Zombie => true,
            },
        };
        if exited {
            self.watch = Watch::Exited;
        }
        exited
    }
}

#[cfg(target_os = "linux")]
fn watch(process: Pid) -> Result<OwnedFd, Errno> {
    use rustix::process::{PidfdFlags, pidfd_open};
    pidfd_open(process, PidfdFlags::empty())
}

#[cfg(not(target_os = "linux"))]
fn watch(_: Pid) -> Result<OwnedFd, Errno> {
    Err(Errno::NOSYS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn tells_a_running_process_from_one_that_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let mut writers = [
            Writer::new(child.id()),
            Writer {
                pid: child.id(),
                watch: Watch::StartTicks(match probe(child.id()) {
                    Probe::There { start_ticks } => start_ticks,
                    other => panic!("{other:?}"),
                }),
            },
        ];
        assert!(writers[0].descriptor().is_some(), "this kernel has pidfds");
        assert!(writers.iter_mut().all(|writer| !writer.has_exited()));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(writers.iter_mut().all(Writer::has_exited));
        assert!(Writer::new(child.id()).has_exited());
    }

    #[test]
    fn a_pid_that_no_process_can_have_has_exited() {
        for pid in [0, u32::MAX] {
            assert!(Writer::new(pid).has_exited());
        }
    }
}
