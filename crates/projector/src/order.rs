//! Placing one event in the order of what was seen (O1, O2, O4, O6).

use headcount_contract::{LifecycleEvent, Sequence, SequenceScope};

use crate::audit::AuditKind;
use crate::effect::{Changes, SourceChange};
use crate::fact::length;
use crate::fold::Fold;
use crate::sequence::{Step, sequence};
use crate::timers::SOURCE_ITSELF;
use crate::verdict::Verdict;
use crate::window::{Memory, place_of};

/// Where an event stands in the order.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) verdict: Verdict,
    /// A higher number of the same child was seen before.
    pub(crate) late: bool,
    pub(crate) changes: Changes,
}

impl Order {
    fn new(verdict: Verdict) -> Self {
        Self {
            verdict,
            late: false,
            changes: Changes::NONE,
        }
    }
}

impl Fold<'_> {
    /// Places an event of the current epoch in the order, and takes note of its number.
    pub(crate) fn order(&mut self, slot: u32, event: &LifecycleEvent) -> Order {
        match event.sequence().map(Sequence::get) {
            Some(number) => self.order_by_number(slot, event, number),
            None => self.order_by_name(event),
        }
    }

    /// Without a number an event is in order, unless it was seen byte for byte (rule O2).
    fn order_by_name(&mut self, event: &LifecycleEvent) -> Order {
        let window = self.settings.unsequenced_window;
        match self.source.unsequenced.meet(event, window) {
            Memory::None => Order::new(Verdict::Accepted),
            Memory::Same => {
                self.report.audit_event(event, AuditKind::Duplicate);
                Order::new(Verdict::Duplicate)
            }
            Memory::Other => {
                self.report.audit_event(event, AuditKind::Conflict);
                Order::new(Verdict::Accepted)
            }
        }
    }

    fn order_by_number(&mut self, slot: u32, event: &LifecycleEvent, number: u64) -> Order {
        let shared = self.source.scope == SequenceScope::Epoch;
        let Some(child) = self.source.children.get_mut(slot) else {
            return Order::new(Verdict::Accepted);
        };
        let own_high = child.counter.high();
        let ranges = self.settings.gap_ranges;
        let (step, given_up) = if shared {
            self.source.counter.step(number, ranges)
        } else {
            child.counter.step(number, ranges)
        };
        let place = place_of(self.report.number, self.source.epoch, event, number);
        let verdict = match step {
            Step::First | Step::Next => Verdict::Accepted,
            Step::Jump { .. } => Verdict::AcceptedAfterGap,
            Step::Filled { .. } => Verdict::OutOfOrder,
            // The key holds the child: where all count together, another one may have the number.
            Step::Seen if shared && own_high.is_none_or(|high| high < number) => {
                Verdict::OutOfOrder
            }
            Step::Untold if self.places.recall(place, event) == Memory::None => Verdict::OutOfOrder,
            Step::Seen | Step::Untold => self.repeated(place, event),
        };
        if matches!(verdict, Verdict::Duplicate | Verdict::Conflict) {
            return Order::new(verdict);
        }
        self.places.remember(place, event);
        if shared && let Some(child) = self.child(slot) {
            child.counter.raise(number);
        }
        if verdict == Verdict::OutOfOrder {
            let sequence = sequence(number);
            self.report
                .audit_event(event, AuditKind::OutOfOrder { sequence });
        }
        if let Some((from, to)) = given_up {
            let (from, to) = (sequence(from), sequence(to));
            self.report
                .audit_event(event, AuditKind::GapAbandoned { from, to });
        }
        let late = own_high.is_some_and(|high| number < high);
        let rises = if late {
            Changes::NONE
        } else {
            Changes::SEQUENCE
        };
        Order {
            verdict,
            late,
            changes: rises | self.note_gap(slot, event, step, shared),
        }
    }

    /// An event whose place is taken: by itself, or by another one (rule O1).
    fn repeated(&mut self, place: u64, event: &LifecycleEvent) -> Verdict {
        let (verdict, kind) = match self.places.recall(place, event) {
            Memory::Other => (Verdict::Conflict, AuditKind::Conflict),
            Memory::Same => (Verdict::Duplicate, AuditKind::Duplicate),
            // Too long ago to compare the contents; from now on this is what it is compared with.
            Memory::None => {
                self.places.remember(place, event);
                (Verdict::Duplicate, AuditKind::Duplicate)
            }
        };
        self.report.audit_event(event, kind);
        verdict
    }

    /// Reports a gap that opened or closed, and sees to it that an open one is looked at (O8).
    fn note_gap(&mut self, slot: u32, event: &LifecycleEvent, step: Step, shared: bool) -> Changes {
        let change = match step {
            Step::Jump { from, to, opened } => {
                let (from, to) = (sequence(from), sequence(to));
                self.report
                    .audit_event(event, AuditKind::GapOpened { from, to });
                self.await_gap(slot, opened, shared);
                opened.then_some(SourceChange::GapOpened)
            }
            Step::Filled { closed: true } => {
                self.report.audit_event(event, AuditKind::GapClosed);
                Some(SourceChange::GapClosed)
            }
            _ => None,
        };
        match change {
            None => Changes::NONE,
            Some(_) if !shared => Changes::GAP,
            Some(change) => {
                self.report.source_changed(change);
                Changes::NONE
            }
        }
    }

    /// Looks at the gap again after its grace, unless an earlier hole is still waited for.
    fn await_gap(&mut self, slot: u32, opened: bool, shared: bool) {
        let due = self
            .report
            .now
            .saturating_add(length(self.settings.gap_grace));
        let counter = if shared {
            &mut self.source.counter
        } else {
            match self.source.children.get_mut(slot) {
                Some(child) => &mut child.counter,
                None => return,
            }
        };
        if opened || counter.gap_due().is_none() {
            counter.set_gap_due(due);
            self.timer(if shared { SOURCE_ITSELF } else { slot }, due);
        }
    }
}
