//! What time brings about: stale, looked for, lost (L), and gaps that stay open (O8).

use std::fmt;

use headcount_contract::{LifecycleEvent, Outcome};

use crate::Settings;
use crate::audit::{AuditKind, Cause};
use crate::child::{Child, Mark, Reconcile};
use crate::derived;
use crate::effect::{Changes, Effect, Intent, SnapshotNeed};
use crate::fact::{Seen, Stamp, length, moment};
use crate::fold::Fold;
use crate::source::Source;
use crate::timers::{Entry, SOURCE_ITSELF};

/// Why an attempt to find a stale child failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AttemptFailure {
    /// Looking for it was not possible.
    Errored,
    /// What was found says nothing about it: it was not covered, or the snapshot was partial.
    Inconclusive,
    /// No answer came by the deadline. The projector sees that for itself.
    TimedOut,
    /// A complete snapshot that covers it omits it. The projector sees that for itself.
    Omitted,
}

impl fmt::Display for AttemptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errored => "errored",
            Self::Inconclusive => "inconclusive",
            Self::TimedOut => "timed out",
            Self::Omitted => "omitted",
        })
    }
}

impl Fold<'_> {
    /// Does what is due at a moment that has come.
    pub(crate) fn wake(&mut self, entry: Entry) {
        let due = if entry.slot == SOURCE_ITSELF {
            self.source.counter.gap_due()
        } else {
            self.source
                .children
                .get(entry.slot)
                .and_then(|child| child.due(self.settings))
        };
        let Some(due) = due else { return };
        // Looked at in the order of what is due, not of what was once expected.
        if due > entry.at {
            self.timer(entry.slot, due);
            return;
        }
        if entry.slot == SOURCE_ITSELF {
            self.source.counter.set_gap_due(i64::MAX);
            self.report.need_snapshot(SnapshotNeed::OpenGap);
            return;
        }
        self.wake_child(entry.slot);
        if let Some(due) = self
            .source
            .children
            .get(entry.slot)
            .and_then(|child| child.due(self.settings))
        {
            self.timer(entry.slot, due);
        }
    }

    fn wake_child(&mut self, slot: u32) {
        let now = self.report.now;
        let Some(child) = self.source.children.get_mut(slot) else {
            return;
        };
        if child.counter.gap_due().is_some_and(|due| due <= now) {
            child.counter.set_gap_due(i64::MAX);
            self.report.need_snapshot(SnapshotNeed::OpenGap);
        }
        match child.reconcile().copied() {
            None if child.proven.saturating_add(child.patience(self.settings)) <= now => {
                self.mark_stale(slot);
            }
            Some(search) if search.due <= now => {
                if search.under_way {
                    self.attempt_failed(slot, AttemptFailure::TimedOut);
                } else {
                    self.attempt(slot, search.since, search.attempt + 1);
                }
            }
            _ => (),
        }
    }

    /// Marks a child stale, and begins to look for it (rule L3).
    fn mark_stale(&mut self, slot: u32) {
        let Some(child) = self.source.children.get_mut(slot) else {
            return;
        };
        child.set(Mark::Stale);
        let kind = AuditKind::Stale {
            proven_at: moment(child.proven),
        };
        self.report.changed(slot, Changes::STALE);
        self.audit_child(slot, None, kind);
        self.attempt(slot, self.report.now, 1);
    }

    /// Begins an attempt to find a stale child.
    fn attempt(&mut self, slot: u32, since: i64, attempt: u32) {
        let due = self
            .report
            .now
            .saturating_add(at_least_a_moment(self.settings.reconcile_deadline));
        let Some(child) = self.source.children.get_mut(slot) else {
            return;
        };
        child.extra_mut().reconcile = Some(Reconcile {
            since,
            attempt,
            due,
            under_way: true,
        });
        self.report.push(Effect::Intent(Intent::Reconcile {
            source: self.report.source.clone(),
            child: child.id.clone(),
            attempt,
        }));
    }

    /// Ends the attempt that is under way, if one is; after the last one the child is lost.
    pub(crate) fn attempt_failed(&mut self, slot: u32, why: AttemptFailure) {
        let Some(child) = self.source.children.get_mut(slot) else {
            return;
        };
        let Some(search) = child.reconcile().copied().filter(|search| search.under_way) else {
            return;
        };
        let attempt = search.attempt;
        let kind = AuditKind::ReconcileFailed { attempt, why };
        let due = self
            .report
            .now
            .saturating_add(backoff(self.settings, attempt));
        child.extra_mut().reconcile = Some(Reconcile {
            due,
            under_way: false,
            ..search
        });
        self.audit_child(slot, None, kind);
        if attempt >= self.settings.reconcile_attempts {
            self.lose(slot);
        } else {
            self.timer(slot, due);
        }
    }

    /// A complete snapshot that covers a stale child omits it: that is a failed search (rule L4).
    pub(crate) fn omitted_while_stale(&mut self, slot: u32, cause: Cause) {
        let Some(child) = self.source.children.get(slot) else {
            return;
        };
        let attempt = child.reconcile().map_or(0, |search| search.attempt);
        let kind = AuditKind::ReconcileFailed {
            attempt,
            why: AttemptFailure::Omitted,
        };
        self.audit_child(slot, Some(cause), kind);
        self.lose(slot);
    }

    /// Ends a child as lost.
    fn lose(&mut self, slot: u32) {
        let Some(event) = self.lost_event(slot) else {
            return;
        };
        // Applied here, so known here: when it comes back from a journal it is a duplicate.
        self.source
            .unsequenced
            .meet(&event, self.settings.unsequenced_window);
        let seen = Seen::event(&event, self.report.at, self.source.epoch);
        let what = self.set_state(slot, Outcome::Lost.into(), Stamp::by_id(&event, seen));
        if let Some(child) = self.child(slot) {
            child.keep_terminal_details(event.details());
        }
        self.report.audit_event(&event, AuditKind::Lost);
        self.report.push(Effect::Derived(Box::new(event)));
        self.report.changed(slot, what);
        self.evict();
    }

    fn lost_event(&self, slot: u32) -> Option<LifecycleEvent> {
        let child = self.source.children.get(slot)?;
        let search = child.reconcile()?;
        // In the current epoch: one of a superseded epoch would not end the child on replay.
        let source = derived::identity(self.report.source, self.source.current_epoch()?);
        let (proven, since) = (moment(child.proven), moment(search.since));
        Some(derived::lost(
            child,
            source,
            self.report.at,
            proven,
            since,
            search.attempt,
        ))
    }

    /// Takes note that the child lived at that moment, by the source's clock (rules L1, L2).
    ///
    /// Whatever advances the proof ends a search; only a proof within the deadline ends staleness.
    pub(crate) fn prove(&mut self, slot: u32, observed: i64) -> Changes {
        let now = self.report.now;
        let Some(child) = self.source.children.get_mut(slot) else {
            return Changes::NONE;
        };
        let at = observed.min(now);
        if at <= child.proven || !child.is_live() {
            return Changes::NONE;
        }
        child.proven = at;
        if child.has(Mark::Stale) {
            self.found(slot) | Changes::PROOF
        } else {
            Changes::PROOF
        }
    }

    /// Ends the search for a stale child: something shows it.
    pub(crate) fn found(&mut self, slot: u32) -> Changes {
        let now = self.report.now;
        let Some(child) = self.source.children.get_mut(slot) else {
            return Changes::NONE;
        };
        let Some(search) = child.reconcile().copied() else {
            return Changes::NONE;
        };
        let patience = child.patience(self.settings);
        let fresh = child.proven.saturating_add(patience) > now;
        if fresh {
            child.clear(Mark::Stale);
        }
        // Shown, but as it was too long ago, it stays stale, and is looked for again once it has had
        // as long as a fresh proof would give it.
        let due = now.saturating_add(patience.max(1));
        child.extra_mut().reconcile = (!fresh).then_some(Reconcile {
            attempt: 0,
            due,
            under_way: false,
            ..search
        });
        if let Some(due) = child.due(self.settings).filter(|due| *due < search.due) {
            self.timer(slot, due);
        }
        if fresh { Changes::STALE } else { Changes::NONE }
    }
}

impl Source {
    /// When each thing of the source next has to be looked at.
    pub(crate) fn timers<'a>(
        &'a self,
        source: u32,
        settings: &'a Settings,
    ) -> impl Iterator<Item = Entry> + 'a {
        let own = self.counter.gap_due().map(|at| (SOURCE_ITSELF, at));
        let children = self
            .children
            .iter()
            .filter_map(|(slot, child): (u32, &Child)| child.due(settings).map(|at| (slot, at)));
        own.into_iter()
            .chain(children)
            .map(move |(slot, at)| Entry { at, source, slot })
    }
}

/// The pause after a failed attempt: doubled with each, up to a limit.
fn backoff(settings: &Settings, attempt: u32) -> i64 {
    let doubled = 1_u32
        .checked_shl(attempt.saturating_sub(1))
        .unwrap_or(u32::MAX);
    let pause = settings.reconcile_backoff.saturating_mul(doubled);
    at_least_a_moment(pause.min(settings.reconcile_backoff_max))
}

/// A pause in nanoseconds; never none, so that one call of `advance` makes one step at most.
fn at_least_a_moment(pause: std::time::Duration) -> i64 {
    length(pause).max(1)
}
