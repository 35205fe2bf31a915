//! The example adapter outside the workspace, built as a stranger would build it.

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

const EXAMPLE: &str = "examples/third-party-adapter";

/// Builds the example and runs its tests, the conformance kit among them.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let folder = workspace.root().join(EXAMPLE);
    if !folder.join("Cargo.toml").is_file() {
        return Ok(Done::Skipped(format!("{EXAMPLE} does not exist yet")));
    }
    Run::cargo(&folder, ["test", "--locked", "--no-fail-fast"])
        .env(
            "CARGO_TARGET_DIR",
            workspace.target_dir().join("third-party"),
        )
        .env("INSTA_UPDATE", "no")
        .run()
}
