//! Tries the adapter on the real gateway: `cargo xtask live hermes [FILTER]`.
//!
//! Makes a virtual environment under `target`, installs the gateway of the package index there, and
//! gives it a scripted model of this host (`live/model_server.py`). Nothing else is reached.
//! Skipped, with the reason, where Python 3.11 or the package cannot be had.

// A trial talks to who runs it.
#![allow(clippy::print_stdout, clippy::unwrap_used, clippy::expect_used)]

mod command_line;
mod setup;
mod watch;

use std::process::ExitCode;
use std::time::Instant;

use headcount_contract::{
    CancelOutcome, ChildLifecycleAdapter, ChildState, Outcome, Snapshot, SnapshotReason, Urgency,
};

use command_line::the_command_line_records_and_replays;
use setup::Home;
use watch::Watch;

const COMPLETED: ChildState = ChildState::COMPLETED;
const CANCELLED: ChildState = ChildState::Terminal(Outcome::Cancelled);

#[tokio::main(flavor = "multi_thread")]
async fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let home = match Home::prepare() {
        Ok(home) => home,
        Err(why) => {
            println!("skipped: {why}");
            return ExitCode::SUCCESS;
        }
    };
    let mut failed = 0;
    macro_rules! trials {
        ($($name:ident),*) => {$(
            if stringify!($name).contains(&filter) {
                let began = Instant::now();
                let trial = tokio::spawn($name(home.clone()));
                let told = match trial.await {
                    Ok(told) => format!("ok: {told}"),
                    Err(_) => { failed += 1; "FAILED".to_owned() }
                };
                println!("{} ... {told} ({:.1?})", stringify!($name), began.elapsed());
            }
        )*};
    }
    trials!(
        two_children_complete,
        one_is_interrupted,
        nested_children_complete,
        an_interrupted_parent_takes_its_children_along,
        an_interrupted_nested_child_leaves_its_parent,
        a_refusing_model_is_suspect,
        a_killed_gateway_loses_its_children,
        closing_ends_the_children,
        attached_over_a_socket,
        the_command_line_records_and_replays
    );
    if failed > 0 {
        println!("{failed} failed");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

async fn two_children_complete(home: Home) -> String {
    let mut watch = Watch::start(&home, "pair", 1).await;
    let first = watch.child("First job").await;
    let second = watch.child("Second job").await;
    let snapshot = watch
        .adapter
        .snapshot(SnapshotReason::Periodic)
        .await
        .unwrap();
    assert!(matches!(snapshot[..], [Snapshot::Complete(_)]));
    watch.until_ended(&first, COMPLETED).await;
    watch.until_ended(&second, COMPLETED).await;
    assert!(
        watch
            .activities(&second)
            .iter()
            .any(|told| told.contains("terminal"))
    );
    let known = watch.last(&second).capabilities();
    assert!(known.cancel.is_known() && known.heartbeat.is_known() && known.snapshot.is_known());
    assert_eq!(watch.detail(&first, "outcomeSuspect"), None);
    watch.close().await;
    format!(
        "{} and {}, {} activities of the second",
        first,
        second,
        watch.activities(&second).len()
    )
}

async fn one_is_interrupted(home: Home) -> String {
    let mut watch = Watch::start(&home, "uneven", 1).await;
    let endless = watch.child("Endless job").await;
    let short = watch.child("Short job").await;
    watch.until_activity(&endless).await;
    let asked = Instant::now();
    let outcome = watch
        .adapter
        .cancel(endless.id(), Some("enough"))
        .await
        .unwrap();
    assert_eq!(outcome, CancelOutcome::Accepted);
    watch.until_ended(&endless, CANCELLED).await;
    let took = asked.elapsed();
    assert_eq!(watch.detail(&endless, "rawStatus").unwrap(), "interrupted");
    watch.until_ended(&short, COMPLETED).await;
    let again = watch.adapter.cancel(endless.id(), None).await.unwrap();
    assert_eq!(again, CancelOutcome::AlreadyEnded);
    watch.close().await;
    format!("accepted, and cancelled {took:.2?} later")
}

async fn nested_children_complete(home: Home) -> String {
    let mut watch = Watch::start(&home, "tree", 2).await;
    let lead = watch.child("Lead").await;
    let workers = [
        watch.child("Worker one").await,
        watch.child("Worker two").await,
    ];
    for worker in &workers {
        watch.until_ended(worker, COMPLETED).await;
        let lineage = watch.last(worker).lineage().clone();
        assert_eq!(lineage.parent(), Some(lead.id()));
        assert_eq!(lineage.root(), lead.id());
    }
    watch.until_ended(&lead, COMPLETED).await;
    watch.close().await;
    format!("{} and {} under {lead}", workers[0], workers[1])
}

async fn an_interrupted_parent_takes_its_children_along(home: Home) -> String {
    let mut watch = Watch::start(&home, "endless_tree", 2).await;
    let lead = watch.child("Lead").await;
    let workers = [
        watch.child("Worker one").await,
        watch.child("Worker two").await,
    ];
    let asked = Instant::now();
    let outcome = watch.adapter.cancel(lead.id(), None).await.unwrap();
    assert_eq!(outcome, CancelOutcome::Accepted);
    for child in workers.iter().chain([&lead]) {
        watch.until_ended(child, CANCELLED).await;
        assert_eq!(watch.detail(child, "rawStatus").unwrap(), "interrupted");
    }
    let took = asked.elapsed();
    assert_eq!(watch.detail(&lead, "cancelRequested").unwrap(), true);
    for worker in &workers {
        assert_eq!(watch.last(worker).lineage().parent(), Some(lead.id()));
        assert_eq!(watch.detail(worker, "cancelRequested"), None);
    }
    watch.close().await;
    format!(
        "{lead} was interrupted, and {} and {} with it, within {took:.2?}",
        workers[0], workers[1]
    )
}

async fn an_interrupted_nested_child_leaves_its_parent(home: Home) -> String {
    let mut watch = Watch::start(&home, "uneven_tree", 2).await;
    let lead = watch.child("Lead").await;
    let endless = watch.child("Endless worker").await;
    let short = watch.child("Short worker").await;
    watch.until_ended(&short, COMPLETED).await;
    let outcome = watch.adapter.cancel(endless.id(), None).await.unwrap();
    assert_eq!(outcome, CancelOutcome::Accepted);
    watch.until_ended(&endless, CANCELLED).await;
    let then = watch.state(&lead).unwrap();
    watch.until_ended(&lead, COMPLETED).await;
    assert_eq!(watch.detail(&lead, "cancelRequested"), None);
    watch.close().await;
    format!("{endless} was interrupted, {lead} was {then} then and completed afterwards")
}

async fn a_refusing_model_is_suspect(home: Home) -> String {
    let mut watch = Watch::start(&home, "refused", 1).await;
    let refused = watch.child("Refused job").await;
    watch.until_ended(&refused, COMPLETED).await;
    assert_eq!(watch.detail(&refused, "outcomeSuspect").unwrap(), true);
    watch.close().await;
    format!(
        "completed, and suspect: {}",
        watch.detail(&refused, "summary").unwrap()
    )
}

async fn a_killed_gateway_loses_its_children(home: Home) -> String {
    let mut watch = Watch::start(&home, "endless_pair", 1).await;
    let children = [
        watch.child("Endless one").await,
        watch.child("Endless two").await,
    ];
    for child in &children {
        watch.until_activity(child).await;
    }
    // The tools must have begun, so that there is something to leave behind.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    let killed = Instant::now();
    watch.kill_gateway();
    for child in &children {
        watch.until_ended(child, ChildState::LOST).await;
        assert_eq!(watch.detail(child, "gatewaySignal").unwrap(), 9);
    }
    let took = killed.elapsed();
    let orphans = watch.detail(&children[0], "orphans").unwrap_or_default();
    let orphans: Vec<i64> = orphans
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_i64)
        .collect();
    assert!(!orphans.is_empty(), "the children's shells live on");
    let mut shown = Vec::new();
    for pid in &orphans {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        shown.push(format!(
            "{pid} `{}`",
            command.chars().take(60).collect::<String>().trim()
        ));
        assert!(
            std::process::Command::new("kill")
                .args(["-9", &pid.to_string()])
                .status()
                .unwrap()
                .success()
        );
    }
    assert!(watch.adapter.is_finished());
    format!(
        "both lost after {took:.2?}; left running (and ended by this trial): {}",
        shown.join(", ")
    )
}

async fn closing_ends_the_children(home: Home) -> String {
    let mut watch = Watch::start(&home, "endless_pair", 1).await;
    let children = [
        watch.child("Endless one").await,
        watch.child("Endless two").await,
    ];
    for child in &children {
        watch.until_activity(child).await;
    }
    let began = Instant::now();
    watch.adapter.close(Urgency::Graceful).await.unwrap();
    let took = began.elapsed();
    watch.read_to_end().await;
    let ends: Vec<_> = children
        .iter()
        .map(|child| watch.state(child).unwrap().to_string())
        .collect();
    // The gateway is killed after the grace time. Of a child whose end it had not told by then nobody
    // knows more than that it is lost.
    assert!(ends.iter().all(|end| end == "cancelled" || end == "lost"));
    format!(
        "{}, {took:.2?} after the request to end",
        ends.join(" and ")
    )
}

async fn attached_over_a_socket(home: Home) -> String {
    let server = match home.serve().await {
        Ok(server) => server,
        Err(why) => return format!("skipped: {why}"),
    };
    let mut watch = Watch::attach(&home, &server).await;
    watch.prompt("uneven").await;
    let endless = watch.child("Endless job").await;
    let short = watch.child("Short job").await;
    watch.until_ended(&short, COMPLETED).await;
    let outcome = watch.adapter.cancel(endless.id(), None).await.unwrap();
    assert_eq!(outcome, CancelOutcome::Accepted);
    watch.until_ended(&endless, CANCELLED).await;
    watch.close().await;
    format!("at {}", server.url)
}
