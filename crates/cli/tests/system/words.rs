//! What is said to a person: nothing that a terminal would act on, and no success where it was not
//! said at all.

use std::fs::OpenOptions;

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
