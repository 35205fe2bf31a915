//! Ctrl-C: what we started ends, all of it, and the end says how.

use std::io::Read;
use std::process::Child;

use headcount_contract::{ChildState, LifecycleEvent};
use serde_json::json;

use crate::program::{DEADLINE, ends, events, eventually, headcount, line_of, members, signal};

/// A running `headcount`, and the process group of its child.
struct Running {
    program: Child,
    group: u32,
    /// Removed with everything else at the end.
    _folder: tempfile::TempDir,
}

impl Running {
    /// Starts a script that writes its own pid to `$OUT/pid` once it is set up, and waits for as
    /// many members of its group as it should have.
    fn start(options: &[&str], script: &str, processes: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut args = vec!["run", "--output", "json"];
        args.extend(options);
        args.extend(["--", "sh", "-c", script]);
        let program = headcount(&args).env("OUT", folder.path()).spawn().unwrap();
        let pid = folder.path().join("pid");
        let group = eventually("the script to be set up", || line_of(&pid)?.parse().ok());
        let running = Self {
            program,
            group,
            _folder: folder,
        };
        eventually("all processes", || {
            (members(group).len() == processes).then_some(())
        });
        running
    }

    /// Waits for the end of `headcount`, and tells its exit code and what it wrote.
    fn finish(mut self) -> (Option<i32>, Vec<LifecycleEvent>) {
        let mut stdout = Vec::new();
        self.program
            .stdout
            .take()
            .unwrap()
            .read_to_end(&mut stdout)
            .unwrap();
        let status = self.program.wait().unwrap();
        assert_eq!(members(self.group), Vec::<u32>::new(), "left behind");
        let output = std::process::Output {
            status,
            stdout,
            stderr: Vec::new(),
        };
        (status.code(), events(&output))
    }
}

/// Nothing of a test outlives it, even if it fails.
impl Drop for Running {
    fn drop(&mut self) {
        if !members(self.group).is_empty() {
            let group = format!("kill -KILL -{}", self.group);
            let _ = std::process::Command::new("sh")
                .args(["-c", &group])
                .status();
        }
        let _ = self.program.kill();
    }
}

#[test]
fn a_child_that_obeys_is_cancelled_without_force() {
    let script = r#"trap 'exit 0' TERM; echo $$ > "$OUT/pid"; while :; do sleep 0.05; done"#;
    let running = Running::start(&["--grace", "60s"], script, 2);
    signal(&running.program, "INT");
    let (_, events) = running.finish();
    let ends = ends(&events);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].state(), Some(ChildState::CANCELLED));
    assert_eq!(ends[0].details().get("stopRequested"), Some(json!(true)));
    assert_ne!(ends[0].details().get("escalated"), Some(json!(true)));
}

#[test]
fn a_group_that_ignores_the_signal_is_killed_after_the_grace_time() {
    let script = r#"trap "" TERM; sleep 600 & sleep 600 & echo $$ > "$OUT/pid"; wait"#;
    let running = Running::start(&["--grace", "200ms"], script, 3);
    signal(&running.program, "INT");
    let (code, events) = running.finish();
    let ends = ends(&events);
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0].state(), Some(ChildState::CANCELLED));
    assert_eq!(ends[0].details().get("escalated"), Some(json!(true)));
    assert_eq!(ends[0].details().get("stopRequested"), Some(json!(true)));
    assert_eq!(code, Some(128 + 9));
}

#[test]
fn a_leader_that_obeys_does_not_hide_a_member_that_does_not() {
    let script = r#"(trap "" TERM; exec sleep 600) & trap 'exit 0' TERM; echo $$ > "$OUT/pid"; while :; do sleep 0.05; done"#;
    let running = Running::start(&["--grace", "200ms"], script, 3);
    signal(&running.program, "INT");
    let (_, events) = running.finish();
    assert_eq!(ends(&events)[0].state(), Some(ChildState::CANCELLED));
}

#[test]
fn a_second_signal_does_not_wait_for_the_grace_time() {
    let script = r#"trap "" TERM; echo $$ > "$OUT/pid"; while :; do sleep 0.05; done"#;
    let mut running = Running::start(&["--grace", "1h"], script, 2);
    eventually("the end, without the grace time", || {
        signal_if_alive(&mut running.program);
        running.program.try_wait().unwrap()
    });
    assert!(DEADLINE.as_secs() < 3600, "else this test shows nothing");
    let (_, events) = running.finish();
    assert_eq!(
        ends(&events)[0].details().get("escalated"),
        Some(json!(true))
    );
}

fn signal_if_alive(program: &mut Child) {
    if program.try_wait().unwrap().is_none() {
        signal(program, "INT");
    }
}

/// SIGTERM, as a service manager sends it, is the same wish.
#[test]
fn sigterm_stops_the_child_too() {
    let script = r#"echo $$ > "$OUT/pid"; exec sleep 600"#;
    let running = Running::start(&[], script, 1);
    signal(&running.program, "TERM");
    let (_, events) = running.finish();
    assert_eq!(ends(&events)[0].state(), Some(ChildState::CANCELLED));
}
