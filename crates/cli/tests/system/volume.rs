//! Much output, and real work.

use std::io::{BufRead, BufReader};
use std::process::Command;

use headcount_contract::ChildState;

use crate::program::{ends, events, headcount, run, run_program, text};

/// A million lines arrive, in order, or the lines that do not are counted.
#[test]
fn a_million_lines_arrive_or_are_counted() {
    const LINES: u64 = 1_000_000;
    let mut program = headcount(&["run", "--output", "plain", "--", "seq", &LINES.to_string()])
        .spawn()
        .unwrap();
    let (mut shown, mut missed, mut last) = (0, 0, 0);
    let mut end = None;
    for line in BufReader::new(program.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(number) = line
            .rsplit_once(" | ")
            .and_then(|(_, rest)| rest.parse::<u64>().ok())
        {
            assert!(number > last, "{number} after {last}");
            last = number;
            shown += 1;
        } else if line.contains("lines not shown") {
            missed += line
                .split_whitespace()
                .find_map(|word| word.parse::<u64>().ok())
                .unwrap();
        } else if line.contains("completed") {
            end = Some(line);
        }
    }
    assert_eq!(program.wait().unwrap().code(), Some(0));
    assert!(end.is_some());
    assert_eq!(
        shown + missed,
        LINES,
        "{shown} shown, {missed} said to be missed"
    );
}

/// In JSON, output is no event: a million lines cost a handful of events.
#[test]
fn a_million_lines_make_few_events() {
    let output = run_program(&["--output", "json"], &["seq", "1000000"]);
    let events = events(&output);
    assert_eq!(ends(&events)[0].state(), Some(ChildState::COMPLETED));
    assert!(events.len() < 100, "{} events", events.len());
}

/// One line without an end, far longer than the cap, costs bounded memory and ends nothing.
#[test]
fn a_line_without_end_is_cut() {
    let script = "head -c 64000000 /dev/zero | tr '\\0' x; echo; echo after";
    let output = run(&["--output", "plain"], script);
    let shown = text(&output.stdout);
    assert!(shown.contains("after"), "what follows is shown");
    assert!(shown.len() < 2_000_000, "{} bytes shown", shown.len());
    assert_eq!(output.status.code(), Some(0));
}

/// A real build of a real crate, from start to end.
#[test]
fn a_build_runs_under_it() {
    let folder = tempfile::tempdir().unwrap();
    let manifest =
        "[package]\nname = \"hello\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
    std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(
        folder.path().join("src/main.rs"),
        "fn main() { println!(\"hello\") }",
    )
    .unwrap();
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let place = folder.path().to_str().unwrap();
    let target = format!("CARGO_TARGET_DIR={place}/target");
    let options = ["--output", "plain", "--cwd", place, "--env", &target];
    let output = run_program(&options, &[&cargo, "build", "--offline"]);
    let shown = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{shown}{}",
        text(&output.stderr)
    );
    assert!(
        shown.contains("Compiling hello") && shown.contains("completed"),
        "{shown}"
    );
    let built = Command::new(folder.path().join("target/debug/hello"))
        .output()
        .unwrap();
    assert_eq!(text(&built.stdout), "hello\n");
}
