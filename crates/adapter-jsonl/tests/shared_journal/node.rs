//! Six writers of ours and six in Node on one journal.

use std::process::{Command, Stdio};
use std::time::Duration;

use headcount_adapter_jsonl::{DecoderLimits, Journal, Sequencing, verify_journal};

use crate::writer::{lines, options};
use crate::{Outcome, ourselves};

const EACH: u64 = 12;

pub(crate) fn missing() -> Option<String> {
    let node = Command::new("node")
        .arg("--version")
        .stdout(Stdio::null())
        .status();
    match node {
        Ok(status) if status.success() => None,
        Ok(status) => Some(format!("node --version ends with {status}")),
        Err(error) => Some(format!("node cannot be started: {error}")),
    }
}

pub(crate) fn run() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("j");
    let name = path.to_str().ok_or("a path of UTF-8")?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/peer.mjs");
    let mut children = Vec::new();
    for n in 0..6 {
        let each = EACH.to_string();
        children.push(ourselves(&["writer", name, &format!("ours{n}"), &each]).spawn()?);
        let mut node = Command::new("node");
        node.args([script, name, &format!("node{n}"), &each]);
        children.push(node.spawn()?);
    }
    for mut child in children {
        let status = child.wait()?;
        if !status.success() {
            return Err(format!("a writer ended with {status}").into());
        }
    }
    let violations = lines(&format!("{name}.violations"));
    if !violations.is_empty() {
        return Err(violations.join("\n").into());
    }
    let report = verify_journal(&path, DecoderLimits::default(), Sequencing::Journal)?;
    // Ours append one, two, three, one, ... events at a time.
    let expected = 6 * EACH + 6 * EACH * 2;
    if !report.ok || report.entries != expected {
        return Err(format!("{report:?}, {expected} entries were appended").into());
    }
    let ids: std::collections::BTreeSet<String> =
        Journal::open(&path, options(Duration::from_secs(5)))?
            .replay()?
            .map(|entry| entry.event.event_id().to_string())
            .collect();
    if ids.len() as u64 != expected {
        return Err(format!("{} different events of {expected}", ids.len()).into());
    }
    if path.with_extension("lock").exists() {
        return Err("the lock is left behind".into());
    }
    Ok(())
}
