//! What must build for systems other than this one, checked where their libraries are installed.

use std::path::Path;

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// A system, and the crates that build for it.
struct Target {
    triple: &'static str,
    packages: &'static [&'static str],
}

/// `hermes`, and what has it within, builds for all but the first; it is left out because its TLS
/// needs the C compiler of that system.
const TARGETS: &[Target] = &[
    // No operating system at all. Where it is not installed, `layers` still proves that these
    // depend on nothing that needs one.
    Target {
        triple: "wasm32-unknown-unknown",
        packages: &["headcount-contract", "headcount-projector"],
    },
    Target {
        triple: "aarch64-apple-darwin",
        packages: &[
            "headcount-conformance",
            "headcount-adapter-process",
            "headcount-adapter-jsonl",
            "headcount-adapter-external",
        ],
    },
    Target {
        triple: "x86_64-pc-windows-gnu",
        packages: &[
            "headcount-conformance",
            "headcount-adapter-process",
            "headcount-adapter-external",
        ],
    },
];

/// Checks what other systems get of `process`, which builds here too, and the crates for each
/// target that is installed.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let portable = ["clippy", "--quiet", "--locked", "--no-deps", "--lib"];
    Run::cargo(workspace.root(), portable)
        .args(["--package", "headcount-adapter-process", "--"])
        .args(["--cfg", "headcount_portable", "-D", "warnings"])
        .run()?;
    let mut missing = Vec::new();
    for target in TARGETS {
        if is_installed(workspace, target.triple)? {
            check(workspace, target)?;
        } else {
            missing.push(target.triple);
        }
    }
    if missing.is_empty() {
        return Ok(Done::Well);
    }
    let targets = missing.join(" ");
    let why = format!("not installed: `rustup target add {targets}`");
    Ok(Done::Skipped(why))
}

fn is_installed(workspace: &Workspace, triple: &str) -> Result<bool, String> {
    let args = ["--print", "target-libdir", "--target", triple];
    let libraries = Run::program(workspace.root(), "rustc", args).read()?;
    Ok(Path::new(libraries.trim()).is_dir())
}

fn check(workspace: &Workspace, target: &Target) -> Outcome {
    let args = ["check", "--locked", "--all-features", "--target"];
    let packages = target.packages.iter().flat_map(|name| ["--package", name]);
    Run::cargo(workspace.root(), args)
        .args([target.triple])
        .args(packages)
        .run()
}
