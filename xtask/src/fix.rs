//! Mends what a machine can mend.

use crate::schema;
use crate::shell::{Outcome, Run};
use crate::workspace::Workspace;

/// Applies what clippy suggests, formats, and writes the generated files anew.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let args = [
        "clippy",
        "--fix",
        "--allow-dirty",
        "--allow-staged",
        "--workspace",
    ];
    Run::cargo(workspace.root(), args)
        .args(["--all-targets", "--all-features"])
        .run()?;
    Run::cargo(workspace.root(), ["fmt", "--all"]).run()?;
    schema::write(workspace)
}
