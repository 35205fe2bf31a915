//! One round: a few batches applied, then journaled, then shown.

use std::collections::HashSet;
use std::sync::Arc;

use headcount_contract::{Discontinuity, LifecycleEvent, Observation, Signal, Snapshot, Timestamp};
use headcount_projector::{AuditEntry, AuditKind, Effect, NoEffect, SnapshotVerdict, Verdict};
use tokio::time::Instant;

use super::contain::{FOREIGN, WRONG_SNAPSHOTS, of_readopted};
use super::{Engine, Key};
use crate::session::{Batch, Item};
use crate::{Change, Journaling};

/// What a round has brought so far.
#[derive(Debug, Default)]
pub(crate) struct Round {
    /// What goes to the journal: accepted and derived events, in order.
    pub(super) events: Vec<Arc<LifecycleEvent>>,
    /// What subscribers are told, in order.
    pub(super) changes: Vec<Change>,
    /// Children whose records, or what is shown beside them, changed.
    pub(super) touched: HashSet<Key>,
    pub(super) forgotten: Vec<Key>,
    /// Adapters of which something changed that is shown.
    pub(super) adapters: HashSet<usize>,
    /// When each batch reached the host, and how many events it held.
    since: Vec<(Instant, u64)>,
    effects: Vec<Effect>,
}

impl Engine {
    /// Applies one batch.
    pub(super) fn take(&mut self, batch: Batch, round: &mut Round) {
        let events = batch
            .items
            .iter()
            .filter(|item| matches!(item, Item::Signal(Signal::Event(_))));
        round.since.push((batch.since, events.count() as u64));
        let now = self.now();
        for item in batch.items {
            self.take_item(batch.adapter, item, now, round);
        }
    }

    fn take_item(&mut self, adapter: usize, item: Item, now: Timestamp, round: &mut Round) {
        match item {
            Item::Signal(signal) => self.take_signal(adapter, signal, now, round),
            Item::Snapshot(snapshot) => {
                if self.entries[adapter].snapshot_failure.take().is_some() {
                    round.adapters.insert(adapter);
                }
                self.take_snapshot(adapter, &snapshot, now, round);
            }
            Item::SnapshotFailed { why } => {
                self.stats.snapshots_failed += 1;
                let entry = &mut self.entries[adapter];
                if !entry.finished && entry.snapshot_failure.as_ref() != Some(&why) {
                    tracing::warn!(source = %entry.source, "no snapshot can be had: {why}");
                    entry.snapshot_failure = Some(why);
                    round.adapters.insert(adapter);
                }
            }
            Item::Searched { children, answered } => self.searched(&children, answered, now, round),
            Item::Holding(holding) => {
                self.entries[adapter].holding = holding;
                round.adapters.insert(adapter);
            }
            Item::GaveUp => self.unproven(adapter, now, round),
            Item::Health(health) => self.take_health(adapter, health, round),
            Item::Finished => self.finished(adapter, now, round),
            Item::Failed { why } => {
                let entry = &mut self.entries[adapter];
                tracing::error!(source = %entry.source, "the adapter failed: {why}");
                entry.failure = Some(why);
                round.adapters.insert(adapter);
                self.unproven(adapter, now, round);
            }
        }
    }

    fn take_signal(&mut self, adapter: usize, signal: Signal, now: Timestamp, round: &mut Round) {
        match signal {
            Signal::Event(event) => self.take_event(adapter, event, now, round),
            Signal::Snapshot(snapshot) => self.take_snapshot(adapter, &snapshot, now, round),
            Signal::Discontinuity(Discontinuity { cause, gap }) => {
                self.stats.discontinuities += 1;
                tracing::info!(source = %self.entries[adapter].source, ?cause, ?gap, "discontinuity");
            }
            Signal::Health(health) => self.take_health(adapter, health, round),
            Signal::Observation(child, observation) => {
                let source = self.entries[adapter].source.clone();
                match &observation {
                    Observation::Output(lines) => self.stats.output_lines += lines.len() as u64,
                    Observation::OutputMissed(lines) => self.stats.output_lines_missed += lines,
                    _ => (),
                }
                let key = (source, child);
                if self.set_beside(&key, &observation) {
                    round.touched.insert(key.clone());
                }
                let (source, child) = key;
                round.changes.push(Change::Observation {
                    source,
                    child,
                    observation,
                });
            }
            // A contract newer than this host has more to say than is understood here.
            _ => (),
        }
    }

    fn take_event(
        &mut self,
        adapter: usize,
        event: LifecycleEvent,
        now: Timestamp,
        round: &mut Round,
    ) {
        self.stats.events_in += 1;
        self.stats
            .lag
            .record(now.saturating_since(event.observed_at()), 1);
        if !self.may_speak_of(adapter, event.source()) {
            return self.refuse(adapter, FOREIGN, round);
        }
        let event = match self.entries[adapter].readopts {
            Some(_) => of_readopted(&event),
            None => event,
        };
        let (event, overclaimed) = self.without_overclaims(adapter, event);
        if overclaimed {
            round.adapters.insert(adapter);
        }
        let entry = &mut self.entries[adapter];
        if entry.source == *event.source() && entry.epoch != *event.source_epoch() {
            entry.epoch = event.source_epoch().clone();
            round.adapters.insert(adapter);
        }
        if entry.failure.take().is_some() {
            round.adapters.insert(adapter);
        }
        self.apply(Arc::new(event), now, round);
    }

    /// Applies one event that may be applied.
    pub(super) fn apply(&mut self, event: Arc<LifecycleEvent>, now: Timestamp, round: &mut Round) {
        let mut effects = std::mem::take(&mut round.effects);
        let verdict = self.projector.apply(&event, now, &mut effects);
        match verdict {
            Verdict::Duplicate => self.stats.duplicates += 1,
            Verdict::Conflict => self.stats.conflicts += 1,
            Verdict::OutOfOrder => self.stats.out_of_order += 1,
            Verdict::LineageConflict | Verdict::NoEffect(_) => self.stats.refused += 1,
            _ => (),
        }
        let counts = matches!(
            verdict,
            Verdict::Accepted
                | Verdict::AcceptedAfterGap
                | Verdict::OutOfOrder
                // Its number was taken note of: without it a replay would see a gap.
                | Verdict::NoEffect(NoEffect::CreatedAgain)
        );
        if counts {
            self.stats.events_accepted += 1;
            round.events.push(event.clone());
            round.changes.push(Change::Event(event));
        }
        self.act(&mut effects, now, round);
        round.effects = effects;
    }

    fn take_snapshot(
        &mut self,
        adapter: usize,
        snapshot: &Snapshot,
        now: Timestamp,
        round: &mut Round,
    ) {
        if !self.may_speak_of(adapter, &snapshot.source().source) {
            return self.refuse(adapter, WRONG_SNAPSHOTS, round);
        }
        let mut effects = std::mem::take(&mut round.effects);
        if self.projector.apply_snapshot(snapshot, now, &mut effects) == SnapshotVerdict::Applied {
            self.stats.snapshots += 1;
        }
        self.act(&mut effects, now, round);
        round.effects = effects;
    }

    fn refuse(&mut self, adapter: usize, what: &'static str, round: &mut Round) {
        self.stats.refused += 1;
        let count = self.entries[adapter].faults.entry(what).or_default();
        *count += 1;
        if *count == 1 {
            tracing::warn!(source = %self.entries[adapter].source, "refused: {what}");
        }
        round.adapters.insert(adapter);
    }

    fn take_health(
        &mut self,
        adapter: usize,
        health: headcount_contract::Health,
        round: &mut Round,
    ) {
        if self.entries[adapter].health != health {
            self.entries[adapter].health = health;
            round.adapters.insert(adapter);
        }
    }

    /// Does what follows from the effects of one input.
    pub(super) fn act(&mut self, effects: &mut Vec<Effect>, now: Timestamp, round: &mut Round) {
        while !effects.is_empty() {
            // Acting on one may bring others: they come after all of these.
            let mut more = Vec::new();
            for effect in effects.drain(..) {
                self.act_on(effect, &mut more, now, round);
            }
            effects.append(&mut more);
        }
    }

    fn act_on(
        &mut self,
        effect: Effect,
        more: &mut Vec<Effect>,
        now: Timestamp,
        round: &mut Round,
    ) {
        match effect {
            Effect::Changed(change) => {
                if let Some((source, child)) = self.projector.name(change.child) {
                    round.touched.insert((source.clone(), child.clone()));
                }
            }
            Effect::Forgotten { source, child } => round.forgotten.push((source, child)),
            Effect::SourceChanged { source, .. } => {
                let live = self.board.live_children_of(&source);
                round
                    .touched
                    .extend(live.into_iter().map(|child| (source.clone(), child)));
            }
            Effect::Audit(entry) => {
                self.count(&entry);
                round.changes.push(Change::Audit(Arc::from(entry)));
            }
            Effect::Intent(intent) => self.intend(intent, more, now, round),
            Effect::Derived(event) => {
                self.stats.derived += 1;
                let event = Arc::from(event);
                round.events.push(Arc::clone(&event));
                round.changes.push(Change::Event(event));
            }
            // A projector newer than this host has more to say than is understood here.
            _ => (),
        }
    }

    fn count(&mut self, entry: &AuditEntry) {
        let counter = match entry.kind {
            AuditKind::GapOpened { .. } => &mut self.stats.gaps,
            AuditKind::GapClosed => &mut self.stats.gaps_closed,
            AuditKind::Correction { .. } => &mut self.stats.corrections,
            AuditKind::Stale { .. } => &mut self.stats.stale,
            AuditKind::Lost => &mut self.stats.lost,
            _ => return,
        };
        *counter += 1;
    }

    /// Lets time pass, journals what the round brought, and shows it.
    pub(super) async fn finish(&mut self, mut round: Round) {
        let now = self.now();
        let mut effects = std::mem::take(&mut round.effects);
        self.projector.advance(now, &mut effects);
        self.act(&mut effects, now, &mut round);
        if let Some(writer) = &mut self.writer
            && !round.events.is_empty()
        {
            let position = writer.push(round.events.iter().cloned());
            if self.settings.journaling == Journaling::Before {
                writer.settled(position).await;
            }
        }
        self.show(&mut round);
        let shown = Instant::now();
        for (since, events) in round.since {
            if events > 0 {
                self.stats.view_latency.record(shown - since, events);
            }
        }
    }
}
