//! Which process: its identity, how it ended, and looking at one that somebody else started.

mod end;
#[cfg(target_os = "linux")]
mod hold;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod os;
#[cfg(not(target_os = "linux"))]
#[path = "portable.rs"]
mod os;
#[cfg(target_os = "linux")]
mod pidfd;
#[cfg(all(test, target_os = "linux"))]
mod portable;
#[cfg(target_os = "linux")]
mod procfs;

use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{ChildId, Details};
use serde_json::{Value, json};

pub use self::end::ExitStatus;
pub(crate) use self::os::{
    Watch, candidates, children, descriptor_limit, is_own_descendant, limitations,
    pid_in_own_namespace, take, tells_exit_status, used,
};

/// Which process, beyond its number: a number is given out again.
///
/// ```
/// use headcount_adapter_external::ProcessIdentity;
/// let seen = ProcessIdentity::new(4242).started_at_tick(9001).in_boot("b1");
/// assert_eq!(seen.is_same(&seen.clone()), Some(true));
/// assert_eq!(seen.is_same(&ProcessIdentity::new(4242).started_at_tick(9002).in_boot("b1")), Some(false));
/// // An unknown start is unknown, not a mismatch.
/// assert_eq!(seen.is_same(&ProcessIdentity::new(4242)), None);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ProcessIdentity {
    /// Its number, as this machine's (or this container's) processes see it.
    pub pid: u32,
    /// When it started, in the system's own unit: clock ticks since the machine started on Linux,
    /// seconds since 1970 elsewhere.
    pub start_ticks: Option<u64>,
    /// The machine's life that the ticks count in.
    pub boot_id: Option<Arc<str>>,
    /// The inode of the process's handle, which no other process of this boot has (Linux 6.9).
    pub pidfd_inode: Option<u64>,
}

impl ProcessIdentity {
    /// A process of which only the number is known.
    ///
    /// ```
    /// let seen = headcount_adapter_external::ProcessIdentity::new(4242);
    /// assert_eq!(seen.start_ticks, None);
    /// ```
    pub fn new(pid: u32) -> Self {
        Self {
            pid,
            start_ticks: None,
            boot_id: None,
            pidfd_inode: None,
        }
    }

    /// The same with the moment it started, in the system's own unit.
    pub fn started_at_tick(mut self, ticks: u64) -> Self {
        self.start_ticks = Some(ticks);
        self
    }

    /// The same within one life of the machine.
    pub fn in_boot(mut self, boot_id: impl Into<Arc<str>>) -> Self {
        self.boot_id = Some(boot_id.into());
        self
    }

    /// The same with the inode of its handle.
    pub fn with_pidfd_inode(mut self, inode: u64) -> Self {
        self.pidfd_inode = Some(inode);
        self
    }

    /// Whether both are one process; none if what is known of them does not decide it.
    ///
    /// # Behavior
    ///
    /// - Another number, boot, start or inode: another process. Anything unknown is no mismatch.
    /// - The same number and inode within one boot, or the same number, start and boot: the same.
    pub fn is_same(&self, other: &Self) -> Option<bool> {
        let boot = agree(self.boot_id.as_ref(), other.boot_id.as_ref());
        let start = agree(self.start_ticks.as_ref(), other.start_ticks.as_ref());
        let inode = agree(self.pidfd_inode.as_ref(), other.pidfd_inode.as_ref());
        if self.pid != other.pid || [boot, start].contains(&Some(false)) {
            return Some(false);
        }
        // Inodes count within one boot, as ticks do.
        match (boot, start, inode) {
            (Some(true), _, Some(same)) => Some(same),
            (Some(true), Some(true), None) => Some(true),
            _ => None,
        }
    }

    /// What a journal keeps of it: `pid`, `startTicks`, `bootId`, `pidfdInode`.
    pub fn to_details(&self) -> impl Iterator<Item = (&'static str, Value)> + use<> {
        let rest = [
            ("startTicks", self.start_ticks.map(Value::from)),
            ("bootId", self.boot_id.as_deref().map(Value::from)),
            ("pidfdInode", self.pidfd_inode.map(Value::from)),
        ];
        let known = rest
            .into_iter()
            .filter_map(|(key, value)| Some((key, value?)));
        std::iter::once(("pid", json!(self.pid))).chain(known)
    }

    /// What a journal has kept of a process; none without a number.
    ///
    /// ```
    /// use headcount_adapter_external::ProcessIdentity;
    /// use headcount_contract::Details;
    /// let seen = ProcessIdentity::new(4242).started_at_tick(9001).in_boot("b1");
    /// let kept = Details::from_iter(seen.to_details());
    /// assert_eq!(ProcessIdentity::from_details(&kept), Some(seen));
    /// ```
    pub fn from_details(details: &Details) -> Option<Self> {
        let number = |key| details.get(key).and_then(|value| value.as_u64());
        Some(Self {
            pid: u32::try_from(number("pid")?).ok().filter(|&pid| pid > 0)?,
            start_ticks: number("startTicks"),
            boot_id: details
                .get("bootId")
                .and_then(|value| value.as_str().map(Arc::from)),
            pidfd_inode: number("pidfdInode"),
        })
    }
}

/// Whether two facts are one; none if one of them is unknown.
fn agree<T: PartialEq>(a: Option<&T>, b: Option<&T>) -> Option<bool> {
    Some(a? == b?)
}

/// What is found under a process number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Look {
    /// A process that lives.
    Lives(ProcessIdentity),
    /// A process that has ended and was not collected by its parent (a zombie).
    Ended(ProcessIdentity, Option<ExitStatus>),
    /// No process.
    Nobody,
    /// This system does not let us see.
    CannotTell,
}

/// What is under this number now. Holds nothing: by the return it may have ended.
///
/// ```
/// use headcount_adapter_external::{Look, look};
/// assert!(matches!(look(std::process::id()), Look::Lives(_)));
/// ```
pub fn look(pid: u32) -> Look {
    os::look(pid)
}

/// The name of the machine's present life, where the system has one.
///
/// ```
/// assert_eq!(headcount_adapter_external::boot_id(), headcount_adapter_external::boot_id());
/// ```
pub fn boot_id() -> Option<Arc<str>> {
    os::boot_id()
}

/// That a held process has ended, and what is known of how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    /// How is known.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))] // nobody is told elsewhere
    Exited {
        status: ExitStatus,
        /// Where it was read.
        read_from: &'static str,
    },
    /// Its parent has not collected it, and until then how is not to be known.
    Zombie,
    /// How will never be known.
    Gone,
}

/// Why a process is looked at now and then, instead of waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoHandle {
    /// The system has none.
    NotHere,
    /// They are file descriptors, and the rest of the host needs those that are left.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))] // there are none elsewhere
    NoDescriptors,
}

/// What a process has used, read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Used {
    /// Processor time since it started.
    pub(crate) cpu: Duration,
    /// Resident memory.
    pub(crate) memory_bytes: u64,
}

/// A process that a matcher may fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub(crate) pid: u32,
    /// When it started, in the system's own unit.
    pub(crate) start: u64,
    /// The name it gives itself.
    pub(crate) comm: String,
}

/// Why a process was not adopted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    /// A number that no process has.
    #[error("process ids are positive; {0} would name a process group")]
    Negative(i64),
    /// 0 names the caller's own group, or the kernel.
    #[error("0 is no process id")]
    Zero,
    /// The first process does not end before the machine (or the container) does.
    #[error("process 1 starts the others and is nobody's agent")]
    Init,
    /// This very process.
    #[error("this is headcount's own process")]
    Ourselves,
    /// A thread of the kernel.
    #[error("this is a kernel thread ({0}), which runs no program")]
    KernelThread(String),
    /// The number of a thread.
    #[error("this is a thread of process {of}; adopt {of}")]
    Thread {
        /// Its process.
        of: u32,
    },
    /// Nobody has the number.
    #[error("there is no such process")]
    NoSuchProcess,
    /// A zombie: it ended before it could be adopted.
    #[error("it has ended already ({}) and waits for its parent to collect it", end::in_words(*.0))]
    Ended(Option<ExitStatus>),
    /// It ended between the look and the adoption.
    #[error("it ended while it was being adopted")]
    EndedMeanwhile,
    /// It is a child already.
    #[error("it is observed already, as {0}")]
    Adopted(ChildId),
    /// No room for more.
    #[error("{0} processes are observed already, the limit (`max_processes`)")]
    TooMany(usize),
    /// The adapter is closed, or not yet subscribed to.
    #[error("the adapter is not open")]
    NotOpen,
    /// The system did not let us look.
    #[error("it cannot be looked at: {0}")]
    Unreadable(String),
}

/// Refuses the numbers that are no process one could adopt, before anything is looked at.
pub(crate) fn check_number(number: i64) -> Result<u32, AdoptError> {
    match number {
        ..0 => Err(AdoptError::Negative(number)),
        0 => Err(AdoptError::Zero),
        1 => Err(AdoptError::Init),
        _ => match u32::try_from(number) {
            Ok(own) if own == std::process::id() => Err(AdoptError::Ourselves),
            Ok(pid) if i32::try_from(pid).is_ok() => Ok(pid),
            _ => Err(AdoptError::NoSuchProcess),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(
        pid: u32,
        start: Option<u64>,
        boot: Option<&str>,
        inode: Option<u64>,
    ) -> ProcessIdentity {
        ProcessIdentity {
            pid,
            start_ticks: start,
            boot_id: boot.map(Arc::from),
            pidfd_inode: inode,
        }
    }

    #[test]
    fn same_process_by_what_is_known() {
        let ours = process(7, Some(100), Some("b"), Some(5));
        let cases = [
            (ours.clone(), Some(true)),
            (process(7, Some(100), Some("b"), None), Some(true)),
            (process(7, None, Some("b"), Some(5)), Some(true)),
            (process(8, Some(100), Some("b"), Some(5)), Some(false)),
            (process(7, Some(101), Some("b"), None), Some(false)),
            (process(7, Some(100), Some("c"), None), Some(false)),
            // Reuse within one tick: only the inode tells.
            (process(7, Some(100), Some("b"), Some(6)), Some(false)),
            (process(7, None, Some("b"), None), None),
            (process(7, Some(100), None, None), None),
            (process(7, None, None, Some(5)), None),
        ];
        for (other, expected) in cases {
            assert_eq!(ours.is_same(&other), expected, "{other:?}");
            assert_eq!(other.is_same(&ours), expected, "{other:?}");
        }
    }

    #[test]
    fn refuses_numbers_that_are_no_process_of_others() {
        let own = i64::from(std::process::id());
        let cases = [
            (-1, Err(AdoptError::Negative(-1))),
            (i64::MIN, Err(AdoptError::Negative(i64::MIN))),
            (0, Err(AdoptError::Zero)),
            (1, Err(AdoptError::Init)),
            (own, Err(AdoptError::Ourselves)),
            (i64::from(i32::MAX) + 1, Err(AdoptError::NoSuchProcess)),
            (i64::MAX, Err(AdoptError::NoSuchProcess)),
            (2, Ok(2)),
        ];
        for (number, expected) in cases {
            assert_eq!(check_number(number), expected);
        }
    }
}
