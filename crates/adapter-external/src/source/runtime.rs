//! The part of the task that uses what the host knows beyond presence.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::FutureExt;
use headcount_contract::{
    AdapterError, CancelOutcome, ChildId, Discontinuity, Gap, LifecycleEvent, Signal,
};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::{Session, now};
use crate::enrich::{self, CancelAuthority, Cues, Enrichment, Evidence, Tell};
use crate::process::Finding;
use crate::translate::Key;

/// How long a child's stream may take to be read to its end after the process has ended.
const DRAIN: Duration = Duration::from_secs(1);

/// The tasks that ask and read for one child. Dropping it ends them.
#[derive(Debug, Default)]
pub(super) struct Helpers {
    tasks: Vec<AbortHandle>,
    /// Of its stream, if it has one.
    cues: Option<Arc<Cues>>,
    authority: Option<Arc<dyn CancelAuthority>>,
    /// That its process has ended, while its stream is read to the end.
    draining: Option<Finding>,
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Session {
    /// Starts what asks and reads for a child beyond presence.
    pub(super) fn enrich(&mut self, key: Key, pid: u32, enrichment: Option<&Arc<Enrichment>>) {
        let mut helpers = Helpers::default();
        let tell = Tell {
            key,
            pid,
            adopted_at: now(),
            to: self.tell.clone(),
        };
        if let Some(status) = enrichment.and_then(|e| e.status.clone()) {
            helpers.run(enrich::poll(status, tell.clone()));
        }
        if let Some(events) = enrichment.and_then(|e| e.events.clone()) {
            let cues = Arc::new(Cues::default());
            helpers.cues = Some(cues.clone());
            helpers.run(enrich::follow(events, tell.clone(), cues));
        }
        let control = enrichment.and_then(|e| e.control.clone());
        let authority = control
            .map(|api| Arc::new(api) as Arc<dyn CancelAuthority>)
            .or_else(|| self.authority.clone());
        if let (Some(authority), Some(process)) = (authority, self.translator.process(key)) {
            helpers.run(enrich::verify(authority.clone(), process.clone(), tell));
            helpers.authority = Some(authority);
        }
        if !helpers.tasks.is_empty() {
            self.helpers.insert(key, helpers);
        }
    }

    /// Whether the child's own stream is now read to its end, before the end of its process is
    /// told: its last words say more than its exit code.
    pub(super) fn drains(&mut self, key: Key, finding: Finding) -> bool {
        let Some(helpers) = self.helpers.get_mut(&key) else {
            return false;
        };
        let Some(cues) = helpers.cues.as_ref().filter(|_| helpers.draining.is_none()) else {
            return false;
        };
        cues.ended.notify_one();
        helpers.draining = Some(finding);
        // Whatever the reader does, the end is told.
        self.ends.push(
            tokio::time::sleep(DRAIN)
                .map(move |()| (key, finding))
                .boxed(),
        );
        true
    }

    pub(super) fn is_draining(&self) -> bool {
        self.helpers
            .values()
            .any(|helpers| helpers.draining.is_some())
    }

    pub(super) fn learnt(&mut self, key: Key, evidence: Evidence) {
        match evidence {
            Evidence::Status(reading) => {
                let said = self.translator.status(key, reading, now());
                self.say_of(key, said);
                self.condition(key, "status", Ok(()));
            }
            Evidence::Snapshot(snapshot) => {
                let said = self.translator.stream_snapshot(key, snapshot, now());
                self.say_of(key, said);
            }
            Evidence::Events(events) => {
                let from_stream = self.translator.stream_events(key, events);
                for _ in 0..from_stream.passed_over {
                    self.report.count("stream_events_passed_over");
                }
                self.say_of(key, from_stream.events);
                if from_stream.gap
                    && let Some(cues) = self
                        .helpers
                        .get(&key)
                        .and_then(|helpers| helpers.cues.as_ref())
                {
                    cues.resync.notify_one();
                }
            }
            Evidence::Broken(cause) => {
                let gap = Gap::Possible;
                let broken = Discontinuity { cause, gap };
                self.outbox.push_back(Signal::Discontinuity(broken));
            }
            Evidence::Drained => {
                if let Some(finding) = self.helpers.get(&key).and_then(|helpers| helpers.draining) {
                    self.ended(key, finding);
                }
            }
            Evidence::Authority(scope) => {
                let said = self.translator.authority(key, &scope, now());
                self.say_of(key, said);
                self.condition(key, "control", Ok(()));
            }
            Evidence::Condition(what, condition) => self.condition(key, what, condition),
        }
    }

    /// Passes a request to cancel on to who has the authority.
    pub(super) fn cancel(
        &mut self,
        child: &ChildId,
        reason: Option<String>,
        to: oneshot::Sender<Result<CancelOutcome, AdapterError>>,
    ) {
        let outcome = match self.translator.key(child) {
            None => CancelOutcome::UnknownChild,
            Some(key) => {
                self.notice(key);
                match self.authority_over(key) {
                    Ok((authority, process)) => {
                        tokio::spawn(async move {
                            let _ = to.send(enrich::ask(authority, process, reason).await);
                        });
                        return;
                    }
                    Err(outcome) => outcome,
                }
            }
        };
        let _ = to.send(Ok(outcome));
    }

    fn authority_over(
        &self,
        key: Key,
    ) -> Result<(Arc<dyn CancelAuthority>, crate::ProcessIdentity), CancelOutcome> {
        if !self.translator.is_live(key)
            || self
                .watches
                .get(&key)
                .and_then(crate::process::Watch::lives)
                == Some(false)
        {
            return Err(CancelOutcome::AlreadyEnded);
        }
        let authority = self
            .helpers
            .get(&key)
            .and_then(|helpers| helpers.authority.clone());
        match (authority, self.translator.process(key)) {
            (Some(authority), Some(process)) if self.translator.is_in_authority(key) => Ok((authority, process.clone())),
            _ => Err(CancelOutcome::Denied { reason: "nobody was verified to have the authority to cancel this process, which somebody else started".into() }),
        }
    }

    fn say_of(&mut self, key: Key, said: impl IntoIterator<Item = LifecycleEvent>) {
        for event in said {
            self.say(event);
        }
        // Its runtime may have ended the run while the process goes on: it is another's business now.
        if self.watches.contains_key(&key) && !self.translator.is_live(key) {
            self.let_go(key);
            self.report.count("ended");
        }
    }

    fn condition(&mut self, key: Key, what: &'static str, condition: Result<(), String>) {
        let Some(pid) = self.translator.process(key).map(|process| process.pid) else {
            return;
        };
        if self.report.condition(key, pid, what, condition) && !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }
}

impl Helpers {
    fn run(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.push(tokio::spawn(task).abort_handle());
    }
}
