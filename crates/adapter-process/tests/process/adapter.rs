//! The lifecycle seam: one child, its events, its end.

use futures_util::StreamExt;
use headcount_adapter_process::REGISTRATION;
use headcount_contract::*;
use serde_json::json;

use crate::support::*;

async fn lifecycle(config: serde_json::Value) -> Vec<LifecycleEvent> {
    let adapter = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let mut signals = adapter.subscribe().unwrap();
    let mut events = Vec::new();
    while events
        .last()
        .and_then(LifecycleEvent::state)
        .is_none_or(|s| !s.is_terminal())
    {
        if let Signal::Event(event) = within(signals.next()).await.unwrap() {
            events.push(event);
        }
    }
    within(adapter.close(Urgency::Graceful)).await.unwrap();
    assert!(
        !signals
            .any(|signal| async move { matches!(signal, Signal::Event(_)) })
            .await,
        "nothing follows the end"
    );
    events
}

/// Each event with the child's name, which is its id without what makes it one run's.
fn kinds(events: &[LifecycleEvent]) -> Vec<String> {
    let name = |event: &LifecycleEvent| {
        let state = event.state().map_or("-", ChildState::as_str);
        let (child, _) = event.child_id().as_str().rsplit_once('-').unwrap();
        format!("{child} {} {state}", event.kind().as_str())
    };
    events.iter().map(name).collect()
}

#[tokio::test]
async fn the_first_event_tells_the_process_from_every_other() {
    let events = lifecycle(json!({"command": "sleep", "args": ["0.05"]})).await;
    assert_eq!(
        kinds(&events),
        [
            "sleep created created",
            "sleep state_changed starting",
            "sleep state_changed running",
            "sleep terminal completed"
        ]
    );
    let details = events[0].details();
    for fact in ["pid", "startTicks", "bootId"] {
        assert!(details.get(fact).is_some(), "{fact} in {details:?}");
        assert_eq!(details.get(fact), events[3].details().get(fact));
    }
    let sequences: Vec<_> = events
        .iter()
        .filter_map(LifecycleEvent::sequence)
        .map(Sequence::get)
        .collect();
    assert_eq!(sequences, [0, 1, 2, 3]);
}

/// In a journal a source has many lives, and a child is one run (rules I1, I2).
#[tokio::test]
async fn another_life_of_the_source_has_another_child() {
    let config = || json!({"command": "true", "name": "job"});
    let (first, second) = (lifecycle(config()).await, lifecycle(config()).await);
    assert_eq!(first[0].source(), second[0].source());
    assert_ne!(first[0].child_id(), second[0].child_id());
    assert_ne!(first[0].source_epoch(), second[0].source_epoch());
}

#[tokio::test]
async fn a_failed_start_is_a_child_that_failed_and_never_ran() {
    let events = lifecycle(json!({"command": "true", "cwd": "/nonexistent"})).await;
    assert_eq!(
        kinds(&events),
        ["true created created", "true terminal failed"]
    );
    insta::assert_snapshot!(events[1].details().as_json(), @r#"{"basis":"start_failed","startError":"invalid-input","message":"the working directory does not exist","context":{"cwd":"/nonexistent"}}"#);
}

#[tokio::test]
async fn dropping_the_adapter_leaves_no_orphan() {
    let config = json!({"command": "sleep", "args": ["60"]});
    let adapter = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let mut signals = adapter.subscribe().unwrap();
    let pid = loop {
        if let Some(Signal::Event(event)) = within(signals.next()).await
            && let Some(pid) = event.details().get("pid")
        {
            break u32::try_from(pid.as_u64().unwrap()).unwrap();
        }
    };
    assert!(lives(pid));
    drop(adapter);
    until(|| !lives(pid)).await;
}

#[test]
fn the_example_builds_and_a_wrong_key_is_named() {
    (REGISTRATION.build)(AdapterSpec::new((REGISTRATION.example_config)())).unwrap();
    let error = (REGISTRATION.build)(AdapterSpec::new(json!({"command": "a", "arg": []})));
    let error = error.unwrap_err();
    assert_eq!(error.kind(), AdapterErrorKind::InvalidConfig);
    assert!(error.to_string().contains("`arg`"), "{error}");
}
