//! `--output plain`: a line for each thing that happens, for people and logs.

use crate::program::{run, text};

/// The line that holds all of these, if there is one.
fn line_with<'a>(shown: &'a str, words: &[&str]) -> Option<&'a str> {
    shown
        .lines()
        .find(|line| words.iter().all(|word| line.contains(word)))
}

#[test]
fn everything_that_happens_is_shown_with_its_stream_and_the_time() {
    // It lives long enough to be seen running: what has exited already is never called so.
    let script = "echo one; echo two >&2; sleep 1; exit 3";
    let output = run(&["--output", "plain"], script);
    assert_eq!(output.status.code(), Some(3));
    let shown = text(&output.stdout);
    for words in [
        &["created"][..],
        &["starting"],
        &["running"],
        &["out", "one"],
        &["err", "two"],
        &["failed", "exit code 3"],
    ] {
        let line = line_with(&shown, words).unwrap_or_else(|| panic!("{words:?} in\n{shown}"));
        let elapsed = line.trim_start().split('s').next().unwrap();
        assert!(
            elapsed.parse::<f64>().is_ok(),
            "no elapsed time in {line:?}"
        );
    }
    let at = |words: &[&str]| {
        shown
            .lines()
            .position(|line| Some(line) == line_with(&shown, words))
    };
    assert!(at(&["created"]) < at(&["starting"]) && at(&["starting"]) < at(&["running"]));
    assert_eq!(
        at(&["failed", "exit code 3"]),
        Some(shown.lines().count() - 1)
    );
}

/// Escape sequences are shown, never obeyed: a child must not paint over its supervisor's words.
#[test]
fn escape_sequences_are_not_passed_on() {
    let output = run(
        &["--output", "plain"],
        r"printf '\033[2J\033]0;title\007painted\n'",
    );
    let shown = text(&output.stdout);
    assert!(shown.contains("painted"), "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{7}']), "{shown:?}");
}

/// One bad byte spoils a character, not the stream.
#[test]
fn bytes_that_are_no_text_end_nothing() {
    let output = run(
        &["--output", "plain"],
        r"printf 'a\377b\n'; echo after; exit 0",
    );
    let shown = text(&output.stdout);
    assert!(
        shown.contains("a\u{fffd}b") && shown.contains("after"),
        "{shown:?}"
    );
    assert_eq!(output.status.code(), Some(0));
}
