//! Taking hold of a process on Linux, so that what is said of it is not another's.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;

use super::os::{Watch, identity, is_absent};
use super::pidfd::{self, Progress};
use super::procfs::{self, Stat};
use super::{AdoptError, ExitStatus, NoHandle, ProcessIdentity};

/// Looks at a process and holds it.
pub(crate) fn take(
    pid: u32,
    poll_interval: Duration,
) -> Result<(Watch, ProcessIdentity), AdoptError> {
    let held = Held::open(pid)?;
    let identity = held.look()?;
    held.watch(identity, poll_interval)
}

/// A number whose process cannot change unnoticed, if there is a handle.
struct Held {
    pid: u32,
    handle: Result<OwnedFd, NoHandle>,
}

impl Held {
    fn open(pid: u32) -> Result<Self, AdoptError> {
        let handle = match pidfd::open(pid) {
            Ok(handle) => Ok(handle),
            Err(Errno::SRCH) => return Err(AdoptError::NoSuchProcess),
            Err(Errno::MFILE | Errno::NFILE) => Err(NoHandle::NoDescriptors),
            // A kernel or a sandbox without handles.
            Err(Errno::NOSYS | Errno::PERM) => Err(NoHandle::NotHere),
            Err(error) => {
                return Err(match procfs::process_of_thread(pid) {
                    Some(of) if of != pid => AdoptError::Thread { of },
                    _ => AdoptError::Unreadable(error.to_string()),
                });
            }
        };
        Ok(Self { pid, handle })
    }

    /// What is under the number now. Refuses what nobody could adopt.
    fn look(&self) -> Result<ProcessIdentity, AdoptError> {
        let stat = match Stat::read(self.pid) {
            Ok(stat) => Some(stat),
            Err(error) if !is_absent(&error) => {
                return Err(AdoptError::Unreadable(error.to_string()));
            }
            // Where `/proc` hides the processes of others, the handle still tells that it lives.
            Err(_) if self.handle.is_ok() => None,
            Err(_) => return Err(AdoptError::NoSuchProcess),
        };
        match &stat {
            Some(stat) => refuse(self.pid, stat)?,
            None => refuse_hidden(self.pid)?,
        }
        Ok(identity(self.pid, stat.as_ref(), self.handle.as_ref().ok()))
    }

    /// Waits for its end from here on.
    ///
    /// What was read of `/proc` is of the process that the handle holds only if that one lives:
    /// until then nobody else can have its number.
    fn watch(
        self,
        identity: ProcessIdentity,
        poll_interval: Duration,
    ) -> Result<(Watch, ProcessIdentity), AdoptError> {
        match self.handle.as_ref().map(pidfd::progress) {
            Ok(Ok(Progress::Zombie | Progress::Collected)) => {
                return Err(AdoptError::EndedMeanwhile);
            }
            Ok(Err(error)) => return Err(AdoptError::Unreadable(error.to_string())),
            Ok(Ok(Progress::Lives)) | Err(_) => {}
        }
        let handle = self.handle.and_then(|handle| {
            if pidfd::is_among_the_last(&handle) {
                return Err(NoHandle::NoDescriptors);
            }
            let registered = pidfd::register(handle).ok_or(NoHandle::NotHere)?;
            Ok(Arc::new(registered))
        });
        let watch = Watch {
            identity: identity.clone(),
            handle,
            poll_interval,
        };
        Ok((watch, identity))
    }
}

fn refuse(pid: u32, stat: &Stat) -> Result<(), AdoptError> {
    if stat.is_kernel_thread() {
        return Err(AdoptError::KernelThread(stat.comm.clone()));
    }
    if stat.is_zombie() {
        return Err(AdoptError::Ended(
            procfs::zombie_status(pid, stat).map(ExitStatus::from_wait_status),
        ));
    }
    match procfs::process_of_thread(pid) {
        Some(of) if of != pid => Err(AdoptError::Thread { of }),
        _ => Ok(()),
    }
}

/// Refuses what `/proc` does not show and which is in no process group: threads of the kernel are
/// in none, and neither is a process that entered this namespace from outside.
fn refuse_hidden(pid: u32) -> Result<(), AdoptError> {
    match pidfd::process_group(pid) {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err(AdoptError::Unreadable(
            "/proc hides it, and it is in no process group: a kernel thread, or from another namespace".into(),
        )),
        Err(Errno::SRCH) => Err(AdoptError::NoSuchProcess),
        Err(error) => Err(AdoptError::Unreadable(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command, Stdio};

    fn sleeping() -> Child {
        let mut command = Command::new("sleep");
        command.arg("1000").stdin(Stdio::null()).spawn().unwrap()
    }

    fn lives(stat: &str) -> bool {
        std::fs::read_to_string(stat).is_ok_and(|text| !text.contains(") Z "))
    }

    #[tokio::test]
    async fn one_that_dies_between_the_look_and_the_adoption_is_said_so() {
        for collects in [true, false] {
            let mut child = sleeping();
            let held = Held::open(child.id()).unwrap();
            let identity = held.look().unwrap();
            child.kill().unwrap();
            if collects {
                child.wait().unwrap();
            }
            let stat = format!("/proc/{}/stat", child.id());
            while lives(&stat) {
                tokio::task::yield_now().await;
            }
            let taken = held.watch(identity, Duration::from_secs(1));
            assert_eq!(taken.unwrap_err(), AdoptError::EndedMeanwhile);
            child.wait().unwrap();
        }
    }

    #[tokio::test]
    async fn one_that_dies_before_the_look_is_no_process_or_a_zombie_with_its_status() {
        let mut child = sleeping();
        let held = Held::open(child.id()).unwrap();
        child.kill().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while lives(&stat) {
            tokio::task::yield_now().await;
        }
        let status = ExitStatus::from_wait_status(9);
        assert_eq!(held.look(), Err(AdoptError::Ended(Some(status))));
        child.wait().unwrap();
        assert_eq!(held.look(), Err(AdoptError::NoSuchProcess));
    }
}
