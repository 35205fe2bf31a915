//! Memory is bounded by the settings, whatever is sent and however much of it.

// A history that cannot be built fails its property.
#![allow(clippy::unwrap_used)]

#[path = "../benches/projector/counting.rs"]
mod counting;

use std::time::Duration;

use headcount_contract::*;
use headcount_projector::{AttemptFailure, Projector, Settings};
use proptest::prelude::*;

/// Settings of which every bound is met within a few hundred inputs.
fn tight(scope: SequenceScope) -> Settings {
    let mut settings = Settings::default();
    settings.scope = scope;
    settings.sources = 3;
    settings.live_children = 8;
    settings.ended_children = 4;
    settings.tombstones = 16;
    settings.gap_ranges = 4;
    settings.epoch_window = 4;
    settings.snapshot_window = 4;
    settings.unsequenced_window = 8;
    settings.conflict_window = 8;
    settings
}

/// What those settings may take: three sources of twelve records, each with what a hostile source
/// can make it keep (five names of at most 120 bytes, three lots of details, four missing ranges).
const BOUND: usize = 128 * 1024;

/// A source that never says the same thing twice: every name, number, text and detail is new.
struct Hostile {
    rng: fastrand::Rng,
    said: u64,
    epochs: u64,
}

impl Hostile {
    fn name(&mut self) -> String {
        self.said += 1;
        format!("{:0>width$}", self.said, width = self.rng.usize(8..100))
    }

    fn child(&mut self) -> ChildId {
        // Often one of a few, so that records fill up; else one that was never heard of.
        let name = match self.rng.u8(..4) {
            0 => self.name(),
            _ => format!("child-{}", self.rng.u8(..12)),
        };
        ChildId::new(name).unwrap()
    }

    fn source(&mut self) -> SourceIdentity {
        if self.rng.u8(..60) == 0 {
            self.epochs += 1;
        }
        let source = SourceId::new(format!("source-{}", self.rng.u8(..5))).unwrap();
        SourceIdentity::new(
            source,
            SourceEpoch::new(format!("epoch-{}", self.epochs)).unwrap(),
        )
    }

    fn details(&mut self) -> Details {
        let text = self.name();
        Details::from_iter([("text", serde_json::json!(text))])
    }

    fn state(&mut self) -> ChildState {
        // Mostly live ones, so that there are always some to grow.
        match self.rng.u8(..10) {
            0 => ChildState::COMPLETED,
            1 => ChildState::FAILED,
            2 => ChildState::WAITING,
            _ => ChildState::RUNNING,
        }
    }

    fn event(&mut self, at: Timestamp) -> LifecycleEvent {
        let kind = match self.rng.u8(..6) {
            0 => EventKind::Created,
            1 => EventKind::Activity,
            2 => EventKind::Heartbeat,
            3 => EventKind::Reconciliation(Some(self.state())),
            _ => EventKind::StateChanged(self.state()),
        };
        let mut child = ChildIdentity::root(self.child());
        if self.rng.u8(..4) == 0
            && let Ok(nested) = ChildIdentity::new(
                child.id().clone(),
                child.lineage().clone().with_parent(self.child()),
            )
        {
            child = nested;
        }
        let id = EventId::new(self.name()).unwrap();
        let mut event =
            LifecycleEvent::new(id, self.source(), child, kind, at, Capabilities::UNKNOWN)
                .with_details(self.details());
        if kind == EventKind::Activity {
            event = event.with_activity(Activity::new(self.name()));
        }
        if self.rng.u8(..3) > 0 {
            event = event.with_sequence(Sequence::new(self.rng.u64(..1 << 53)).unwrap());
        }
        event
    }

    fn snapshot(&mut self, at: Timestamp) -> Snapshot {
        let shown: std::collections::BTreeSet<_> = (0..6).map(|_| self.child()).collect();
        let shown = shown
            .into_iter()
            .map(|child| SnapshotChild::new(child, self.state()).with_details(self.details()))
            .collect();
        let (source, id) = (self.source(), SnapshotId::new(self.name()).unwrap());
        AuthoritativeSnapshot::new(source, id, at, Coverage::All, shown)
            .unwrap()
            .into()
    }
}

/// The most that the projector had in use while it was sent so many inputs, beyond what it began with.
fn peak(projector: &mut Projector, hostile: &mut Hostile, from: i64, inputs: i64) -> usize {
    let mut peak = 0;
    let mut effects = Vec::with_capacity(256);
    for step in from..from + inputs {
        let at = Timestamp::from_unix(1_787_562_000 + step, 0).unwrap();
        match hostile.rng.u8(..12) {
            0 => drop(projector.apply_snapshot(&hostile.snapshot(at), at, &mut effects)),
            1 => projector.advance(at, &mut effects),
            2 => projector.source_unproven(&hostile.source().source, at, &mut effects),
            3 => {
                let (source, child) = (hostile.source().source, hostile.child());
                let why = AttemptFailure::Errored;
                projector.reconcile_failed(&source, &child, why, at, &mut effects);
            }
            _ => drop(projector.apply(&hostile.event(at), at, &mut effects)),
        }
        effects.clear();
        peak = peak.max(counting::in_use());
    }
    peak
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_bounded_whatever_is_sent(seed: u64, shared: bool, patience in 1..600_u64) {
        let scope = if shared { SequenceScope::Epoch } else { SequenceScope::Child };
        let mut settings = tight(scope);
        settings.activity_deadline = Duration::from_secs(patience);
        let mut hostile = Hostile { rng: fastrand::Rng::with_seed(seed), said: 0, epochs: 0 };
        let before = counting::in_use();
        let mut projector = Projector::new(settings);
        let early = peak(&mut projector, &mut hostile, 0, 2_000) - before;
        let late = peak(&mut projector, &mut hostile, 2_000, 20_000) - before;
        prop_assert!(early.max(late) < BOUND, "{early} bytes at first, {late} later");
        // Ten times as much was sent; what is kept is what fits, not what came.
        prop_assert!(late < early + early / 2, "{early} bytes at first, {late} later");
        prop_assert!(!projector.is_empty());
    }
}
