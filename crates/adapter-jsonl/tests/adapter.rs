//! The adapter over real files, pipes, FIFOs, sockets and processes.
#![allow(clippy::unwrap_used)] // a test: what fails ends it

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_jsonl::{JsonlAdapter, JsonlConfig, REGISTRATION, StartAt};
use headcount_contract::{
    AdapterErrorKind, AdapterSpec, ChildLifecycleAdapter, HealthStatus, Signal, SignalStream,
    SnapshotReason, Urgency,
};

fn line(child: &str, sequence: u64) -> String {
    format!(
        r#"{{"schemaVersion":1,"eventId":"{child}-{sequence}","source":"worker","sourceEpoch":"e","childId":"{child}","lineage":{{"rootChildId":"{child}","attempt":0,"external":false}},"kind":"state_changed","state":"running","observedAt":"2026-08-24T09:15:30.000Z","sequence":{sequence},"capabilities":{{"history":"known","heartbeat":"known","snapshot":"unknown","cancel":"unknown","terminalCause":"known"}}}}"#
    ) + "\n"
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn config(path: &Path) -> JsonlConfig {
    let mut config = JsonlConfig::new(path);
    config.poll_ms = 20;
    config
}

fn describe(signal: &Signal) -> String {
    match signal {
        Signal::Event(event) => event.event_id().to_string(),
        Signal::Snapshot(snapshot) => format!("snapshot {}", snapshot.id()),
        Signal::Discontinuity(d) => format!("{:?} {:?}", d.cause, d.gap),
        Signal::Health(health) => format!("health {}", health.status),
        other => panic!("{other:?}"),
    }
}

/// The next thing that is no health.
async fn next(stream: &mut SignalStream) -> String {
    loop {
        let signal = tokio::time::timeout(Duration::from_secs(20), stream.next());
        match signal.await.unwrap() {
            Some(Signal::Health(_)) => (),
            Some(signal) => return describe(&signal),
            None => return "end".to_owned(),
        }
    }
}

async fn until_health(adapter: &JsonlAdapter, what: impl Fn(&headcount_contract::Health) -> bool) {
    let waited = tokio::time::timeout(Duration::from_secs(20), async {
        while !what(&adapter.health()) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "{:?}", adapter.health());
}

#[tokio::test]
async fn follows_a_file_through_what_is_done_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    until_health(&adapter, |health| {
        health.status == HealthStatus::Down
            && health
                .message
                .as_deref()
                .is_some_and(|m| m.contains("is not there"))
    })
    .await;

    append(&path, &line("a", 1));
    assert_eq!(next(&mut stream).await, "a-1");
    until_health(&adapter, |health| health.status == HealthStatus::Healthy).await;
    append(&path, &(line("a", 2) + &line("a", 3)[..50]));
    assert_eq!(next(&mut stream).await, "a-2");
    append(&path, &line("a", 3)[50..]);
    assert_eq!(next(&mut stream).await, "a-3");

    fs::rename(&path, folder.path().join("s.1")).unwrap();
    append(&path, &line("b", 1));
    assert_eq!(next(&mut stream).await, "SourceTruncated Possible");
    assert_eq!(next(&mut stream).await, "b-1");

    fs::write(&path, line("c", 1)).unwrap();
    assert_eq!(next(&mut stream).await, "SourceTruncated Possible");
    assert_eq!(next(&mut stream).await, "c-1");

    fs::remove_file(&path).unwrap();
    until_health(&adapter, |health| {
        health
            .message
            .as_deref()
            .is_some_and(|m| m.contains("not there any more"))
    })
    .await;
    append(&path, &line("d", 1));
    assert_eq!(next(&mut stream).await, "SourceTruncated Possible");
    assert_eq!(next(&mut stream).await, "d-1");
    adapter.close(Urgency::Graceful).await.unwrap();
    assert_eq!(next(&mut stream).await, "end");
    assert_eq!(
        adapter.subscribe().err().unwrap().kind(),
        AdapterErrorKind::Closed
    );
}

#[tokio::test]
async fn from_the_end_reads_all_of_a_file_that_comes_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let mut config = config(&path);
    config.start = StartAt::End;
    let adapter = JsonlAdapter::new(config, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    until_health(&adapter, |health| health.status == HealthStatus::Down).await;
    append(&path, &line("a", 1));
    assert_eq!(next(&mut stream).await, "a-1");
}

#[tokio::test]
async fn says_how_the_stream_stands_and_what_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let bad = format!("not json\n{{}}\n{}\nnot json\n", "x".repeat(70_000));
    append(&path, &(line("a", 1) + &bad + &line("a", 2)));
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    assert_eq!(next(&mut stream).await, "a-2");
    until_health(&adapter, |health| health.counts.get("lines") == Some(&6)).await;
    let health = adapter.health();
    assert_eq!(health.status, HealthStatus::Degraded);
    assert!(
        health
            .message
            .as_deref()
            .unwrap()
            .contains("lines are refused, as line ")
    );
    let count = |name: &str| health.counts.get(name).copied().unwrap_or_default();
    assert_eq!(count("refused.malformed-json"), 2);
    assert_eq!(count("refused.schema-violation"), 1);
    assert_eq!(count("refused.oversized"), 1);
    assert_eq!(count("bytes"), fs::metadata(&path).unwrap().len());
    assert_eq!(count("lag_bytes"), 0);
    assert!(count("last_line_unix_ms") > 1_600_000_000_000);
    let lines: Vec<u64> = adapter
        .diagnostics()
        .iter()
        .map(headcount_adapter_jsonl::Diagnostic::line)
        .collect();
    assert_eq!(lines, [2, 3, 4, 5]);
}

#[tokio::test]
async fn is_not_read_faster_than_the_subscriber_takes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let all: String = (0..40_000).map(|n| line("a", n)).collect();
    fs::write(&path, &all).unwrap();
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();

    // Nobody is there: nothing is read.
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(adapter.health().counts.get("bytes"), None);

    let mut stream = adapter.subscribe().unwrap();
    until_health(&adapter, |health| health.counts.contains_key("bytes")).await;
    let mut last = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let read = adapter.health().counts["bytes"];
        if read == last {
            break;
        }
        last = read;
    }
    let lines_read = adapter.health().counts["lines"];
    assert!(
        lines_read < 2_000,
        "{lines_read} lines were read for nobody"
    );
    assert!(adapter.health().counts["lag_bytes"] > 10_000_000);

    for n in 0..40_000 {
        assert_eq!(next(&mut stream).await, format!("a-{n}"));
    }
}

#[tokio::test]
async fn goes_on_where_it_was_saved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    append(&path, &(line("a", 1) + &line("a", 2) + "{\"half"));
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    assert_eq!(next(&mut stream).await, "a-2");
    until_health(&adapter, |health| health.counts.get("lines") == Some(&2)).await;
    adapter.close(Urgency::Now).await.unwrap();
    let position = adapter.position().unwrap();
    assert_eq!(position.line(), 3);

    fs::write(&path, line("a", 1) + &line("a", 2) + &line("a", 3)).unwrap();
    let mut resumed = config(&path);
    // As a host would save it.
    let saved = serde_json::to_value(StartAt::Position(position)).unwrap();
    resumed.start = serde_json::from_value(saved).unwrap();
    let adapter = JsonlAdapter::new(resumed.clone(), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "a-3");

    fs::write(&path, line("z", 1)).unwrap();
    let adapter = JsonlAdapter::new(resumed, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "SourceTruncated Possible");
    assert_eq!(next(&mut stream).await, "z-1");
}

#[tokio::test]
async fn without_following_it_ends_at_the_end_and_judges_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    append(&path, &(line("a", 1) + line("a", 2).trim_end()));
    let mut config = config(&path);
    config.follow = false;
    let adapter = JsonlAdapter::new(config.clone(), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    assert_eq!(next(&mut stream).await, "end");
    assert_eq!(adapter.health().counts["refused.truncated"], 1);

    config.path = folder.path().join("none");
    let adapter = JsonlAdapter::new(config, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "end");
    assert!(adapter.health().message.unwrap().contains("is not there"));
}

#[tokio::test]
async fn a_pipe_ends_when_its_writers_have_gone() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let adapter =
        JsonlAdapter::from_descriptor(reader.into(), JsonlConfig::new("child"), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    writer.write_all(line("a", 1).as_bytes()).unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    writer.write_all(b"{\"half").unwrap();
    drop(writer);
    assert_eq!(next(&mut stream).await, "Disconnected Possible");
    assert_eq!(next(&mut stream).await, "end");
    assert_eq!(adapter.health().status, HealthStatus::Down);
    assert_eq!(adapter.health().counts["refused.truncated"], 1);
    // Nobody was completed by the end.
    let snapshots = adapter.snapshot(SnapshotReason::Periodic).await.unwrap();
    assert_eq!(snapshots[0].children()[0].state().as_str(), "running");
}

#[tokio::test]
async fn a_fifo_is_read_from_one_writer_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    for n in 1..4 {
        // Opening waits for the reader.
        let path = path.clone();
        let text = line("a", n) + "{\"half";
        tokio::task::spawn_blocking(move || {
            File::options()
                .write(true)
                .open(path)
                .unwrap()
                .write_all(text.as_bytes())
                .unwrap();
        })
        .await
        .unwrap();
        if n > 1 {
            assert_eq!(next(&mut stream).await, "Reconnected Possible");
        }
        assert_eq!(next(&mut stream).await, format!("a-{n}"));
        until_health(&adapter, |health| {
            health.counts.get("refused.truncated") == Some(&n)
        })
        .await;
    }
}

#[tokio::test]
async fn a_socket_is_connected_to_again() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).unwrap();
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    for n in 1..3 {
        let listener = listener.try_clone().unwrap();
        tokio::task::spawn_blocking(move || {
            let (mut socket, _) = listener.accept().unwrap();
            socket.write_all(line("a", n).as_bytes()).unwrap();
        })
        .await
        .unwrap();
        if n > 1 {
            assert_eq!(next(&mut stream).await, "Reconnected Possible");
        }
        assert_eq!(next(&mut stream).await, format!("a-{n}"));
    }
    drop(listener);
    until_health(&adapter, |health| health.status == HealthStatus::Down).await;
}

#[tokio::test]
async fn the_writers_exit_ends_the_stream_and_the_files_end_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    File::create(&path).unwrap();
    // A writer that copies what it is told.
    let mut writer = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(OpenOptions::new().append(true).open(&path).unwrap())
        .spawn()
        .unwrap();
    let mut told = writer.stdin.take().unwrap();
    let mut config = config(&path);
    config.pid = Some(writer.id());
    let adapter = JsonlAdapter::new(config, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    told.write_all(line("a", 1).as_bytes()).unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    let waited = tokio::time::timeout(Duration::from_millis(200), next(&mut stream));
    assert!(waited.await.is_err(), "the end of the file is no end");
    told.write_all((line("a", 2) + "{\"half").as_bytes())
        .unwrap();
    drop(told);
    assert_eq!(next(&mut stream).await, "a-2");
    // Seen before it is reaped.
    assert_eq!(next(&mut stream).await, "Disconnected Possible");
    assert_eq!(next(&mut stream).await, "end");
    writer.wait().unwrap();
    let health = adapter.health();
    assert_eq!(health.counts["refused.truncated"], 1);
    assert!(health.message.unwrap().contains("has exited"));
    let error = adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::Unavailable);
}

#[tokio::test]
async fn a_producers_snapshot_is_handed_on_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let snapshot = r#"{"source":"worker","sourceEpoch":"e","snapshotId":"s-1","observedAt":"2026-08-24T09:15:31.000Z","complete":true,"coverage":"all","children":[{"childId":"a","state":"waiting"}]}"#;
    append(&path, &(line("a", 1) + snapshot + "\n"));
    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    assert_eq!(next(&mut stream).await, "a-1");
    assert_eq!(next(&mut stream).await, "snapshot s-1");
    let ours = adapter.snapshot(SnapshotReason::Reconnect).await.unwrap();
    assert_eq!(ours[0].to_json(), snapshot);
}

#[tokio::test]
async fn nothing_of_a_refused_line_is_told() {
    const CANARY: &str = "canary-4711";
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let long = format!("{CANARY}{}", "x".repeat(70_000));
    let secret = line("a", 1).replace(
        "\"sequence\"",
        &format!("\"details\":{{\"api_key\":\"{CANARY}\",\"env\":[{{\"x-auth-token\":\"{CANARY}\"}}]}},\"sequence\""),
    );
    let duplicate = format!(
        r#"{{"source":"w","sourceEpoch":"e","snapshotId":"s","observedAt":"2026-08-24T09:15:31Z","complete":true,"coverage":[],"children":[{{"childId":"{CANARY}","state":"waiting"}}]}}"#
    );
    let bad = [
        CANARY.to_owned(),
        format!("{{\"{CANARY}\":1,\"{CANARY}\":2}}"),
        line("a", 1).replace("running", CANARY),
        line("a", 1).replace("2026-08-24T09:15:30.000Z", CANARY),
        line("a", 1).replace("\"sequence\":1", &format!("\"sequence\":\"{CANARY}\"")),
        line("a", 1).replace("\"external\":false", &format!("\"external\":\"{CANARY}\"")),
        line("a", 1).replace("state_changed", CANARY),
        line(&format!("{CANARY}\\u0000"), 1),
        line(&"c".repeat(600), 1)
            .replace(&"c".repeat(600), &(CANARY.to_owned() + &"c".repeat(600))),
        duplicate.clone(),
        duplicate.replace("[]", "\"all\"").replace(
            "}]",
            &format!("}},{{\"childId\":\"{CANARY}\",\"state\":\"waiting\"}}]"),
        ),
        long,
        format!("\u{fffd}{CANARY}\u{1}"),
    ];
    let content: String = bad
        .iter()
        .flat_map(|line| [line.trim_end(), "\n"])
        .collect();
    append(&path, &(content + &secret + &line("a", 2)));
    fs::write(
        folder.path().join("bytes"),
        [b"\xff".as_slice(), CANARY.as_bytes(), b"\n"].concat(),
    )
    .unwrap();

    let adapter = JsonlAdapter::new(config(&path), None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    let mut seen = Vec::new();
    let mut events = Vec::new();
    while events.len() < 2 {
        let signal = stream.next().await.unwrap();
        seen.push(format!("{signal:?}"));
        if let Signal::Event(event) = signal {
            seen.push(event.to_json());
            events.push(event);
        }
    }
    until_health(&adapter, |health| {
        health.counts.get("lines") == Some(&(bad.len() as u64 + 2))
    })
    .await;
    let refused: u64 = adapter
        .health()
        .counts
        .iter()
        .filter_map(|(name, count)| name.starts_with("refused.").then_some(count))
        .sum();
    assert_eq!(refused, bad.len() as u64);
    seen.push(format!("{:?}", adapter.health()));
    seen.push(format!("{:?}", adapter.diagnostics()));
    seen.extend(adapter.diagnostics().iter().map(ToString::to_string));
    seen.push(format!(
        "{:?}",
        adapter.snapshot(SnapshotReason::Periodic).await
    ));

    // And into a journal, and out of one that is damaged.
    let journal = folder.path().join("j");
    let options = headcount_adapter_jsonl::JournalOptions::default();
    let mut open = headcount_adapter_jsonl::Journal::open(&journal, options).unwrap();
    open.append_batch(&events).unwrap();
    seen.push(fs::read_to_string(&journal).unwrap());
    for bad in &bad {
        fs::write(&journal, bad.trim_end().to_owned() + "\n").unwrap();
        let error = open.append(&events[0]).unwrap_err();
        seen.push(format!("{error} {error:?} {:?}", open.verify()));
    }
    for text in seen {
        assert!(!text.contains(CANARY), "{text}");
    }
}

#[tokio::test]
async fn a_dropped_adapter_ends_its_streams_and_its_reader() {
    let folder = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let config = config(&folder.path().join("s"));
    let adapter = JsonlAdapter::from_descriptor(reader.into(), config, None).unwrap();
    let mut stream = adapter.subscribe().unwrap();
    drop(adapter);
    assert_eq!(next(&mut stream).await, "end");
    // The reader has let go of its end of the pipe.
    let broken = tokio::task::spawn_blocking(move || {
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        let mut writer = writer;
        while writer.write_all(b"\n").is_ok() {
            assert!(std::time::Instant::now() < deadline, "it still reads");
        }
    });
    broken.await.unwrap();
}

#[test]
fn the_registration_builds_from_its_example_and_refuses_unknown_keys() {
    let build = |config| (REGISTRATION.build)(AdapterSpec::new(config));
    build((REGISTRATION.example_config)()).unwrap();
    let cases = [
        (serde_json::json!({"path": "x", "colour": 1}), "colour"),
        (serde_json::json!({}), "path"),
        (serde_json::json!({"path": ""}), "path"),
        (
            serde_json::json!({"path": "x", "start": "middle"}),
            "middle",
        ),
        (
            serde_json::json!({"path": "x", "max_line_bytes": 0}),
            "max_line_bytes",
        ),
        (
            serde_json::json!({"path": "x", "max_depth": 513}),
            "max_depth",
        ),
        (serde_json::json!({"path": "x", "poll_ms": 0}), "poll_ms"),
        (serde_json::json!({"path": "x", "pid": 0}), "pid"),
    ];
    for (config, named) in cases {
        let error = build(config).unwrap_err();
        assert_eq!(error.kind(), AdapterErrorKind::InvalidConfig);
        assert!(error.to_string().contains(named), "{error}");
    }
}
