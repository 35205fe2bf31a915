//! Who may depend on whom, and which outside crates stay out of which of ours.

mod graph;
mod rules;

use crate::shell::{Done, Outcome};
use crate::workspace::Workspace;

/// Holds the dependency graph that cargo resolves, with every feature on, against the rules.
pub(crate) fn run(workspace: &Workspace) -> Outcome {
    let graph = graph::Graph::of(workspace)?;
    let faults = rules::faults(&graph);
    if !faults.is_empty() {
        return Err(format!("\n  {}", faults.join("\n  ")));
    }
    println!("{} crates depend on what they may", graph.members.len());
    Ok(Done::Well)
}
