//! Ten thousand seeded histories against the truth; `cargo xtask soak projector` lives millions.

// A history that cannot be built fails its test.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

mod simulation;
#[allow(dead_code)] // shared with the transcripts, which read histories; here they are written
mod support;

#[test]
fn ten_thousand_histories_agree_with_the_truth() {
    const HISTORIES: u64 = 10_000;
    let threads = 2;
    let share = HISTORIES / threads;
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || simulation::run(thread * share..(thread + 1) * share))
            })
            .collect();
        for run in runs {
            match run.join().unwrap() {
                Ok(inputs) => assert!(
                    inputs > 100_000,
                    "histories of substance, not {inputs} inputs"
                ),
                Err(account) => panic!("{account}"),
            }
        }
    });
}
