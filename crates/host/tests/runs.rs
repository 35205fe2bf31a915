//! A host over the in-memory runtime: from the first event to the last view.
#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts tests, not the helpers of tests

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use headcount::{AdapterInfo, Change, Delivery, Host, RequestError};
use headcount_adapter_kit::{RunPlan, RuntimeAdapter};
use headcount_conformance::stub::{StubController, StubOptions, StubRuntime};
use headcount_contract::{
    CancelOutcome, ChildId, ChildState, LifecycleEvent, OutputStream, RunStatus, SourceEpoch,
    SourceId, SourceIdentity, StartInput, Urgency,
};

fn source(name: &str) -> SourceId {
    SourceId::new(name).unwrap()
}

fn child(name: &str) -> ChildId {
    ChildId::new(name).unwrap()
}

/// A host with one adapter, of a stub runtime that runs one child by itself.
fn host_with_stub() -> (Host, StubController) {
    let (runtime, controller) = StubRuntime::new(StubOptions::default());
    let identity = SourceIdentity::new(source("stub"), SourceEpoch::new("1").unwrap());
    let adapter = RuntimeAdapter::builder(runtime, identity)
        .plan(RunPlan::once(|| StartInput::new("/srv")))
        .build();
    let host = Host::builder()
        .adapter_value(AdapterInfo::own("stub"), Arc::new(adapter))
        .build()
        .unwrap();
    (host, controller)
}

/// Takes changes until one is as wanted.
async fn events_until_end(host: &Host) -> Vec<Arc<LifecycleEvent>> {
    let mut changes = host.changes_with(Delivery::Lossless);
    host.start().await.unwrap();
    let mut events = Vec::new();
    while let Some(change) = changes.next().await {
        match change {
            Change::Event(event) => {
                let over = event.state().is_some_and(ChildState::is_terminal);
                events.push(event);
                if over {
                    break;
                }
            }
            Change::Lagged(missed) => panic!("missed {missed}"),
            _ => (),
        }
    }
    events
}

#[tokio::test]
async fn shows_a_run_from_its_creation_to_its_end() {
    let (host, controller) = host_with_stub();
    let watcher = async {
        host.wait_until(|view| view.children().any(|c| c.state() == ChildState::RUNNING))
            .await;
        controller.emit_log(OutputStream::Stdout, "hello").unwrap();
        host.wait_until(|view| view.children().any(|c| c.last_line.is_some()))
            .await;
        controller.emit_status(RunStatus::Stopped).unwrap();
    };
    let (events, ()) = tokio::join!(events_until_end(&host), watcher);
    let kinds: Vec<_> = events
        .iter()
        .map(|event| (event.kind().as_str(), event.state().map(ChildState::as_str)))
        .collect();
    assert_eq!(
        kinds,
        [
            ("created", Some("created")),
            ("state_changed", Some("starting")),
            ("state_changed", Some("running")),
            ("terminal", Some("completed")),
        ]
    );
    let view = host.idle().await;
    let shown = view.children().next().unwrap();
    assert_eq!(shown.state(), ChildState::COMPLETED);
    assert_eq!(&*shown.last_line.as_ref().unwrap().text, "hello");
    assert_eq!(view.adapters()[0].source, source("stub"));
    assert!(view.is_finished() && !view.is_stopped());
    host.shutdown(Urgency::Graceful).await.unwrap();
    assert!(host.view().is_stopped());
}

#[tokio::test]
async fn cancels_only_what_it_may() {
    let (host, _controller) = host_with_stub();
    host.start().await.unwrap();
    let view = host
        .wait_until(|view| view.children().any(|c| c.state() == ChildState::RUNNING))
        .await;
    let (of, id) = {
        let shown = view.children().next().unwrap();
        assert!(shown.cancellable);
        (shown.record.source.clone(), shown.record.child_id.clone())
    };
    let unknown = host.cancel(&of, &child("nobody"), None).await.unwrap_err();
    assert!(
        matches!(unknown, RequestError::UnknownChild { .. }),
        "{unknown}"
    );
    assert_eq!(
        host.cancel(&of, &id, Some("test")).await.unwrap(),
        CancelOutcome::Accepted
    );
    let view = host.idle().await;
    assert_eq!(view.child(&of, &id).unwrap().state(), ChildState::CANCELLED);
    let ended = host.cancel(&of, &id, None).await.unwrap_err();
    assert!(matches!(ended, RequestError::Ended { .. }), "{ended}");
}

#[tokio::test]
async fn shutdown_stops_what_runs_and_ends_the_changes() {
    let (host, _controller) = host_with_stub();
    let mut changes = host.changes();
    host.start().await.unwrap();
    host.wait_until(|view| view.children().any(|c| c.state() == ChildState::RUNNING))
        .await;
    host.shutdown(Urgency::Now).await.unwrap();
    assert_eq!(
        host.view().children().next().unwrap().state(),
        ChildState::CANCELLED
    );
    let drained = async { while changes.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(30), drained)
        .await
        .expect("the changes end");
    assert!(host.start().await.is_err(), "a host starts once");
}

#[tokio::test]
async fn dropping_the_host_drops_its_adapters() {
    let (host, controller) = host_with_stub();
    host.start().await.unwrap();
    host.wait_until(|view| view.children().any(|c| c.state() == ChildState::RUNNING))
        .await;
    let mut changes = host.changes();
    drop(host);
    let drained = async { while changes.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(30), drained)
        .await
        .expect("the changes end");
    drop(controller);
}
