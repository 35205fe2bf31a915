//! One run from its start to its end, as its subscribers see it.

use futures_util::StreamExt;
use headcount_contract::*;

use crate::support::*;

#[tokio::test]
async fn a_run_tells_its_lines_and_its_exit() {
    let events = run(shell("echo one; echo two >&2; printf tail; exit 3")).await;
    let mut lines: Vec<_> = transcript(&events).lines().map(str::to_owned).collect();
    // A run that is over at once may never be seen ready: after its exit it must not be called so.
    lines.retain(|line| line != "ready");
    // The two streams have no order between them; everything else has its place.
    let end = lines.len() - 1;
    lines[1..end].sort();
    insta::assert_snapshot!(lines.join("\n"));
}

#[tokio::test]
async fn a_start_that_fails_says_the_true_cause() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data");
    std::fs::write(&file, "no program").unwrap();
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/nonexistent/interpreter\n").unwrap();
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let here = directory.path().to_str().unwrap();
    for (command, cwd, kind) in [
        ("/nonexistent", None, StartErrorKind::NotFound),
        ("no-such-program-anywhere", None, StartErrorKind::NotFound),
        (file.to_str().unwrap(), None, StartErrorKind::NotExecutable),
        (here, None, StartErrorKind::NotExecutable),
        (
            script.to_str().unwrap(),
            None,
            StartErrorKind::NotExecutable,
        ),
        ("true", Some("/nonexistent"), StartErrorKind::InvalidInput),
        ("true", file.to_str(), StartErrorKind::InvalidInput),
        (
            "/nonexistent",
            Some("/nonexistent"),
            StartErrorKind::InvalidInput,
        ),
    ] {
        let mut options = headcount_adapter_process::ProcessOptions::new(command);
        options.cwd = cwd.map(Into::into);
        let error = start_with(options, StartInput::new("")).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{command} in {cwd:?}: {error}");
        assert!(error.context().iter().any(|(key, value)| match cwd {
            Some(cwd) => *key == "cwd" && value == cwd,
            None => *key == "program" && value == command,
        }));
    }
}

#[tokio::test]
async fn a_stop_reaches_the_whole_group_and_escalates() {
    let mut options = shell("trap '' TERM; sleep 60 & sleep 60 & echo $! $$; wait; sleep 60");
    options.grace = std::time::Duration::from_millis(50);
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    let mut events = Vec::new();
    while output(&events, OutputStream::Stdout).is_empty() {
        events.push(within(stream.next()).await.unwrap());
    }
    within(handle.stop()).await.unwrap();
    events.extend(within(stream.collect::<Vec<_>>()).await);
    for pid in output(&events, OutputStream::Stdout)[0].split(' ') {
        assert!(!lives(pid.parse().unwrap()));
    }
    let end = end(&events);
    assert_eq!(end.outcome, Some(Outcome::Cancelled));
    assert_eq!(end.details.get("escalated"), Some(true.into()));
    assert_eq!(end.details.get("signalName"), Some("SIGKILL".into()));
    within(handle.stop()).await.unwrap();
}
