//! A number that is given out again, forced.

use std::collections::HashMap;

use headcount_adapter_external::look;
use headcount_contract::{ChildState, EventKind};
use libtest_mimic::Trial;
use serde_json::json;

use crate::probe::{needs, trial};
use crate::support::{Foster, KillOnDrop, Observed, until};

const SWITCH: &str = "/proc/sys/kernel/ns_last_pid";

pub(crate) fn trials() -> Vec<Trial> {
    // The file may be writable by its mode and still refuse: only writing tells.
    let last = std::fs::read_to_string(SWITCH).unwrap_or_default();
    let writable = std::fs::write(SWITCH, last.trim()).is_ok();
    vec![trial(
        "a_number_that_was_given_out_again_is_another_child",
        needs(
            writable,
            "the next process number cannot be chosen, which needs root and checkpoint support",
        ),
        a_number_that_was_given_out_again_is_another_child,
    )]
}

async fn a_number_that_was_given_out_again_is_another_child() {
    let first = Foster::sleeping();
    let pid = first.pid;
    let mut observed = Observed::open(json!({"pids": [pid]}));
    let old = observed.created(pid).await;
    first.kill("KILL");
    let end = observed.end(old.child_id()).await;
    until("collected", || {
        !std::path::Path::new(&format!("/proc/{pid}")).exists()
    })
    .await;

    // Other tests start processes too: try until the number falls to ours.
    let second = (0..200).find_map(|_| {
        std::fs::write(SWITCH, (pid - 1).to_string()).unwrap();
        let child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let mut child = KillOnDrop(child);
        if child.0.id() == pid {
            return Some(child);
        }
        child.0.kill().unwrap();
        child.0.wait().unwrap();
        None
    });
    let Some(_second) = second else {
        panic!("the number was never free")
    };
    let adopted = observed.adapter.adopt(i64::from(pid)).await.unwrap();
    assert_ne!(&adopted, old.child_id());
    let created = observed.created(pid).await;
    assert_eq!(created.child_id(), &adopted);
    assert_ne!(
        created.details().get("pidfdInode"),
        old.details().get("pidfdInode")
    );

    // The old one stays ended, the new one lives.
    let snapshot = observed.snapshot().await;
    let states: HashMap<_, _> = snapshot
        .children()
        .iter()
        .map(|child| (child.id().clone(), child.state()))
        .collect();
    assert_eq!(states[&adopted], ChildState::CREATED);
    if let EventKind::Terminal(outcome) = end.kind() {
        assert_eq!(states[old.child_id()], ChildState::Terminal(outcome));
    }

    // A journal's record of the old one does not match the new one.
    let found = headcount_adapter_external::match_journal_child(
        old.details(),
        headcount_adapter_external::boot_id().as_deref(),
        look,
    );
    assert_eq!(found, headcount_adapter_external::Readopt::AnotherProcess);
}
