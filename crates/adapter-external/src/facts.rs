//! What is shown of a process from its adoption on: its command, its user, its parent. Only adopted
//! processes are read.

use std::time::SystemTime;

use headcount_contract::Timestamp;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind, Users};

use crate::process;
use crate::redact::redact_command;
use crate::scan::FoundBy;
use crate::translate::Facts;

/// Reads what is shown of processes.
#[derive(Debug)]
pub(crate) struct FactReader {
    /// None where the system cannot be read; then nothing is shown.
    system: Option<System>,
    users: Option<Users>,
    read: usize,
}

/// How many processes are read before all are forgotten: each reading goes through all that are
/// known.
const FORGET_AFTER: usize = 64;

impl FactReader {
    pub(crate) fn new() -> Self {
        Self {
            system: System::new().ok(),
            users: Users::new_with_refreshed_list().ok(),
            read: 0,
        }
    }

    /// What is known of a process that is being adopted.
    pub(crate) fn facts(&mut self, pid: u32, found_by: &FoundBy) -> Facts {
        self.forget_some();
        let mut facts = Facts {
            found_by: found_by.to_string(),
            ..Facts::default()
        };
        let what = ProcessRefreshKind::nothing()
            .without_tasks()
            .with_cmd(UpdateKind::Always)
            .with_user(UpdateKind::Always);
        let pid = Pid::from_u32(pid);
        self.refresh(&[pid], what);
        let Some(process) = self.system.as_ref().and_then(|system| system.process(pid)) else {
            return facts;
        };
        facts.name = Some(process.name().to_string_lossy().into_owned());
        facts.command = redact_command(process.cmd().iter().map(|word| word.to_string_lossy()));
        facts.parent = process.parent().map(Pid::as_u32);
        facts.started_at = i64::try_from(process.start_time())
            .ok()
            .and_then(|seconds| Timestamp::from_unix(seconds, 0).ok());
        let user = process.effective_user_id().or_else(|| process.user_id());
        facts.user = user.map(|id| {
            match self
                .users
                .as_ref()
                .and_then(|users| users.get_user_by_id(id))
            {
                Some(user) => user.name().to_owned(),
                None => id.to_string(),
            }
        });
        facts.children = process::children(pid.as_u32());
        facts.container_pid = process::pid_in_own_namespace(pid.as_u32());
        if let FoundBy::File(_, Some(written)) = found_by
            && facts
                .started_at
                .is_some_and(|started| is_later(started, *written))
        {
            facts
                .found_by
                .push_str(", which was written before the process started: it may mean another");
        }
        facts
    }

    fn refresh(&mut self, pids: &[Pid], what: ProcessRefreshKind) -> Option<&System> {
        let system = self.system.as_mut()?;
        system.refresh_processes_specifics(ProcessesToUpdate::Some(pids), true, what);
        Some(system)
    }

    /// What was read is never asked for again, and would be kept.
    fn forget_some(&mut self) {
        self.read += 1;
        if self.read > FORGET_AFTER {
            self.read = 0;
            self.system = System::new().ok();
        }
    }
}

/// Later by more than what clocks and file systems round.
fn is_later(started: Timestamp, written: SystemTime) -> bool {
    started.saturating_since(Timestamp::from(written)) > std::time::Duration::from_secs(2)
}
