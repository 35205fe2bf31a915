//! The source's life, projected as a host would, against what the rig knows.

use crate::Action::{Finish, StartChild};
use crate::bench::Bench;
use crate::case::Need::Can;
use crate::case::{Case, Failure, case};

pub(super) const CASES: &[Case] = &[case!(
    "truth::every_told_state_is_reported",
    "truth.told",
    [Can(StartChild), Can(Finish)],
    every_told_state_is_reported
)];

async fn every_told_state_is_reported(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    bench.live(&watch).await?;
    bench.settle(&watch).await
}
