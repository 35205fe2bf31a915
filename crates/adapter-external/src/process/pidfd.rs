#![allow(unsafe_code)]
// PIDFD_GET_INFO has no safe wrapper, that of getpgid forbids 0, and waiting for a handle promises to keep it.

//! Handles of processes: opening one, asking whether it ended, and reading how.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{fstat, fstatfs};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How far a process is, as its handle tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// It lives.
    Lives,
    /// It has ended, and its parent has not collected it.
    Zombie,
    /// It has ended and was collected.
    Collected,
}

/// Opens a handle of the process with this number.
pub(crate) fn open(pid: u32) -> Result<OwnedFd, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // Descriptors of this kind are always closed on exec.
    pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::NONBLOCK)
}

/// The process's group, which everybody may ask for; none for threads of the kernel and for those
/// whose group is of a namespace that we do not see.
pub(crate) fn process_group(pid: u32) -> Result<Option<Pid>, Errno> {
    let pid = i32::try_from(pid).map_err(|_| Errno::SRCH)?;
    // SAFETY: takes and gives numbers only. The safe wrapper takes it that a group is never 0.
    let group = unsafe { libc::getpgid(pid) };
    match group {
        ..0 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)),
        group => Ok(Pid::from_raw(group)),
    }
}

/// Whether the kernel lets us inspect the process, zombie or not.
///
/// Files of `/proc` do not tell: those of a zombie belong to root, whoever ran it. Asking for the
/// list of locks that a process left behind is allowed to the same people as its exit status.
pub(crate) fn may_inspect(pid: u32) -> bool {
    let (mut head, mut length) = (std::ptr::null_mut::<libc::c_void>(), 0_usize);
    // SAFETY: the kernel writes one pointer and one length into these two; neither is used.
    let asked = unsafe {
        libc::syscall(
            libc::SYS_get_robust_list,
            pid,
            &raw mut head,
            &raw mut length,
        )
    };
    asked == 0
}

/// Whether so few descriptors are left that the rest of the host needs them more.
///
/// The lowest free number is given out, so a high one tells how many are open. A host without
/// descriptors could neither write its journal nor look into `/proc`.
pub(crate) fn is_among_the_last(fd: impl AsFd) -> bool {
    /// At most so many are left to others, and at least a quarter.
    const LEFT_TO_OTHERS: u64 = 1024;
    let Some(limit) = descriptor_limit() else {
        return false;
    };
    let kept = LEFT_TO_OTHERS.min(limit / 4);
    u64::from(fd.as_fd().as_raw_fd().unsigned_abs()) >= limit - kept
}

/// How many descriptors this process may have open; none without a limit.
pub(crate) fn descriptor_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Lets the runtime tell of the handle's readiness; none if the system has no room for more.
pub(crate) fn register(handle: OwnedFd) -> Option<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is owned, so it stays open and the same until the registration drops it.
    unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) }.ok()
}

/// The number that no other process gets until the machine restarts, where handles have one.
pub(crate) fn inode(fd: impl AsFd) -> Option<u64> {
    const PIDFS_MAGIC: u64 = 0x5049_4446;
    // Before Linux 6.9 all handles share one inode, which tells nothing.
    let kind = u64::try_from(fstatfs(&fd).ok()?.f_type).ok()?;
    (kind == PIDFS_MAGIC).then_some(fstat(&fd).ok()?.st_ino)
}

/// How far the process is, without waiting.
pub(crate) fn progress(fd: impl AsFd) -> Result<Progress, Errno> {
    let mut one = [PollFd::new(&fd, PollFlags::IN)];
    wait(&mut one, Duration::ZERO)?;
    Ok(match one[0].revents() {
        seen if seen.contains(PollFlags::HUP) => Progress::Collected,
        seen if seen.contains(PollFlags::IN) => Progress::Zombie,
        _ => Progress::Lives,
    })
}

/// The wait status of a process that ended and was collected, whoever its parent is. None where
/// the kernel does not keep it (before Linux 6.15) or the process is not that far.
pub(crate) fn wait_status(fd: impl AsFd) -> Option<i32> {
    let mut info = Info {
        mask: INFO_EXIT,
        ..Info::default()
    };
    // SAFETY: `Info` is the kernel's `struct pidfd_info` in its first published size, 64 bytes of
    // plain integers, and the opcode carries that size.
    let ask = unsafe { Updater::<GET_INFO, Info>::new(&mut info) };
    // SAFETY: the kernel reads and writes only the `Info` that `ask` borrows.
    unsafe { ioctl(fd, ask) }.ok()?;
    (info.mask & INFO_EXIT != 0).then_some(info.exit_code)
}

/// Whether this kernel tells the exit status of processes that are not our children. Found out
/// once, with a thread of our own: a thread's handle keeps the status just as a process's does.
pub(crate) fn tells_exit_status() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| probe().unwrap_or(false))
}

fn probe() -> Option<bool> {
    /// A handle of one thread instead of a whole process.
    const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(rustix::fs::OFlags::EXCL.bits());
    let thread = std::thread::Builder::new().name("pidfd-probe".into());
    let opened = thread.spawn(|| pidfd_open(rustix::thread::gettid(), THREAD));
    let fd = opened.ok()?.join().ok()?.ok()?;
    let deadline = Instant::now() + Duration::from_secs(1);
    // Joining a thread does not wait until the kernel has put it away.
    while progress(&fd).ok()? != Progress::Collected {
        let left = deadline.checked_duration_since(Instant::now())?;
        wait(&mut [PollFd::new(&fd, PollFlags::empty())], left).ok()?;
    }
    Some(wait_status(&fd).is_some())
}

fn wait(fds: &mut [PollFd<'_>], at_most: Duration) -> Result<(), Errno> {
    let at_most = Timespec::try_from(at_most).ok();
    rustix::io::retry_on_intr(|| poll(fds, at_most.as_ref())).map(drop)
}

const GET_INFO: Opcode = opcode::read_write::<Info>(0xff, 11);
const INFO_EXIT: u64 = 1 << 3;

/// The kernel's `struct pidfd_info`, in its first size.
#[repr(C)]
#[derive(Default)]
struct Info {
    mask: u64,
    cgroup: u64,
    pid: u32,
    tgid: u32,
    ppid: u32,
    ids: [u32; 8],
    exit_code: i32,
}

const _: () = assert!(size_of::<Info>() == 64);
