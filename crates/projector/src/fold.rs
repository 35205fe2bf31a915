//! What the rules work on while one input is applied.

use foldhash::quality::RandomState;
use headcount_contract::{
    ChildId, ChildState, LifecycleEvent, Outcome, SourceEpoch, SourceId, Timestamp,
};

use crate::Settings;
use crate::audit::{AuditEntry, AuditKind, Cause};
use crate::child::{Child, Mark};
use crate::effect::{Change, Changes, ChildKey, Effect, Intent, SnapshotNeed, SourceChange};
use crate::fact::{Fact, Facts, Stamp, length, nanos};
use crate::sequence::{Place, sequence};
use crate::source::Source;
use crate::timers::{Entry, Timers};
use crate::window::PlaceWindow;

/// One source, all that the rules need beside it, and where their effects go.
///
/// The rules lie in the modules `event` (I, O, S), `snapshot` (N) and `liveness` (L).
pub(crate) struct Fold<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) hasher: &'a RandomState,
    pub(crate) timers: &'a mut Timers,
    pub(crate) places: &'a mut PlaceWindow,
    /// Live children of all sources.
    pub(crate) live: &'a mut usize,
    pub(crate) source: &'a mut Source,
    pub(crate) report: Report<'a>,
}

/// Where effects go, and when.
pub(crate) struct Report<'a> {
    pub(crate) source: &'a SourceId,
    /// The source's number.
    pub(crate) number: u32,
    pub(crate) at: Timestamp,
    /// The same in nanoseconds.
    pub(crate) now: i64,
    effects: &'a mut Vec<Effect>,
}

impl Fold<'_> {
    /// The child of a slot that `find` or `add` gave.
    pub(crate) fn child(&mut self, slot: u32) -> Option<&mut Child> {
        self.source.children.get_mut(slot)
    }

    /// Takes up a source's new life (rule O7).
    pub(crate) fn begin_epoch(&mut self, epoch: &SourceEpoch, cause: Cause) {
        if let Some(superseded) = self.source.current_epoch().cloned() {
            let kind = AuditKind::NewEpoch { superseded };
            self.report.audit(Some(epoch), None, Some(cause), kind);
            if let Some(range) = self.source.counter.reset() {
                self.report.audit(Some(epoch), None, None, abandoned(range));
                self.report.source_changed(SourceChange::GapClosed);
            }
            self.unproven();
        }
        self.source
            .push_epoch(epoch.clone(), self.settings.epoch_window);
    }

    /// Makes all live children of the source unproven, in one step however many they are.
    pub(crate) fn unproven(&mut self) {
        self.source.generation = self.source.generation.wrapping_add(1);
        self.report.source_changed(SourceChange::Unproven);
    }

    /// Begins the child's counter anew, in the current epoch.
    pub(crate) fn begin_counter(&mut self, slot: u32) -> Changes {
        let Some(child) = self.source.children.get_mut(slot) else {
            return Changes::NONE;
        };
        child.epoch = self.source.epoch;
        match child.counter.reset() {
            Some(range) => {
                self.audit_child(slot, None, abandoned(range));
                Changes::GAP
            }
            None => Changes::NONE,
        }
    }

    /// Sets the state, and who says so; ends the child if that is an end.
    pub(crate) fn set_state(&mut self, slot: u32, to: ChildState, stamp: Stamp) -> Changes {
        let Some(child) = self.source.children.get_mut(slot) else {
            return Changes::NONE;
        };
        child.set_state(to);
        child.clear(Mark::StateAssumed);
        let mut what = Changes::STATE;
        if to.is_terminal() {
            if child.has(Mark::Stale) {
                child.clear(Mark::Stale);
                what |= Changes::STALE;
            }
            child.stop_looking();
            self.source.live -= 1;
            *self.live -= 1;
            self.source.ended.push_back(slot);
        }
        self.tell_state(slot, stamp);
        what
    }

    /// Sets who told the state. A place in the order of another epoch says nothing any more.
    pub(crate) fn tell_state(&mut self, slot: u32, by: Stamp) {
        let Some(facts) = self.source.children.facts_mut(slot) else {
            return;
        };
        let another_epoch = facts.state().epoch() != by.seen.epoch();
        facts.set(Fact::State, by);
        if another_epoch && let Some(child) = self.child(slot) {
            child.state_sequence = Place::NONE;
            child.clear(Mark::PlaceFromSnapshot);
        }
    }

    /// Gives up the oldest records of ended children beyond the limit.
    #[inline]
    pub(crate) fn evict(&mut self) {
        if self.source.ended.len() > self.settings.ended_children {
            self.evict_some();
        }
    }

    fn evict_some(&mut self) {
        while self.source.ended.len() > self.settings.ended_children {
            let Some(child) = self
                .source
                .ended
                .pop_front()
                .and_then(|slot| self.source.remove(slot, self.hasher))
            else {
                return;
            };
            self.source
                .tombstones
                .bury(&child, self.settings.tombstones);
            self.report.push(Effect::Forgotten {
                source: self.report.source.clone(),
                child: child.id,
            });
        }
    }

    /// Adds a child that is not known; none if there are too many.
    pub(crate) fn add(
        &mut self,
        hash: u64,
        mut child: Child,
        facts: Facts,
        cause: Cause,
    ) -> Option<u32> {
        if child.is_live() {
            if self.source.live >= self.settings.live_children {
                if !std::mem::replace(&mut self.source.refusing, true) {
                    self.report
                        .audit(None, Some(&child.id), Some(cause), AuditKind::LimitReached);
                }
                return None;
            }
            self.source.refusing = false;
            *self.live += 1;
        }
        child.generation = self.source.generation;
        let due = child.due(self.settings);
        let slot = self.source.add(hash, child, facts, self.hasher);
        if let Some(at) = due {
            self.timer(slot, at);
        }
        Some(slot)
    }

    /// What happened to a child, in the epoch that it counts in.
    pub(crate) fn audit_child(&mut self, slot: u32, cause: Option<Cause>, kind: AuditKind) {
        if let Some(child) = self.source.children.get(slot) {
            let epoch = self.source.epoch_name(child.epoch);
            self.report.audit(epoch, Some(&child.id), cause, kind);
        }
    }

    /// Looks at a child, or the source itself, again at that moment.
    pub(crate) fn timer(&mut self, slot: u32, at: i64) {
        self.timers.push(Entry {
            at,
            source: self.report.number,
            slot,
        });
    }

    /// Reports a source's clock that is ahead, once until it is not (rule L2).
    pub(crate) fn check_clock(
        &mut self,
        observed_at: Timestamp,
        epoch: &SourceEpoch,
        child: Option<&ChildId>,
        cause: impl FnOnce() -> Cause,
    ) {
        let limit = self
            .report
            .now
            .saturating_add(length(self.settings.clock_skew));
        let ahead = nanos(observed_at) > limit;
        if std::mem::replace(&mut self.source.clock_ahead, ahead) != ahead && ahead {
            let kind = AuditKind::ClockSkew { observed_at };
            self.report.audit(Some(epoch), child, Some(cause()), kind);
        }
    }
}

impl<'a> Report<'a> {
    pub(crate) fn new(
        number: u32,
        source: &'a SourceId,
        at: Timestamp,
        effects: &'a mut Vec<Effect>,
    ) -> Self {
        Self {
            number,
            source,
            at,
            now: nanos(at),
            effects,
        }
    }

    pub(crate) fn push(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    pub(crate) fn changed(&mut self, slot: u32, what: Changes) {
        if !what.is_empty() {
            let child = ChildKey {
                source: self.number,
                slot,
            };
            self.effects.push(Effect::Changed(Change { child, what }));
        }
    }

    pub(crate) fn source_changed(&mut self, change: SourceChange) {
        let source = self.source.clone();
        self.effects.push(Effect::SourceChanged { source, change });
    }

    pub(crate) fn need_snapshot(&mut self, why: SnapshotNeed) {
        let source = self.source.clone();
        self.effects
            .push(Effect::Intent(Intent::Snapshot { source, why }));
    }

    /// What an event of a child brought about.
    pub(crate) fn audit_event(&mut self, event: &LifecycleEvent, kind: AuditKind) {
        let cause = Cause::Event(event.event_id().clone());
        self.audit(
            Some(event.source_epoch()),
            Some(event.child_id()),
            Some(cause),
            kind,
        );
    }

    pub(crate) fn audit(
        &mut self,
        epoch: Option<&SourceEpoch>,
        child: Option<&ChildId>,
        cause: Option<Cause>,
        kind: AuditKind,
    ) {
        self.effects.push(Effect::Audit(Box::new(AuditEntry {
            at: self.at,
            source: self.source.clone(),
            epoch: epoch.cloned(),
            child: child.cloned(),
            cause,
            kind,
        })));
    }
}

/// That a counter no longer waits for what is missing.
fn abandoned((from, to): (u64, u64)) -> AuditKind {
    AuditKind::GapAbandoned {
        from: sequence(from),
        to: sequence(to),
    }
}

/// Whether the usual order of states has that step: created, starting, running, and to and fro
/// between running and waiting; a good end from the latter two, any other end from anywhere (S1).
pub(crate) fn is_usual(from: ChildState, to: ChildState) -> bool {
    match (from, to) {
        (ChildState::RUNNING | ChildState::WAITING, ChildState::Terminal(Outcome::Completed)) => {
            true
        }
        (_, ChildState::Terminal(Outcome::Completed)) => false,
        (ChildState::Live(_), ChildState::Terminal(_)) => true,
        (from, to) => matches!(
            (from, to),
            (ChildState::CREATED, ChildState::STARTING)
                | (
                    ChildState::STARTING | ChildState::WAITING,
                    ChildState::RUNNING
                )
                | (ChildState::RUNNING, ChildState::WAITING)
        ),
    }
}
