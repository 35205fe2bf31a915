//! A process that we started as the leader of its own group.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::Child;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind};

use super::procfs::Processes;
use super::{Cause, Group, ProcessIdentity, sys};

/// How old the table of processes may be in which a stop looks for members.
const RECENT: Duration = Duration::from_millis(25);

/// The signal that no process can refuse.
pub(crate) const KILL: i32 = libc::SIGKILL;

/// A child process and the group it leads.
///
/// Until it is [reaped](Self::reap), its number and its group's cannot become another's, so that
/// signals by number are right; afterwards only its pidfd reaches the group.
#[derive(Debug)]
pub(crate) struct Leader {
    child: Child,
    identity: ProcessIdentity,
    watch: Watch,
    cause: Option<Cause>,
    reaped: bool,
    /// When it had been started, by our clock.
    started: Instant,
}

/// How the end of the process is noticed.
#[derive(Debug)]
enum Watch {
    /// The pidfd becomes readable.
    Pidfd(AsyncFd<OwnedFd>),
    /// Any child's end is a signal; then this one is looked at.
    ChildSignal(Signal),
}

impl Watch {
    fn child_signal() -> io::Result<Self> {
        tokio::signal::unix::signal(SignalKind::child()).map(Self::ChildSignal)
    }
}

impl Leader {
    /// Takes a child that was just spawned as the leader of its own group.
    pub(super) fn new(child: Child) -> io::Result<Self> {
        reap_abandoned();
        let watch = match pidfd(&child).and_then(sys::watch) {
            Ok(pidfd) => Watch::Pidfd(pidfd),
            Err(_) => Watch::child_signal()?,
        };
        Ok(Self::watched(child, watch))
    }

    fn watched(child: Child, watch: Watch) -> Self {
        Self {
            identity: ProcessIdentity::read(child.id()),
            child,
            watch,
            cause: None,
            reaped: false,
            started: Instant::now(),
        }
    }

    pub(crate) fn identity(&self) -> &ProcessIdentity {
        &self.identity
    }

    /// Completes when the process has ended, and says how. It is not reaped by that.
    pub(crate) async fn ended(&mut self) -> Cause {
        poll_fn(|context| self.poll_ended(context)).await
    }

    /// As [`ended`](Self::ended).
    pub(crate) fn poll_ended(&mut self, context: &mut Context<'_>) -> Poll<Cause> {
        loop {
            // A pidfd is readable from the end on, so that looking can wait for it.
            if (self.cause.is_some() || matches!(self.watch, Watch::ChildSignal(_)))
                && let Some(cause) = self.has_ended()
            {
                return Poll::Ready(cause);
            }
            match &mut self.watch {
                Watch::Pidfd(pidfd) => match ready!(pidfd.poll_read_ready(context)) {
                    Ok(mut ready) => ready.clear_ready(),
                    Err(_) => return Poll::Ready(Cause::Unknown),
                },
                Watch::ChildSignal(signal) => {
                    ready!(signal.poll_recv(context));
                }
            }
            if let Some(cause) = self.has_ended() {
                return Poll::Ready(cause);
            }
        }
    }

    /// How the process ended, if it has.
    pub(crate) fn has_ended(&mut self) -> Option<Cause> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        if self.cause.is_none() {
            let pid = rustix::process::Pid::from_child(&self.child);
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
            self.cause = match waitid(WaitId::Pid(pid), options) {
                Ok(None) | Err(rustix::io::Errno::INTR) => None,
                Ok(Some(status)) => Some(match status.exit_status() {
                    Some(code) => Cause::Code(code),
                    None => Cause::Signal {
                        number: status.terminating_signal().unwrap_or_default(),
                        core_dumped: status.dumped(),
                    },
                }),
                // Somebody else reaped our child, or the host ignores SIGCHLD.
                Err(_) => Some(Cause::Unknown),
            };
        }
        self.cause
    }

    /// Frees the number of a process that has ended, if the group can still be reached then.
    pub(crate) fn reap_if_group_stays_in_reach(&mut self) {
        if matches!(self.watch, Watch::Pidfd(_)) && pidfd_reaches_groups() {
            self.reap();
        }
    }

    /// Frees the number of a process that has ended. Without effect on one that lives.
    pub(crate) fn reap(&mut self) {
        if !self.reaped && matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
            self.reaped = true;
        }
    }

    /// Signals every member of the group. A group without members is no error.
    pub(crate) fn signal_group(&self, signal: i32) -> io::Result<()> {
        match self.send_to_group(signal) {
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            other => other,
        }
    }

    fn send_to_group(&self, signal: i32) -> io::Result<()> {
        if let Watch::Pidfd(pidfd) = &self.watch
            && pidfd_reaches_groups()
        {
            return sys::pidfd_send_signal(pidfd.get_ref().as_fd(), signal, sys::TO_GROUP);
        }
        if self.reaped {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        sys::kill_group(self.identity.pid, signal)
    }

    /// Who of the group lives. Zombies, the leader's own included, do not.
    pub(crate) fn group(&self) -> Group {
        // Many ends at once share one table; who is in it is looked at once more.
        let Group::Members(then) = self.group_as_of(self.of_late()) else {
            return Group::Gone;
        };
        let leader = self.identity.pid;
        let still = then
            .into_iter()
            .filter(|pid| *pid != leader || self.cause.is_none());
        let still: Vec<u32> = still
            .filter(|pid| Processes::is_member_now(*pid, leader))
            .collect();
        if still.is_empty() {
            return self.group_as_of(Instant::now());
        }
        Group::Members(still)
    }

    /// Whether nobody of the group lived at some moment of late. Only a member makes new members,
    /// so that nobody does now; many stops at once share one look at the system's table. Before its
    /// start the group was empty too, which says nothing.
    pub(crate) fn is_gone(&self) -> bool {
        self.group_as_of(self.of_late()) == Group::Gone
    }

    fn of_late(&self) -> Instant {
        let recent = Instant::now().checked_sub(RECENT);
        recent.map_or(self.started, |recent| recent.max(self.started))
    }

    fn group_as_of(&self, not_before: Instant) -> Group {
        if self.group_is_empty() {
            return Group::Gone;
        }
        let table = Processes::read(not_before);
        let members = table.members(self.identity.pid);
        // The system knows a member: only a table of everybody can say that it is a zombie. Where
        // others are hidden, our own zombie is explanation enough.
        let all_seen = table.is_complete() && !(table.hides() && self.reaped);
        if members.is_empty() && all_seen {
            Group::Gone
        } else {
            Group::Members(members)
        }
    }

    /// Whether the system knows no member at all, not even a zombie: the cheap half of the answer.
    pub(crate) fn group_is_empty(&self) -> bool {
        matches!(self.send_to_group(0), Err(error) if error.raw_os_error() == Some(libc::ESRCH))
    }
}

impl Drop for Leader {
    /// Leaves no orphan: a group that was not seen gone is killed.
    fn drop(&mut self) {
        if self.cause.is_some() && self.reaped {
            return;
        }
        if self.cause.is_none() {
            let _ = self.signal_group(KILL);
        }
        self.reap();
        if !self.reaped {
            // It dies in a moment; whoever spawns next reaps it.
            if let Some(pid) = rustix::process::Pid::from_raw(self.identity.pid.cast_signed()) {
                abandoned().push(pid);
            }
        }
    }
}

/// Children whose supervisor was dropped before they were gone.
fn abandoned() -> std::sync::MutexGuard<'static, Vec<rustix::process::Pid>> {
    static ABANDONED: Mutex<Vec<rustix::process::Pid>> = Mutex::new(Vec::new());
    ABANDONED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many children were dropped before they were gone and have not been reaped since.
pub(crate) fn unreaped() -> usize {
    reap_abandoned();
    abandoned().len()
}

fn reap_abandoned() {
    use rustix::process::{WaitOptions, waitpid};
    abandoned().retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
}

#[cfg(target_os = "linux")]
fn pidfd(child: &Child) -> io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    // The child is not reaped, so that its number is its own.
    Ok(pidfd_open(Pid::from_child(child), PidfdFlags::empty())?)
}

#[cfg(not(target_os = "linux"))]
fn pidfd(_: &Child) -> io::Result<OwnedFd> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether this kernel signals a whole group through a pidfd (Linux 6.9).
fn pidfd_reaches_groups() -> bool {
    static REACHES: OnceLock<bool> = OnceLock::new();
    *REACHES.get_or_init(probe_group_signals)
}

#[cfg(target_os = "linux")]
fn probe_group_signals() -> bool {
    use rustix::process::{PidfdFlags, getpid, pidfd_open};
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else {
        return false;
    };
    // Signal 0 sends nothing. A kernel that does not know the flag says EINVAL; one that does
    // answers for our group, which may not exist under our number.
    match sys::pidfd_send_signal(own.as_fd(), 0, sys::TO_GROUP) {
        Ok(()) => true,
        Err(error) => error.raw_os_error() == Some(libc::ESRCH),
    }
}

#[cfg(not(target_os = "linux"))]
fn probe_group_signals() -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    use super::*;

    fn spawn(script: &str) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).process_group(0);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// What a kernel without pidfds, or without their group signals, leaves us with.
    #[tokio::test]
    async fn without_pidfds_the_number_is_used_until_the_leader_is_reaped_and_never_after() {
        let child = spawn("sleep 60 & exit 3");
        let mut leader = Leader::watched(child, Watch::child_signal().unwrap());
        assert_eq!(leader.ended().await, Cause::Code(3));
        // Not reaped, although it has ended: its number still is its own.
        leader.reap_if_group_stays_in_reach();
        assert!(!leader.reaped);
        let Group::Members(members) = leader.group() else {
            panic!("a member lives")
        };
        assert_eq!(members.len(), 1);
        leader.signal_group(KILL).unwrap();
        // Its own zombie does not count.
        while leader.group() != Group::Gone {
            tokio::task::yield_now().await;
        }
        leader.reap();
        assert!(leader.reaped);
        let refused = leader.send_to_group(0).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESRCH));
    }

    /// On every kernel; reaped early only by one whose pidfds reach groups (Linux 6.9).
    #[tokio::test]
    async fn the_group_stays_in_reach_after_its_leader_has_ended() {
        let mut leader = Leader::new(spawn("sleep 60 & exit 0")).unwrap();
        assert_eq!(leader.ended().await, Cause::Code(0));
        leader.reap_if_group_stays_in_reach();
        let by_pidfd = matches!(leader.watch, Watch::Pidfd(_)) && pidfd_reaches_groups();
        assert_eq!(leader.reaped, by_pidfd);
        assert!(matches!(leader.group(), Group::Members(members) if members.len() == 1));
        leader.signal_group(KILL).unwrap();
        while leader.group() != Group::Gone {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_leader_that_is_dropped_is_killed_and_reaped_by_the_next() {
        let leader = Leader::new(spawn("sleep 60")).unwrap();
        let pid = rustix::process::Pid::from_child(&leader.child);
        drop(leader);
        while unreaped() > 0 {
            tokio::task::yield_now().await;
        }
        assert!(rustix::process::test_kill_process(pid).is_err());
    }

    /// Somebody else took the exit status, as a host does that reaps all children.
    #[tokio::test]
    async fn an_exit_that_another_reaped_has_an_unknown_cause() {
        let child = spawn("exit 3");
        let pid = rustix::process::Pid::from_child(&child);
        let mut leader = Leader::new(child).unwrap();
        rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(leader.ended().await, Cause::Unknown);
    }
}
