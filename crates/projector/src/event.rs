//! Applying one event: identity (I), the order that decides about its state (O3, O5, O7), and
//! states (S).

use headcount_contract::{ChildState, EventKind, LifecycleEvent};

use crate::audit::{AuditKind, Cause};
use crate::child::{Child, Mark, tells_lineage};
use crate::effect::{Changes, SnapshotNeed};
use crate::fact::{Fact, Facts, Seen, Stamp, nanos};
use crate::fold::{Fold, is_usual};
use crate::sequence::Place;
use crate::source::hash_of;
use crate::verdict::{NoEffect, Verdict};
use crate::window::{Memory, place_of};

impl Fold<'_> {
    /// Applies one event.
    pub(crate) fn event(&mut self, event: &LifecycleEvent) -> Verdict {
        let cause = || Cause::Event(event.event_id().clone());
        let epoch = event.source_epoch();
        self.check_clock(event.observed_at(), epoch, Some(event.child_id()), cause);
        let known = self.source.epoch_number(epoch);
        if known.is_none() {
            let restarted = self.source.current_epoch().is_some();
            self.begin_epoch(epoch, cause());
            if restarted {
                self.report.need_snapshot(SnapshotNeed::NewEpoch);
            }
        }
        let number = known.unwrap_or(self.source.epoch);
        let seen = Seen::event(event, self.report.at, number);
        let hash = hash_of(self.hasher, event.child_id());
        let verdict = match self.source.find(hash, event.child_id()) {
            Some(slot) => self.event_of_known(slot, event, seen),
            None => self.event_of_unknown(hash, event, seen),
        };
        self.evict();
        verdict
    }

    /// The first event of a child (rule I5), or one of a child whose record was given up.
    fn event_of_unknown(&mut self, hash: u64, event: &LifecycleEvent, seen: Seen) -> Verdict {
        let claimed = event.state();
        if let Some(ended) = self.source.tombstones.get(event.child_id()) {
            if claimed != Some(ended) {
                self.report
                    .audit_event(event, AuditKind::TerminalImmutable { ended, claimed });
            }
            return Verdict::NoEffect(NoEffect::TerminalImmutable);
        }
        if seen.epoch() != self.source.epoch {
            self.report.audit_event(event, AuditKind::SupersededEpoch);
            if !borne_state(event).is_some_and(ChildState::is_terminal) {
                return Verdict::NoEffect(NoEffect::SupersededEpoch);
            }
        }
        let stamp = Stamp::by_id(event, seen);
        let state = borne_state(event);
        let mut child = Child::new(event.child(), &stamp, state.unwrap_or(ChildState::CREATED));
        if event.kind() != EventKind::Created {
            child.set(Mark::HistoryUnknown);
        }
        if state.is_none() {
            child.set(Mark::StateAssumed);
        }
        if seen.is_second_hand() {
            child.set(Mark::SecondHand);
        }
        if !tells_lineage(event) {
            child.set(Mark::LineageAssumed);
        }
        child.set_capabilities(event.capabilities());
        if !event.details().is_empty() {
            child.extra_mut().first_details = event.details().clone();
        }
        let cause = Cause::Event(event.event_id().clone());
        let Some(slot) = self.add(hash, child, Facts::new(&stamp), cause) else {
            return Verdict::NoEffect(NoEffect::TooManyChildren);
        };
        let mut what = Changes::FIRST_SEEN;
        let mut verdict = Verdict::OutOfOrder;
        if seen.epoch() == self.source.epoch {
            let order = self.order(slot, event);
            verdict = order.verdict;
            what |= order.changes;
        }
        if state.is_some() {
            self.note_state_place(slot, event);
        }
        if let Some(facts) = self.source.children.facts_mut(slot) {
            note_work(facts, event, seen, false);
        }
        if let Some(child) = self.child(slot)
            && !child.is_live()
        {
            child.keep_terminal_details(event.details());
        }
        self.report.changed(slot, what);
        verdict
    }

    /// An event of a child on record.
    fn event_of_known(&mut self, slot: u32, event: &LifecycleEvent, seen: Seen) -> Verdict {
        let Some(child) = self.source.children.get(slot) else {
            return Verdict::NoEffect(NoEffect::TooManyChildren);
        };
        if tells_lineage(event)
            && let Some(field) = child.lineage_conflict(event.lineage())
        {
            self.report
                .audit_event(event, AuditKind::LineageConflict { field });
            return Verdict::LineageConflict;
        }
        if seen.epoch() != self.source.epoch {
            return self.event_of_the_past(slot, event, seen);
        }
        let mut what = Changes::NONE;
        if child.epoch != self.source.epoch {
            what |= self.begin_counter(slot);
        }
        let order = self.order(slot, event);
        if matches!(order.verdict, Verdict::Duplicate | Verdict::Conflict) {
            return order.verdict;
        }
        what |= order.changes;
        let mut verdict = order.verdict;
        let Some(child) = self.source.children.get_mut(slot) else {
            return verdict;
        };
        let ended = !child.is_live();
        if ended {
            if self.refused_by_end(slot, event, order.late) && !order.late {
                verdict = Verdict::NoEffect(NoEffect::TerminalImmutable);
            }
        } else {
            if !child.is_as_told(event) {
                what |= self.take_identity(slot, event, seen, order.late);
            }
            match borne_state(event) {
                Some(ChildState::CREATED) if event.kind() == EventKind::Created => {
                    let news = self.created(slot, event);
                    verdict = match verdict {
                        Verdict::Accepted | Verdict::AcceptedAfterGap if !news => {
                            Verdict::NoEffect(NoEffect::CreatedAgain)
                        }
                        _ => verdict,
                    };
                }
                Some(state) => what |= self.move_to(slot, state, event, seen, order.late),
                None => (),
            }
            what |= self.prove_by(slot, event);
        }
        // A late event may tell of the time before the end.
        if (!ended || order.late)
            && let Some(facts) = self.source.children.facts_mut(slot)
        {
            what |= note_work(facts, event, seen, order.late);
        }
        self.report.changed(slot, what);
        verdict
    }

    /// Whether an event of a child that has ended claims what cannot be any more (rule S2), or what
    /// was told before; anything but comments does. What contradicts the end is audited.
    fn refused_by_end(&mut self, slot: u32, event: &LifecycleEvent, late: bool) -> bool {
        let Some(ended) = self.child(slot).map(|child| child.state()) else {
            return false;
        };
        if matches!(
            event.kind(),
            EventKind::Diagnostic(_) | EventKind::Reconciliation(None)
        ) {
            return false;
        }
        let claimed = event.state();
        // What comes late may tell of the time before the end; only another end contradicts it.
        let before_the_end = late && !claimed.is_some_and(ChildState::is_terminal);
        if claimed != Some(ended) && !before_the_end {
            self.report
                .audit_event(event, AuditKind::TerminalImmutable { ended, claimed });
        }
        true
    }

    /// An event of a life of the source that is over: only the end of a child counts, and only if
    /// nothing later told a state of it (rules O7, O5).
    fn event_of_the_past(&mut self, slot: u32, event: &LifecycleEvent, seen: Seen) -> Verdict {
        self.report.audit_event(event, AuditKind::SupersededEpoch);
        let superseded = Verdict::NoEffect(NoEffect::SupersededEpoch);
        if self.child(slot).is_some_and(|child| !child.is_live()) {
            self.refused_by_end(slot, event, true);
            return superseded;
        }
        let Some(state) = borne_state(event).filter(|state| state.is_terminal()) else {
            return superseded;
        };
        let children = &self.source.children;
        let (Some(child), Some(facts)) = (children.get(slot), children.facts(slot)) else {
            return superseded;
        };
        // Seen in its time, and not applied then: no more is it now.
        let seen_before = event.sequence().is_some_and(|sequence| {
            let place = place_of(self.report.number, seen.epoch(), event, sequence.get());
            self.places.recall(place, event) != Memory::None
        });
        let told = self.source.age(facts.state().epoch());
        let claimed = self.source.age(seen.epoch());
        let overtaken =
            told < claimed || told == claimed && !is_news(child, facts, event, seen, state, true);
        if seen_before || overtaken && !child.has(Mark::StateAssumed) {
            return superseded;
        }
        let mut what = self.set_state(slot, state, Stamp::by_id(event, seen));
        if let Some(child) = self.child(slot) {
            child.keep_terminal_details(event.details());
        }
        if let Some(facts) = self.source.children.facts_mut(slot) {
            what |= note_work(facts, event, seen, true);
        }
        self.report.changed(slot, what);
        Verdict::OutOfOrder
    }

    /// A creation of a child on record: news only if no event of the child itself was seen. Whether
    /// it was news.
    fn created(&mut self, slot: u32, event: &LifecycleEvent) -> bool {
        match self.source.children.get_mut(slot) {
            // `take_identity` has noted that its history is known.
            Some(child) if child.has(Mark::SecondHand) => {
                child.clear(Mark::SecondHand);
                true
            }
            _ => {
                self.report.audit_event(event, AuditKind::CreatedAgain);
                false
            }
        }
    }

    /// Moves the child's state, unless something later told it (rules O3, O5, S1).
    fn move_to(
        &mut self,
        slot: u32,
        to: ChildState,
        event: &LifecycleEvent,
        seen: Seen,
        late: bool,
    ) -> Changes {
        let children = &self.source.children;
        let (Some(child), Some(facts)) = (children.get(slot), children.facts(slot)) else {
            return Changes::NONE;
        };
        if !is_news(child, facts, event, seen, to, late) {
            return Changes::NONE;
        }
        let from = child.state();
        let told_in = facts.state().epoch();
        let assumed = child.has(Mark::StateAssumed);
        let unproven = child.generation != self.source.generation;
        let mut what = Changes::NONE;
        // The same state again keeps who first said so, except from an earlier life of the source.
        if from != to || assumed || told_in != self.source.epoch {
            if from != to && !assumed && !is_usual(from, to) {
                self.report
                    .audit_event(event, AuditKind::UnusualTransition { from, to });
            }
            // An end is told once, and what told it is what people ask for.
            let stamp = if to.is_terminal() {
                Stamp::by_id(event, seen)
            } else {
                Stamp::by_place(event, seen)
            };
            what |= self.set_state(slot, to, stamp);
        }
        self.note_state_place(slot, event);
        let generation = self.source.generation;
        if let Some(child) = self.child(slot) {
            if to.is_terminal() {
                child.keep_terminal_details(event.details());
            }
            if unproven {
                child.generation = generation;
                what |= Changes::UNPROVEN;
            }
        }
        what
    }

    /// Takes note of the place of an event that bore a state.
    fn note_state_place(&mut self, slot: u32, event: &LifecycleEvent) {
        if let Some(child) = self.child(slot)
            && let Some(sequence) = event.sequence()
        {
            child.state_sequence = Place::new(sequence.get());
            child.clear(Mark::PlaceFromSnapshot);
        }
    }

    /// Takes over what an event says of where the child comes from and what its source can do.
    fn take_identity(
        &mut self,
        slot: u32,
        event: &LifecycleEvent,
        seen: Seen,
        late: bool,
    ) -> Changes {
        let mut what = Changes::NONE;
        let Some(child) = self.source.children.get_mut(slot) else {
            return what;
        };
        if tells_lineage(event) {
            what |= child.take_lineage(event.lineage(), &|| Stamp::by_id(event, seen));
        }
        if child.has(Mark::SecondHand) && !seen.is_second_hand() {
            if child
                .extra()
                .is_none_or(|extra| extra.first_details.is_empty())
                && !event.details().is_empty()
            {
                child.extra_mut().first_details = event.details().clone();
            }
            if event.kind() == EventKind::Created {
                child.clear(Mark::HistoryUnknown);
                what |= Changes::HISTORY;
            } else {
                child.clear(Mark::SecondHand);
            }
        }
        // Events that were made here repeat what was known; the source's own say what holds.
        if !late && !seen.is_second_hand() {
            let patience = child.patience(self.settings);
            if child.set_capabilities(event.capabilities()) {
                child.extra_mut().capabilities_by = Some(Box::new(Stamp::by_id(event, seen)));
                what |= Changes::CAPABILITIES;
                if child.patience(self.settings) < patience
                    && let Some(due) = child.due(self.settings)
                {
                    self.timer(slot, due);
                }
            }
        }
        what
    }

    /// Takes an event as proof of life, if it is one (rule L1).
    fn prove_by(&mut self, slot: u32, event: &LifecycleEvent) -> Changes {
        let Some(child) = self.source.children.get(slot) else {
            return Changes::NONE;
        };
        let proves = match event.kind() {
            EventKind::Activity => !child.capabilities().heartbeat.is_known(),
            EventKind::Heartbeat => true,
            _ => borne_state(event).is_some(),
        };
        if proves {
            self.prove(slot, nanos(event.observed_at()))
        } else {
            Changes::NONE
        }
    }
}

/// The state that moves the child. A diagnostic's is a comment: it moves nothing.
fn borne_state(event: &LifecycleEvent) -> Option<ChildState> {
    match event.kind() {
        EventKind::Diagnostic(_) => None,
        kind => kind.state(),
    }
}

/// Whether nothing that counts as later has told the child's state (rules O3, O5).
///
/// The event is of the epoch in which the state was told, or of a newer one. Only numbers of one
/// epoch can be compared, and whoever has none says what holds now. A late live state also yields to a correction whose look at the source was later; an end yields to no
/// snapshot, as a snapshot can lag behind and nothing lives on after its end.
fn is_news(
    child: &Child,
    facts: &Facts,
    event: &LifecycleEvent,
    seen: Seen,
    to: ChildState,
    late: bool,
) -> bool {
    let Some(number) = event.sequence().map(headcount_contract::Sequence::get) else {
        return true;
    };
    let from_snapshot = child.has(Mark::PlaceFromSnapshot);
    let in_order = match child.state_sequence.get() {
        Some(place) if facts.state().epoch() == seen.epoch() => {
            number > place || from_snapshot && to.is_terminal()
        }
        _ => true,
    };
    let corrected_since = late
        && !to.is_terminal()
        && facts.state().is_second_hand()
        && seen.observed_at() < facts.state().known_at();
    in_order && !corrected_since
}

/// Takes note of what the child is at work on, and of its heartbeat: the newest of each (rule O5).
#[inline]
fn note_work(facts: &mut Facts, event: &LifecycleEvent, seen: Seen, late: bool) -> Changes {
    let newer = |fact: Fact, facts: &Facts| {
        !late
            || facts
                .seen(fact)
                .is_none_or(|last| last.observed_at() < seen.observed_at())
    };
    let mut what = Changes::NONE;
    let works = event.kind() == EventKind::Activity || event.activity().is_some();
    if works && newer(Fact::Activity, facts) {
        facts.activity = event.activity().cloned();
        facts.set(Fact::Activity, Stamp::by_place(event, seen));
        what |= Changes::ACTIVITY;
    }
    if event.kind() == EventKind::Heartbeat && newer(Fact::Heartbeat, facts) {
        facts.set(Fact::Heartbeat, Stamp::by_place(event, seen));
        what |= Changes::HEARTBEAT;
    }
    what
}
