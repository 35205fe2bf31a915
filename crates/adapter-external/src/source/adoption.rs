//! The part of the task that takes hold of processes, and lets go of them.

use futures_util::future::FutureExt;
use headcount_contract::{ChildId, Signal};

use super::{CHUNK, Session, now};
use crate::process::{self, AdoptError, Finding, Watch};
use crate::readopt::Readoption;
use crate::scan::{Found, FoundBy};
use crate::translate::{Facts, Key, Verified};

impl Session {
    pub(super) fn adopt_some(&mut self) {
        for _ in 0..CHUNK / 4 {
            if let Some(readoption) = self.to_readopt.pop_front() {
                self.readopt(readoption);
            } else if let Some(found) = self.to_adopt.pop_front() {
                let adopted = self.adopt(&found);
                if let Err(why) = adopted {
                    self.refused(&found, &why);
                }
            } else {
                break;
            }
        }
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    pub(super) fn refused(&mut self, found: &Found, why: &AdoptError) {
        match (why, &found.by) {
            // Found twice, which is no fault.
            (AdoptError::Adopted(_), FoundBy::Matcher(_) | FoundBy::File(..)) => {}
            // Processes come and go while the table of them is read.
            (
                AdoptError::NoSuchProcess | AdoptError::EndedMeanwhile | AdoptError::Ended(_),
                FoundBy::Matcher(_),
            ) => {
                self.report.count("ended_before_adoption");
            }
            (AdoptError::TooMany(_), FoundBy::Matcher(_)) => {
                self.waiting.extend(u32::try_from(found.number));
                self.report.refused(found, why);
            }
            _ => self.report.refused(found, why),
        }
    }

    pub(super) fn adopt(&mut self, found: &Found) -> Result<ChildId, AdoptError> {
        let pid = process::check_number(found.number)?;
        if let Some(&key) = self.by_pid.get(&pid) {
            self.notice(key);
            if self.watches.contains_key(&key)
                && let Some(id) = self.translator.id(key)
            {
                return Err(AdoptError::Adopted(id.clone()));
            }
        }
        if self.watches.len() >= self.config.max_processes {
            return Err(AdoptError::TooMany(self.config.max_processes));
        }
        let (watch, identity) = process::take(pid, self.config.poll_interval)?;
        let facts = self.facts(pid, &found.by, &watch)?;
        let (key, event) = self
            .translator
            .adopted(identity, &facts, verified(&watch), now());
        self.say(event);
        self.hold(key, pid, watch);
        self.enrich(key, pid, found.enrichment.as_ref());
        self.translator
            .id(key)
            .cloned()
            .ok_or(AdoptError::EndedMeanwhile)
    }

    /// Facts are read after the process is held, and are its own only if it still lives then.
    pub(super) fn facts(
        &mut self,
        pid: u32,
        by: &FoundBy,
        watch: &Watch,
    ) -> Result<Facts, AdoptError> {
        let facts = self.fact_reader.facts(pid, by);
        match watch.lives() {
            Some(false) => Err(AdoptError::EndedMeanwhile),
            _ => Ok(facts),
        }
    }

    pub(super) fn readopt(&mut self, readoption: Readoption) {
        let Readoption {
            child,
            state,
            process: expected,
        } = readoption;
        let taken = process::take(expected.pid, self.config.poll_interval);
        let found = match taken {
            Ok((watch, found)) if expected.is_same(&found) == Some(true) => Some((watch, found)),
            _ => None,
        };
        let facts = match &found {
            Some((watch, found)) => self.facts(found.pid, &FoundBy::Journal, watch).ok(),
            None => None,
        };
        let verified = found
            .as_ref()
            .map(|(watch, _)| verified(watch))
            .unwrap_or_default();
        let (key, event) =
            self.translator
                .readopted(child, state, expected, facts.as_ref(), verified, now());
        self.say(event);
        match (found, facts) {
            (Some((watch, found)), Some(_)) => {
                self.hold(key, found.pid, watch);
                self.enrich(key, found.pid, None);
                let event = self.translator.lives(key, now());
                self.outbox.extend(event.map(Signal::Event));
            }
            // It ended since the host looked: how cannot be known any more.
            _ => self.ended(key, Finding::Gone),
        }
    }

    pub(super) fn hold(&mut self, key: Key, pid: u32, watch: Watch) {
        self.report.count("adopted");
        if let Some(why) = watch.no_handle() {
            self.report.looked_at(key, why, self.config.poll_interval);
        }
        let waiting = watch.clone();
        self.ends
            .push(async move { (key, waiting.end().await) }.boxed());
        self.watches.insert(key, watch);
        self.sampling.add(key);
        self.by_pid.insert(pid, key);
    }

    pub(super) fn ended(&mut self, key: Key, finding: Finding) {
        if self.drains(key, finding) {
            return;
        }
        if finding == Finding::Zombie
            && let Some(watch) = self.watches.get(&key)
        {
            let waiting = watch.clone();
            self.ends
                .push(async move { (key, waiting.collected().await) }.boxed());
        }
        self.let_go(key);
        let Some(event) = self.translator.ended(key, finding, now()) else {
            return;
        };
        self.say(event);
        self.report.count(if finding == Finding::Gone {
            "vanished"
        } else {
            "ended"
        });
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    /// The process is no longer watched.
    pub(super) fn let_go(&mut self, key: Key) {
        self.watches.remove(&key);
        self.sampling.remove(key);
        self.helpers.remove(&key);
        self.report.forget(key);
        if let Some(pid) = self.translator.process(key).map(|process| process.pid)
            && self.by_pid.get(&pid) == Some(&key)
        {
            self.by_pid.remove(&pid);
        }
    }

    /// Takes notice of an end that its future has not told yet.
    pub(super) fn notice(&mut self, key: Key) {
        let ended = self
            .watches
            .get(&key)
            .filter(|watch| watch.lives() == Some(false))
            .and_then(Watch::how);
        if let Some(finding) = ended {
            self.ended(key, finding);
        }
    }
}

fn verified(watch: &Watch) -> Verified {
    Verified {
        exit_status: watch.no_handle().is_none() && process::tells_exit_status(),
        cancel: false,
    }
}
