//! Adapters against the real programs, where those are installed.

use cargo_metadata::TargetKind;
use clap::Subcommand;

use crate::shell::{Outcome, Run};
use crate::workspace::Workspace;

/// A real program.
#[derive(Subcommand)]
pub(crate) enum Program {
    /// A Hermes gateway.
    Hermes {
        /// What the trial itself is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

/// Runs the example `live` of the program's adapter.
pub(crate) fn run(workspace: &Workspace, program: Program) -> Outcome {
    let (package, args) = match program {
        Program::Hermes { args } => ("headcount-adapter-hermes", args),
    };
    let examples = workspace.targets(&TargetKind::Example);
    if !examples
        .iter()
        .any(|(owner, target)| owner.name == package && target.name == "live")
    {
        return Err(format!("{package} has no example `live` yet"));
    }
    // What a person types is tried, too.
    let program = ["build", "--locked", "--package", "headcount-cli"];
    Run::cargo(workspace.root(), program).run()?;
    let program = workspace.target_dir().join("debug/headcount");
    let cargo = [
        "run",
        "--locked",
        "--package",
        package,
        "--example",
        "live",
        "--",
    ];
    Run::cargo(workspace.root(), cargo)
        .args(args)
        .env("HEADCOUNT", program)
        .run()
}
