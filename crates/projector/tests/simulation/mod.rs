//! Seeded histories against the truth. `run` lives one and checks it; what fails is shrunk.

pub(crate) mod check;
pub(crate) mod transport;
pub(crate) mod world;

use headcount_projector::Projector;

use crate::simulation::check::{Violation, check};
use crate::simulation::transport::{History, history, set_scopes};
use crate::simulation::world::CALM;
use crate::support::{Input, transcript_of};

/// Lives and checks the histories of these seeds; the number of inputs that they took.
///
/// # Errors
///
/// A readable account of the first history that does not hold.
pub(crate) fn run(seeds: std::ops::Range<u64>) -> Result<usize, String> {
    let mut inputs = 0;
    for seed in seeds {
        let history = history(seed);
        check(&history, &history.inputs)
            .map_err(|violation| account(seed, &history, &violation))?;
        inputs += history.inputs.len();
    }
    Ok(inputs)
}

/// What was violated, and the shortest history found in which it is.
fn account(seed: u64, history: &History, violation: &Violation) -> String {
    let inputs = shrink(history, violation);
    let mut projector = Projector::new(history.settings.clone());
    set_scopes(&mut projector, &history.sources);
    let truth: Vec<_> = history
        .sources
        .iter()
        .map(world::TrueSource::summary)
        .collect();
    format!(
        "seed {seed}: {}: {} {}\n\n{}\nof {} inputs, these remain:\n\n{}",
        violation.rule,
        violation.child,
        violation.words,
        truth.join("\n"),
        history.inputs.len(),
        transcript_of(&mut projector, inputs),
    )
}

/// Leaves out whatever came before the calm and is not needed to violate the same rule for the same
/// child. A transport may lose any of it, so what remains is a history too.
fn shrink(history: &History, violation: &Violation) -> Vec<Input> {
    let same = |inputs: &[Input]| {
        check(history, inputs)
            .is_err_and(|other| other.rule == violation.rule && other.child == violation.child)
    };
    let mut inputs = history.inputs.clone();
    let mut step = inputs.len().next_power_of_two() / 2;
    while step > 0 {
        let mut at = 0;
        while at < inputs.len() {
            let end = (at + step).min(inputs.len());
            let mut fewer = inputs.clone();
            fewer.drain(at..end);
            let faulty = inputs[at..end].iter().all(|input| input.at < CALM);
            if faulty && same(&fewer) {
                inputs = fewer;
            } else {
                at += step;
            }
        }
        step /= 2;
    }
    inputs
}
