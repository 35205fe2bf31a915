//! The system calls that no safe interface covers: signals through a pidfd to a whole group, and what a child does between its fork and its program.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// To the process group whose leader it is or was (Linux 6.9).
pub(super) const TO_GROUP: u32 = 1 << 2;

/// Sends a signal through a pidfd; signal 0 only asks whether it could be sent.
#[cfg(target_os = "linux")]
pub(super) fn pidfd_send_signal(pidfd: BorrowedFd<'_>, signal: i32, flags: u32) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let no_info = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is open for the duration of the call, the info pointer may be null by
    // the call's definition, and the call writes to no memory of ours.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            no_info,
            flags,
        )
    };
    if sent == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Elsewhere there are no pidfds.
#[cfg(not(target_os = "linux"))]
pub(super) fn pidfd_send_signal(_: BorrowedFd<'_>, _: i32, _: u32) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Registers a descriptor for its readability.
pub(super) fn watch(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` gives the same open descriptor for as long as it lives, and the `AsyncFd`
    // owns it.
    Ok(unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) }?)
}

/// Signals a group by number. Only right while the group's leader has not been reaped.
pub(super) fn kill_group(group: u32, signal: i32) -> io::Result<()> {
    let group = i32::try_from(group).map_err(|_| io::ErrorKind::InvalidInput)?;
    // Group 0 is our own and 1 belongs to the system: neither is ever a child's.
    if group <= 1 {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the call takes two integers and touches no memory.
    let sent = unsafe { libc::kill(-group, signal) };
    if sent == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Makes the child's descriptor `at` a copy of `end`, which must stay open until the spawn.
pub(super) fn hand_over(command: &mut Command, end: RawFd, at: RawFd) {
    let copy = move || {
        if end == at {
            // SAFETY: async-signal-safe, on integers alone; between fork and exec the child has
            // its own table of descriptors.
            if unsafe { libc::fcntl(at, libc::F_SETFD, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
        // SAFETY: as above.
        } else if unsafe { libc::dup2(end, at) } == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    };
    // SAFETY: the closure calls async-signal-safe functions only and does not allocate:
    // `last_os_error` only reads errno.
    unsafe { command.pre_exec(copy) };
}

/// Has the child terminated by the system when the thread that spawns it ends.
#[cfg(target_os = "linux")]
pub(super) fn end_with_this_thread(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    let bind = move || {
        // SAFETY: async-signal-safe calls on integers alone.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) } == -1 {
            return Err(io::Error::last_os_error());
        }
        // The parent may have died between the fork and the call before.
        // SAFETY: always succeeds, touches no memory.
        if u32::try_from(unsafe { libc::getppid() }) != Ok(parent) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        Ok(())
    };
    // SAFETY: the closure calls async-signal-safe functions only and does not allocate.
    unsafe { command.pre_exec(bind) };
}
