//! What is left on a terminal once the table has gone.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::program::{terminal, text};

/// Everything that a run writes to its terminal, and its exit code.
fn on_a_terminal(program: &[&str]) -> (String, Option<i32>) {
    let (mut screen, terminal) = terminal(200, 24);
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = Command::new(env!("CARGO_BIN_EXE_headcount"))
        .args(["run", "--"])
        .args(program)
        .env("TERM", "xterm-256color")
        .stdin(end())
        .stdout(end())
        .stderr(end())
        .spawn()
        .unwrap();
    drop(terminal);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    // It fails when nobody has the terminal open any more.
    while let Ok(read) = screen.read(&mut buffer) {
        shown.extend(&buffer[..read]);
    }
    (text(&shown), child.wait().unwrap().code())
}

#[test]
fn why_it_failed_stays_on_the_terminal() {
    let (shown, code) = on_a_terminal(&["sh", "-c", "echo the cause of it >&2; exit 74"]);
    assert_eq!(code, Some(74));
    assert!(
        shown.contains("sh: failed, exit code 74, after "),
        "{shown}"
    );
    assert!(shown.contains("its last line: the cause of it"), "{shown}");
    let (shown, code) = on_a_terminal(&["/no/such/program"]);
    assert_eq!(code, Some(127));
    assert!(
        shown.contains("failed, the program does not exist, program: /no/such/program"),
        "{shown}"
    );
}
