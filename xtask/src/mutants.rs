//! Mutation testing of the crates that are pure enough for it.

use crate::shell::{Outcome, Run, has_subcommand};
use crate::workspace::Workspace;

/// The crates whose tests need nothing but themselves.
const PURE: [&str; 2] = ["headcount-contract", "headcount-projector"];

/// Runs `cargo mutants` over the pure crates.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Outcome {
    if !has_subcommand("mutants") {
        return Err(
            "cargo-mutants is not installed: `cargo install --locked cargo-mutants`".into(),
        );
    }
    let packages = PURE.iter().flat_map(|name| ["--package", name]);
    let output = workspace.target_dir().join("mutants");
    Run::cargo(workspace.root(), ["mutants", "--all-features"])
        .args(packages)
        .arg("--output")
        .arg(output)
        .args(args)
        .run()
}
