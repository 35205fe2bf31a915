//! How a run ends, as a shell sees it.

use headcount_contract::{ChildState, Outcome};
use serde_json::json;

use crate::program::{ends, events, eventually, headcount, run, run_program, text};

/// The exit code of the program, and of the terminal event the outcome and one detail.
fn check(
    options: &[&str],
    program: &[&str],
    code: i32,
    outcome: Outcome,
    detail: (&str, serde_json::Value),
) {
    let mut options = options.to_vec();
    options.extend(["--output", "json"]);
    let output = run_program(&options, program);
    assert_eq!(
        output.status.code(),
        Some(code),
        "{program:?}\n{}",
        text(&output.stderr)
    );
    let events = events(&output);
    let ends = ends(&events);
    let [end] = ends[..] else {
        panic!("{program:?} ended {} times: {events:?}", ends.len())
    };
    assert_eq!(
        end.state(),
        Some(ChildState::Terminal(outcome)),
        "{program:?}"
    );
    assert_eq!(
        end.details().get(detail.0),
        Some(detail.1),
        "{program:?}: {:?}",
        end.details()
    );
    assert_eq!(
        events.last(),
        Some(end),
        "{program:?}: nothing follows the end"
    );
}

#[test]
fn the_childs_own_code_comes_back() {
    let code = |n: i64| ("exitCode", json!(n));
    check(&[], &["true"], 0, Outcome::Completed, code(0));
    check(&[], &["sh", "-c", "exit 3"], 3, Outcome::Failed, code(3));
    check(
        &[],
        &["sh", "-c", "exit 255"],
        255,
        Outcome::Failed,
        code(255),
    );
}

#[test]
fn a_signal_comes_back_as_128_and_its_number() {
    for (signal, number) in [("SEGV", 11), ("TERM", 15), ("KILL", 9), ("HUP", 1)] {
        let script = format!("kill -{signal} $$");
        let name = ("signalName", json!(format!("SIG{signal}")));
        check(
            &[],
            &["sh", "-c", &script],
            128 + number,
            Outcome::Failed,
            name,
        );
    }
}

/// It ends by our signal, or with a code of its own; neither says why it was stopped.
#[test]
fn a_child_that_was_not_ready_in_time_ran_out_of_time() {
    let options = ["--ready-http", "1", "--ready-timeout", "100ms"];
    for script in ["exec sleep 600", "trap 'exit 0' TERM; sleep 600 & wait"] {
        let program = ["sh", "-c", script];
        let detail = ("notReady", json!(true));
        check(&options, &program, 124, Outcome::Failed, detail);
    }
    let mut plain = options.to_vec();
    plain.extend(["--output", "plain"]);
    let shown = text(&run(&plain, "exec sleep 600").stdout);
    let last = shown.lines().last().unwrap();
    assert!(last.contains("not ready in time"), "{shown}");
}

/// A source that never was there is no success, as with `adopt`; one that said nothing is.
#[test]
fn nothing_that_could_be_observed_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let empty = folder.path().join("empty.jsonl");
    std::fs::write(&empty, "").unwrap();
    let fleet = folder.path().join("fleet.toml");
    let stream = format!("[[adapter]]\nkind = \"jsonl\"\nfollow = false\npath = {place:?}\n");
    std::fs::write(&fleet, &stream).unwrap();
    let both = folder.path().join("both.toml");
    let child = "[[adapter]]\nkind = \"process\"\ncommand = \"true\"\n";
    std::fs::write(&both, stream + child).unwrap();
    for (command, file, code) in [
        ("tail", place, 1),
        ("watch", fleet.to_str().unwrap(), 1),
        ("watch", both.to_str().unwrap(), 0),
        ("tail", empty.to_str().unwrap(), 0),
    ] {
        let output = crate::program::headcount(&[command, "--output", "plain", file])
            .output()
            .unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{command} {file}: {said}");
        assert_eq!(said.contains("is not a file"), code == 1, "{said}");
    }
}

#[test]
fn what_cannot_be_run_is_told_from_what_is_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "no program").unwrap();
    check(
        &[],
        &["/nonexistent"],
        127,
        Outcome::Failed,
        ("startError", json!("not-found")),
    );
    check(
        &[],
        &["no-such-program-anywhere"],
        127,
        Outcome::Failed,
        ("startError", json!("not-found")),
    );
    check(
        &[],
        &[file.to_str().unwrap()],
        126,
        Outcome::Failed,
        ("startError", json!("not-executable")),
    );
}

#[test]
fn a_working_directory_that_is_not_there_is_named() {
    let output = run_program(&["--cwd", "/nonexistent"], &["true"]);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("/nonexistent"), "{said}");
    assert!(
        !said.contains("true: not found"),
        "the program is not at fault: {said}"
    );
}

#[test]
fn a_wrong_option_is_told_with_what_would_be_right() {
    for options in [
        &["--grace", "soon"][..],
        &["--restart", "maybe"],
        &["--nonsense"],
        &["--env", "novalue"],
    ] {
        let output = run_program(options, &["true"]);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        let said = text(&output.stderr);
        assert!(
            said.contains(options[options.len() - 1]) && output.stdout.is_empty(),
            "{said}"
        );
    }
}

/// A person's shell environment is passed on; `--clean-env` passes on what it is told to.
#[test]
fn the_environment_crosses_over_as_asked() {
    fn seen(options: &[&str]) -> (bool, bool) {
        let script = r#"[ -n "$HEADCOUNT_TEST_A" ] && echo has-a; [ -n "$HEADCOUNT_TEST_B" ] && echo has-b; true"#;
        let mut args = vec!["run", "--output", "plain"];
        args.extend(options);
        args.extend(["--", "/bin/sh", "-c", script]);
        let output = crate::program::headcount(&args)
            .env("HEADCOUNT_TEST_A", "1")
            .env("HEADCOUNT_TEST_B", "1")
            .output()
            .unwrap();
        let said = text(&output.stdout);
        (said.contains("has-a"), said.contains("has-b"))
    }
    assert_eq!(seen(&[]), (true, true));
    assert_eq!(seen(&["--clean-env"]), (false, false));
    assert_eq!(
        seen(&["--clean-env", "--inherit", "HEADCOUNT_TEST_A"]),
        (true, false)
    );
    assert_eq!(
        seen(&["--clean-env", "--env", "HEADCOUNT_TEST_B=2"]),
        (false, true)
    );
}

/// The last line is shown although no line end follows it, and although the child is gone.
#[test]
fn the_last_words_are_heard() {
    let output = run(&["--output", "plain"], "printf 'last words'; exit 1");
    assert!(text(&output.stdout).contains("last words"));
    assert_eq!(output.status.code(), Some(1));
}

/// What a journal tells of others is shown, and neither waited for nor answered for.
#[test]
fn a_run_ends_with_its_child_whatever_else_the_journal_holds() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("events.jsonl");
    let journal = journal.to_str().unwrap();
    let emit = "emit --source nightly --epoch 1 --child backup --kind state_changed --state running --journal";
    let emit = headcount(&[&emit.split(' ').collect::<Vec<_>>()[..], &[journal]].concat());
    assert!({ emit }.status().unwrap().success());
    // One that goes on after its headcount was killed, under the name of the next.
    let named = ["--output", "plain", "--name", "job", "--journal", journal];
    let pid_file = folder.path().join("pid");
    let script = format!(
        "echo $$ > '{0}.new'; mv '{0}.new' '{0}'; exec sleep 300",
        pid_file.display()
    );
    let mut killed = headcount(&[&["run"], &named[..], &["--", "sh", "-c", &script]].concat())
        .spawn()
        .unwrap();
    let sleeper = eventually("the sleeper", || std::fs::read_to_string(&pid_file).ok());
    killed.kill().unwrap();
    killed.wait().unwrap();
    for code in [0, 3] {
        let script = format!("exit {code}");
        let output = run(&named, &script);
        assert_eq!(output.status.code(), Some(code), "{}", text(&output.stdout));
    }
    let list = headcount(&["list", "--output", "json", "--journal", journal])
        .output()
        .unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let live = list
        .as_array()
        .unwrap()
        .iter()
        .filter(|child| child["state"] == "running");
    assert_eq!(live.count(), 2, "nothing was said to have ended: {list}");
    let kill = std::process::Command::new("kill")
        .arg(sleeper.trim())
        .status();
    assert!(kill.unwrap().success());
}
