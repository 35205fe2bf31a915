//! Mutation testing of the crates that are pure enough for it.

use crate::shell::{Done, Outcome, Run, has_subcommand};
use crate::workspace::Workspace;

/// The crates whose tests need nothing but themselves.
const PURE: [&str; 2] = ["headcount-contract", "headcount-projector"];

/// Makes the faults that the projector lists, then runs `cargo mutants` over the pure crates.
pub(crate) fn run(workspace: &Workspace, args: &[String]) -> Outcome {
    let listed = ["run", "--locked", "--package", "headcount-projector"];
    let example = ["--example", "projector_mutants"];
    Run::cargo(workspace.root(), listed.into_iter().chain(example)).run()?;
    if !has_subcommand("mutants") {
        return Ok(Done::Skipped(
            "of the mutants, only the listed ones were tried; for all others, `cargo install --locked cargo-mutants`".into(),
        ));
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
