//! Benchmarks, each in the crate that it measures.

use cargo_metadata::TargetKind;

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// Runs the benchmark of that name, wherever it is, or lists them all.
pub(crate) fn run(workspace: &Workspace, name: Option<&str>, args: &[String]) -> Outcome {
    let benches = workspace.targets(&TargetKind::Bench);
    let Some(name) = name else {
        for (package, target) in &benches {
            println!("{:<16} {}", target.name, package.name);
        }
        return Ok(Done::Well);
    };
    let Some((package, _)) = benches.iter().find(|(_, target)| target.name == name) else {
        let names: Vec<_> = benches
            .iter()
            .map(|(_, target)| target.name.as_str())
            .collect();
        return Err(format!(
            "no benchmark {name}; there are: {}",
            names.join(", ")
        ));
    };
    let args = [
        "bench",
        "--locked",
        "--package",
        &package.name,
        "--bench",
        name,
        "--",
    ]
    .into_iter()
    .chain(args.iter().map(String::as_str));
    Run::cargo(workspace.root(), args).run()
}
