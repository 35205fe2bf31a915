//! After the host itself died: which processes of a journal are observed on, and which are not.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use headcount::{Host, HostSettings, JournalFault, JournalStore};
use headcount_adapter_external::{Look, ProcessIdentity, look};
use headcount_contract::*;
use support::{child, event_of, source};

/// What an earlier host has kept.
#[derive(Debug)]
struct Kept(Vec<LifecycleEvent>);

impl JournalStore for Kept {
    fn replay(&mut self, each: &mut dyn FnMut(LifecycleEvent)) -> Result<(), JournalFault> {
        self.0.drain(..).for_each(each);
        Ok(())
    }

    fn append(&mut self, _: &[Arc<LifecycleEvent>]) -> Result<(), JournalFault> {
        Ok(())
    }
}

struct Sleeper(Child);

impl Sleeper {
    fn start() -> Self {
        let mut command = Command::new("sleep");
        Self(command.arg("1000").stdin(Stdio::null()).spawn().unwrap())
    }

    fn identity(&self) -> ProcessIdentity {
        match look(self.0.id()) {
            Look::Lives(identity) => identity,
            other => panic!("{other:?}"),
        }
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn running(id: &str, process: &ProcessIdentity) -> [LifecycleEvent; 2] {
    let at = Timestamp::from(std::time::SystemTime::now());
    let event = |sequence, kind| event_of("agents", "earlier", id, sequence, kind, at);
    let details: Details = process.to_details().collect();
    [
        event(0, EventKind::Created).with_details(details),
        event(1, EventKind::StateChanged(ChildState::RUNNING)),
    ]
}

/// The journal's process had the number before: it started at another tick, in another boot, or
/// (within one tick) had another handle.
#[tokio::test]
async fn a_process_that_has_the_number_of_another_is_not_taken_for_it() {
    let (ours, another) = (Sleeper::start(), Sleeper::start());
    let now_there = another.identity();
    let ticks = now_there.start_ticks.unwrap();
    let mut kept: Vec<_> = running("found", &ours.identity()).into();
    kept.extend(running(
        "earlier-tick",
        &now_there.clone().started_at_tick(ticks - 1),
    ));
    kept.extend(running(
        "earlier-boot",
        &now_there.clone().in_boot("another"),
    ));
    let mut lost = vec!["earlier-tick", "earlier-boot"];
    // Handles have no inode of their own before Linux 6.9.
    if let Some(inode) = now_there.pidfd_inode {
        kept.extend(running(
            "same-tick",
            &now_there.clone().with_pidfd_inode(inode - 1),
        ));
        lost.push("same-tick");
    }

    let mut settings = HostSettings::default();
    settings.projector.heartbeat_deadline = Duration::from_secs(1);
    settings.projector.reconcile_backoff = Duration::from_millis(50);
    settings.snapshot_period = Duration::from_millis(200);
    let host = Host::builder()
        .settings(settings)
        .journal_store(Kept(kept))
        .build()
        .unwrap();
    host.start().await.unwrap();
    let of = source("agents");
    let view = host.view();
    let readopted = |id: &str| view.child(&of, &child(id)).unwrap().readopted;
    assert!(readopted("found"));
    assert!(lost.iter().all(|id| !readopted(id)), "{lost:?}");

    let all_lost = host.wait_until(|view| {
        let state = |id: &&str| view.child(&of, &child(id)).unwrap().state();
        lost.iter().all(|id| state(id) == ChildState::LOST)
    });
    let view = tokio::time::timeout(Duration::from_mins(1), all_lost)
        .await
        .unwrap();
    let found = view.child(&of, &child("found")).unwrap().state();
    assert_eq!(found, ChildState::RUNNING);
    host.shutdown(Urgency::Graceful).await.unwrap();
    assert!(
        matches!(look(another.0.id()), Look::Lives(_)),
        "nothing is done to the one that has the number now"
    );
}
