//! How the adapter itself is doing, in one sentence.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headcount_adapter_kit::{Fanout, HealthCell};
use headcount_contract::{HealthStatus, Signal};

use crate::process::{self, AdoptError, NoHandle};
use crate::scan::{Found, FoundBy};
use crate::translate::Key;

/// Collects what went wrong and tells it as the adapter's health.
#[derive(Debug)]
pub(crate) struct Report {
    health: Arc<HealthCell>,
    scans: Scans,
    adopted: bool,
    /// The latest refusals; all are counted.
    refused: VecDeque<String>,
    refusals: u64,
    /// What keeps PID files from being used now.
    trouble: Vec<String>,
    /// Those whose end is not waited for, for want of descriptors.
    without_descriptor: BTreeSet<Key>,
    poll_interval: Duration,
    /// What does not work of what the host knows beyond presence.
    conditions: BTreeMap<(Key, &'static str), String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Scans {
    None,
    FirstAwaited,
    GoOn,
    Failed,
}

/// How many refusals are told one by one.
const TOLD: usize = 4;

impl Report {
    pub(crate) fn new(health: Arc<HealthCell>, will_scan: bool) -> Self {
        for limitation in process::limitations() {
            health.limit(&limitation);
        }
        let scans = if will_scan {
            Scans::FirstAwaited
        } else {
            Scans::None
        };
        Self {
            health,
            scans,
            adopted: false,
            refused: VecDeque::new(),
            refusals: 0,
            trouble: Vec::new(),
            without_descriptor: BTreeSet::new(),
            poll_interval: Duration::ZERO,
            conditions: BTreeMap::new(),
        }
    }

    pub(crate) fn is_first_scan_awaited(&self) -> bool {
        self.scans == Scans::FirstAwaited
    }

    pub(crate) fn count(&mut self, what: &str) {
        self.adopted |= what == "adopted";
        self.health.count(what, 1);
    }

    /// The end of an adopted process will not be noticed at once.
    pub(crate) fn looked_at(&mut self, key: Key, why: NoHandle, poll_interval: Duration) {
        match why {
            NoHandle::NotHere => self.health.limit("this system gives no handle to wait on for processes: they are looked at now and then, and how they end may stay unknown"),
            NoHandle::NoDescriptors => {
                self.health.count("without_descriptor", 1);
                self.without_descriptor.insert(key);
                self.poll_interval = poll_interval;
            }
        }
    }

    /// A process that the host named was not adopted.
    pub(crate) fn refused(&mut self, found: &Found, why: &AdoptError) {
        self.refusals += 1;
        self.health.count("refused", 1);
        // One sentence for all that a matcher found too many.
        let told = match &found.by {
            FoundBy::Matcher(what) if matches!(why, AdoptError::TooMany(_)) => {
                format!("match {what}: {why}")
            }
            FoundBy::Number => format!("pid {}: {why}", found.number),
            by => format!("pid {} ({by}): {why}", found.number),
        };
        if self.refused.contains(&told) {
            return;
        }
        if self.refused.len() == TOLD {
            self.refused.pop_front();
        }
        self.refused.push_back(told);
    }

    pub(crate) fn scanned(&mut self, trouble: Vec<String>) {
        self.scans = Scans::GoOn;
        self.trouble = trouble;
    }

    /// One of a child's sources beyond presence works, or why it does not. Returns whether that is
    /// new.
    pub(crate) fn condition(
        &mut self,
        key: Key,
        pid: u32,
        what: &'static str,
        condition: Result<(), String>,
    ) -> bool {
        match condition {
            Ok(()) => self.conditions.remove(&(key, what)).is_some(),
            Err(why) => {
                self.health.count("runtime_failures", 1);
                let told = format!("pid {pid}, {what}: {why}");
                self.conditions.insert((key, what), told.clone()) != Some(told)
            }
        }
    }

    /// A child that has ended has no conditions.
    pub(crate) fn forget(&mut self, key: Key) {
        self.without_descriptor.remove(&key);
        let gone: Vec<_> = self
            .conditions
            .range((key, "")..(key + 1, ""))
            .map(|(at, _)| *at)
            .collect();
        for at in gone {
            self.conditions.remove(&at);
        }
    }

    pub(crate) fn scan_failed(&mut self) {
        self.scans = Scans::Failed;
    }

    /// Says once more how things stand, to those who look at something else whenever it is said.
    pub(crate) fn tell_again(&self, fanout: &Fanout) {
        fanout.publish(Signal::Health(self.health.get()));
    }

    fn want_of_descriptors(&self) -> Option<String> {
        let count = self.without_descriptor.len();
        let limit = process::descriptor_limit()?;
        (count > 0).then(|| {
            format!(
                "{count} processes are looked at every {} ms instead of waited for, and how they end may stay unknown: the limit of {limit} open files is nearly reached (raise `ulimit -n`)",
                self.poll_interval.as_millis()
            )
        })
    }

    /// Says how things stand with this many processes alive.
    pub(crate) fn publish(&mut self, living: usize) {
        let mut sentences = Vec::new();
        if self.scans == Scans::Failed {
            sentences.push(
                "looking for processes has failed and was given up; open the adapter again"
                    .to_owned(),
            );
        }
        if self.refusals > 0 {
            let told: Vec<_> = self.refused.iter().map(String::as_str).collect();
            sentences.push(format!(
                "{} not adopted: {}",
                self.refusals,
                told.join("; ")
            ));
        }
        sentences.extend(self.want_of_descriptors());
        sentences.extend(self.trouble.iter().take(TOLD).cloned());
        sentences.extend(self.conditions.values().take(TOLD).cloned());
        let message = sentences.join("; ");
        let more_to_come = self.scans == Scans::GoOn || self.scans == Scans::FirstAwaited;
        if !message.is_empty() {
            let blind = living == 0 && !self.adopted && !more_to_come;
            let status = if blind {
                HealthStatus::Down
            } else {
                HealthStatus::Degraded
            };
            self.health.set(status, message);
        } else if living == 0 && self.adopted && !more_to_come {
            self.health
                .set(HealthStatus::Healthy, "every adopted process has ended");
        } else {
            self.health.healthy();
        }
    }
}
