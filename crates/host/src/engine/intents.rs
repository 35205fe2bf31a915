//! What the projection wants done (rules N8, L4, O8).

use headcount_contract::{SnapshotReason, SourceId, Timestamp};
use headcount_projector::{AttemptFailure, Effect, Intent, SnapshotNeed};

use super::round::Round;
use super::{Engine, Key};
use crate::Change;
use crate::session::Request;

impl Engine {
    pub(super) fn intend(
        &mut self,
        intent: Intent,
        effects: &mut Vec<Effect>,
        now: Timestamp,
        round: &mut Round,
    ) {
        match intent {
            // Each session takes its own snapshots after a discontinuity.
            Intent::Snapshot {
                why: SnapshotNeed::Discontinuity,
                ..
            } => (),
            Intent::Snapshot { source, .. } => {
                self.ask(&source, Request::Snapshot(SnapshotReason::Reconnect));
            }
            Intent::Reconcile { source, child, .. } => {
                let key = (source.clone(), child.clone());
                let request = Request::Find(source.clone(), child.clone());
                let asked = match self.readopted.get(&key) {
                    Some(adapter) => self.entries[*adapter].requests.send(request).is_ok(),
                    None => self.ask(&source, request),
                };
                if !asked {
                    // Nobody is left who could look for it.
                    let why = AttemptFailure::Inconclusive;
                    self.projector
                        .reconcile_failed(&source, &child, why, now, effects);
                }
            }
            Intent::StaleUnknown { source, child } => {
                let key = (source, child);
                // The source's own adapter cannot know what an earlier life of the host started.
                if !self.readopted.contains_key(&key)
                    && let Some(beside) = self.beside_of(&key)
                {
                    beside.stale_unknown = true;
                    round.touched.insert(key);
                }
            }
            _ => (),
        }
    }

    /// Asks the adapter that speaks of a source; whether there is one that listens.
    fn ask(&self, source: &SourceId, request: Request) -> bool {
        let adapter = self
            .owners
            .get(source)
            .or_else(|| self.carriers.get(source));
        adapter.is_some_and(|adapter| self.entries[*adapter].requests.send(request).is_ok())
    }

    /// The attempts to find these children are over; whoever was found is no longer looked for.
    pub(super) fn searched(
        &mut self,
        children: &[Key],
        answered: bool,
        now: Timestamp,
        round: &mut Round,
    ) {
        let why = if answered {
            AttemptFailure::Inconclusive
        } else {
            AttemptFailure::Errored
        };
        let mut effects = Vec::new();
        for (source, child) in children {
            self.projector
                .reconcile_failed(source, child, why, now, &mut effects);
        }
        self.act(&mut effects, now, round);
    }

    /// Nothing that was known of an adapter's live children is proven any more (rule N8).
    pub(super) fn unproven(&mut self, adapter: usize, now: Timestamp, round: &mut Round) {
        let own = self.entries[adapter].source.clone();
        let carried = self
            .carriers
            .iter()
            .filter(|(_, by)| **by == adapter)
            .map(|(source, _)| source.clone());
        let sources: Vec<_> = carried.chain([own]).collect();
        let mut effects = Vec::new();
        for source in sources {
            self.projector.source_unproven(&source, now, &mut effects);
        }
        self.act(&mut effects, now, round);
    }

    /// Nothing more comes from an adapter: who still lived then is unproven, not ended.
    pub(super) fn finished(&mut self, adapter: usize, now: Timestamp, round: &mut Round) {
        let entry = &mut self.entries[adapter];
        if std::mem::replace(&mut entry.finished, true) {
            return;
        }
        entry.snapshot_failure = None;
        let source = entry.source.clone();
        round.adapters.insert(adapter);
        self.unproven(adapter, now, round);
        round.changes.push(Change::Finished { source });
    }
}
