//! The stress test at length: `--children 2000 --rounds 10 --at-once 200 --seed 1`.
//!
//! Exits with 1 if a last line was lost, a cause was wrong, a process was left or a descriptor
//! leaked.
#![allow(clippy::print_stdout, clippy::print_stderr)] // it is a program for people

#[path = "../tests/process/stress.rs"]
mod stress;

use std::process::ExitCode;

use stress::{Load, stress};

fn main() -> ExitCode {
    let option = |name: &str, default: u64| -> u64 {
        let mut args = std::env::args().skip_while(|arg| arg != name);
        args.nth(1)
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    let children = usize::try_from(option("--children", 2000)).unwrap_or(usize::MAX);
    let at_once = usize::try_from(option("--at-once", 200)).unwrap_or(usize::MAX);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no tokio runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut faults = 0;
    for round in 0..option("--rounds", 10) {
        let began = std::time::Instant::now();
        let seed = option("--seed", 1) + round;
        let report = runtime.block_on(stress(Load {
            children,
            at_once,
            seed,
        }));
        println!(
            "round {}: {} children in {:.1} s: {} faults, {} processes left, {} descriptors leaked",
            round + 1,
            report.children,
            began.elapsed().as_secs_f64(),
            report.faults.len(),
            report.left_processes.len(),
            report.leaked_descriptors,
        );
        for fault in report.faults.iter().take(10) {
            println!("  {fault}");
        }
        faults += report.faults.len() + report.left_processes.len() + report.leaked_descriptors;
    }
    if faults == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
