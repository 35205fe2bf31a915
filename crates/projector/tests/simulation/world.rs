//! What truly happens: sources whose children live, end, or are killed in silence.

use std::fmt::Write as _;

use fastrand::Rng;
use headcount_contract::{
    AuthoritativeSnapshot, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Coverage,
    EventId, EventKind, LifecycleEvent, Lineage, Outcome, PartialSnapshot, Sequence, SequenceScope,
    Snapshot, SnapshotChild, SnapshotId, SourceEpoch, SourceId, SourceIdentity,
};

use crate::support::time;

/// Faults happen until then, in milliseconds; afterwards everything arrives, once, in order.
pub(crate) const CALM: i64 = 60_000;
/// When a history ends.
pub(crate) const END: i64 = 190_000;

/// The names of a source's lives: their order is not that of the names.
const EPOCHS: [&str; 4] = ["e", "c", "d", "a"];

/// A source and all that truly happens to its children.
#[derive(Debug, Clone)]
pub(crate) struct TrueSource {
    pub(crate) id: SourceId,
    pub(crate) counting: Counting,
    /// When each of its lives begins; the first at 0.
    pub(crate) lives: Vec<i64>,
    /// From when to when its clock is wrong, and by how much.
    pub(crate) wrong_clock: (i64, i64, i64),
    pub(crate) children: Vec<TrueChild>,
    /// Whether its snapshots tell sequences, and where children come from.
    pub(crate) tells_sequence: bool,
    pub(crate) tells_lineage: bool,
    /// How long an ended child stays in its snapshots.
    pub(crate) retention: i64,
}

/// How a source counts its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    Not,
    By(SequenceScope),
}

/// A child and its whole life.
#[derive(Debug, Clone)]
pub(crate) struct TrueChild {
    pub(crate) identity: ChildIdentity,
    /// Its states and when each begins, ascending.
    states: Vec<(i64, ChildState)>,
    /// Killed then, without a word.
    killed: Option<i64>,
    heartbeat: Option<i64>,
    activity: i64,
}

/// Something that a source truly says.
#[derive(Debug, Clone)]
pub(crate) struct Said {
    pub(crate) at: i64,
    pub(crate) event: LifecycleEvent,
}

impl TrueChild {
    /// What it is at that moment; none before it is born.
    pub(crate) fn state(&self, at: i64) -> Option<ChildState> {
        let last = self.states.iter().rev().find(|(since, _)| *since <= at)?.1;
        match self.killed {
            Some(killed) if killed <= at && !last.is_terminal() => Some(ChildState::FAILED),
            _ => Some(last),
        }
    }

    /// When it ends.
    pub(crate) fn ends(&self) -> Option<i64> {
        let told = self.states.last().filter(|(_, state)| state.is_terminal());
        told.map(|(at, _)| *at).into_iter().chain(self.killed).min()
    }

    fn random(rng: &mut Rng, source: &SourceId, number: usize, lives: &[i64]) -> Self {
        let id: ChildId = format!("{source}{number}").parse().unwrap();
        let mut lineage = Lineage::new(id.clone());
        if number > 0 && rng.bool() {
            let first: ChildId = format!("{source}0").parse().unwrap();
            lineage = Lineage::new(first.clone()).with_parent(first);
        }
        let born = rng.i64(0..CALM);
        let mut states = vec![(born, ChildState::CREATED)];
        let mut at = born;
        for state in [ChildState::STARTING, ChildState::RUNNING] {
            at += rng.i64(1..3_000);
            states.push((at, state));
        }
        let lifetime = rng.i64(0..CALM);
        while at - born < lifetime {
            at += rng.i64(1..12_000);
            let last = states[states.len() - 1].1;
            states.push((
                at,
                if last == ChildState::RUNNING {
                    ChildState::WAITING
                } else {
                    ChildState::RUNNING
                },
            ));
        }
        if rng.u8(..4) > 0 {
            at += rng.i64(1..5_000);
            let outcome = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled][rng.usize(..3)];
            states.push((at, outcome.into()));
        }
        // A life of the source may take children with it.
        let killers = lives.iter().filter(|life| **life > born && **life < at);
        let killed = killers.copied().find(|_| rng.bool());
        states.retain(|(since, _)| killed.is_none_or(|killed| *since < killed));
        Self {
            identity: ChildIdentity::new(id, lineage).unwrap(),
            states,
            killed,
            heartbeat: rng.bool().then(|| rng.i64(3_000..6_000)),
            activity: rng.i64(4_000..20_000),
        }
    }
}

impl TrueSource {
    pub(crate) fn random(rng: &mut Rng, name: &str) -> Self {
        let id: SourceId = name.parse().unwrap();
        let mut lives = vec![0];
        for _ in 0..rng.usize(..3) {
            lives.push(rng.i64(1_000..CALM));
        }
        lives.sort_unstable();
        lives.dedup();
        let from = rng.i64(0..CALM);
        let counting = match rng.u8(..3) {
            0 => Counting::Not,
            1 => Counting::By(SequenceScope::Child),
            _ => Counting::By(SequenceScope::Epoch),
        };
        let children = (0..rng.usize(1..4))
            .map(|n| TrueChild::random(rng, &id, n, &lives))
            .collect();
        Self {
            counting,
            wrong_clock: (
                from,
                rng.i64(from..=CALM),
                rng.i64(-40_000..40_000) * i64::from(rng.u8(..2)),
            ),
            children,
            tells_sequence: counting != Counting::Not && rng.bool(),
            tells_lineage: rng.bool(),
            retention: rng.i64(0..30_000),
            lives,
            id,
        }
    }

    /// All that is true of it, in a few lines.
    pub(crate) fn summary(&self) -> String {
        let (from, to, by) = self.wrong_clock;
        let mut text = format!(
            "source {}: counts {:?}, lives begin at {:?}, clock off by {by} from {from} to {to}, \
             tells sequence {}, lineage {}, keeps ended {}\n",
            self.id,
            self.counting,
            self.lives,
            self.tells_sequence,
            self.tells_lineage,
            self.retention
        );
        for child in &self.children {
            let states: Vec<_> = child
                .states
                .iter()
                .map(|(at, s)| format!("{at} {s}"))
                .collect();
            let id = child.identity.id();
            writeln!(
                text,
                "  {id}: {}; killed {:?}",
                states.join(", "),
                child.killed
            )
            .unwrap();
        }
        text
    }

    /// The life of the source at that moment, from 0.
    fn life(&self, at: i64) -> usize {
        self.lives.iter().filter(|begins| **begins <= at).count() - 1
    }

    /// The number of a life, by its epoch.
    pub(crate) fn life_of(epoch: &SourceEpoch) -> usize {
        EPOCHS
            .iter()
            .position(|name| *name == epoch.as_str())
            .unwrap()
    }

    fn identity(&self, at: i64) -> SourceIdentity {
        // Named so that their order is not that of their names.
        let names = ["e", "c", "d", "a"];
        SourceIdentity::new(
            self.id.clone(),
            SourceEpoch::new(names[self.life(at)]).unwrap(),
        )
    }

    /// What its clock says.
    fn clock(&self, at: i64) -> i64 {
        let (from, to, by) = self.wrong_clock;
        if (from..to).contains(&at) {
            at + by
        } else {
            at
        }
    }

    /// All that it ever says, in order.
    pub(crate) fn says(&self, rng: &mut Rng) -> Vec<Said> {
        let mut kinds: Vec<(i64, usize, EventKind)> = Vec::new();
        for (number, child) in self.children.iter().enumerate() {
            for (at, state) in &child.states {
                kinds.push((
                    *at,
                    number,
                    match *state {
                        ChildState::CREATED => EventKind::Created,
                        ChildState::Terminal(outcome) if rng.bool() => EventKind::Terminal(outcome),
                        state => EventKind::StateChanged(state),
                    },
                ));
            }
            let born = child.states[0].0;
            let ends = child.ends().unwrap_or(END);
            let mut every = |interval: i64, kind| {
                let mut at = born + interval;
                while at < ends {
                    kinds.push((at, number, kind));
                    at += interval;
                }
            };
            every(child.activity, EventKind::Activity);
            child
                .heartbeat
                .into_iter()
                .for_each(|interval| every(interval, EventKind::Heartbeat));
        }
        kinds.sort_by_key(|(at, ..)| *at);
        let mut numbers = std::collections::HashMap::new();
        let said = kinds
            .into_iter()
            .enumerate()
            .map(|(name, (at, number, kind))| {
                let child = &self.children[number];
                let capabilities = Capabilities {
                    heartbeat: if child.heartbeat.is_some() {
                        Capability::Known
                    } else {
                        Capability::Unknown
                    },
                    ..Capabilities::UNKNOWN
                };
                let event = LifecycleEvent::new(
                    EventId::new(format!("{name}")).unwrap(),
                    self.identity(at),
                    child.identity.clone(),
                    kind,
                    time(self.clock(at)),
                    capabilities,
                );
                let counter = match self.counting {
                    Counting::Not => return Said { at, event },
                    Counting::By(SequenceScope::Child) => (self.life(at), number),
                    Counting::By(SequenceScope::Epoch) => (self.life(at), usize::MAX),
                };
                let next: &mut u64 = numbers.entry(counter).or_default();
                let event = event.with_sequence(Sequence::new(*next).unwrap());
                *next += 1;
                Said { at, event }
            });
        said.collect()
    }

    /// Looks at itself: what was true at `content`, under the time of `at`.
    pub(crate) fn look(
        &self,
        at: i64,
        content: i64,
        name: &str,
        said: &[Said],
        coverage: &Cover,
    ) -> Snapshot {
        // What it remembers does not outlive it.
        let content = content.max(self.lives[self.life(at)]);
        let mut children = Vec::new();
        for child in &self.children {
            let Some(state) = child.state(content) else {
                continue;
            };
            let forgotten = child.killed.is_some_and(|killed| killed <= content)
                || state.is_terminal()
                    && child
                        .ends()
                        .is_some_and(|end| end + self.retention < content)
                || child
                    .ends()
                    .is_some_and(|end| end < self.lives[self.life(at)]);
            let chosen = match coverage {
                Cover::All => true,
                Cover::Those(ids) | Cover::Partial(ids) => ids.contains(child.identity.id()),
            };
            if forgotten || !chosen {
                continue;
            }
            let mut shown = if self.tells_lineage {
                SnapshotChild::with_identity(child.identity.clone(), state)
            } else {
                SnapshotChild::new(child.identity.id().clone(), state)
            };
            let identity = self.identity(content);
            let last = said.iter().rev().find(|said| {
                said.at <= content
                    && said.event.source_identity() == &identity
                    && said.event.child_id() == child.identity.id()
            });
            if let Some(sequence) = last.and_then(|said| said.event.sequence())
                && self.tells_sequence
            {
                shown = shown.with_sequence(sequence);
            }
            children.push(shown);
        }
        let (source, id) = (self.identity(at), SnapshotId::new(name).unwrap());
        let seen = time(self.clock(at));
        match coverage {
            Cover::All => AuthoritativeSnapshot::new(source, id, seen, Coverage::All, children)
                .unwrap()
                .into(),
            Cover::Those(ids) => {
                let coverage = Coverage::Children(ids.clone());
                AuthoritativeSnapshot::new(source, id, seen, coverage, children)
                    .unwrap()
                    .into()
            }
            Cover::Partial(_) => PartialSnapshot::new(source, id, seen, children)
                .unwrap()
                .into(),
        }
    }
}

/// Which children a look is about.
#[derive(Debug, Clone)]
pub(crate) enum Cover {
    All,
    Those(Vec<ChildId>),
    Partial(Vec<ChildId>),
}
