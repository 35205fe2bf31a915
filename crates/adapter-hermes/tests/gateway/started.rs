//! Gateways that the adapter starts, on pipes.

use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_hermes::replay;
use headcount_adapter_hermes::scripted::{Faults, Step, Version};
use headcount_contract::{
    AdapterErrorKind, ChildLifecycleAdapter, ChildState, HealthStatus, Signal, Snapshot,
    SnapshotReason, Timestamp, Urgency,
};
use headcount_projector::{Projector, Settings};
use libtest_mimic::Trial;

use crate::support::live::{
    Watched, account, detail, process, source, state_of, trial, write_transcript,
};
use crate::support::{fixtures, recordings};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "started::plays_every_recording_over_a_pipe",
            plays_every_recording,
        ),
        trial(
            "started::death_within_a_frame_loses_the_children",
            death_within_a_frame,
        ),
        // Elsewhere nobody's environment can be read.
        trial(
            "started::what_a_killed_gateway_leaves_running_is_reported",
            orphans,
        )
        .with_ignored_flag(cfg!(not(target_os = "linux"))),
        trial(
            "started::its_death_leaves_children_unproven_until_a_transcript_tells_or_they_are_lost",
            transcript,
        ),
        trial("started::silence_loses_nobody", silence),
        trial(
            "started::closing_kills_a_gateway_that_ignores_the_request",
            stubborn,
        ),
        trial(
            "started::a_gateway_that_cannot_be_started_says_why",
            not_there,
        ),
        trial("started::its_last_words_are_told", last_words),
        trial(
            "started::it_gets_no_variable_that_is_not_allowed",
            environment,
        ),
        trial("started::a_record_can_be_replayed", record),
    ]
}

async fn plays_every_recording() {
    for name in recordings().iter().filter(|name| !name.contains("trace")) {
        let recording = fixtures().join(name);
        let steps = [
            Step::AwaitRequests(2),
            Step::Play(recording.clone()),
            Step::Exit(0),
        ];
        let version = if name.contains("v0.19") {
            Version::V0_19
        } else {
            Version::V0_22
        };
        let mut watched = Watched::of(process(version, &steps));
        watched.until_finished().await;
        let replayed = replay::adapter_at(&recording, source(), || Timestamp::UNIX_EPOCH).unwrap();
        let replayed: Vec<_> = replayed.subscribe().unwrap().collect().await;
        let (live, mut recorded) = (account(&watched.seen), account(&replayed));
        if name.contains("v0.19.0/14_") {
            // Without events the recorded listings are all there is, and those are not played.
            recorded.clear();
        }
        assert_eq!(live, recorded, "{name}");
    }
}

async fn death_within_a_frame() {
    let steps = [
        Step::AwaitRequests(2),
        Step::Start("one".into()),
        Step::Start("two".into()),
        Step::Complete {
            goal: "one".into(),
            status: "completed".into(),
        },
        Step::Text(r#"{"jsonrpc":"2.0","method":"event","params":{"type":"subagent.comp"#.into()),
        Step::Kill,
    ];
    let mut watched = Watched::of(process(Version::V0_22, &steps));
    watched.until_finished().await;
    assert_eq!(watched.count("frames_truncated"), 1);
    assert_eq!(
        state_of(&watched.seen, "sa-0-00000000"),
        Some(ChildState::COMPLETED)
    );
    assert_eq!(
        state_of(&watched.seen, "sa-0-00000001"),
        Some(ChildState::LOST)
    );
    assert_eq!(watched.discontinuities(), ["Disconnected, gap Possible"]);
    let seen = &watched.seen;
    assert_eq!(
        detail(seen, "sa-0-00000001", "basis").unwrap(),
        "gateway_exit"
    );
    assert_eq!(detail(seen, "sa-0-00000001", "gatewaySignal").unwrap(), 9);
    let health = watched.adapter.health();
    assert_eq!(health.status, HealthStatus::Down);
    assert!(health.message.unwrap().contains("signal 9"));
    // Nothing runs in a process that has ended.
    let snapshot = watched
        .adapter
        .snapshot(SnapshotReason::Reconnect)
        .await
        .unwrap();
    assert!(matches!(&snapshot[..], [Snapshot::Complete(s)] if s.children().is_empty()));
}

async fn orphans() {
    let steps = [
        Step::AwaitRequests(2),
        Step::Start("runs a shell".into()),
        Step::LeaveBehind,
        Step::Kill,
    ];
    let mut watched = Watched::of(process(Version::V0_19, &steps));
    watched.until_finished().await;
    let orphans = detail(&watched.seen, "sa-0-00000000", "orphans").unwrap();
    let [orphan] = &orphans.as_array().unwrap()[..] else {
        panic!("{orphans}")
    };
    let pid = orphan.as_i64().unwrap();
    // Reported, not hunted: it lives until this test ends it.
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    let ended = std::process::Command::new("kill")
        .arg(pid.to_string())
        .status()
        .unwrap();
    assert_eq!(name.trim(), "sleep");
    assert!(ended.success());
    let message = watched.adapter.health().message.unwrap();
    assert!(
        message.contains(&format!("left processes running: {pid}")),
        "{message}"
    );
}

/// Unproven, then what evidence tells, then lost.
async fn transcript() {
    let home = tempfile::tempdir().unwrap();
    write_transcript(home.path(), "deleg_sa-0-00000001", "interrupted");
    let steps = [
        Step::AwaitRequests(2),
        Step::Start("one".into()),
        Step::Start("two".into()),
        Step::Kill,
    ];
    let mut config = process(Version::V0_22, &steps);
    config.hermes_home = Some(home.path().to_owned());
    let mut watched = Watched::of(config);
    watched.until_finished().await;
    let seen = &watched.seen;
    let mut projector = Projector::new(Settings::default());
    let mut told = Vec::new();
    let mut effects = Vec::new();
    for signal in seen {
        match signal {
            Signal::Event(event) => {
                projector.apply(event, event.observed_at(), &mut effects);
                if event.state().is_some_and(ChildState::is_terminal) {
                    told.push(format!("{} {}", event.child_id(), event.state().unwrap()));
                }
            }
            Signal::Discontinuity(_) => {
                projector.source_unproven(&source(), Timestamp::UNIX_EPOCH, &mut effects);
                let unproven = projector.records().filter(|record| record.unproven);
                told.push(format!("{} unproven", unproven.count()));
            }
            _ => {}
        }
    }
    assert_eq!(
        told,
        [
            "2 unproven",
            "sa-0-00000001 cancelled",
            "sa-0-00000000 lost"
        ]
    );
    let cancelled = "sa-0-00000001";
    assert_eq!(detail(seen, cancelled, "basis").unwrap(), "transcript");
    assert_eq!(detail(seen, cancelled, "rawStatus").unwrap(), "interrupted");
    assert_eq!(
        detail(seen, "sa-0-00000000", "basis").unwrap(),
        "gateway_exit"
    );
}

async fn silence() {
    let steps = [
        Step::AwaitRequests(2),
        Step::Start("one".into()),
        Step::Misbehave(Faults {
            silent: true,
            ..Faults::default()
        }),
    ];
    let mut config = process(Version::V0_22, &steps);
    config.request_timeout = Duration::from_millis(200);
    let mut watched = Watched::of(config);
    watched
        .until("the silence to be told", |seen| {
            seen.iter().any(|signal| {
                matches!(signal, Signal::Health(health)
                if health.message.as_deref() == Some("the gateway does not answer"))
            })
        })
        .await;
    assert_eq!(
        state_of(&watched.seen, "sa-0-00000000"),
        Some(ChildState::RUNNING)
    );
    let error = watched
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::TimedOut);
    assert!(error.is_retryable());
}

async fn stubborn() {
    let steps = [Step::AwaitRequests(2), Step::Start("one".into())];
    let mut config = process(Version::V0_22, &steps);
    // What is ignored stays ignored in what is started.
    let this = config.command.remove(0);
    config.command = ["sh", "-c", "trap '' TERM; exec \"$0\"", &this]
        .map(str::to_owned)
        .into();
    config.grace = Duration::from_millis(100);
    let mut watched = Watched::of(config);
    watched
        .until_state("sa-0-00000000", ChildState::RUNNING)
        .await;
    watched.adapter.close(Urgency::Graceful).await.unwrap();
    watched.read_to_end().await;
    assert_eq!(
        state_of(&watched.seen, "sa-0-00000000"),
        Some(ChildState::LOST)
    );
    assert_eq!(
        detail(&watched.seen, "sa-0-00000000", "gatewaySignal").unwrap(),
        9
    );
    assert_eq!(
        detail(&watched.seen, "sa-0-00000000", "gatewayStopRequested").unwrap(),
        true
    );
    assert_eq!(
        watched.adapter.subscribe().err().unwrap().kind(),
        AdapterErrorKind::Closed
    );
}

async fn not_there() {
    let mut config = process(Version::V0_22, &[]);
    config.command = vec!["/nonexistent/gateway".to_owned()];
    let mut watched = Watched::of(config);
    watched.until_finished().await;
    let health = watched.adapter.health();
    assert_eq!(health.status, HealthStatus::Down);
    let message = health.message.unwrap();
    assert!(
        message.contains("is Hermes installed") && message.contains("/nonexistent/gateway"),
        "{message}"
    );
}

async fn last_words() {
    let steps = [
        Step::Complain("No module named tui_gateway".into()),
        Step::Exit(1),
    ];
    let mut watched = Watched::of(process(Version::V0_19, &steps));
    watched.until_finished().await;
    let message = watched.adapter.health().message.unwrap();
    assert_eq!(
        message,
        "the gateway ended with exit code 1; its last words: No module named tui_gateway"
    );
}

async fn environment() {
    let listing = r"env | sed 's/=.*//' | sort | tr '\n' ' ' >&2; exit 0";
    let mut config = process(Version::V0_19, &[]);
    config.command = ["sh", "-c", listing].map(str::to_owned).into();
    config.env = [("GIVEN".to_owned(), "1".to_owned())].into();
    config.inherit = vec!["CARGO_MANIFEST_DIR".to_owned()];
    let mut watched = Watched::of(config);
    watched.until_finished().await;
    let message = watched.adapter.health().message.unwrap();
    let (_, names) = message.split_once("last words: ").unwrap();
    let allowed = [
        "CARGO_MANIFEST_DIR",
        "GIVEN",
        "HEADCOUNT_GATEWAY",
        "PYTHONUNBUFFERED",
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "SHELL",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "TERM",
        "HERMES_HOME",
        "VIRTUAL_ENV",
        "PYTHONPATH",
        "XDG_CONFIG_HOME",
        "XDG_RUNTIME_DIR",
        // What the shell itself adds.
        "PWD",
        "OLDPWD",
        "SHLVL",
        "_",
    ];
    let names: Vec<_> = names.split_whitespace().collect();
    assert!(
        names.contains(&"GIVEN") && names.contains(&"HEADCOUNT_GATEWAY"),
        "{names:?}"
    );
    for name in names {
        assert!(allowed.contains(&name), "{name}");
    }
}

async fn record() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record.jsonl");
    let prompt = r#"{"jsonrpc":"2.0","method":"event","params":{"type":"session.info","session_id":"s1","payload":{"system_prompt":"be kind","version":"0.22"}}}"#;
    let steps = [
        Step::AwaitRequests(2),
        Step::Line(prompt.into()),
        Step::Start("one".into()),
        Step::Start("two".into()),
        Step::Start("three".into()),
        Step::Complete {
            goal: "one".into(),
            status: "interrupted".into(),
        },
        Step::Kill,
    ];
    let mut config = process(Version::V0_22, &steps);
    config.record = Some(path.clone());
    config.hermes_home = Some(folder.path().to_owned());
    write_transcript(folder.path(), "deleg_sa-0-00000002", "failed");
    let mut watched = Watched::of(config.clone());
    watched.until_finished().await;
    let live = account(&watched.seen);
    let bases = |seen: &[Signal]| {
        ["sa-0-00000001", "sa-0-00000002"].map(|id| detail(seen, id, "basis").unwrap())
    };
    assert_eq!(bases(&watched.seen), ["gateway_exit", "transcript"]);
    drop(watched);
    // The writing thread ends with the last sender.
    let complete = |text: &str| text.contains(r#""gatewaySignal":9"#);
    let text = loop {
        let text = std::fs::read_to_string(&path).unwrap();
        if complete(&text) {
            break text;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert!(!text.contains("be kind"), "prompts are not recorded");
    let replayed = replay::adapter(&path, source()).unwrap();
    let replayed: Vec<_> = replayed.subscribe().unwrap().collect().await;
    assert_eq!(account(&replayed), live);
    // Why is recorded, too: not only frames tell of an end.
    assert_eq!(bases(&replayed), ["gateway_exit", "transcript"]);
    assert_eq!(
        detail(&replayed, "sa-0-00000001", "gatewaySignal").unwrap(),
        9
    );
    // A record is never written over.
    let refused = Watched::try_of(config).err().unwrap();
    assert_eq!(refused.kind(), AdapterErrorKind::InvalidConfig);
    assert!(refused.to_string().contains("not there yet"), "{refused}");
}
