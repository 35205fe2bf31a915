//! Applying one snapshot (N).

use headcount_contract::{
    AuthoritativeSnapshot, Coverage, EventId, SequenceScope, Snapshot, SnapshotChild,
};

use crate::audit::{AuditKind, Cause};
use crate::child::{Child, Mark};
use crate::derived::Corrections;
use crate::effect::{Changes, Effect, Intent, SnapshotNeed, SourceChange};
use crate::fact::{Facts, Name, Seen, Stamp, nanos};
use crate::fold::Fold;
use crate::sequence::Place;
use crate::source::{Taken, hash_of};
use crate::verdict::SnapshotVerdict;

/// One snapshot while it is applied.
struct Look<'a> {
    snapshot: &'a Snapshot,
    complete: bool,
    /// Its id in the form in which a fact keeps who set it.
    name: EventId,
    seen: Seen,
    corrections: Corrections,
}

impl Look<'_> {
    fn cause(&self) -> Cause {
        Cause::Snapshot(self.snapshot.id().clone())
    }

    fn stamp(&self) -> Stamp {
        Stamp {
            name: Name::Id(self.name.clone()),
            seen: self.seen,
        }
    }
}

impl Fold<'_> {
    /// Applies one snapshot.
    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) -> SnapshotVerdict {
        let epoch = &snapshot.source().epoch;
        let cause = || Cause::Snapshot(snapshot.id().clone());
        let complete = matches!(snapshot, Snapshot::Complete(_));
        self.check_clock(snapshot.observed_at(), epoch, None, cause);
        match self.source.epoch_number(epoch) {
            Some(number) if number != self.source.epoch => {
                self.report
                    .audit(Some(epoch), None, Some(cause()), AuditKind::SupersededEpoch);
                return SnapshotVerdict::SupersededEpoch;
            }
            Some(number) if self.source.has_taken(snapshot.id(), number) => {
                self.report
                    .audit(Some(epoch), None, Some(cause()), AuditKind::Duplicate);
                return SnapshotVerdict::Duplicate;
            }
            Some(_) => (),
            None => {
                let restarted = self.source.current_epoch().is_some();
                self.begin_epoch(epoch, cause());
                // A complete one is what would be asked for.
                if restarted && !complete {
                    self.report.need_snapshot(SnapshotNeed::NewEpoch);
                }
            }
        }
        let mut look = Look {
            snapshot,
            complete,
            name: in_event_form(snapshot),
            seen: Seen::snapshot(snapshot.observed_at(), self.report.at, self.source.epoch),
            corrections: Corrections::of(snapshot),
        };
        self.remember(&look);
        let mut shown = Slots::default();
        for child in snapshot.children() {
            let hash = hash_of(self.hasher, child.id());
            match self.source.find(hash, child.id()) {
                Some(slot) => {
                    shown.insert(slot);
                    self.shown(slot, child, &mut look);
                }
                None => self
                    .found_in(hash, child, &mut look)
                    .into_iter()
                    .for_each(|s| shown.insert(s)),
            }
        }
        if let Snapshot::Complete(complete) = snapshot {
            self.cover_numbers(complete);
            self.count_omissions(complete, &shown, &look);
        }
        self.evict();
        SnapshotVerdict::Applied
    }

    fn remember(&mut self, look: &Look<'_>) {
        self.source.snapshots.push_back(Taken {
            id: look.snapshot.id().clone(),
            seen: look.seen,
        });
        while self.source.snapshots.len() > self.settings.snapshot_window.max(1) {
            self.source.snapshots.pop_front();
        }
    }

    /// A child in the snapshot that is not known (rule N3).
    fn found_in(&mut self, hash: u64, told: &SnapshotChild, look: &mut Look<'_>) -> Option<u32> {
        if let Some(ended) = self.source.tombstones.get(told.id()) {
            self.contradicts_end(ended, told, look);
            return None;
        }
        let stamp = look.stamp();
        let mut child = Child::new(told.identity(), &stamp, told.state());
        child.set(Mark::HistoryUnknown);
        child.set(Mark::SecondHand);
        if told.lineage().is_none() {
            child.set(Mark::LineageAssumed);
        }
        if !told.details().is_empty() {
            child.extra_mut().first_details = told.details().clone();
        }
        let event = look
            .corrections
            .event(&child, None, told.state(), told.details());
        if !child.is_live() {
            child.keep_terminal_details(event.details());
        }
        let slot = self.add(hash, child, Facts::new(&stamp), look.cause())?;
        self.source
            .unsequenced
            .meet(&event, self.settings.unsequenced_window);
        if look.complete {
            self.take_place(slot, told);
        }
        self.report.push(Effect::Derived(Box::new(event)));
        self.report.changed(slot, Changes::FIRST_SEEN);
        Some(slot)
    }

    /// A child on record that the snapshot shows (rules N1, N2, N4, N6).
    fn shown(&mut self, slot: u32, told: &SnapshotChild, look: &mut Look<'_>) {
        let Some(child) = self.source.children.get_mut(slot) else {
            return;
        };
        if let Some(lineage) = told.lineage()
            && let Some(field) = child.lineage_conflict(lineage)
        {
            let epoch = Some(&look.snapshot.source().epoch);
            let kind = AuditKind::LineageConflict { field };
            self.report
                .audit(epoch, Some(told.id()), Some(look.cause()), kind);
            return;
        }
        if !child.is_live() {
            let ended = child.state();
            self.contradicts_end(ended, told, look);
            return;
        }
        let mut what = Changes::NONE;
        if let Some(lineage) = told.lineage() {
            what |= child.take_lineage(lineage, &|| look.stamp());
        }
        if child.extra().is_some_and(|extra| extra.misses > 0) {
            child.extra_mut().misses = 0;
        }
        what |= self.prove(slot, nanos(look.snapshot.observed_at()));
        what |= self.found(slot);
        what |= self.settle(slot, told, look);
        self.report.changed(slot, what);
    }

    /// Takes the state that the snapshot tells, as far as it may.
    fn settle(&mut self, slot: u32, told: &SnapshotChild, look: &mut Look<'_>) -> Changes {
        let generation = self.source.generation;
        let children = &self.source.children;
        let (Some(child), Some(facts)) = (children.get(slot), children.facts(slot)) else {
            return Changes::NONE;
        };
        let known = child.state();
        let claimed = told.state();
        if is_behind(child, facts, told, look.seen) {
            if look.complete && known != claimed {
                let epoch = Some(&look.snapshot.source().epoch);
                let kind = AuditKind::SnapshotBehind { known, claimed };
                self.report
                    .audit(epoch, Some(told.id()), Some(look.cause()), kind);
            }
            return Changes::NONE;
        }
        let mut what = Changes::NONE;
        if look.complete && known != claimed {
            what |= self.correct(slot, told, look);
        } else if known != claimed {
            return what; // A partial one never corrects, and proves no other state either.
        } else if look.complete && facts.state().epoch() != look.seen.epoch() {
            // The same state again, for the first time in this life of the source.
            self.tell_state(slot, look.stamp());
        }
        if let Some(child) = self.child(slot)
            && child.is_live()
            && child.generation != generation
        {
            child.generation = generation;
            what |= Changes::UNPROVEN;
        }
        if look.complete && self.take_place(slot, told) {
            let epoch = Some(&look.snapshot.source().epoch);
            self.report.audit(
                epoch,
                Some(told.id()),
                Some(look.cause()),
                AuditKind::GapClosed,
            );
            what |= Changes::GAP;
        }
        what
    }

    /// Corrects the state, on the record (rule N1).
    fn correct(&mut self, slot: u32, told: &SnapshotChild, look: &mut Look<'_>) -> Changes {
        let Some(child) = self.source.children.get(slot) else {
            return Changes::NONE;
        };
        let (from, to) = (child.state(), told.state());
        let event = look
            .corrections
            .event(child, Some(from), to, told.details());
        self.source
            .unsequenced
            .meet(&event, self.settings.unsequenced_window);
        let snapshot = look.snapshot.id().clone();
        let kind = AuditKind::Correction { from, to, snapshot };
        let source = &look.snapshot.source().epoch;
        self.report
            .audit(Some(source), Some(told.id()), Some(look.cause()), kind);
        let what = self.set_state(slot, to, look.stamp());
        if to.is_terminal()
            && let Some(child) = self.child(slot)
        {
            child.keep_terminal_details(event.details());
        }
        self.report.push(Effect::Derived(Box::new(event)));
        what
    }

    /// Takes the place in the order up to which a complete snapshot tells of the child. Whether that
    /// closed its gap (rule O8).
    fn take_place(&mut self, slot: u32, told: &SnapshotChild) -> bool {
        let (scope, epoch) = (self.source.scope, self.source.epoch);
        let Some(number) = told.sequence().map(headcount_contract::Sequence::get) else {
            return false;
        };
        let mut closed = false;
        if self.child(slot).is_some_and(|child| child.epoch != epoch) {
            closed = !self.begin_counter(slot).is_empty();
        }
        let Some(child) = self.child(slot) else {
            return closed;
        };
        if child
            .state_sequence
            .get()
            .is_none_or(|place| place < number)
        {
            child.state_sequence = Place::new(number);
            child.set(Mark::PlaceFromSnapshot);
        }
        match scope {
            SequenceScope::Child => child.counter.cover(number) || closed,
            SequenceScope::Epoch => closed,
        }
    }

    /// In scope Epoch, what a snapshot of all children tells of their one counter (rule O8).
    fn cover_numbers(&mut self, snapshot: &AuthoritativeSnapshot) {
        if self.source.scope != SequenceScope::Epoch || *snapshot.coverage() != Coverage::All {
            return;
        }
        let highest = snapshot
            .children()
            .iter()
            .filter_map(SnapshotChild::sequence)
            .max();
        if let Some(number) = highest
            && self.source.counter.cover(number.get())
        {
            let (epoch, cause) = (&snapshot.source().epoch, snapshot.id().clone());
            let cause = Some(Cause::Snapshot(cause));
            self.report
                .audit(Some(epoch), None, cause, AuditKind::GapClosed);
            self.report.source_changed(SourceChange::GapClosed);
        }
    }

    /// Counts whom a complete snapshot covers and omits (rule N5).
    fn count_omissions(
        &mut self,
        snapshot: &AuthoritativeSnapshot,
        shown: &Slots,
        look: &Look<'_>,
    ) {
        match snapshot.coverage() {
            Coverage::All => {
                for slot in 0..self.source.children.slots() {
                    if !shown.contains(slot) {
                        self.omitted(slot, look);
                    }
                }
            }
            Coverage::Children(covered) => {
                let mut looked_for = Slots::default();
                for id in covered {
                    if let Some(slot) = self.source.find(hash_of(self.hasher, id), id)
                        && !shown.contains(slot)
                        && !looked_for.contains(slot)
                    {
                        looked_for.insert(slot);
                        self.omitted(slot, look);
                    }
                }
            }
        }
    }

    /// A child that a complete snapshot covers and omits.
    fn omitted(&mut self, slot: u32, look: &Look<'_>) {
        let looked_at = nanos(look.seen.known_at());
        let Some(child) = self
            .source
            .children
            .get_mut(slot)
            .filter(|child| child.is_live())
        else {
            return;
        };
        // Shown to be alive after the look: the snapshot is older than what is known (as rule N2).
        if nanos(look.snapshot.observed_at()) < child.proven {
            return;
        }
        let extra = child.extra_mut();
        extra.misses = extra.misses.saturating_add(1);
        let misses = extra.misses;
        let searched = extra
            .reconcile
            .is_some_and(|search| search.since <= looked_at);
        let kind = AuditKind::Omission { misses };
        let epoch = Some(&look.snapshot.source().epoch);
        self.report
            .audit(epoch, Some(&child.id), Some(look.cause()), kind);
        if misses == self.settings.miss_grace.max(1) {
            self.report.push(Effect::Intent(Intent::StaleUnknown {
                source: self.report.source.clone(),
                child: child.id.clone(),
            }));
        }
        if searched {
            self.omitted_while_stale(slot, look.cause());
        }
    }

    fn contradicts_end(
        &mut self,
        ended: headcount_contract::ChildState,
        told: &SnapshotChild,
        look: &Look<'_>,
    ) {
        let claimed = told.state();
        if claimed != ended {
            let epoch = Some(&look.snapshot.source().epoch);
            let claimed = Some(claimed);
            let kind = AuditKind::TerminalImmutable { ended, claimed };
            self.report
                .audit(epoch, Some(told.id()), Some(look.cause()), kind);
        }
    }
}

/// Whether what is known of the child's state is newer than the snapshot (rule N2).
///
/// Without a sequence in the snapshot, the times tell: by the source's clock, but never beyond the
/// moment of receipt, so that a clock that once ran ahead does not shut out corrections.
fn is_behind(child: &Child, facts: &Facts, told: &SnapshotChild, look: Seen) -> bool {
    let same_epoch = facts.state().epoch() == look.epoch();
    match (told.sequence(), child.state_sequence.get()) {
        _ if !same_epoch || child.has(Mark::StateAssumed) => false,
        (Some(told), Some(known)) => told.get() < known,
        _ => look.observed_at() < facts.state().known_at(),
    }
}

/// The snapshot's id in the form in which facts keep their names: both kinds of id obey one rule.
fn in_event_form(snapshot: &Snapshot) -> EventId {
    EventId::new(snapshot.id().as_str())
        .unwrap_or_else(|error| unreachable!("ids of both kinds obey rule I4: {error}"))
}

/// A set of slots.
#[derive(Debug, Default)]
struct Slots(Vec<u64>);

impl Slots {
    fn insert(&mut self, slot: u32) {
        let (word, bit) = (slot as usize / 64, slot % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    fn contains(&self, slot: u32) -> bool {
        let word = self.0.get(slot as usize / 64);
        word.is_some_and(|word| word & (1 << (slot % 64)) != 0)
    }
}
