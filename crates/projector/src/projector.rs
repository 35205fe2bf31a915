//! The fold itself: inputs in, effects out.

use std::collections::HashMap;
use std::fmt;

use foldhash::quality::RandomState;
use headcount_contract::{ChildId, LifecycleEvent, SequenceScope, Snapshot, SourceId, Timestamp};

use crate::effect::{ChildKey, Effect, SnapshotNeed};
use crate::fold::{Fold, Report};
use crate::record::Record;
use crate::source::{Source, hash_of};
use crate::timers::Timers;
use crate::verdict::{NoEffect, SnapshotVerdict, Verdict};
use crate::window::PlaceWindow;
use crate::{AttemptFailure, Settings, view};

/// The projection of all sources: a pure, synchronous, deterministic fold.
///
/// # Behavior
///
/// - The same inputs give the same effects, in the same order. Time is an argument.
/// - Effects are pushed behind what `effects` holds already; nothing else is done with it.
/// - Memory is bounded a child and a source, by the [`Settings`]; live children are never evicted.
/// - No input panics, and none costs more than its own size and what it changes.
///
/// ```
/// use headcount_contract::*;
/// use headcount_projector::{Effect, Projector, Settings, Verdict};
///
/// let mut projector = Projector::new(Settings::default());
/// let mut effects = Vec::new();
/// let source = SourceIdentity::new(SourceId::new("worker")?, SourceEpoch::new("start-1")?);
/// let at: Timestamp = "2026-08-24T09:15:30Z".parse()?;
/// let event = LifecycleEvent::new(
///     EventId::new("evt-1")?,
///     source.clone(),
///     ChildIdentity::root(ChildId::new("child-1")?),
///     EventKind::Created,
///     at,
///     Capabilities::UNKNOWN,
/// );
/// assert_eq!(projector.apply(&event, at, &mut effects), Verdict::Accepted);
/// assert!(matches!(effects[..], [Effect::Changed(_)]));
/// let record = projector.record(&source.source, event.child_id()).ok_or("no record")?;
/// assert_eq!(record.state, ChildState::CREATED);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Projector {
    settings: Settings,
    sources: Vec<(SourceId, Source)>,
    by_name: HashMap<SourceId, u32>,
    /// The source that spoke last: mostly, the one that speaks next.
    last: u32,
    timers: Timers,
    places: PlaceWindow,
    hasher: RandomState,
    /// Live children of all sources.
    live: usize,
}

impl Projector {
    /// A projector that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            places: PlaceWindow::new(settings.conflict_window),
            settings,
            sources: Vec::new(),
            by_name: HashMap::new(),
            last: 0,
            timers: Timers::default(),
            hasher: RandomState::default(),
            live: 0,
        }
    }

    /// Sets in which scope a source counts, before its first event (rule O4). Later, what was seen
    /// of its numbers is forgotten.
    pub fn set_scope(&mut self, source: &SourceId, scope: SequenceScope) {
        if let Some(number) = self.enter(source)
            && let Some((_, source)) = self.sources.get_mut(number as usize)
            && source.scope != scope
        {
            source.scope = scope;
            source.forget_numbers();
        }
    }

    /// Applies one event that was received at `received_at`.
    pub fn apply(
        &mut self,
        event: &LifecycleEvent,
        received_at: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> Verdict {
        match self
            .enter(event.source())
            .and_then(|number| self.fold(number, received_at, effects))
        {
            Some(mut fold) => fold.event(event),
            None => Verdict::NoEffect(NoEffect::TooManySources),
        }
    }

    /// Applies one snapshot that was received at `received_at`.
    pub fn apply_snapshot(
        &mut self,
        snapshot: &Snapshot,
        received_at: Timestamp,
        effects: &mut Vec<Effect>,
    ) -> SnapshotVerdict {
        let source = &snapshot.source().source;
        match self
            .enter(source)
            .and_then(|number| self.fold(number, received_at, effects))
        {
            Some(mut fold) => fold.snapshot(snapshot),
            None => SnapshotVerdict::TooManySources,
        }
    }

    /// Takes note that the attempt to find a stale child failed (rule L4).
    ///
    /// # Behavior
    ///
    /// - Answers the last [`Intent::Reconcile`](crate::Intent::Reconcile) of that child; if that was
    ///   answered, or the child was seen since, nothing happens.
    /// - A success needs no call: whatever shows the child is applied, and ends the search.
    pub fn reconcile_failed(
        &mut self,
        source: &SourceId,
        child: &ChildId,
        why: AttemptFailure,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        let hash = hash_of(&self.hasher, child);
        if let Some(number) = self.by_name.get(source).copied()
            && let Some(mut fold) = self.fold(number, now, effects)
            && let Some(slot) = fold.source.find(hash, child)
        {
            fold.attempt_failed(slot, why);
        }
    }

    /// Takes note that events of a source may have been lost: none of its live children is proven
    /// until something tells its state again (rule N8).
    pub fn source_unproven(
        &mut self,
        source: &SourceId,
        now: Timestamp,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(number) = self.by_name.get(source).copied()
            && let Some(mut fold) = self.fold(number, now, effects)
        {
            fold.unproven();
            fold.report.need_snapshot(SnapshotNeed::Discontinuity);
        }
    }

    /// Does what time alone brings about by `now`: stale marks, attempts, losses, open gaps.
    pub fn advance(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let until = crate::fact::nanos(now);
        while let Some(entry) = self.timers.pop(until) {
            if let Some(mut fold) = self.fold(entry.source, now, effects) {
                fold.wake(entry);
            }
        }
    }

    /// When [`Projector::advance`] next has something to do; none while nothing can become due.
    ///
    /// Never too late. It may be early where proof of life has come since; advancing then does
    /// nothing but find the later moment (rule L6).
    pub fn deadline(&self) -> Option<Timestamp> {
        self.timers.next().map(crate::fact::moment)
    }

    /// What is known of one child; none if it was never seen, or its record was given up.
    pub fn record(&self, source: &SourceId, child: &ChildId) -> Option<Record> {
        let (name, source) = self.sources.get(*self.by_name.get(source)? as usize)?;
        let slot = source.find(hash_of(&self.hasher, child), child)?;
        view::record(name, source, slot)
    }

    /// The record that a key of this projector stands for; none once it was given up.
    pub fn record_at(&self, key: ChildKey) -> Option<Record> {
        let (name, source) = self.sources.get(key.source as usize)?;
        view::record(name, source, key.slot)
    }

    /// Whose record a key of this projector stands for; nobody's once it was given up.
    pub fn name(&self, key: ChildKey) -> Option<(&SourceId, &ChildId)> {
        let (name, source) = self.sources.get(key.source as usize)?;
        Some((name, &source.children.get(key.slot)?.id))
    }

    /// All records, by source and child id, compared by bytes.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        let mut all: Vec<_> = self
            .sources
            .iter()
            .flat_map(|(name, source)| source.children.iter().map(move |at| (name, source, at)))
            .collect();
        all.sort_unstable_by(|a, b| (a.0, &a.2.1.id).cmp(&(b.0, &b.2.1.id)));
        all.into_iter()
            .filter_map(|(name, source, (slot, _))| view::record(name, source, slot))
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.sources
            .iter()
            .map(|(_, source)| source.live + source.ended.len())
            .sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was chosen when it was made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The number of a source, which becomes known if it is not; none if there are too many.
    fn enter(&mut self, name: &SourceId) -> Option<u32> {
        if self
            .sources
            .get(self.last as usize)
            .is_some_and(|(last, _)| last == name)
        {
            return Some(self.last);
        }
        let number = match self.by_name.get(name) {
            Some(number) => *number,
            None if self.sources.len() >= self.settings.sources => return None,
            None => {
                let number = u32::try_from(self.sources.len()).ok()?;
                self.sources
                    .push((name.clone(), Source::new(self.settings.scope)));
                self.by_name.insert(name.clone(), number);
                number
            }
        };
        self.last = number;
        Some(number)
    }

    fn fold<'a>(
        &'a mut self,
        number: u32,
        at: Timestamp,
        effects: &'a mut Vec<Effect>,
    ) -> Option<Fold<'a>> {
        self.rebuild_timers();
        let (name, source) = self.sources.get_mut(number as usize)?;
        Some(Fold {
            settings: &self.settings,
            hasher: &self.hasher,
            timers: &mut self.timers,
            places: &mut self.places,
            live: &mut self.live,
            source,
            report: Report::new(number, name, at, effects),
        })
    }

    /// Drops timers that were overtaken by others, once there are too many of them.
    fn rebuild_timers(&mut self) {
        if self.timers.len() > 2 * self.live + self.sources.len() + 64 {
            let settings = &self.settings;
            let entries = (0..).zip(&self.sources);
            self.timers
                .rebuild(entries.flat_map(|(at, (_, s))| s.timers(at, settings)));
        }
    }
}

impl fmt::Debug for Projector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Projector")
            .field("sources", &self.sources.len())
            .field("live", &self.live)
            .field("records", &self.len())
            .field("deadline", &self.deadline())
            .finish_non_exhaustive()
    }
}
