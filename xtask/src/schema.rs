//! The JSON Schemas of what people and programs write, committed under `schemas/`.

use std::fs;

use serde::Serialize;

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// The schemas of the contract, which this program links.
fn of_the_contract() -> Vec<(&'static str, String)> {
    use headcount_contract::schema;
    vec![
        ("schemas/event.json", text(&schema::event())),
        ("schemas/snapshot.json", text(&schema::snapshot())),
    ]
}

/// The schema that depends on the adapters, which only the command line links.
const OF_THE_PROGRAM: &str = "schemas/fleet.json";

fn of_the_program(workspace: &Workspace) -> Result<(&'static str, String), String> {
    let args = [
        "run",
        "--quiet",
        "--locked",
        "--package",
        "headcount-cli",
        "--",
        "schema",
        "fleet",
    ];
    Ok((OF_THE_PROGRAM, Run::cargo(workspace.root(), args).read()?))
}

fn text(schema: &impl Serialize) -> String {
    let json = serde_json::to_string_pretty(schema);
    // A schema is made of strings, numbers, lists and maps with string keys: it always serialises,
    // and an empty file would be refused by `check`.
    json.unwrap_or_default() + "\n"
}

/// Writes all schemas.
pub(crate) fn write(workspace: &Workspace) -> Outcome {
    let mut schemas = of_the_contract();
    schemas.push(of_the_program(workspace)?);
    for (name, text) in schemas {
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

/// Compares all schemas, and the folder with their list.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let mut schemas = of_the_contract();
    schemas.push(of_the_program(workspace)?);
    compare(workspace, &schemas)
}

/// Compares the schemas of the contract. That the program prints what is committed is held by a
/// test of the command line, for which `ci` builds it anyway.
pub(crate) fn check_contract(workspace: &Workspace) -> Outcome {
    compare(workspace, &of_the_contract())
}

fn compare(workspace: &Workspace, schemas: &[(&str, String)]) -> Outcome {
    let mut stale: Vec<String> = Vec::new();
    for (name, text) in schemas {
        match fs::read_to_string(workspace.root().join(name)) {
            Ok(present) if present == *text => (),
            Ok(_) => stale.push(format!("{name} is not what the types say")),
            Err(error) => stale.push(format!("{name} cannot be read: {error}")),
        }
    }
    let folder = fs::read_dir(workspace.root().join("schemas"));
    for file in folder.into_iter().flatten().flatten() {
        let name = format!("schemas/{}", file.file_name().to_string_lossy());
        if name != OF_THE_PROGRAM && schemas.iter().all(|(known, _)| *known != name) {
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
