//! The thirteen faults that a supervisor of this kind was seen to have: each must be impossible.

use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use headcount_adapter_process::{CarriageReturn, ProcessOptions, Readiness, ReadyCheck};
use headcount_contract::*;

use crate::support::*;

fn variables(events: &[RunEvent]) -> Vec<String> {
    let names = |line: &String| line.split_once('=').map(|(name, _)| name.to_owned());
    let mut names: Vec<_> = output(events, OutputStream::Stdout)
        .iter()
        .filter_map(names)
        .collect();
    names.sort();
    names
}

/// Fault 1: the whole environment of the host reached the child.
#[tokio::test]
async fn f01_only_the_given_environment_crosses_over() {
    // The test runner's own environment holds many more.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let mut options = ProcessOptions::new("env");
    options.env.insert("GIVEN".into(), "1".into());
    options.env.insert("BOTH".into(), "options".into());
    let mut input = StartInput::new("");
    input.env.insert("BOTH".into(), "input".into());
    // The program is found in the host's PATH although the child has none.
    let handle = start_with(options.clone(), input).await.unwrap();
    let seen = events(&handle).await;
    assert_eq!(variables(&seen), ["BOTH", "GIVEN"]);
    assert!(output(&seen, OutputStream::Stdout).contains(&"BOTH=input".to_owned()));
    options.inherit = vec!["PATH".into(), "NO_SUCH_VARIABLE".into()];
    assert_eq!(
        variables(&run(options.clone()).await),
        ["BOTH", "GIVEN", "PATH"]
    );
    options.inherit_all = true;
    assert!(variables(&run(options).await).contains(&"CARGO_MANIFEST_DIR".to_owned()));
}

/// Fault 2: a line without an end was kept without bound. Here 64 MiB of it are one short line.
#[tokio::test]
async fn f02_a_line_without_an_end_is_cut_and_delivered_once() {
    let mut options = shell("head -c 67108864 /dev/zero | tr '\\0' x; echo; echo next");
    options.max_line_bytes = 1024;
    let events = run(options).await;
    let lines = output(&events, OutputStream::Stdout);
    assert_eq!(lines, ["x".repeat(1024), "next".to_owned()]);
    assert!(transcript(&events).contains("xx (cut)\n"));
    assert_eq!(end(&events).outcome, Some(Outcome::Completed));
}

#[tokio::test]
async fn f02_a_line_without_an_end_takes_no_memory() {
    in_a_process_of_its_own("faults::reads_a_line_without_an_end").await;
}

#[tokio::test]
#[ignore = "it measures the memory of the whole process; another test runs it in its own"]
async fn reads_a_line_without_an_end() {
    let most = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kib = line.unwrap().split_ascii_whitespace().nth(1).unwrap();
        kib.parse::<u64>().unwrap()
    };
    // What a first run needs: the buffer of the thread, the driver.
    run(shell("head -c 1048576 /dev/zero")).await;
    let before = most();
    let mut options = shell("head -c 67108864 /dev/zero | tr '\\0' x");
    options.max_line_bytes = 1024;
    let events = run(options).await;
    assert_eq!(output(&events, OutputStream::Stdout), ["x".repeat(1024)]);
    let grown = most() - before;
    assert!(grown < 1024, "{grown} KiB more for a line of 64 MiB");
}

/// Fault 3: the cap counted UTF-16 units, could cut a character, and spared the tail.
#[tokio::test]
async fn f03_the_cap_counts_bytes_cuts_on_a_character_and_holds_for_the_tail() {
    let mut options = shell("printf 'aééé\\naééé'");
    options.max_line_bytes = 4;
    let events = run(options).await;
    assert_eq!(output(&events, OutputStream::Stdout), ["aé", "aé"]);
    assert_eq!(transcript(&events).matches("aé (cut)").count(), 2);
}

/// Fault 4: output that came after the exit was lost, or told after the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f04_the_last_line_is_never_lost_and_nothing_follows_the_end() {
    for round in 0..40 {
        let runs = (0..10).map(|_| {
            run(shell(
                "i=0; while [ $i -lt 20 ]; do echo $i; i=$((i+1)); done; printf last",
            ))
        });
        for events in futures_util::future::join_all(runs).await {
            end(&events);
            let lines = output(&events, OutputStream::Stdout);
            assert_eq!(
                lines.last().map(String::as_str),
                Some("last"),
                "round {round}"
            );
            assert_eq!(lines.len(), 21);
        }
    }
}

/// Fault 4, for certain: the last line is written only after the exit.
#[tokio::test]
async fn f04_a_line_that_comes_after_the_exit_still_comes_before_the_end() {
    let events = run(shell("(sleep 0.1; printf last) & echo first; exit 0")).await;
    assert_eq!(output(&events, OutputStream::Stdout), ["first", "last"]);
    let end = end(&events);
    assert_eq!(end.details.get("exitCode"), Some(0.into()));
    assert_eq!(end.details.get("outputOpen"), Some(false.into()));
}

/// Fault 4, its other half: a grandchild that holds the output open does not hold up the end.
#[tokio::test]
async fn f04_output_held_open_by_others_is_waited_for_a_bounded_time_and_told() {
    let mut options = shell("sleep 30 & echo $!; exit 0");
    options.drain_timeout = Duration::from_millis(50);
    let events = run(options).await;
    let sleeper: u32 = output(&events, OutputStream::Stdout)[0].parse().unwrap();
    assert!(lives(sleeper));
    let end = end(&events);
    assert_eq!(end.details.get("outputOpen"), Some(true.into()));
    assert_eq!(end.details.get("leftovers"), Some(vec![sleeper].into()));
    assert_eq!(end.outcome, Some(Outcome::Completed));
    let told = events.iter().find_map(|event| match event {
        RunEvent::Error { details, .. } => details.get("heldBy"),
        _ => None,
    });
    assert_eq!(told, Some(vec![sleeper].into()));
    kill(sleeper);
}

/// Fault 5: a spawn that failed was told as an error, then as ready; stop never returned. Here
/// there is no handle at all, and the cause is the true one (see also `runtime`).
#[tokio::test]
async fn f05_a_failed_start_is_an_error_with_the_true_cause() {
    let mut options = ProcessOptions::new("true");
    options.cwd = Some("/no/such/directory".into());
    let error = start_with(options, StartInput::new("")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid-input: the working directory does not exist (cwd: /no/such/directory)"
    );
}

/// Fault 6: a second stop returned at once with the child alive.
#[tokio::test]
async fn f06_all_who_stop_share_one_stop() {
    let mut options = shell("trap '' TERM; echo up; sleep 30");
    options.grace = Duration::from_millis(200);
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    until_output(&mut stream).await;
    let pid = pid_of(&handle);
    let stops = (0..5).map(|_| async {
        handle.stop().await.unwrap();
        assert!(!lives(pid), "a stop returned before the process was gone");
    });
    within(futures_util::future::join_all(stops)).await;
    let ends = within(stream.collect::<Vec<_>>()).await;
    assert_eq!(end(&ends).details.get("escalated"), Some(true.into()));
}

/// Fault 7: only the direct child was signalled. The members of its group are gone too, even if
/// the leader is gone at once and they ignore the signal.
#[tokio::test]
async fn f07_a_stop_takes_the_whole_group() {
    let mut options = shell("(trap '' TERM; echo up; sleep 30 >/dev/null) & echo $!; wait");
    options.grace = Duration::from_millis(100);
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    let mut events = Vec::new();
    while output(&events, OutputStream::Stdout).len() < 2 {
        events.push(within(stream.next()).await.unwrap());
    }
    within(handle.stop()).await.unwrap();
    events.extend(within(stream.collect::<Vec<_>>()).await);
    let lines = output(&events, OutputStream::Stdout);
    let member: u32 = lines.iter().find_map(|line| line.parse().ok()).unwrap();
    assert!(!lives(member));
    let end = end(&events);
    assert_eq!(
        end.details.get("signalName"),
        Some("SIGTERM".into()),
        "{end:?}"
    );
    assert_eq!(end.details.get("escalated"), Some(true.into()));
}

/// Blocks the only thread, and with it the supervisor, until `condition` holds.
fn block_until(mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + DEADLINE;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "within the deadline");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Fault 9: a process that had exited, or was being stopped, was told ready. Here everything that
/// shows readiness is there before the supervisor gets its turn, and so is the end.
#[tokio::test]
async fn f09_never_ready_after_an_exit_or_a_stop() {
    let directory = tempfile::tempdir().unwrap();
    for round in 0..20 {
        let file = directory.path().join(round.to_string());
        let up = |rest: &str| {
            let mut options = shell(&format!("echo up; touch '{}'; {rest}", file.display()));
            options.ready = Some(Readiness::new(ReadyCheck::log("up")));
            options
        };
        let handle = start(up("exit 1")).await;
        block_until(|| !lives(pid_of(&handle)));
        let seen = statuses(&events(&handle).await);
        assert_eq!(seen, [RunStatus::Starting, RunStatus::Crashed]);

        std::fs::remove_file(&file).unwrap();
        let handle = start(up("sleep 30")).await;
        block_until(|| file.exists());
        let stream = handle.subscribe();
        within(handle.stop()).await.unwrap();
        let seen = statuses(&within(stream.collect::<Vec<_>>()).await);
        assert_eq!(seen, [RunStatus::Starting, RunStatus::Stopped]);
        let told: Vec<_> = within(handle.subscribe().collect::<Vec<_>>()).await;
        assert_eq!(statuses(&told), [RunStatus::Stopped]);

        std::fs::remove_file(&file).unwrap();
        let (ask, asked) = tokio::sync::oneshot::channel::<()>();
        let mut input = StartInput::new("");
        input.stop = Some(StopSignal::new(async { asked.await.unwrap_or_default() }));
        let handle = start_with(up("sleep 30"), input).await.unwrap();
        block_until(|| file.exists());
        ask.send(()).unwrap();
        let seen = statuses(&events(&handle).await);
        assert_eq!(seen, [RunStatus::Starting, RunStatus::Stopped]);
    }
}

/// Fault 10: how a process ended during a stop was thrown away.
#[tokio::test]
async fn f10_the_cause_is_told_even_of_a_stop() {
    for (script, cause) in [
        (
            "trap 'exit 3' TERM; echo up; while :; do sleep 0.01; done",
            r#""exitCode":3"#,
        ),
        (
            "trap 'kill -SEGV $$' TERM; echo up; while :; do sleep 0.01; done",
            r#""signal":11,"signalName":"SIGSEGV""#,
        ),
        (
            "trap '' TERM; echo up; while :; do sleep 0.01; done",
            r#""signal":9,"signalName":"SIGKILL""#,
        ),
        ("echo up; sleep 30", r#""signal":15,"signalName":"SIGTERM""#),
    ] {
        let mut options = shell(script);
        options.grace = Duration::from_millis(500);
        let handle = start(options).await;
        let mut stream = handle.subscribe();
        until_output(&mut stream).await;
        within(handle.stop()).await.unwrap();
        let end = end(&within(stream.collect::<Vec<_>>()).await);
        assert!(end.details.as_json().contains(cause), "{script}: {end:?}");
        assert_eq!(end.details.get("stopRequested"), Some(true.into()));
        assert_eq!(end.outcome, Some(Outcome::Cancelled));
    }
}

/// Fault 11: a bad signal name was found out at the first stop.
#[test]
fn f11_a_bad_signal_is_refused_when_the_options_are_read() {
    let read =
        serde_json::from_str::<ProcessOptions>(r#"{"command": "a", "stop_signal": "SIGTREM"}"#);
    assert!(read.unwrap_err().to_string().contains("SIGTERM, SIGINT"));
}

/// Fault 12: subscribers could harm the host and one another, or saw nothing.
#[tokio::test]
async fn f12_subscribers_harm_nobody_and_a_late_one_sees_the_present() {
    let mut options = shell("echo up; printf '1%%\\r2%%\\r'; sleep 30");
    options.carriage_return = CarriageReturn::EndsLine;
    let handle = start(options).await;
    let mut first = handle.subscribe();
    // One that panics while it reads, one that is never read, one that is dropped.
    let panics = handle.subscribe();
    let panicked = tokio::spawn(panics.for_each(|_| async { panic!("a bad subscriber") })).await;
    assert!(panicked.unwrap_err().is_panic());
    let _never_read = handle.subscribe();
    drop(handle.subscribe());
    // Progress without a newline is seen while it goes on.
    let mut seen = Vec::new();
    while output(&seen, OutputStream::Stdout).len() < 3 {
        seen.push(within(first.next()).await.unwrap());
    }
    assert_eq!(output(&seen, OutputStream::Stdout), ["up", "1%", "2%"]);
    let mut late = handle.subscribe();
    let Some(Some(RunEvent::Status(status))) = late.next().now_or_never() else {
        panic!("a late subscriber first gets the present status")
    };
    assert_eq!(status.status, RunStatus::Ready);
    within(handle.stop()).await.unwrap();
    for stream in [first, late] {
        end(&within(stream.collect::<Vec<_>>()).await);
    }
}

/// Fault 12, its other half: each run left a listener behind on a shared stop signal.
#[tokio::test]
async fn f12_nothing_of_a_stop_signal_is_kept_once_the_run_has_ended() {
    let shared = std::sync::Arc::new(());
    for _ in 0..20 {
        let mut input = StartInput::new("");
        let kept = shared.clone();
        input.stop = Some(StopSignal::new(async move {
            std::future::pending::<()>().await;
            drop(kept);
        }));
        let handle = start_with(ProcessOptions::new("true"), input)
            .await
            .unwrap();
        end(&events(&handle).await);
    }
    until(|| std::sync::Arc::strong_count(&shared) == 1).await;
}

/// Fault 13: the child was in the host's process group.
#[tokio::test]
async fn f13_each_run_leads_a_group_of_its_own() {
    let handle = start(shell("sleep 30")).await;
    let group = rustix::process::getpgid(rustix::process::Pid::from_raw(
        pid_of(&handle).cast_signed(),
    ))
    .unwrap();
    assert_eq!(group.as_raw_nonzero().get(), pid_of(&handle).cast_signed());
    assert_ne!(group, rustix::process::getpgrp());
    within(handle.stop()).await.unwrap();
}
