//! Looking at processes where there are no handles and no `/proc`: through sysinfo, reading only
//! the processes that are asked for. How a process ended is never known here.

// The other system's watch has handles to look at and to wait for.
#![allow(clippy::unused_self, clippy::unused_async, clippy::unnecessary_wraps)]

use std::sync::Arc;
use std::time::Duration;

use sysinfo::{Pid, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System};

use super::{AdoptError, Candidate, Finding, Look, NoHandle, ProcessIdentity, Used};

/// A process that is looked at now and then.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    identity: ProcessIdentity,
    poll_interval: Duration,
}

/// Looks at a process.
pub(crate) fn take(
    pid: u32,
    poll_interval: Duration,
) -> Result<(Watch, ProcessIdentity), AdoptError> {
    match look(pid) {
        Look::Lives(identity) => Ok((
            Watch {
                identity: identity.clone(),
                poll_interval,
            },
            identity,
        )),
        Look::Ended(_, status) => Err(AdoptError::Ended(status)),
        Look::Nobody => Err(AdoptError::NoSuchProcess),
        Look::CannotTell => Err(AdoptError::Unreadable(
            "the system shows no processes".into(),
        )),
    }
}

/// What is under this number now.
pub(crate) fn look(pid: u32) -> Look {
    let Ok(mut system) = System::new() else {
        return Look::CannotTell;
    };
    let pid = Pid::from_u32(pid);
    let what = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, what);
    let Some(process) = system.process(pid) else {
        return Look::Nobody;
    };
    let identity = ProcessIdentity::new(pid.as_u32()).started_at_tick(process.start_time());
    match process.status() {
        ProcessStatus::Zombie | ProcessStatus::Dead => Look::Ended(identity, None),
        _ => Look::Lives(identity),
    }
}

impl Watch {
    pub(crate) fn no_handle(&self) -> Option<NoHandle> {
        Some(NoHandle::NotHere)
    }

    pub(crate) fn lives(&self) -> Option<bool> {
        match look(self.identity.pid) {
            Look::CannotTell => None,
            Look::Lives(found) => Some(found.start_ticks == self.identity.start_ticks),
            Look::Ended(..) | Look::Nobody => Some(false),
        }
    }

    pub(crate) fn how(&self) -> Option<Finding> {
        (self.lives() == Some(false)).then_some(Finding::Gone)
    }

    pub(crate) async fn end(&self) -> Finding {
        while self.lives() != Some(false) {
            tokio::time::sleep(self.poll_interval).await;
        }
        Finding::Gone
    }

    pub(crate) async fn collected(&self) -> Finding {
        Finding::Gone
    }
}

pub(crate) fn descriptor_limit() -> Option<u64> {
    None
}

pub(crate) fn tells_exit_status() -> bool {
    false
}

/// Without a boot's name nothing is known to be of another boot.
pub(crate) fn boot_id() -> Option<Arc<str>> {
    None
}

pub(crate) fn children(_: u32) -> Option<u32> {
    None
}

pub(crate) fn pid_in_own_namespace(_: u32) -> Option<u32> {
    None
}

/// What these processes have used, each for itself.
pub(crate) fn used(pids: &[u32]) -> Vec<(u32, Used)> {
    let Ok(mut system) = System::new() else {
        return Vec::new();
    };
    let pids: Vec<_> = pids.iter().copied().map(Pid::from_u32).collect();
    let what = ProcessRefreshKind::nothing()
        .with_cpu()
        .with_memory()
        .without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
    let read = pids.iter().filter_map(|&pid| {
        let process = system.process(pid)?;
        let used = Used {
            cpu: Duration::from_millis(process.accumulated_cpu_time()),
            memory_bytes: process.memory(),
        };
        Some((pid.as_u32(), used))
    });
    read.collect()
}

/// All processes but ourselves, for the matchers.
pub(crate) fn candidates() -> Vec<Candidate> {
    let Ok(mut system) = System::new() else {
        return Vec::new();
    };
    let what = ProcessRefreshKind::nothing().without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::All, true, what);
    let own = std::process::id();
    let others = system
        .processes()
        .iter()
        .filter(|(pid, _)| pid.as_u32() > 1 && pid.as_u32() != own);
    let candidates = others.map(|(pid, process)| Candidate {
        pid: pid.as_u32(),
        start: process.start_time(),
        comm: process.name().to_string_lossy().into_owned(),
    });
    candidates.collect()
}

pub(crate) fn is_own_descendant(pid: u32) -> bool {
    let Ok(mut system) = System::new() else {
        return false;
    };
    let mut at = Pid::from_u32(pid);
    for _ in 0..256 {
        let what = ProcessRefreshKind::nothing().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[at]), true, what);
        match system.process(at).and_then(sysinfo::Process::parent) {
            Some(parent) if parent.as_u32() == std::process::id() => return true,
            Some(parent) if parent.as_u32() > 1 => at = parent,
            _ => return false,
        }
    }
    false
}

pub(crate) fn limitations() -> Vec<String> {
    vec!["this system does not tell how processes end that others started, and they are looked at now and then: a process may vanish without a code".into()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn notices_an_end_by_looking_and_knows_no_code() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let (watch, identity) = take(child.id(), Duration::from_millis(10)).unwrap();
        assert_eq!((identity.pid, watch.lives()), (child.id(), Some(true)));
        assert!(
            candidates()
                .iter()
                .any(|candidate| candidate.pid == child.id())
        );
        assert!(
            is_own_descendant(child.id())
                && watch.no_handle().is_some()
                && descriptor_limit().is_none()
        );
        let [(pid, used)] = super::used(&[child.id()])[..] else {
            panic!("not read")
        };
        assert!(pid == child.id() && used.memory_bytes > 0);
        child.kill().unwrap();
        assert_eq!(watch.end().await, Finding::Gone);
        assert_eq!(watch.how(), Some(Finding::Gone));
        child.wait().unwrap();
        assert_eq!(
            take(child.id(), Duration::ZERO).unwrap_err(),
            AdoptError::NoSuchProcess
        );
        assert_eq!(watch.collected().await, Finding::Gone);
        assert!(!tells_exit_status() && boot_id().is_none() && limitations().len() == 1);
        assert_eq!((children(1), pid_in_own_namespace(1)), (None, None));
    }
}
