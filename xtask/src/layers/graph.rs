//! The dependency graph, as far as the rules look at it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use cargo_metadata::{DependencyKind, PackageId};

use crate::workspace::Workspace;

/// The members of the workspace and what they depend on to be built; development dependencies are
/// no part of it.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    pub(crate) members: BTreeMap<String, Member>,
}

/// One member's dependencies.
#[derive(Debug, Default)]
pub(crate) struct Member {
    /// What its manifest names.
    pub(crate) direct: BTreeSet<String>,
    /// Those of them that a feature has to ask for.
    pub(crate) optional: BTreeSet<String>,
    /// Everything that is built for it, however far away.
    pub(crate) reached: BTreeSet<String>,
}

impl Graph {
    /// Reads it out of what cargo resolved.
    pub(crate) fn of(workspace: &Workspace) -> Result<Self, String> {
        let metadata = workspace.metadata();
        let resolve = metadata
            .resolve
            .as_ref()
            .ok_or("cargo metadata resolved nothing")?;
        let edges: HashMap<&PackageId, Vec<&PackageId>> = resolve
            .nodes
            .iter()
            .map(|node| {
                let built = node.deps.iter().filter(|dependency| {
                    dependency.dep_kinds.iter().any(|kind| is_built(kind.kind))
                });
                (&node.id, built.map(|dependency| &dependency.pkg).collect())
            })
            .collect();
        let mut graph = Self::default();
        for package in workspace.members() {
            let mut member = Member::default();
            for dependency in package.dependencies.iter().filter(|d| is_built(d.kind)) {
                member.direct.insert(dependency.name.clone());
                if dependency.optional {
                    member.optional.insert(dependency.name.clone());
                }
            }
            let mut seen = BTreeSet::new();
            let mut open = vec![&package.id];
            while let Some(id) = open.pop() {
                for next in edges.get(id).into_iter().flatten() {
                    if seen.insert(*next) {
                        open.push(next);
                    }
                }
            }
            member.reached = seen
                .iter()
                .map(|id| metadata[id].name.to_string())
                .collect();
            graph.members.insert(package.name.to_string(), member);
        }
        Ok(graph)
    }
}

fn is_built(kind: DependencyKind) -> bool {
    matches!(kind, DependencyKind::Normal | DependencyKind::Build)
}
