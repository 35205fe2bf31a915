//! What presence and an end allow to say: the first rows of "External Adoption Limits".

use std::collections::{HashMap, HashSet};

use headcount_contract::{
    Capabilities, Capability, ChildLifecycleAdapter, ChildState, Coverage, EventKind, HealthStatus,
    Lineage, Outcome,
};
use serde_json::json;

use crate::support::{Foster, Observed, transcript, until};

#[tokio::test]
async fn presence_only_is_an_observed_process_whose_history_state_and_cancellation_are_unknown() {
    let process = Foster::sleeping();
    let mut observed =
        Observed::open(json!({"pids": [process.pid], "heartbeat_interval": "100ms"}));
    let created = observed.created(process.pid).await;
    assert_eq!(created.state(), Some(ChildState::CREATED));
    assert!(created.lineage().is_external() && created.lineage().adopted_at().is_some());
    assert_eq!(created.details().get("basis"), Some(json!("presence")));
    assert_eq!(
        created.details().get("command"),
        Some(json!(["sleep", "1000"]))
    );
    let claimed = Capabilities {
        terminal_cause: observed.adapter.capabilities().terminal_cause,
        ..Capabilities::UNKNOWN
    };
    assert_eq!(
        created.capabilities(),
        Capabilities {
            heartbeat: Capability::Known,
            snapshot: Capability::Known,
            ..claimed
        }
    );
    for _ in 0..3 {
        let next = observed.event("heartbeat", |_| true).await;
        assert_eq!(
            next.kind(),
            EventKind::Heartbeat,
            "state, activity or anything else must not be invented"
        );
        assert_eq!(next.lineage(), created.lineage());
    }
}

#[tokio::test]
async fn a_process_exit_code_ends_the_process_and_does_not_imply_the_success_of_its_task() {
    let cases = [
        (
            "read x <&3; exit 0",
            None,
            Outcome::Completed,
            r#""exitCode":0"#,
        ),
        (
            "read x <&3; exit 3",
            None,
            Outcome::Failed,
            r#""exitCode":3"#,
        ),
        (
            "exec sleep 1000",
            Some("KILL"),
            Outcome::Failed,
            r#""signal":9,"signalName":"SIGKILL","coreDumped":false"#,
        ),
        (
            "exec sleep 1000",
            Some("TERM"),
            Outcome::Failed,
            r#""signal":15,"signalName":"SIGTERM","coreDumped":false"#,
        ),
    ];
    for (script, signal, outcome, facts) in cases {
        let mut process = Foster::run(script);
        let mut observed = Observed::open(json!({"pids": [process.pid]}));
        let child = observed.created(process.pid).await.child_id().clone();
        match signal {
            Some(signal) => process.kill(signal),
            None => process.tell("go"),
        }
        let end = observed.end(&child).await;
        if !observed.tells_exit_status() && end.kind() == EventKind::Diagnostic(None) {
            eprintln!(
                "SKIPPED in part: this kernel does not tell the exit status of others' children"
            );
            continue;
        }
        assert_eq!(end.kind(), EventKind::Terminal(outcome), "{script}");
        let said = transcript(&end);
        assert!(
            said.contains(facts)
                && said.contains(r#""basis":"process_exit""#)
                && said.contains(r#""taskSuccess":"unknown""#),
            "{said}"
        );
        assert!(end.lineage().is_external());
    }
}

#[tokio::test]
async fn a_zombie_has_ended_with_its_code_though_nobody_collects_it() {
    let mut process = Foster::run_uncollected("read x <&3; exit 7");
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    let child = observed.created(process.pid).await.child_id().clone();
    process.tell("go");
    let end = observed.end(&child).await;
    assert_eq!(
        transcript(&end),
        r#"terminal failed {"exitCode":7,"basis":"process_exit","readFrom":"proc_stat","taskSuccess":"unknown"}"#
    );
    let refused = observed.adapter.adopt(process.number()).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "it has ended already (exit code 7) and waits for its parent to collect it"
    );
}

#[tokio::test]
async fn numbers_that_are_nobodys_agent_are_refused_with_the_reason() {
    let observed = Observed::open(json!({}));
    let adapter = &observed.adapter;
    for (number, reason) in [
        (
            -5,
            "process ids are positive; -5 would name a process group",
        ),
        (0, "0 is no process id"),
        (1, "process 1 starts the others and is nobody's agent"),
        (
            i64::from(std::process::id()),
            "this is headcount's own process",
        ),
        (i64::from(i32::MAX), "there is no such process"),
    ] {
        assert_eq!(adapter.adopt(number).await.unwrap_err().to_string(), reason);
    }
}

#[tokio::test]
async fn what_was_named_and_is_not_there_is_said() {
    let process = Foster::sleeping();
    let observed = Observed::open(json!({"pids": [process.pid, i32::MAX]}));
    until("degraded", || {
        observed.adapter.health().status == HealthStatus::Degraded
    })
    .await;
    let message = observed.adapter.health().message.unwrap();
    assert_eq!(
        message,
        "1 not adopted: pid 2147483647: there is no such process"
    );
    let blind = Observed::open(json!({"pids": [i32::MAX]}));
    until("down", || {
        blind.adapter.health().status == HealthStatus::Down
    })
    .await;
}

#[tokio::test]
async fn a_snapshot_covers_exactly_what_was_adopted_and_tells_the_known_ends() {
    let (lives, mut ends) = (
        Foster::sleeping(),
        Foster::run_uncollected("read x <&3; exit 0"),
    );
    let mut observed = Observed::open(json!({"pids": [lives.pid, ends.pid]}));
    let alive = observed.created(lives.pid).await.child_id().clone();
    let ended = observed.created(ends.pid).await.child_id().clone();
    ends.tell("go");
    until("it is a zombie", || !ends.lives()).await;
    // The snapshot looks anew: it needs no event to have been told before.
    let snapshot = observed.snapshot().await;
    let Coverage::Children(covered) = snapshot.coverage() else {
        panic!("claims all processes")
    };
    assert_eq!(
        covered.iter().collect::<HashSet<_>>(),
        HashSet::from([&alive, &ended])
    );
    let states: HashMap<_, _> = snapshot
        .children()
        .iter()
        .map(|child| (child.id(), child.state()))
        .collect();
    assert_eq!(states[&alive], ChildState::CREATED);
    assert_eq!(states[&ended], ChildState::COMPLETED);
    assert!(
        snapshot
            .children()
            .iter()
            .all(|child| child.lineage().is_some_and(Lineage::is_external))
    );
}
