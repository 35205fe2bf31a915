//! Lives as many seeded histories as one says: `cargo xtask soak projector 1000000 [FIRST_SEED]`.

// A history that cannot be built, or does not hold, ends the run.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]
#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for the terminal

#[path = "../tests/simulation/mod.rs"]
mod simulation;
#[allow(dead_code)] // shared with the transcripts, which read histories; here they are written
#[path = "../tests/support/mod.rs"]
mod support;

use std::process::ExitCode;

/// Seeds that one thread takes at a time.
const SHARE: u64 = 1_000;

fn main() -> ExitCode {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.replace('_', ""));
    let mut number = |otherwise: u64| arguments.next().map_or(Ok(otherwise), |a| a.parse());
    let (Ok(histories), Ok(first)) = (number(1_000_000), number(0)) else {
        eprintln!("usage: soak [HISTORIES [FIRST_SEED]], both whole numbers");
        return ExitCode::from(2);
    };
    let next = std::sync::atomic::AtomicU64::new(first);
    let last = first + histories;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failed = std::thread::scope(|scope| {
        let work = || {
            let mut inputs = 0;
            loop {
                let from = next.fetch_add(SHARE, std::sync::atomic::Ordering::Relaxed);
                if from >= last {
                    return Ok(inputs);
                }
                inputs += simulation::run(from..(from + SHARE).min(last))?;
            }
        };
        let runs: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut inputs = 0;
        for run in runs {
            match run.join().unwrap() {
                Ok(some) => inputs += some,
                Err(account) => {
                    let account: String = account;
                    eprintln!("{account}");
                    return true;
                }
            }
        }
        println!("{histories} histories from seed {first}, {inputs} inputs: all hold");
        false
    });
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}
