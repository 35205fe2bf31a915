//! What is said to a person: nothing that a terminal would act on, and no success where it was not
//! said at all.

use std::fs::OpenOptions;
use std::process::Command;

use crate::program::{headcount, text};

/// What was typed, or stands in a file, is repeated in complaints; it is shown, never executed.
#[test]
fn no_complaint_passes_on_what_a_terminal_would_act_on() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = folder.path().join("fleet.toml");
    let wrong = "[[adapter]]\nkind = \"process\"\ncommand = \"x\"\n\"a\\u001b[2Jb\" = 1\n";
    std::fs::write(&fleet, wrong).unwrap();
    for args in [
        &["watch", "no\u{1b}[2Jsuch.toml"][..],
        &["watch", fleet.to_str().unwrap()],
        &["tail", "no\u{1b}[2Jsuch\u{202e}"],
        &["journal", "verify", "no\u{1b}[2Jsuch"],
        &["no\u{1b}[2Jsuch\u{202e}"],
        &["list", "--state", "no\u{1b}[2Jsuch\u{9b}"],
    ] {
        let output = headcount(args).output().unwrap();
        let said = text(&output.stderr);
        assert_ne!(output.status.code(), Some(0), "{args:?}");
        assert!(said.contains("error"), "{args:?}: {said:?}");
        assert!(
            !said.contains(['\u{1b}', '\u{202e}', '\u{9b}']),
            "{args:?}: {said:?}"
        );
    }
}

/// A log that goes to a file is read by programs, and by people who search it.
#[test]
fn the_log_is_coloured_for_terminals_only() {
    let args = [
        "hermes", "--log", "warn", "--output", "plain", "--", "false",
    ];
    let output = headcount(&args).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("WARN"), "{said:?}");
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn what_cannot_be_written_is_no_success() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["run", "--help"],
        &["completions", "bash"],
        &["adapters"],
    ] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = headcount(args).stdout(full).output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{args:?}");
    }
}

/// The working directory may be gone; another one is as good.
#[test]
fn a_directory_that_is_gone_can_be_replaced() {
    let folder = tempfile::tempdir().unwrap();
    for (options, code) in [("", 125), ("--cwd /", 0)] {
        let script = format!(
            r#"mkdir gone && cd gone && rmdir ../gone && exec "$0" run --output plain {options} -- true"#
        );
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_headcount")])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert_eq!(said.contains("--cwd"), code == 125, "{said}");
    }
}

/// An option of which there is a default is never asked for.
#[test]
fn the_usage_asks_for_what_is_needed_alone() {
    let output = headcount(&["run", "--output", "plain"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains("headcount run [OPTIONS] -- <CMD>"), "{said}");
}

#[test]
fn an_activity_that_says_nothing_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("events.jsonl");
    let words = "emit --source s --epoch 1 --child c --kind activity --journal";
    let mut args: Vec<_> = words.split(' ').collect();
    args.push(journal.to_str().unwrap());
    let output = headcount(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("needs --activity"));
    assert!(!journal.exists());
}
