//! As much of a host as the truth needs: it projects, and takes a snapshot before it trusts what
//! follows a discontinuity (rules 7 and N8).

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headcount_contract::{
    AdapterError, ChildId, ChildLifecycleAdapter, ChildState, Discontinuity, Gap, SequenceScope,
    Signal, Snapshot, SnapshotReason, SourceId,
};
use headcount_projector::{Effect, Intent, Projector, Settings};

use super::Expected;
use crate::bench::Bench;
use crate::case::Failure;
use crate::watch::Watch;

type Answer = Pin<Box<dyn Future<Output = Result<Vec<Snapshot>, AdapterError>>>>;

/// How long a host does nothing else for an answer.
const SOON: Duration = Duration::from_millis(10);

pub(super) struct Host {
    adapter: Arc<dyn ChildLifecycleAdapter>,
    scope: SequenceScope,
    projector: Projector,
    /// How many signals of the watch were read.
    read: usize,
    sources: HashSet<SourceId>,
    wants_snapshot: bool,
    /// The answer to a snapshot request, while it is awaited.
    asked: Option<Answer>,
    /// Children that complete snapshots keep omitting.
    doubted: HashSet<ChildId>,
}

impl Host {
    pub(super) async fn new(bench: &mut Bench) -> Result<Self, Failure> {
        Ok(Self {
            adapter: bench.adapter().await?,
            scope: bench.plan.scope(),
            projector: Projector::new(Settings::default()),
            read: 0,
            sources: HashSet::new(),
            wants_snapshot: false,
            asked: None,
            doubted: HashSet::new(),
        })
    }

    /// Reads what there is to read.
    pub(super) async fn read(&mut self, bench: &Bench, watch: &Watch) -> Result<(), Failure> {
        for signal in watch.signals().into_iter().skip(self.read) {
            self.read += 1;
            match signal {
                Signal::Event(event) => {
                    if self.sources.insert(event.source().clone()) {
                        self.projector.set_scope(event.source(), self.scope);
                    }
                    let mut effects = Vec::new();
                    self.projector
                        .apply(&event, SystemTime::now().into(), &mut effects);
                    self.follow(effects);
                }
                Signal::Snapshot(snapshot) => {
                    let mut effects = Vec::new();
                    self.projector.apply_snapshot(
                        &snapshot,
                        SystemTime::now().into(),
                        &mut effects,
                    );
                    self.follow(effects);
                }
                Signal::Discontinuity(Discontinuity {
                    gap: Gap::Possible, ..
                }) => self.wants_snapshot = true,
                _ => {}
            }
            if self.wants_snapshot {
                // While the source is out of reach this fails; the next signal asks again.
                self.take_snapshot(bench, SnapshotReason::Reconnect).await;
            }
        }
        Ok(())
    }

    fn follow(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Intent(Intent::Snapshot { .. }) => self.wants_snapshot = true,
                Effect::Intent(Intent::StaleUnknown { child, .. }) => {
                    self.doubted.insert(child);
                }
                _ => {}
            }
        }
    }

    /// Asks, unless an answer is awaited already, and applies the answer if it comes soon. A source
    /// that is out of reach may take its time, and life goes on meanwhile.
    async fn take_snapshot(&mut self, bench: &Bench, reason: SnapshotReason) {
        bench.waiting_for("snapshot() to return");
        let adapter = &self.adapter;
        let answer = self.asked.get_or_insert_with(|| {
            let adapter = adapter.clone();
            Box::pin(async move { adapter.snapshot(reason).await })
        });
        let Ok(answer) = tokio::time::timeout(SOON, answer).await else {
            return;
        };
        self.asked = None;
        let Ok(snapshots) = answer else {
            return;
        };
        self.wants_snapshot = false;
        for snapshot in snapshots {
            let mut effects = Vec::new();
            self.projector
                .apply_snapshot(&snapshot, SystemTime::now().into(), &mut effects);
            self.follow(effects);
        }
    }

    /// Reads, and takes periodic snapshots, until everything expected is shown.
    pub(super) async fn catch_up(
        &mut self,
        bench: &Bench,
        watch: &Watch,
        expected: &[(ChildId, Expected)],
    ) -> Result<(), Failure> {
        let mut round = 0_u32;
        loop {
            self.read(bench, watch).await?;
            // Events alone must do where nothing interrupted them.
            if self.wants_snapshot || round > 0 && expected.iter().any(Self::may_be_unseen) {
                self.take_snapshot(bench, SnapshotReason::Periodic).await;
            }
            let wrong: Vec<_> = expected
                .iter()
                .filter_map(|(child, expected)| {
                    let shown = self.shown(child);
                    let doubted = self.doubted.contains(child);
                    (!expected.is_met(shown, doubted))
                        .then(|| format!("{child} is {expected:?}, shown as {shown:?}"))
                })
                .collect();
            if wrong.is_empty() {
                return Ok(());
            }
            bench.aim_at(format!("the projection to be true: {}", wrong.join("; ")));
            bench.waiting_for("news");
            round += 1;
            // The time limit of the case ends this.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn may_be_unseen(expected: &(ChildId, Expected)) -> bool {
        matches!(expected.1, Expected::EndedUnseen(_))
    }

    /// The state that the host shows of a child, whichever of the sources it has it from.
    fn shown(&self, child: &ChildId) -> Option<ChildState> {
        let mut records = self.projector.records();
        records
            .find(|record| record.child_id == *child)
            .map(|record| record.state)
    }
}
