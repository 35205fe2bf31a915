//! Fuzzing, with `cargo fuzz` on a nightly compiler.

use std::process::{Command, Stdio};

use crate::shell::{Done, Outcome, Run, has_subcommand};
use crate::workspace::Workspace;

/// The files that the JSONL decoder's verdicts are tested on: the seeds.
const SEEDS: &str = "crates/adapter-jsonl/tests/fixtures/corpus";

/// Fuzzes the JSONL decoder for so many seconds.
pub(crate) fn run(workspace: &Workspace, seconds: u64, args: &[String]) -> Outcome {
    if !has_subcommand("fuzz") {
        let why = "no `cargo fuzz`; `cargo install --locked cargo-fuzz` brings it";
        return Ok(Done::Skipped(why.into()));
    }
    if !has_nightly() {
        let why = "no nightly compiler; `rustup toolchain install nightly` brings it";
        return Ok(Done::Skipped(why.into()));
    }
    // What is found goes into the first folder; the seeds are only read.
    let found = workspace.root().join("fuzz/corpus/decoder");
    std::fs::create_dir_all(&found)
        .map_err(|error| format!("{} cannot be made: {error}", found.display()))?;
    let through = ["run", "nightly", "cargo", "fuzz", "run", "decoder"];
    Run::program(workspace.root(), "rustup", through)
        .arg(found)
        .arg(SEEDS)
        .args(["--", "-max_len=8192"])
        .arg(format!("-max_total_time={seconds}"))
        .args(args)
        .run()
}

fn has_nightly() -> bool {
    Command::new("rustup")
        .args(["run", "nightly", "rustc", "--version"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
