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
    bench.live(&watch).await?;
    bench.settle(&watch).await
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
    let lived = live(bench, breaks, Rng::with_seed(seed)).await;
    lived.map_err(|failure| {
        Failure::new(format!("{}\n  live it again with {SEED}={seed}", failure.0))
    })
}

/// Lives the life, and compares.
async fn live(bench: &mut Bench, breaks: Breaks, mut rng: Rng) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let mut life = Life::default();
    let mut host = Host::new(bench).await?;
    for _ in 0..STEPS {
        life.step(bench, breaks, &mut rng).await?;
        // Now and then the host keeps up; else it reads in bursts.
        if rng.u8(..) < 64 {
            host.read(bench, &watch).await?;
        }
    }
    if life.broken {
        bench.waiting_for("the rig to restore its source");
        bench.rig()?.restore_source().await?;
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
    async fn step(
        &mut self,
        bench: &mut Bench,
        breaks: Breaks,
        rng: &mut Rng,
    ) -> Result<(), Failure> {
        if breaks == Breaks::Some && rng.u8(..) < 24 {
            bench.waiting_for("the rig to break or restore its source");
            if self.broken {
                bench.rig()?.restore_source().await?;
            } else {
                bench.rig()?.break_source().await?;
            }
            self.broken = !self.broken;
            return Ok(());
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
