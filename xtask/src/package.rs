//! What would be published, without publishing it.

use cargo_metadata::Package;

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// Lists the files of each published crate, and checks what a registry would refuse.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let mut faults = Vec::new();
    for package in workspace.published() {
        faults.extend(unpublishable(package));
        let args = [
            "package",
            "--locked",
            "--list",
            "--allow-dirty",
            "--package",
            &package.name,
        ];
        let listed = Run::cargo(workspace.root(), args).read()?;
        let files: Vec<&str> = listed.lines().collect();
        faults.extend(unwanted(&files).map(|file| format!("{} would ship {file}", package.name)));
        faults
            .extend(missing(&files).map(|file| format!("{} would not ship {file}", package.name)));
        println!("{:<28} {:>4} files", package.name, files.len());
    }
    if faults.is_empty() {
        Ok(Done::Well)
    } else {
        Err(faults.join("; "))
    }
}

/// What a registry refuses: a missing description or licence, or a local dependency that names no
/// version.
fn unpublishable(package: &Package) -> Vec<String> {
    let mut faults = Vec::new();
    if package.description.is_none() {
        faults.push(format!("{} has no description", package.name));
    }
    if package.license.is_none() {
        faults.push(format!("{} has no licence", package.name));
    }
    let versionless = package.dependencies.iter().filter(|dependency| {
        dependency.path.is_some()
            && dependency.kind != cargo_metadata::DependencyKind::Development
            && dependency.req.comparators.is_empty()
    });
    faults.extend(
        versionless
            .map(|dependency| format!("{} needs a version of {}", package.name, dependency.name)),
    );
    faults
}

/// Files that belong to a working tree and not into a crate.
fn unwanted<'a>(files: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    const ENDINGS: [&str; 3] = [".snap.new", ".pending-snap", ".rej"];
    files.iter().copied().filter(|file| {
        file.starts_with("target/") || ENDINGS.iter().any(|ending| file.ends_with(ending))
    })
}

/// What everybody who gets the crate alone must find in it.
fn missing(files: &[&str]) -> impl Iterator<Item = &'static str> {
    const ALWAYS: [&str; 3] = ["README.md", "LICENSE-APACHE", "LICENSE-MIT"];
    ALWAYS.into_iter().filter(|file| !files.contains(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_a_crate_lacks() {
        let files = ["Cargo.toml", "README.md", "LICENSE-MIT"];
        assert_eq!(missing(&files).collect::<Vec<_>>(), ["LICENSE-APACHE"]);
    }

    #[test]
    fn finds_what_does_not_belong_into_a_crate() {
        let files = [
            "Cargo.toml",
            "src/lib.rs",
            "src/snapshots/a.snap.new",
            "target/x",
        ];
        assert_eq!(
            unwanted(&files).collect::<Vec<_>>(),
            ["src/snapshots/a.snap.new", "target/x"]
        );
    }
}
