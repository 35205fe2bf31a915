//! The host builds with no adapter, with each one alone, and with all of them.

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

const HOST: &str = "headcount";
/// Features of the host that select no single adapter.
const SETS: [&str; 2] = ["default", "all-adapters"];

/// Checks the host in each selection of adapters, and the contract without its schemas.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let host = workspace.member(HOST)?;
    let adapters = host
        .features
        .keys()
        .map(String::as_str)
        .filter(|name| !SETS.contains(name));
    let mut selections: Vec<Vec<&str>> = vec![vec![]];
    selections.extend(adapters.map(|adapter| vec![adapter]));
    if selections.len() == 1 {
        return Err(format!("{HOST} has no feature that selects an adapter"));
    }
    selections.push(vec!["all-adapters"]);

    check(workspace, "headcount-contract", &[])?;
    for features in selections {
        check(workspace, HOST, &features)?;
    }
    Ok(Done::Well)
}

/// `cargo check` with clippy's eyes: a warning that only one selection shows is a fault as well.
fn check(workspace: &Workspace, package: &str, features: &[&str]) -> Outcome {
    let args = [
        "clippy",
        "--quiet",
        "--locked",
        "--package",
        package,
        "--no-default-features",
    ];
    Run::cargo(workspace.root(), args)
        .args(["--features", &features.join(",")])
        .args(["--", "-D", "warnings"])
        .run()
}
