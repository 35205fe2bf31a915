//! The stub does what seed 004 says of it, and no more.

#![allow(clippy::unwrap_used)] // helpers of tests may unwrap, as tests may

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::StreamExt;
use headcount_conformance::stub::{NotEmitted, StubController, StubOptions, StubRuntime};
use headcount_contract::{
    AgentRuntime, OutputStream, RunEvent, RunEventStream, RunHandle, RunId, RunStatus, StartError,
    StartErrorKind, StartInput, StatusChange, StopSignal, Timestamp,
};

fn stub() -> (Arc<StubRuntime>, StubController) {
    StubRuntime::new(StubOptions::default().with_clock(|| Timestamp::UNIX_EPOCH))
}

fn manual() -> (Arc<StubRuntime>, StubController) {
    StubRuntime::new(
        StubOptions::default()
            .manual_ready()
            .with_clock(|| Timestamp::UNIX_EPOCH),
    )
}

async fn start(runtime: &StubRuntime) -> Arc<dyn RunHandle> {
    runtime.start(StartInput::new("/srv/agent")).await.unwrap()
}

/// One word an event.
fn word(event: &RunEvent) -> String {
    match event {
        RunEvent::Status(change) => change.status.as_str().into(),
        RunEvent::Log(batch) => {
            let line = batch.last().unwrap();
            format!("{}#{}:{}", line.stream.as_str(), line.number, line.text)
        }
        RunEvent::LogMissed(missed) => format!("missed {missed}"),
        RunEvent::Error { message, .. } => format!("error:{message}"),
        other => format!("{other:?}"),
    }
}

async fn rest(stream: RunEventStream) -> Vec<String> {
    stream.map(|event| word(&event)).collect().await
}

#[tokio::test]
async fn has_the_name_it_was_given() {
    assert_eq!(stub().0.name(), "stub");
    let (named, _) = StubRuntime::new(StubOptions::default().named("worker"));
    assert_eq!(named.name(), "worker");
}

#[tokio::test]
async fn becomes_ready_by_itself_after_start_returned() {
    let (runtime, _) = stub();
    let run = start(&runtime).await;
    assert_eq!(run.status(), RunStatus::Starting);
    let mut events = run.subscribe();
    assert_eq!(word(&events.next().await.unwrap()), "starting");
    assert_eq!(word(&events.next().await.unwrap()), "ready");
    assert_eq!(run.status(), RunStatus::Ready);
}

#[tokio::test]
async fn stays_starting_until_told_when_ready_is_manual() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.status(), RunStatus::Starting);
    controller.emit_status(RunStatus::Ready).unwrap();
    assert_eq!(run.status(), RunStatus::Ready);
}

#[tokio::test]
async fn a_run_that_was_stopped_first_never_becomes_ready() {
    let (runtime, _) = stub();
    let run = start(&runtime).await;
    let events = run.subscribe();
    run.stop().await.unwrap();
    for _ in 0..8 {
        tokio::task::yield_now().await;
    }
    assert_eq!(run.status(), RunStatus::Stopped);
    assert_eq!(rest(events).await, ["starting", "stopped"]);
}

#[tokio::test]
async fn status_events_after_subscribe_are_never_missed() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    let early = run.subscribe();
    controller.emit_status(RunStatus::Ready).unwrap();
    let late = run.subscribe();
    controller.emit_status(RunStatus::Crashed).unwrap();
    let after = run.subscribe();
    assert_eq!(rest(early).await, ["starting", "ready", "crashed"]);
    assert_eq!(rest(late).await, ["ready", "crashed"]);
    assert_eq!(rest(after).await, ["crashed"]);
}

#[tokio::test]
async fn the_first_subscriber_misses_nothing_since_the_start() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    controller.emit_log(OutputStream::Stdout, "early").unwrap();
    controller.emit_status(RunStatus::Crashed).unwrap();
    assert_eq!(
        rest(run.subscribe()).await,
        ["starting", "stdout#1:early", "crashed"]
    );
    assert_eq!(rest(run.subscribe()).await, ["crashed"]);
}

#[tokio::test]
async fn a_run_bears_the_name_that_the_host_gives() {
    let (runtime, controller) = manual();
    let mut input = StartInput::new("/srv/agent");
    input.run_id = Some(RunId::new("build-7").unwrap());
    let run = runtime.start(input).await.unwrap();
    assert_eq!(run.run_id().as_str(), "build-7");
    assert_eq!(
        controller.last_input().unwrap().run_id.as_ref(),
        Some(run.run_id())
    );
}

#[tokio::test]
async fn emits_logs_and_errors_in_the_latest_run() {
    let (runtime, controller) = manual();
    let first = start(&runtime).await.subscribe();
    let second_run = start(&runtime).await;
    let second = second_run.subscribe();
    controller.emit_log(OutputStream::Stderr, "boot").unwrap();
    controller.emit_log(OutputStream::Stdout, "one").unwrap();
    controller.emit_log(OutputStream::Stdout, "two").unwrap();
    controller.emit_error("odd").unwrap();
    for run in controller.handles() {
        run.stop().await.unwrap();
    }
    let lines = [
        "starting",
        "stderr#1:boot",
        "stdout#1:one",
        "stdout#2:two",
        "error:odd",
        "stopped",
    ];
    assert_eq!(rest(first).await, ["starting", "stopped"]);
    assert_eq!(rest(second).await, lines);
}

#[tokio::test]
async fn emits_in_any_run_by_its_id() {
    let (runtime, controller) = manual();
    let first = start(&runtime).await;
    let second = start(&runtime).await;
    let crash = RunEvent::Status(StatusChange::new(RunStatus::Crashed, Timestamp::UNIX_EPOCH));
    controller.emit_in(first.run_id(), crash.clone()).unwrap();
    assert_eq!(first.status(), RunStatus::Crashed);
    assert_eq!(second.status(), RunStatus::Starting);
    assert_eq!(
        controller.emit_in(first.run_id(), crash.clone()),
        Err(NotEmitted::Ended)
    );
    let (_, other) = manual();
    assert_eq!(other.emit_in(first.run_id(), crash), Err(NotEmitted::NoRun));
}

#[tokio::test]
async fn remembers_the_last_input_and_every_handle() {
    let (runtime, controller) = stub();
    assert!(controller.last_input().is_none());
    assert_eq!(controller.emit_error("early"), Err(NotEmitted::NoRun));
    start(&runtime).await;
    let mut input = StartInput::new("/srv/other");
    input.entry = Some("main.rs".into());
    input.port_hint = Some(8080);
    input.env = BTreeMap::from([("PATH".into(), "/bin".into())]);
    runtime.start(input).await.unwrap();
    let last = controller.last_input().unwrap();
    assert_eq!(last.project_root.to_str(), Some("/srv/other"));
    assert_eq!(last.entry.as_deref(), Some("main.rs"));
    assert_eq!(last.port_hint, Some(8080));
    assert_eq!(last.env["PATH"], "/bin");
    let ids: Vec<_> = controller
        .handles()
        .iter()
        .map(|run| run.run_id().to_string())
        .collect();
    assert_eq!(ids, ["stub-run-1", "stub-run-2"]);
}

#[tokio::test]
async fn fails_the_next_start_once_and_leaves_nothing() {
    let (runtime, controller) = stub();
    controller.fail_next_start(StartError::new(StartErrorKind::NotFound, "no such agent"));
    let error = runtime
        .start(StartInput::new("/srv/agent"))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::NotFound);
    assert!(controller.handles().is_empty());
    assert!(controller.last_input().is_some());
    start(&runtime).await;
    assert_eq!(controller.handles().len(), 1);
}

#[tokio::test]
async fn stop_is_idempotent_and_emits_once() {
    let (runtime, _) = stub();
    let run = start(&runtime).await;
    let events = run.subscribe();
    let (one, two) = tokio::join!(run.stop(), run.stop());
    assert!(one.is_ok() && two.is_ok() && run.stop().await.is_ok());
    assert_eq!(rest(events).await, ["starting", "stopped"]);
}

#[tokio::test]
async fn stop_after_a_crash_changes_nothing() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    controller.emit_status(RunStatus::Crashed).unwrap();
    run.stop().await.unwrap();
    assert_eq!(run.status(), RunStatus::Crashed);
    assert_eq!(
        controller.emit_log(OutputStream::Stdout, "late"),
        Err(NotEmitted::Ended)
    );
}

#[tokio::test]
async fn the_stop_signal_equals_stop() {
    let (runtime, _) = manual();
    let (fire, fired) = tokio::sync::oneshot::channel::<()>();
    let mut input = StartInput::new("/srv/agent");
    input.stop = Some(StopSignal::new(async move {
        let _ = fired.await;
    }));
    let run = runtime.start(input).await.unwrap();
    let events = run.subscribe();
    fire.send(()).unwrap();
    assert_eq!(rest(events).await, ["starting", "stopped"]);
}

#[tokio::test]
async fn a_stop_signal_that_has_fired_already_stops_the_run() {
    let (runtime, _) = stub();
    let mut input = StartInput::new("/srv/agent");
    input.stop = Some(StopSignal::new(std::future::ready(())));
    let run = runtime.start(input).await.unwrap();
    let words = rest(run.subscribe()).await;
    assert_eq!(words.last().map(String::as_str), Some("stopped"));
}

#[tokio::test]
async fn the_stop_signal_is_forgotten_when_the_run_has_ended() {
    let (runtime, controller) = manual();
    let (fire, fired) = tokio::sync::oneshot::channel::<()>();
    let mut input = StartInput::new("/srv/agent");
    input.stop = Some(StopSignal::new(async move {
        let _ = fired.await;
    }));
    let run = runtime.start(input).await.unwrap();
    controller.emit_status(RunStatus::Crashed).unwrap();
    // Resolves when the receiver inside the signal is dropped.
    let mut fire = fire;
    fire.closed().await;
    assert_eq!(run.status(), RunStatus::Crashed);
}

/// A waker that does something of its own.
struct Does<F: Fn() + Send + Sync>(F);

impl<F: Fn() + Send + Sync> Wake for Does<F> {
    fn wake(self: Arc<Self>) {
        (self.0)();
    }
}

/// Takes the first status, then waits with a waker that does `act`.
fn wait_with(stream: &mut RunEventStream, act: impl Fn() + Send + Sync + 'static) {
    let waker = Waker::from(Arc::new(Does(act)));
    let mut cx = Context::from_waker(&waker);
    assert!(matches!(
        stream.poll_next_unpin(&mut cx),
        Poll::Ready(Some(RunEvent::Status(_)))
    ));
    assert!(stream.poll_next_unpin(&mut cx).is_pending());
}

#[tokio::test]
async fn a_subscriber_that_panics_harms_nobody() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    let mut bad = run.subscribe();
    wait_with(&mut bad, || panic!("a subscriber's own fault"));
    let good = run.subscribe();
    controller.emit_log(OutputStream::Stdout, "on").unwrap();
    run.stop().await.unwrap();
    assert_eq!(rest(good).await, ["starting", "stdout#1:on", "stopped"]);
    assert_eq!(rest(bad).await, ["stdout#1:on", "stopped"]);
}

#[tokio::test]
async fn a_subscriber_may_unsubscribe_subscribe_and_emit_inside_a_wake() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    let slot: Arc<Mutex<Option<RunEventStream>>> = Arc::default();
    let woken = Arc::new(AtomicUsize::new(0));
    let new: Arc<Mutex<Option<RunEventStream>>> = Arc::default();
    let mut leaver = run.subscribe();
    {
        let (slot, woken, new) = (slot.clone(), woken.clone(), new.clone());
        let (run, controller) = (run.clone(), controller.clone());
        wait_with(&mut leaver, move || {
            woken.fetch_add(1, Ordering::SeqCst);
            drop(slot.lock().unwrap().take());
            *new.lock().unwrap() = Some(run.subscribe());
            controller.emit_error("from a wake").unwrap();
        });
    }
    *slot.lock().unwrap() = Some(leaver);
    let other = run.subscribe();
    controller.emit_log(OutputStream::Stdout, "on").unwrap();
    run.stop().await.unwrap();
    assert_eq!(
        rest(other).await,
        ["starting", "stdout#1:on", "error:from a wake", "stopped"]
    );
    let new = new.lock().unwrap().take().unwrap();
    assert_eq!(
        rest(new).await,
        ["starting", "error:from a wake", "stopped"]
    );
    assert_eq!(
        woken.load(Ordering::SeqCst),
        1,
        "silent after it unsubscribed"
    );
}

#[tokio::test]
async fn log_lines_that_nobody_takes_are_counted_not_kept() {
    let (runtime, controller) = manual();
    let run = start(&runtime).await;
    let slow = run.subscribe();
    for _ in 0..5000 {
        controller.emit_log(OutputStream::Stdout, "x").unwrap();
    }
    run.stop().await.unwrap();
    let words = rest(slow).await;
    assert_eq!(words.len(), 1 + 4096 + 2);
    assert_eq!(words[4097..], ["missed 904", "stopped"]);
}

#[tokio::test]
async fn two_stubs_share_nothing() {
    let (a, a_controller) = stub();
    let (b, b_controller) = stub();
    start(&a).await;
    assert!(b_controller.handles().is_empty());
    let run = start(&b).await;
    assert_eq!(run.run_id().as_str(), "stub-run-1");
    assert_eq!(a_controller.handles().len(), 1);
}
