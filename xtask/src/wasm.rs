//! The pure crates build where there is no operating system at all.

use std::path::Path;

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

const TARGET: &str = "wasm32-unknown-unknown";

/// Checks the pure crates for a target without an operating system, if its library is installed.
///
/// Where it is not, `layers` still proves that they depend on nothing that needs one.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let libraries = Run::program(
        workspace.root(),
        "rustc",
        ["--print", "target-libdir", "--target", TARGET],
    )
    .read()?;
    if !Path::new(libraries.trim()).is_dir() {
        let why = format!("the target is not installed: `rustup target add {TARGET}`");
        return Ok(Done::Skipped(why));
    }
    let args = ["check", "--locked", "--all-features", "--target", TARGET];
    Run::cargo(workspace.root(), args)
        .args([
            "--package",
            "headcount-contract",
            "--package",
            "headcount-projector",
        ])
        .run()
}
