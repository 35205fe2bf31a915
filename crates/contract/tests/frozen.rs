//! An adapter and a runtime as a third party wrote them against version 0.1 of the contract.
//!
//! This file must go on compiling without a change: whatever is added to the traits comes with a
//! default body. It names no method that has a default body, and spells out no type that a caller
//! does not have to spell out.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterRegistration, AdapterSpec, AgentRuntime, Capabilities,
    Capability, ChildId, ChildIdentity, ChildLifecycleAdapter, ChildState, Coverage, EventId,
    EventKind, Health, HealthStatus, LifecycleEvent, RunEventStream, RunHandle, RunId, RunStatus,
    RuntimeCapabilities, SequenceScope, Signal, SignalStream, Snapshot, SnapshotChild, SnapshotId,
    SnapshotReason, SourceEpoch, SourceId, SourceIdentity, SourceRole, StartError, StartErrorKind,
    StartInput, Timestamp, async_trait,
};

/// Observes one lamp that is either lit or not.
#[derive(Debug)]
struct LampAdapter {
    source: SourceIdentity,
    lit: bool,
}

impl LampAdapter {
    fn lamp() -> ChildIdentity {
        ChildIdentity::root(ChildId::new("lamp").unwrap())
    }

    fn state(&self) -> ChildState {
        if self.lit {
            ChildState::RUNNING
        } else {
            ChildState::WAITING
        }
    }
}

#[async_trait]
impl ChildLifecycleAdapter for LampAdapter {
    fn identity(&self) -> SourceIdentity {
        self.source.clone()
    }

    fn capabilities(&self) -> Capabilities {
        REGISTRATION.capabilities
    }

    fn health(&self) -> Health {
        Health::new(HealthStatus::Healthy)
    }

    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        let event = LifecycleEvent::new(
            EventId::new("lamp-1").unwrap(),
            self.identity(),
            Self::lamp(),
            EventKind::StateChanged(self.state()),
            Timestamp::UNIX_EPOCH,
            self.capabilities(),
        );
        Ok(Box::pin(Once(Some(Signal::Event(event)))))
    }

    async fn snapshot(&self, _reason: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        let snapshot = headcount_contract::AuthoritativeSnapshot::new(
            self.identity(),
            SnapshotId::new("lamp-1").unwrap(),
            Timestamp::UNIX_EPOCH,
            Coverage::All,
            vec![SnapshotChild::with_identity(Self::lamp(), self.state())],
        );
        let internal =
            |error| AdapterError::new(AdapterErrorKind::Internal, "no snapshot").with_source(error);
        Ok(vec![snapshot.map_err(internal)?.into()])
    }
}

static REGISTRATION: AdapterRegistration = AdapterRegistration {
    kind: "lamp",
    summary: "Observes one lamp",
    provided_by: "lamp-adapter 1.0.0",
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: Capabilities {
        snapshot: Capability::Known,
        ..Capabilities::UNKNOWN
    },
    config_schema: || serde_json::json!({"type": "object"}),
    example_config: || serde_json::json!({"lit": true}),
    build: |spec: AdapterSpec| {
        let Some(lit) = spec.config["lit"].as_bool() else {
            return Err(AdapterError::new(
                AdapterErrorKind::InvalidConfig,
                "true or false is wanted",
            )
            .with_context("key", "lit"));
        };
        let id = SourceId::new("lamp").unwrap();
        let epoch = SourceEpoch::new("1").unwrap();
        let source = SourceIdentity::new(spec.source.unwrap_or(id), epoch);
        Ok(Arc::new(LampAdapter { source, lit }))
    },
};

/// Starts runs that are ready at once.
#[derive(Debug)]
struct InstantRuntime;

#[derive(Debug)]
struct InstantRun {
    id: RunId,
    status: Mutex<RunStatus>,
}

#[async_trait]
impl AgentRuntime for InstantRuntime {
    fn name(&self) -> &'static str {
        "instant"
    }

    fn capabilities(&self) -> RuntimeCapabilities {
        RuntimeCapabilities::default()
    }

    async fn start(&self, input: StartInput) -> Result<Arc<dyn RunHandle>, StartError> {
        if !input.project_root.is_absolute() {
            let kind = StartErrorKind::InvalidInput;
            return Err(StartError::new(kind, "the project root must be absolute"));
        }
        let id = RunId::new("run-1").unwrap();
        Ok(Arc::new(InstantRun {
            id,
            status: Mutex::new(RunStatus::Ready),
        }))
    }
}

#[async_trait]
impl RunHandle for InstantRun {
    fn run_id(&self) -> &RunId {
        &self.id
    }

    fn status(&self) -> RunStatus {
        *self.status.lock().unwrap()
    }

    fn subscribe(&self) -> RunEventStream {
        Box::pin(Once(None))
    }

    async fn stop(&self) -> Result<(), AdapterError> {
        *self.status.lock().unwrap() = RunStatus::Stopped;
        Ok(())
    }
}

/// A stream of one item at most, so that this file needs no library of streams.
struct Once<T>(Option<T>);

impl<T: Unpin> futures_core::Stream for Once<T> {
    type Item = T;
    fn poll_next(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
        Poll::Ready(self.0.take())
    }
}

/// Runs a future that never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing in this file waits"),
    }
}

#[test]
fn the_adapter_is_built_from_its_registration_and_observes() {
    let adapter = (REGISTRATION.build)(AdapterSpec::new((REGISTRATION.example_config)())).unwrap();
    let snapshots = now(adapter.snapshot(SnapshotReason::SessionOpen)).unwrap();
    assert_eq!(snapshots[0].children()[0].state(), ChildState::RUNNING);

    let mut stream = adapter.subscribe().unwrap();
    let mut context = Context::from_waker(Waker::noop());
    match stream.as_mut().poll_next(&mut context) {
        Poll::Ready(Some(Signal::Event(event))) => {
            assert_eq!(event.state(), Some(ChildState::RUNNING));
        }
        other => panic!("{other:?}"),
    }
}

/// What the third party did not write answers that it is not there.
#[test]
fn what_has_a_default_body_says_that_it_is_unsupported() {
    let adapter =
        (REGISTRATION.build)(AdapterSpec::new(serde_json::json!({"lit": false}))).unwrap();
    let lamp = ChildId::new("lamp").unwrap();
    let cancelled = now(adapter.cancel(&lamp, None)).unwrap();
    assert_eq!(cancelled, headcount_contract::CancelOutcome::Unsupported);
    let restarted = now(adapter.restart(&lamp)).unwrap_err();
    assert_eq!(restarted.kind(), AdapterErrorKind::Unsupported);
    assert!(now(adapter.close(headcount_contract::Urgency::Graceful)).is_ok());
}

#[test]
fn the_runtime_starts_stops_and_does_not_restart() {
    let run = now(InstantRuntime.start(StartInput::new("/srv"))).unwrap();
    assert_eq!(
        (run.status(), run.run_id().as_str()),
        (RunStatus::Ready, "run-1")
    );
    assert_eq!(
        now(run.restart()).unwrap_err().kind(),
        StartErrorKind::InvalidInput
    );
    now(run.kill()).unwrap();
    assert_eq!(run.status(), RunStatus::Stopped);

    let error = now(InstantRuntime.start(StartInput::new("srv"))).unwrap_err();
    assert_eq!(error.kind(), StartErrorKind::InvalidInput);
}

#[test]
fn a_wrong_configuration_is_refused_with_the_key() {
    let error = (REGISTRATION.build)(AdapterSpec::new(serde_json::json!({}))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "invalid-config: true or false is wanted (key: lit)"
    );
}
