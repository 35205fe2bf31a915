//! An adapter from its opening to its end, and children of an earlier one.

use futures_util::StreamExt;
use headcount_adapter_external::{
    AdoptError, ExternalAdapter, ExternalConfig, ProcessIdentity, Readoption, look,
};
use headcount_contract::{
    ChildId, ChildIdentity, ChildLifecycleAdapter, ChildState, Coverage, EventKind, Lineage,
    LiveState, Outcome, Signal, Snapshot, SnapshotReason, Timestamp, Urgency,
};
use serde_json::json;

use crate::support::{self, Foster, Observed};

#[tokio::test]
async fn a_child_of_an_earlier_session_goes_on_under_its_id_and_lineage() {
    let mut process = Foster::run("read x <&3; exit 4");
    let headcount_adapter_external::Look::Lives(found) = look(process.pid) else {
        panic!("not seen")
    };
    let root = ChildId::new("run-0").unwrap();
    let child = ChildIdentity::new(
        ChildId::new("run-1").unwrap(),
        Lineage::new(root).with_attempt(1),
    )
    .unwrap();
    let lost = ChildIdentity::root(ChildId::new("run-2").unwrap());
    let reused = ProcessIdentity::new(process.pid)
        .started_at_tick(1)
        .in_boot(found.boot_id.clone().unwrap());
    let adapter = ExternalAdapter::builder()
        .readopt([
            Readoption::new(child.clone(), LiveState::Running, found),
            Readoption::new(lost.clone(), LiveState::Waiting, reused),
        ])
        .build()
        .unwrap();
    let mut observed = Observed::of(adapter);
    let snapshot = observed.snapshot().await;
    let states: Vec<_> = snapshot
        .children()
        .iter()
        .map(|child| (child.identity().clone(), child.state()))
        .collect();
    assert_eq!(
        states,
        [(child.clone(), ChildState::RUNNING)],
        "what was found keeps its state; what was not is covered and omitted"
    );
    let Coverage::Children(covered) = snapshot.coverage() else {
        panic!("claims all processes")
    };
    assert_eq!(covered.len(), 2);

    let mut said = Vec::new();
    for _ in 0..4 {
        let event = observed.event("event", |_| true).await;
        assert!([child.lineage(), lost.lineage()].contains(&event.lineage()));
        said.push(format!("{} {}", event.child_id(), event.kind().as_str()));
    }
    said.sort();
    assert_eq!(
        said,
        [
            "run-1 diagnostic",
            "run-1 heartbeat",
            "run-2 diagnostic",
            "run-2 diagnostic"
        ]
    );
    process.tell("go");
    let end = observed.end(child.id()).await;
    if observed.tells_exit_status() {
        assert_eq!(
            (end.kind(), end.details().get("exitCode")),
            (EventKind::Terminal(Outcome::Failed), Some(json!(4)))
        );
    }
}

#[tokio::test]
async fn closing_and_dropping_leave_the_process_alone() {
    let process = Foster::sleeping();
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    observed.created(process.pid).await;
    observed.adapter.close(Urgency::Now).await.unwrap();
    assert!(observed.signals.next().await.is_none());
    assert!(observed.adapter.subscribe().is_err());
    assert_eq!(
        observed.adapter.adopt(process.number()).await,
        Err(AdoptError::NotOpen)
    );
    assert!(
        observed
            .adapter
            .snapshot(SnapshotReason::Periodic)
            .await
            .is_err()
    );

    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    observed.created(process.pid).await;
    drop(observed.adapter);
    assert!(observed.signals.next().await.is_none());
    assert!(process.lives());
}

#[tokio::test]
async fn nobody_is_covered_before_the_first_subscription() {
    let process = Foster::sleeping();
    let config: ExternalConfig = serde_json::from_value(json!({"pids": [process.pid]})).unwrap();
    let adapter = ExternalAdapter::builder().config(config).build().unwrap();
    let snapshots = adapter.snapshot(SnapshotReason::SessionOpen).await.unwrap();
    let [Snapshot::Complete(snapshot)] = snapshots.as_slice() else {
        panic!("{snapshots:?}")
    };
    assert_eq!(snapshot.coverage(), &Coverage::Children(vec![]));
    assert!(snapshot.observed_at() > Timestamp::UNIX_EPOCH);
    assert_eq!(
        adapter.adopt(process.number()).await,
        Err(AdoptError::NotOpen)
    );
}

#[tokio::test]
async fn usage_is_shown_of_adopted_processes_and_stands_between_start_and_end() {
    let process = Foster::run("while :; do :; done");
    let mut observed = Observed::open(json!({"pids": [process.pid], "sample_interval": "250ms"}));
    let created = observed.created(process.pid).await;
    let usage = tokio::time::timeout(support::DEADLINE, async {
        loop {
            if let Some(Signal::Observation(child, headcount_contract::Observation::Usage(usage))) =
                observed.signals.next().await
            {
                assert_eq!(&child, created.child_id());
                if usage.cpu_percent > 0.0 {
                    return usage;
                }
            }
        }
    });
    let usage = usage.await.unwrap();
    assert!(usage.memory_bytes > 0 && usage.processes == 1, "{usage:?}");
}
