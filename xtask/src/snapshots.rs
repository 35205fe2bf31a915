//! No snapshot file is left behind that no test compares.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// The file in which the test run notes each snapshot that it compares.
fn references(workspace: &Workspace) -> PathBuf {
    workspace
        .target_dir()
        .join("xtask")
        .join("snapshot-references")
}

/// Begins a test run: an empty list of references.
pub(crate) fn begin(workspace: &Workspace) -> Result<PathBuf, String> {
    let path = references(workspace);
    path.parent()
        .map_or(Ok(()), fs::create_dir_all)
        .and_then(|()| fs::write(&path, ""))
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(path)
}

/// Compares the committed snapshots with those that the last test run looked at.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let path = references(workspace);
    let Ok(text) = fs::read_to_string(&path) else {
        return Ok(Done::Skipped("the step `tests` has not run".to_owned()));
    };
    let compared: BTreeSet<PathBuf> = text.lines().map(|line| real(Path::new(line))).collect();
    let listed = Run::program(
        workspace.root(),
        "git",
        [
            "ls-files",
            "--cached",
            "--others",
            "--",
            "*.snap",
            "*.snap.new",
            "*.pending-snap",
        ],
    )
    .read()?;
    let committed = listed
        .lines()
        .map(|name| (name, real(&workspace.root().join(name))));
    let orphans: Vec<_> = committed
        .clone()
        .filter(|(_, path)| !compared.contains(path))
        .map(|(name, _)| name)
        .collect();
    if !orphans.is_empty() {
        return Err(format!(
            "no test compares {}; delete or accept them",
            orphans.join(", ")
        ));
    }
    println!(
        "each of {} snapshot files is compared by a test",
        committed.count()
    );
    Ok(Done::Well)
}

/// The path without links and dots, if the file is there.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
