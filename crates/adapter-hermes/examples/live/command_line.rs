//! The program `headcount` on the real gateway.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::Command;

use crate::setup::Home;

/// Longer than a gateway takes to come up and to play.
const PATIENCE: Duration = Duration::from_mins(3);

/// What is told live, with a journal and a record, the record tells again.
pub(crate) async fn the_command_line_records_and_replays(home: Home) -> String {
    let Some(program) = std::env::var_os("HEADCOUNT") else {
        return "skipped: no HEADCOUNT names the program".to_owned();
    };
    let (config, folder) = home.gateway(2);
    let file = |name: &str| folder.path().join(name);
    let (record, journal, ends) = (
        file("record.jsonl"),
        file("journal.jsonl"),
        file("ends.json"),
    );
    let prompted = Path::new(env!("CARGO_MANIFEST_DIR")).join("live/prompted.py");
    let python = config.command[0].clone();
    let mut live = Command::new(&program);
    live.args(["hermes", "--output", "json", "--record"])
        .arg(&record)
        .arg("--journal")
        .arg(&journal)
        .args(["--", &python])
        .args([prompted.as_os_str(), OsStr::new("tree"), OsStr::new("4")])
        .args(&config.command)
        .envs(&config.env)
        .current_dir(config.cwd.unwrap());
    run(live).await;
    let mut list = Command::new(&program);
    list.args(["list", "--output", "json", "--journal"])
        .arg(&journal);
    let listed = children(&run(list).await);
    let mut replay = Command::new(&program);
    replay
        .args(["hermes", "--output", "json", "--replay"])
        .arg(&record)
        .arg("--final")
        .arg(&ends);
    run(replay).await;
    let replayed = children(&std::fs::read_to_string(&ends).unwrap());
    assert_eq!(listed.len(), 4, "{listed:#?}");
    assert_eq!(listed, replayed);
    let text = std::fs::read_to_string(&record).unwrap();
    assert!(!text.contains("Please begin"), "no prompt is recorded");
    format!(
        "list and replay agree on {} children; the record has {} lines",
        listed.len(),
        text.lines().count()
    )
}

/// What is known of each child, but for what depends on when it was received.
fn children(text: &str) -> Vec<Value> {
    let whole: Value = serde_json::from_str(text).unwrap();
    let mut children: Vec<Value> = whole.as_array().unwrap().clone();
    for child in &mut children {
        let child = child.as_object_mut().unwrap();
        let kept = ["childId", "state", "lineage", "history", "lastActivity"];
        let terminal = child
            .get("terminal")
            .and_then(|t| t.get("details"))
            .cloned();
        child.retain(|key, _| kept.contains(&key.as_str()));
        child.insert("end".to_owned(), terminal.unwrap_or_default());
    }
    children.sort_by_key(|child| child["childId"].to_string());
    children
}

/// Runs it to its end and returns what it printed.
async fn run(mut command: Command) -> String {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output.expect("it ends in time").unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}
