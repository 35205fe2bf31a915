//! Holds adapters to what they may say.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use headcount_contract::{
    Capabilities, ChildId, EventId, Health, HealthStatus, LifecycleEvent, SourceEpoch, SourceId,
    SourceRole,
};
use tokio::sync::mpsc;

use super::Engine;
use crate::builder::Member;
use crate::info::both;
use crate::session::Request;
use crate::{AdapterInfo, AdapterView};

/// What the engine knows of one adapter.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) source: SourceId,
    pub(crate) info: AdapterInfo,
    pub(crate) capabilities: Capabilities,
    pub(crate) epoch: SourceEpoch,
    pub(crate) requests: mpsc::UnboundedSender<Request>,
    pub(crate) health: Health,
    /// What the host itself has against it: counts, and why its stream ended if it did.
    pub(crate) faults: BTreeMap<&'static str, u64>,
    pub(crate) failure: Option<String>,
    pub(crate) snapshot_failure: Option<String>,
    pub(crate) finished: bool,
    pub(crate) holding: bool,
    /// The children of an earlier life of the host that it observes on, if that is what it is for.
    pub(crate) readopts: Option<HashSet<ChildId>>,
}

/// How many sources a host learns from its carriers.
const MAX_CARRIED: usize = 65_536;

impl Entry {
    pub(crate) fn new(member: &Member, requests: mpsc::UnboundedSender<Request>) -> Self {
        Self {
            source: member.source.clone(),
            capabilities: member.capabilities,
            epoch: member.epoch.clone(),
            info: member.info.clone(),
            requests,
            health: Health::default(),
            faults: BTreeMap::new(),
            failure: None,
            snapshot_failure: None,
            finished: false,
            holding: false,
            readopts: member.readopts.clone(),
        }
    }

    /// What is shown of it.
    pub(crate) fn view(&self) -> AdapterView {
        AdapterView {
            source: self.source.clone(),
            epoch: self.epoch.clone(),
            kind: self.info.kind.clone(),
            provided_by: self.info.provided_by.clone(),
            role: self.info.role,
            scope: self.info.scope,
            capabilities: self.capabilities,
            health: Arc::new(self.whole_health()),
            finished: self.finished,
            holding: self.holding,
            readopts: self.readopts.is_some(),
        }
    }

    /// Its health by its own account, and what the host has to add.
    fn whole_health(&self) -> Health {
        let mut health = self.health.clone();
        for (name, count) in &self.faults {
            health.counts.insert((*name).to_owned(), *count);
        }
        let mut said: Vec<String> = health.message.take().into_iter().collect();
        if let Some(why) = &self.failure {
            health.status = HealthStatus::Down;
            said.push(why.clone());
        }
        if let Some(why) = &self.snapshot_failure {
            health.status = health.status.max(HealthStatus::Degraded);
            said.push(format!("no snapshot can be had: {why}"));
        }
        for (name, what) in [
            (
                FOREIGN,
                "it sends events of sources that are not its own, which are refused",
            ),
            (
                OVERCLAIMED,
                "it claims capabilities that it has not verified, which are not shown",
            ),
            (
                WRONG_SNAPSHOTS,
                "it sends snapshots of sources that are not its own, which are refused",
            ),
        ] {
            if self.faults.contains_key(name) {
                health.status = health.status.max(HealthStatus::Degraded);
                said.push(what.to_owned());
            }
        }
        if !said.is_empty() {
            health.message = Some(said.join("; "));
        }
        health
    }
}

pub(crate) const FOREIGN: &str = "host_foreign_events";
pub(crate) const OVERCLAIMED: &str = "host_overclaimed_events";
pub(crate) const WRONG_SNAPSHOTS: &str = "host_foreign_snapshots";

impl Engine {
    /// Whether this adapter may speak of that source (rule I6).
    pub(super) fn may_speak_of(&mut self, adapter: usize, source: &SourceId) -> bool {
        let entry = &self.entries[adapter];
        if entry.info.role == SourceRole::Own {
            return entry.source == *source;
        }
        if let Some(only) = &entry.info.only_sources
            && !only.contains(source)
        {
            return false;
        }
        // What an adapter of this host owns, no other speaks of.
        if self
            .owners
            .get(source)
            .is_some_and(|owner| *owner != adapter)
        {
            return false;
        }
        if !self.carriers.contains_key(source) && self.carriers.len() < MAX_CARRIED {
            let scope = entry.info.scope;
            self.projector.set_scope(source, scope);
            self.carriers.insert(source.clone(), adapter);
        }
        true
    }

    /// The event without capabilities that its adapter has not verified, and whether it had any.
    pub(super) fn without_overclaims(
        &mut self,
        adapter: usize,
        event: LifecycleEvent,
    ) -> (LifecycleEvent, bool) {
        let entry = &mut self.entries[adapter];
        let claimed = event.capabilities();
        let verified = both(claimed, entry.info.at_best);
        if entry.info.role != SourceRole::Own || verified == claimed {
            return (event, false);
        }
        *entry.faults.entry(OVERCLAIMED).or_default() += 1;
        let id = event.event_id().clone();
        (rebuilt(&event, id, verified), true)
    }
}

/// The same event under another name: the source's own adapter may have used this one too.
pub(super) fn of_readopted(event: &LifecycleEvent) -> LifecycleEvent {
    let name = format!("readopted:{}", event.event_id());
    // A name too long for the addition is one that no adapter of ours makes.
    let id = EventId::new(name).unwrap_or_else(|_| event.event_id().clone());
    rebuilt(event, id, event.capabilities())
}

fn rebuilt(event: &LifecycleEvent, id: EventId, capabilities: Capabilities) -> LifecycleEvent {
    let mut other = LifecycleEvent::new(
        id,
        event.source_identity().clone(),
        event.child().clone(),
        event.kind(),
        event.observed_at(),
        capabilities,
    )
    .with_details(event.details().clone());
    if let Some(sequence) = event.sequence() {
        other = other.with_sequence(sequence);
    }
    if let Some(activity) = event.activity() {
        other = other.with_activity(activity.clone());
    }
    other
}
