//! When a run is told ready (fault 8): by a success of its own server, whatever else answers.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_process::{Listener, OnTimeout, ProcessOptions, Readiness, ReadyCheck};
use headcount_contract::*;

use crate::server::*;
use crate::support::*;

/// Runs until the readiness times out, and returns everything told.
async fn never_ready(mut options: ProcessOptions) -> Vec<RunEvent> {
    options.ready.as_mut().unwrap().timeout = Duration::from_millis(300);
    let events = run(options).await;
    assert_eq!(statuses(&events), [RunStatus::Starting, RunStatus::Crashed]);
    let end = end(&events);
    assert_eq!(end.outcome, Some(Outcome::Failed));
    assert_eq!(end.details.get("notReady"), Some(true.into()));
    assert_eq!(end.details.get("stopRequested"), Some(false.into()));
    assert!(transcript(&events).contains("error: the process was not ready within 300ms"));
    events
}

#[tokio::test]
async fn f08_a_success_makes_it_ready_and_ends_the_probing() {
    let (port, asked) = serve((Ipv4Addr::LOCALHOST, 0), &[BUSY, BUSY, OK], AT_ONCE);
    let handle = start(sleeper(ReadyCheck::http_at(port, "/healthz?a=b"), LONG)).await;
    until_settled(&handle).await;
    assert_eq!(handle.status(), RunStatus::Ready);
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    // Longer than many intervals: had probing gone on, it would show.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    within(handle.stop()).await.unwrap();
}

#[tokio::test]
async fn f08_a_slow_success_counts_although_it_takes_longer_than_the_interval() {
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[OK], Duration::from_millis(400));
    becomes_ready(sleeper(ReadyCheck::http(port), LONG)).await;
}

#[tokio::test]
async fn f08_a_redirection_is_not_followed_and_is_no_success() {
    let (elsewhere, asked) = serve((Ipv4Addr::LOCALHOST, 0), &[OK], AT_ONCE);
    let away = format!(
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:{elsewhere}/\r\ncontent-length: 0\r\n\r\n"
    );
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[&away], AT_ONCE);
    never_ready(sleeper(ReadyCheck::http(port), LONG)).await;
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn f08_a_server_that_never_answers_ends_in_the_stated_outcome() {
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[""], AT_ONCE);
    never_ready(sleeper(ReadyCheck::http(port), LONG)).await;
}

#[tokio::test]
async fn f08_kept_starting_it_is_told_and_may_still_become_ready() {
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[BUSY; 30], AT_ONCE);
    let mut options = sleeper(ReadyCheck::http(port), Duration::from_millis(50));
    options.ready.as_mut().unwrap().on_timeout = OnTimeout::KeepStarting;
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    loop {
        if let RunEvent::Error { message, .. } = within(stream.next()).await.unwrap() {
            assert_eq!(message, "the process was not ready within 50ms");
            break;
        }
    }
    assert_eq!(handle.status(), RunStatus::Starting);
    within(handle.stop()).await.unwrap();
}

#[tokio::test]
async fn f08_a_strangers_server_on_the_port_is_told_and_does_not_count() {
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[OK], AT_ONCE);
    for mut check in [ReadyCheck::http(port), ReadyCheck::tcp(port)] {
        let mut options = sleeper(check.clone(), LONG);
        match &mut check {
            ReadyCheck::Http(http) => http.listener = Listener::Own,
            ReadyCheck::Tcp(tcp) => tcp.listener = Listener::Own,
            _ => {}
        }
        options.ready.as_mut().unwrap().check = check;
        let events = never_ready(options).await;
        let strangers = events.iter().filter_map(|event| match event {
            RunEvent::Error { details, .. } => details.get("listener"),
            _ => None,
        });
        // Told once, with the pid of the stranger: this very process.
        assert_eq!(strangers.collect::<Vec<_>>(), [std::process::id()]);
    }
}

#[test]
#[ignore = "it is the child of another test"]
fn serves_until_it_is_killed() {
    let (_, _) = serve((Ipv4Addr::LOCALHOST, helper_port()), &[OK], AT_ONCE);
    loop {
        std::thread::park();
    }
}

fn helper_port() -> u16 {
    std::env::var("HELPER_PORT").unwrap().parse().unwrap()
}

/// This test program as a server, run by a shell so that the server is a grandchild.
#[tokio::test]
async fn f08_its_own_server_counts_behind_any_proxy() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let own = std::env::current_exe().unwrap();
    let mut options = shell(&format!(
        "'{}' --exact readiness::serves_until_it_is_killed --ignored --nocapture & wait",
        own.display()
    ));
    options.env.insert("HELPER_PORT".into(), port.to_string());
    let mut check = ReadyCheck::http(port);
    if let ReadyCheck::Http(http) = &mut check {
        http.listener = Listener::Own;
    }
    let mut readiness = Readiness::new(check);
    readiness.interval = Duration::from_millis(10);
    options.ready = Some(readiness);
    becomes_ready(options).await;
}

/// With every proxy variable set, in a process of its own: the environment is the whole process's.
#[tokio::test]
async fn f08_no_proxy_of_the_environment_is_asked() {
    let own = std::env::current_exe().unwrap();
    let mut options = ProcessOptions::new(own.to_str().unwrap());
    options.args = [
        "--exact",
        "readiness::is_ready_despite_the_proxy",
        "--ignored",
        "--nocapture",
    ]
    .map(Into::into)
    .to_vec();
    options.inherit_all = true;
    let (proxy, asked) = serve((Ipv4Addr::LOCALHOST, 0), &[BUSY], AT_ONCE);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        options
            .env
            .insert(name.into(), format!("http://127.0.0.1:{proxy}"));
    }
    let events = run(options).await;
    assert_eq!(
        end(&events).details.get("exitCode"),
        Some(0.into()),
        "{}",
        transcript(&events)
    );
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
#[ignore = "it is the child of another test"]
async fn is_ready_despite_the_proxy() {
    assert!(std::env::var_os("HTTP_PROXY").is_some());
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[OK], AT_ONCE);
    becomes_ready(sleeper(ReadyCheck::http(port), LONG)).await;
}

#[tokio::test]
async fn f08_a_body_that_nobody_reads_holds_no_socket() {
    let (port, asked, open) = serve_endless_bodies();
    let handle = start(sleeper(ReadyCheck::http(port), LONG)).await;
    until(|| asked.load(Ordering::Relaxed) >= 50).await;
    // While probing goes on, all but the present request are let go of.
    until(|| open.load(Ordering::Relaxed) <= 1).await;
    within(handle.stop()).await.unwrap();
}

#[tokio::test]
async fn f08_ten_thousand_probes_leave_no_socket_behind() {
    in_a_process_of_its_own("readiness::probes_in_this_process").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it counts the descriptors of the whole process; another test runs it in its own"]
async fn probes_in_this_process() {
    let (port, asked) = serve((Ipv4Addr::LOCALHOST, 0), &[BUSY], AT_ONCE);
    let mut options = sleeper(ReadyCheck::http(port), Duration::from_mins(5));
    options.ready.as_mut().unwrap().interval = Duration::from_nanos(1);
    let runs = futures_util::future::join_all((0..8).map(|_| start(options.clone()))).await;
    within(async {
        while asked.load(Ordering::Relaxed) < 100 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    let before = open_descriptors();
    within(async {
        while asked.load(Ordering::Relaxed) < 10_000 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // Each run has at most a request on either address under way.
    assert!(
        open_descriptors() < before + 64,
        "{before} before, {} after",
        open_descriptors()
    );
    for handle in runs {
        within(handle.stop()).await.unwrap();
    }
}

#[tokio::test]
async fn a_line_a_command_or_time_can_show_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("up").display().to_string();
    let log = |json: serde_json::Value| serde_json::from_value::<ReadyCheck>(json).unwrap();
    for check in [
        ReadyCheck::log("listening on"),
        log(serde_json::json!({"log": {"regex": "^listening on [0-9]+$", "stream": "stderr"}})),
        ReadyCheck::exec("test", ["-e", &file]),
        ReadyCheck::Delay(Duration::from_millis(20)),
    ] {
        let _ = std::fs::remove_file(&file);
        let mut options = shell(&format!(
            "sleep 0.05; touch '{file}'; echo 'listening on 8080' >&2; sleep 30"
        ));
        let mut readiness = Readiness::new(check);
        readiness.interval = Duration::from_millis(10);
        options.ready = Some(readiness);
        becomes_ready(options).await;
    }
    let mut options = shell("echo 'listening on 8080'; sleep 30");
    options.ready = Some(Readiness::new(log(
        serde_json::json!({"log": {"contains": "listening", "stream": "stderr"}}),
    )));
    never_ready(options).await;
}

#[tokio::test]
async fn an_exit_while_it_is_waited_for_is_the_end_at_once() {
    let (port, _) = serve((Ipv4Addr::LOCALHOST, 0), &[""], AT_ONCE);
    let mut options = sleeper(ReadyCheck::http(port), LONG);
    options.args = vec!["0.05".into()];
    let events = run(options).await;
    assert_eq!(statuses(&events), [RunStatus::Starting, RunStatus::Stopped]);
}

/// A thread that lost its processor hears of the exit only after the time for readiness is over.
#[tokio::test]
async fn an_exit_before_the_time_was_over_is_no_failure_to_become_ready() {
    let mut options = shell("exit 0");
    let mut readiness = Readiness::new(ReadyCheck::log("never"));
    readiness.timeout = Duration::from_millis(50);
    options.ready = Some(readiness);
    let handle = start(options).await;
    let mut stream = handle.subscribe();
    let time_is_over = std::time::Instant::now() + Duration::from_millis(100);
    assert!(matches!(stream.next().await, Some(RunEvent::Status(_))));
    // The only thread is busy.
    while lives(pid_of(&handle)) || std::time::Instant::now() < time_is_over {
        std::hint::spin_loop();
    }
    let events: Vec<_> = within(stream.collect()).await;
    assert_eq!(
        end(&events).outcome,
        Some(Outcome::Completed),
        "{}",
        transcript(&events)
    );
}
