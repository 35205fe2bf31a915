//! What cargo knows of the workspace.

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package, Target, TargetKind};

/// The workspace with its whole dependency graph.
pub(crate) struct Workspace {
    root: PathBuf,
    metadata: Metadata,
}

impl Workspace {
    /// Asks cargo, with every feature on, so that optional dependencies are seen too.
    pub(crate) fn load() -> Result<Self, String> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let metadata = MetadataCommand::new()
            .manifest_path(manifest)
            .other_options(["--locked".to_owned(), "--all-features".to_owned()])
            .exec()
            .map_err(|error| format!("cargo metadata failed: {error}"))?;
        Ok(Self {
            root: metadata.workspace_root.clone().into_std_path_buf(),
            metadata,
        })
    }

    /// The folder of the workspace's manifest.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Everything that cargo told.
    pub(crate) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The members, in the order of their names.
    pub(crate) fn members(&self) -> Vec<&Package> {
        let mut members = self.metadata.workspace_packages();
        members.sort_by(|a, b| a.name.cmp(&b.name));
        members
    }

    /// A member by its name.
    pub(crate) fn member(&self, name: &str) -> Result<&Package, String> {
        self.members()
            .into_iter()
            .find(|package| package.name.as_str() == name)
            .ok_or_else(|| format!("the workspace has no package {name}"))
    }

    /// The members that are published.
    pub(crate) fn published(&self) -> Vec<&Package> {
        let published =
            |package: &&Package| package.publish.as_ref().is_none_or(|to| !to.is_empty());
        self.members().into_iter().filter(published).collect()
    }

    /// All targets of one kind, with their packages.
    pub(crate) fn targets(&self, kind: &TargetKind) -> Vec<(&Package, &Target)> {
        self.members()
            .into_iter()
            .flat_map(|package| package.targets.iter().map(move |target| (package, target)))
            .filter(|(_, target)| target.kind.contains(kind))
            .collect()
    }

    /// Where cargo puts its products.
    pub(crate) fn target_dir(&self) -> &Path {
        self.metadata.target_directory.as_std_path()
    }
}
