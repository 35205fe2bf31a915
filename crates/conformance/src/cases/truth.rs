//! The source's life, projected as a host would, against what the rig knows.

mod host;

use std::collections::BTreeSet;

use fastrand::Rng;
use headcount_contract::{ChildId, ChildState, LiveState, Outcome};

use self::host::Host;
use crate::Action::{
    Activity, Break, ChangeState, Fail, Finish, Heartbeat, Restore, Retry, StartChild, StartSeveral,
};
use crate::bench::Bench;
use crate::case::Ability;
use crate::case::Need::{Can, Known};
use crate::case::{Case, Failure, case};
use crate::watch::{Watch, fold};

pub(super) const CASES: &[Case] = &[
    case!(
        "truth::every_told_state_is_reported",
        "truth.told",
        [Can(StartChild)],
        every_told_state_is_reported
    ),
    case!(
        "truth::a_random_life_is_projected_as_it_was",
        "truth.told",
        [Can(StartChild), Can(StartSeveral), Can(Finish)],
        a_random_life_is_projected_as_it_was
    ),
    case!(
        "truth::a_random_life_with_breaks_is_projected_as_it_was",
        "truth.breaks",
        [
            Known(Ability::Snapshot),
            Can(StartChild),
            Can(StartSeveral),
            Can(Finish),
            Can(Break),
            Can(Restore)
        ],
        a_random_life_with_breaks_is_projected_as_it_was
    ),
];

/// How many things happen in a random life.
const STEPS: usize = 60;

/// How many children live at most at once.
const MOST: usize = 5;

/// Names a seed to live a life again.
const SEED: &str = "HEADCOUNT_CONFORMANCE_SEED";

async fn every_told_state_is_reported(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    if bench.can(ChangeState) {
        // One at a time: a source that is looked at now and then may change twice in between.
        for state in [LiveState::Waiting, LiveState::Running, LiveState::Waiting] {
            bench.change(&child, state).await?;
            bench.settle(&watch).await?;
        }
    }
    if bench.can(Finish) {
        bench.finish(&child).await?;
        bench.settle(&watch).await?;
    }
    Ok(())
}

async fn a_random_life_is_projected_as_it_was(bench: &mut Bench) -> Result<(), Failure> {
    random_life(bench, Breaks::None).await
}

async fn a_random_life_with_breaks_is_projected_as_it_was(
    bench: &mut Bench,
) -> Result<(), Failure> {
    random_life(bench, Breaks::Some).await
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    None,
    Some,
}

async fn random_life(bench: &mut Bench, breaks: Breaks) -> Result<(), Failure> {
    let seed = match std::env::var(SEED) {
        Ok(text) => text
            .parse()
            .map_err(|_| Failure::new(format!("{SEED} is {text:?}, not a number")))?,
        Err(_) => fastrand::u64(..),
    };
    bench.remark(format!("live it again with {SEED}={seed}"));
    live(bench, breaks, Rng::with_seed(seed)).await
}

/// Lives the life, and compares.
async fn live(bench: &mut Bench, breaks: Breaks, mut rng: Rng) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let mut life = Life::default();
    let mut host = Host::new(bench).await?;
    life.settle_in(bench, &watch).await?;
    for _ in 0..STEPS {
        life.step(bench, &watch, breaks, &mut rng).await?;
        // Now and then the host keeps up; else it reads in bursts.
        if rng.u8(..) < 64 {
            host.read(bench, &watch).await?;
        }
    }
    if life.broken {
        life.restore(bench, &watch).await?;
    }
    if breaks == Breaks::Some {
        // Whatever chance made of this life: once at least a child lives through a break.
        life.settle_in(bench, &watch).await?;
        life.break_off(bench, &watch).await?;
        life.restore(bench, &watch).await?;
    }
    let expected = life.expected(bench);
    host.catch_up(bench, &watch, &expected).await
}

/// What a host must come to show of a child.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Expected {
    /// This state.
    State(ChildState),
    /// That it lives.
    Live,
    /// This end, or that it does not know; the source had no way to tell.
    EndedUnseen(ChildState),
}

#[derive(Default)]
struct Life {
    live: Vec<ChildId>,
    failed: Vec<ChildId>,
    /// Those that ended while the adapter could not see it.
    ended_unseen: BTreeSet<ChildId>,
    /// Those whose live state changed meanwhile: a source that is asked later need not know.
    changed_unseen: BTreeSet<ChildId>,
    broken: bool,
}

impl Life {
    /// Starts a child and waits until the adapter tells of it. What happens from then on, it can
    /// see. Before, it may not have reached its source yet, and one that remembers no ended
    /// children could never tell of those that came and went meanwhile.
    async fn settle_in(&mut self, bench: &mut Bench, watch: &Watch) -> Result<(), Failure> {
        let child = bench.start().await?;
        bench.waiting_for(format!("the adapter to tell of {child}"));
        watch
            .until(|signals| fold(signals).contains_key(&child).then_some(()))
            .await?;
        self.live.push(child);
        Ok(())
    }

    async fn break_off(&mut self, bench: &mut Bench, watch: &Watch) -> Result<(), Failure> {
        bench.waiting_for("the rig to break its source");
        bench.rig()?.break_source().await?;
        self.broken = true;
        // What was on its way when the connection broke may be lost with it.
        let seen = fold(&watch.signals());
        for (child, state) in &bench.told {
            if seen.get(child) == Some(state) {
                continue;
            }
            if state.is_terminal() {
                self.ended_unseen.insert(child.clone());
            } else {
                self.changed_unseen.insert(child.clone());
            }
        }
        Ok(())
    }

    async fn restore(&mut self, bench: &mut Bench, watch: &Watch) -> Result<(), Failure> {
        bench.waiting_for("the rig to restore its source");
        bench.rig()?.restore_source().await?;
        self.settle_in(bench, watch).await?;
        self.broken = false;
        Ok(())
    }

    async fn step(
        &mut self,
        bench: &mut Bench,
        watch: &Watch,
        breaks: Breaks,
        rng: &mut Rng,
    ) -> Result<(), Failure> {
        if breaks == Breaks::Some && rng.u8(..) < 24 {
            if self.broken {
                return self.restore(bench, watch).await;
            }
            return self.break_off(bench, watch).await;
        }
        let Some(child) = rng.choice(&self.live).cloned() else {
            let child = bench.start().await?;
            self.live.push(child);
            return Ok(());
        };
        let possible: Vec<_> = [
            StartSeveral,
            Retry,
            ChangeState,
            Activity,
            Heartbeat,
            Finish,
            Fail,
        ]
        .into_iter()
        .filter(|action| bench.can(*action))
        .filter(|action| match action {
            StartSeveral => self.live.len() < MOST,
            Retry => !self.failed.is_empty() && self.live.len() < MOST,
            _ => true,
        })
        .collect();
        match rng.choice(possible) {
            Some(StartSeveral) => {
                let child = bench.start().await?;
                self.live.push(child);
            }
            Some(Retry) => {
                let at = rng.usize(..self.failed.len());
                let failed = self.failed.swap_remove(at);
                bench.waiting_for(format!("the rig to retry {failed}"));
                let started = bench.rig()?.retry(&failed).await?;
                let child = bench.note(started);
                self.live.push(child);
            }
            Some(ChangeState) => {
                let to = if rng.bool() {
                    LiveState::Waiting
                } else {
                    LiveState::Running
                };
                bench.change(&child, to).await?;
                if self.broken {
                    self.changed_unseen.insert(child);
                } else {
                    self.changed_unseen.remove(&child);
                }
            }
            Some(Activity) => {
                bench.waiting_for(format!("the rig to have {child} report activity"));
                bench.rig()?.activity(&child, "something").await?;
            }
            Some(Heartbeat) => {
                bench.waiting_for(format!("the rig to have {child} send a heartbeat"));
                bench.rig()?.heartbeat(&child).await?;
            }
            Some(Fail) => {
                bench.fail(&child).await?;
                self.ended(&child);
                self.failed.push(child);
            }
            _ => {
                bench.finish(&child).await?;
                self.ended(&child);
            }
        }
        Ok(())
    }

    fn ended(&mut self, child: &ChildId) {
        self.live.retain(|live| live != child);
        if self.broken {
            self.ended_unseen.insert(child.clone());
        }
    }

    fn expected(&self, bench: &Bench) -> Vec<(ChildId, Expected)> {
        let told = bench.told.iter();
        told.map(|(child, state)| {
            let expected = if self.ended_unseen.contains(child) {
                Expected::EndedUnseen(*state)
            } else if self.changed_unseen.contains(child) && !state.is_terminal() {
                Expected::Live
            } else {
                Expected::State(*state)
            };
            (child.clone(), expected)
        })
        .collect()
    }
}

impl Expected {
    /// Whether a host that shows this tells the truth.
    fn is_met(&self, shown: Option<ChildState>, doubted: bool) -> bool {
        match self {
            Self::State(state) => shown == Some(*state),
            Self::Live => shown.is_some_and(|shown| !shown.is_terminal()),
            Self::EndedUnseen(state) => match shown {
                None => true,
                Some(shown) => {
                    shown == *state || shown == ChildState::Terminal(Outcome::Lost) || doubted
                }
            },
        }
    }
}
