//! Everything that must hold before a change goes to main, one step after the other.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;
use crate::{
    features, layers, new_adapter, package, schema, snapshots, soak, targets, third_party,
};

/// One step: its name, and what it does.
struct Step {
    name: &'static str,
    run: fn(&Workspace) -> Outcome,
}

/// The steps in order: the quick ones first, and those that share build products next to each
/// other. `snapshots` needs what `tests` wrote down.
const STEPS: [Step; 14] = [
    Step {
        name: "fmt",
        run: fmt,
    },
    Step {
        name: "layers",
        run: layers::run,
    },
    Step {
        name: "targets",
        run: targets::run,
    },
    Step {
        name: "schema",
        run: schema::check_contract,
    },
    Step {
        name: "clippy",
        run: clippy,
    },
    Step {
        name: "features",
        run: features::run,
    },
    Step {
        name: "tests",
        run: tests,
    },
    Step {
        name: "snapshots",
        run: snapshots::run,
    },
    Step {
        name: "soak",
        run: soak::shortened,
    },
    Step {
        name: "doc-tests",
        run: doc_tests,
    },
    Step {
        name: "docs",
        run: docs,
    },
    Step {
        name: "third-party",
        run: third_party::run,
    },
    Step {
        name: "new-adapter",
        run: new_adapter::check,
    },
    Step {
        name: "package",
        run: package::run,
    },
];

/// Runs every step, or those that are named, and goes on after one that fails.
///
/// Nothing is written but build products: the lock file is used as it is, and no snapshot is
/// accepted. That is checked too: the files that git sees are the same afterwards.
pub(crate) fn run(workspace: &Workspace, only: &[String]) -> Outcome {
    if let Some(unknown) = only
        .iter()
        .find(|name| STEPS.iter().all(|step| step.name != **name))
    {
        let names: Vec<_> = STEPS.iter().map(|step| step.name).collect();
        return Err(format!(
            "no step {unknown}; the steps are {}",
            names.join(", ")
        ));
    }
    let before = git_status(workspace.root());
    let mut results = Vec::new();
    for step in &STEPS {
        if !only.is_empty() && only.iter().all(|name| name != step.name) {
            continue;
        }
        println!("\n==> {}", step.name);
        let start = Instant::now();
        let outcome = (step.run)(workspace);
        let took = start.elapsed();
        println!("{}", line(step.name, &outcome, took));
        results.push((step.name, outcome, took));
    }
    let unchanged = match (before, git_status(workspace.root())) {
        (Some(before), Some(after)) if before == after => Ok(Done::Well),
        (Some(_), Some(after)) => Err(format!("a step wrote to the working tree:\n{after}")),
        _ => Ok(Done::Skipped("this is no git checkout".to_owned())),
    };
    results.push(("unchanged", unchanged, Duration::ZERO));

    println!("\n==> summary");
    for (name, outcome, took) in &results {
        println!("{}", line(name, outcome, *took));
    }
    let failed = results
        .iter()
        .filter(|(_, outcome, _)| outcome.is_err())
        .count();
    match failed {
        0 => Ok(Done::Well),
        1 => Err("1 step failed".to_owned()),
        n => Err(format!("{n} steps failed")),
    }
}

fn line(name: &str, outcome: &Outcome, took: Duration) -> String {
    let seconds = took.as_secs_f64();
    match outcome {
        Ok(Done::Well) => format!("ok      {name:<12} {seconds:>7.1} s"),
        Ok(Done::Skipped(why)) => format!("skipped {name:<12} {seconds:>7.1} s  {why}"),
        Err(message) => format!("FAILED  {name:<12} {seconds:>7.1} s  {message}"),
    }
}

fn fmt(workspace: &Workspace) -> Outcome {
    Run::cargo(workspace.root(), ["fmt", "--all", "--check"]).run()
}

fn clippy(workspace: &Workspace) -> Outcome {
    let args = [
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--all-features",
    ];
    Run::cargo(workspace.root(), args)
        .args(["--", "-D", "warnings"])
        .run()
}

/// Runs the tests under `cargo test`, so that a machine with nothing but Rust can.
fn tests(workspace: &Workspace) -> Outcome {
    let args = [
        "test",
        "--locked",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
    ];
    let references = snapshots::begin(workspace)?;
    Run::cargo(workspace.root(), args)
        .args(["--lib", "--bins", "--tests", "--examples"])
        // No snapshot is written, and each one that is compared is noted down.
        .env("INSTA_UPDATE", "no")
        .env("INSTA_FORCE_PASS", "0")
        .env("INSTA_SNAPSHOT_REFERENCES_FILE", references)
        .run()
}

fn doc_tests(workspace: &Workspace) -> Outcome {
    let args = [
        "test",
        "--locked",
        "--workspace",
        "--all-features",
        "--no-fail-fast",
        "--doc",
    ];
    Run::cargo(workspace.root(), args).run()
}

fn docs(workspace: &Workspace) -> Outcome {
    let args = [
        "doc",
        "--locked",
        "--workspace",
        "--all-features",
        "--no-deps",
    ];
    Run::cargo(workspace.root(), args)
        .env("RUSTDOCFLAGS", "-D warnings")
        .run()
}

/// What git sees in the working tree, with the content of what is changed; none outside of git.
fn git_status(root: &Path) -> Option<String> {
    let read = |args: &[&str]| {
        let output = std::process::Command::new("git")
            .current_dir(root)
            .args(args)
            .output()
            .ok()?;
        output
            .status
            .success()
            .then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    Some(read(&["status", "--porcelain"])? + &read(&["diff", "HEAD", "--stat"])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_looked_at_after_the_tests() {
        let at = |name| STEPS.iter().position(|step| step.name == name);
        assert!(at("tests").unwrap() < at("snapshots").unwrap());
    }

    #[test]
    fn a_line_tells_how_a_step_ended() {
        let second = Duration::from_secs(1);
        assert_eq!(
            line("fmt", &Ok(Done::Well), second),
            "ok      fmt              1.0 s"
        );
        assert_eq!(
            line("docs", &Err("`cargo doc` ended with 101".into()), second),
            "FAILED  docs             1.0 s  `cargo doc` ended with 101"
        );
        assert_eq!(
            line("wasm", &Ok(Done::Skipped("no target".into())), second),
            "skipped wasm             1.0 s  no target"
        );
    }
}
