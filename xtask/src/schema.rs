//! The JSON Schemas of the wire types, committed under `schemas/`.

use std::fs;

use serde::Serialize;

use crate::shell::{Done, Outcome};
use crate::workspace::Workspace;

/// The files and what belongs into them.
fn schemas() -> Vec<(&'static str, String)> {
    vec![
        (
            "schemas/event.json",
            text(&headcount_contract::schema::event()),
        ),
        (
            "schemas/snapshot.json",
            text(&headcount_contract::schema::snapshot()),
        ),
    ]
}

fn text(schema: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(schema);
    // A schema is made of strings, numbers, lists and maps with string keys: it always serialises,
    // and an empty file would be refused by `check`.
    json.unwrap_or_default() + "\n"
}

/// Writes the files.
pub(crate) fn write(workspace: &Workspace) -> Outcome {
    for (name, text) in schemas() {
        let path = workspace.root().join(name);
        if fs::read_to_string(&path).is_ok_and(|present| present == text) {
            continue;
        }
        path.parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("{name} cannot be written: {error}"))?;
        println!("wrote {name}");
    }
    Ok(Done::Well)
}

/// Compares the files with the types, and the folder with the list.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let schemas = schemas();
    let mut stale: Vec<String> = Vec::new();
    for (name, text) in &schemas {
        match fs::read_to_string(workspace.root().join(name)) {
            Ok(present) if present == *text => (),
            Ok(_) => stale.push(format!("{name} is not what the types say")),
            Err(error) => stale.push(format!("{name} cannot be read: {error}")),
        }
    }
    let folder = fs::read_dir(workspace.root().join("schemas"));
    for file in folder.into_iter().flatten().flatten() {
        let name = format!("schemas/{}", file.file_name().to_string_lossy());
        if schemas.iter().all(|(known, _)| *known != name) {
            stale.push(format!("{name} belongs to no type"));
        }
    }
    if stale.is_empty() {
        println!("{} schemas are what the types say", schemas.len());
        Ok(Done::Well)
    } else {
        Err(format!(
            "{}; `cargo xtask schema` writes them",
            stale.join(", ")
        ))
    }
}
