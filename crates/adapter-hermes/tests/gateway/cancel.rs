//! Requests to interrupt a child.

use headcount_adapter_hermes::scripted::{Faults, Version};
use headcount_contract::{
    AdapterErrorKind, CancelOutcome, ChildLifecycleAdapter, ChildState, SnapshotReason,
};
use libtest_mimic::Trial;
use serde_json::json;

use crate::support::live::{attached, attached_with, config, detail, id, state_of, trial};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial(
            "cancel::accepted_is_not_ended_and_the_end_is_told",
            accepted,
        ),
        trial(
            "cancel::ended_and_unknown_children_are_told_apart",
            ended_and_unknown,
        ),
        trial("cancel::an_end_that_was_not_seen_is_looked_for", unseen_end),
        trial("cancel::denied_with_the_reason", denied),
        trial("cancel::parameters_that_are_refused_are_an_error", refused),
        trial("cancel::unsupported_if_it_is_not_wanted", not_wanted),
    ]
}

fn reason(outcome: CancelOutcome) -> String {
    match outcome {
        CancelOutcome::Denied { reason } => reason,
        other => panic!("{other:?}"),
    }
}

async fn accepted() {
    for version in [Version::V0_19, Version::V0_22] {
        let (gateway, _served, mut watched) = attached(version).await;
        gateway.misbehave(Faults {
            ignores_interrupts: true,
            ..Faults::default()
        });
        let a = gateway.start("s1", None, "a");
        let b = gateway.start("s1", Some(&a), "b");
        watched.until_state(&b, ChildState::RUNNING).await;
        let outcome = watched
            .adapter
            .cancel(&id(&a), Some("enough"))
            .await
            .unwrap();
        assert_eq!(outcome, CancelOutcome::Accepted);
        // Both ids, and nothing else: newer gateways refuse what they do not know.
        let both = json!({"session_id": "s1", "subagent_id": a});
        assert!(gateway.was_asked("subagent.interrupt", &both));
        watched
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .unwrap();
        assert_eq!(state_of(&watched.seen, &a), Some(ChildState::RUNNING));
        // Twice does no harm.
        let again = watched.adapter.cancel(&id(&a), None).await.unwrap();
        assert_eq!(again, CancelOutcome::Accepted);
        gateway.complete(&b, "interrupted");
        gateway.complete(&a, "interrupted");
        watched.until_state(&a, ChildState::CANCELLED).await;
        assert_eq!(
            state_of(&watched.seen, &b),
            Some(ChildState::CANCELLED),
            "it cascades"
        );
        assert_eq!(detail(&watched.seen, &a, "cancelRequested").unwrap(), true);
        assert_eq!(detail(&watched.seen, &b, "cancelRequested"), None);
    }
}

async fn ended_and_unknown() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    gateway.complete(&a, "completed");
    watched.until_state(&a, ChildState::COMPLETED).await;
    let adapter = &watched.adapter;
    assert_eq!(
        adapter.cancel(&id(&a), None).await.unwrap(),
        CancelOutcome::AlreadyEnded
    );
    assert_eq!(
        adapter.cancel(&id("sa-9-deadbeef"), None).await.unwrap(),
        CancelOutcome::UnknownChild
    );
}

async fn unseen_end() {
    let mut config = config();
    config.poll_interval = std::time::Duration::ZERO;
    let (gateway, _served, mut watched) = attached_with(Version::V0_22, config).await;
    let (a, b) = (
        gateway.start("s1", None, "a"),
        gateway.start("s1", None, "b"),
    );
    let c = gateway.start("s1", None, "c");
    watched.until_state(&c, ChildState::RUNNING).await;
    watched
        .adapter
        .snapshot(SnapshotReason::SessionOpen)
        .await
        .unwrap();
    gateway.vanish(&a, "failed");
    gateway.vanish(&b, "completed");
    let adapter = watched.adapter.clone();
    assert_eq!(
        adapter.cancel(&id(&a), None).await.unwrap(),
        CancelOutcome::AlreadyEnded
    );
    watched.until_state(&a, ChildState::FAILED).await;
    // No trace of an end: it is not there, and nothing is concluded.
    assert_eq!(
        adapter.cancel(&id(&b), None).await.unwrap(),
        CancelOutcome::UnknownChild
    );
    assert_eq!(state_of(&watched.seen, &b), Some(ChildState::RUNNING));
}

async fn denied() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, ChildState::RUNNING).await;
    let cases = [
        (
            Faults {
                owns_nothing: true,
                ..Faults::default()
            },
            "belongs to another connection",
        ),
        (
            Faults::not_knowing(["subagent.interrupt"]),
            "cannot interrupt",
        ),
    ];
    for (faults, expected) in cases {
        gateway.misbehave(faults);
        let outcome = watched.adapter.cancel(&id(&a), None).await.unwrap();
        let reason = reason(outcome);
        assert!(reason.contains(expected), "{reason}");
    }
}

async fn refused() {
    let (gateway, _served, mut watched) = attached(Version::V0_22).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, ChildState::RUNNING).await;
    gateway.misbehave(Faults::refusing(["subagent.interrupt"]));
    let error = watched.adapter.cancel(&id(&a), None).await.unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::Protocol);
    assert!(error.to_string().contains("4000"), "{error}");
}

async fn not_wanted() {
    let mut config = config();
    config.cancel = false;
    let (gateway, _served, mut watched) = attached_with(Version::V0_19, config).await;
    let a = gateway.start("s1", None, "a");
    watched.until_state(&a, ChildState::RUNNING).await;
    assert!(!watched.adapter.capabilities().cancel.is_known());
    assert_eq!(
        watched.adapter.cancel(&id(&a), None).await.unwrap(),
        CancelOutcome::Unsupported
    );
    assert_eq!(
        gateway.asked("subagent.interrupt"),
        0,
        "nobody is even probed"
    );
}
