//! What is in the journal, and when; and what happens when it does not answer.

#![allow(clippy::unwrap_used, clippy::expect_used)] // clippy exempts tests, not the helpers of tests

mod support;

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures_util::StreamExt;
use headcount::{
    AdapterInfo, Change, Delivery, Host, HostSettings, JournalFault, JournalFaultKind,
    JournalStatus, JournalStore, Journaling,
};
use headcount_contract::*;
use headcount_projector::Projector;
use proptest::prelude::*;
use support::*;

use ChildState as S;
use EventKind as K;

/// A store that a test looks into, stops, and breaks.
#[derive(Debug, Clone, Default)]
struct Store(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    kept: Vec<Arc<LifecycleEvent>>,
    stopped: bool,
    faults: Option<JournalFault>,
    /// Events of this child cannot be written.
    unwritable: Option<&'static str>,
    replay_fault: Option<JournalFault>,
    panics: bool,
}

impl Store {
    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.state.lock().unwrap());
        self.0.changed.notify_all();
    }

    fn kept(&self) -> Vec<Arc<LifecycleEvent>> {
        self.0.state.lock().unwrap().kept.clone()
    }
}

impl JournalStore for Store {
    fn replay(&mut self, each: &mut dyn FnMut(LifecycleEvent)) -> Result<(), JournalFault> {
        let state = self.0.state.lock().unwrap();
        for event in &state.kept {
            each(LifecycleEvent::clone(event));
        }
        state.replay_fault.clone().map_or(Ok(()), Err)
    }

    fn append(&mut self, events: &[Arc<LifecycleEvent>]) -> Result<(), JournalFault> {
        let mut state = self.0.state.lock().unwrap();
        while state.stopped {
            state = self.0.changed.wait(state).unwrap();
        }
        assert!(!state.panics, "scripted to panic");
        if let Some(fault) = &state.faults {
            return Err(fault.clone());
        }
        let bad = state.unwritable;
        if events
            .iter()
            .any(|event| Some(event.child_id().as_str()) == bad)
        {
            return Err(JournalFault::new(JournalFaultKind::Unwritable, "too long"));
        }
        state.kept.extend_from_slice(events);
        Ok(())
    }
}

/// A host with one adapter and this store. Time is not paused: the store's thread is real.
async fn host_on(store: &Store, change: impl FnOnce(&mut HostSettings)) -> (Host, Arc<Scripted>) {
    let mut settings = HostSettings::default();
    settings.snapshot_period = Duration::from_hours(1);
    change(&mut settings);
    let adapter = Scripted::new("s", &settings.clock);
    adapter.answers([], Answer::Partial(vec![]));
    let host = Host::builder()
        .settings(settings)
        .journal_store(store.clone())
        .adapter_value(AdapterInfo::own("scripted"), adapter.clone())
        .build()
        .unwrap();
    host.start().await.unwrap();
    while adapter.fanout.subscribers() == 0 {
        tokio::task::yield_now().await;
    }
    (host, adapter)
}

fn names(events: &[Arc<LifecycleEvent>]) -> Vec<String> {
    events
        .iter()
        .map(|event| format!("{} {}", event.child_id(), event.kind().as_str()))
        .collect()
}

async fn journal_is(host: &Host, status: JournalStatus) {
    let wait = host.wait_until(|view| {
        view.journal()
            .is_some_and(|journal| journal.status == status)
    });
    tokio::time::timeout(Duration::from_mins(1), wait)
        .await
        .expect("the journal's health is shown");
}

#[tokio::test]
async fn nothing_is_shown_before_it_is_in_the_journal() {
    let store = Store::default();
    let (host, adapter) = host_on(&store, |_| ()).await;
    let mut changes = host.changes_with(Delivery::Lossless);
    store.set(|state| state.stopped = true);
    adapter.emit("a", 0, K::Created);
    // The store is asked, and does not answer: whatever the scheduler does, nothing is shown.
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
    assert_eq!(shown(&host, "s", "a"), "unknown");
    store.set(|state| state.stopped = false);
    until_shown(&host, "s", "a", "created").await;
    assert_eq!(names(&store.kept()), ["a created"]);
    let told = next_that(&mut changes, |change| match change {
        Change::Event(event) => Some(event),
        _ => None,
    });
    assert_eq!(told.await.child_id(), &child("a"));
}

#[tokio::test]
async fn relaxed_shows_at_once_and_journals_soon_after() {
    let store = Store::default();
    let (host, adapter) =
        host_on(&store, |settings| settings.journaling = Journaling::Relaxed).await;
    store.set(|state| state.stopped = true);
    adapter.emit("a", 0, K::Created);
    until_shown(&host, "s", "a", "created").await;
    assert!(store.0.state.try_lock().is_err() || store.kept().is_empty());
    store.set(|state| state.stopped = false);
    host.wait_until(|view| view.stats().journaled == 1).await;
    assert_eq!(names(&store.kept()), ["a created"]);
}

#[tokio::test]
async fn a_journal_that_does_not_answer_stops_appends_not_the_view_and_says_so() {
    let store = Store::default();
    let (host, adapter) = host_on(&store, |settings| {
        settings.journal_patience = Duration::from_millis(50);
    })
    .await;
    store.set(|state| state.stopped = true);
    adapter.emit("a", 0, K::Created);
    until_shown(&host, "s", "a", "created").await;
    adapter.emit("a", 1, K::StateChanged(S::RUNNING));
    until_shown(&host, "s", "a", "running").await;
    journal_is(&host, JournalStatus::Stalled).await;
    let view = host.view();
    let message = view.journal().unwrap().message.clone().unwrap();
    assert!(message.contains("has not answered"), "{message}");
    assert_eq!(view.stats().not_journaled, 2);
    // What waited is appended in order, and nothing is missing.
    store.set(|state| state.stopped = false);
    journal_is(&host, JournalStatus::Appending).await;
    host.wait_until(|view| view.stats().journaled == 2).await;
    assert_eq!(names(&store.kept()), ["a created", "a state_changed"]);
}

#[tokio::test]
async fn a_fault_that_may_pass_is_tried_again_and_nothing_is_missing() {
    let store = Store::default();
    store.set(|state| {
        state.faults = Some(JournalFault::new(
            JournalFaultKind::Retry,
            "the disk is full",
        ));
    });
    let (host, adapter) = host_on(&store, |_| ()).await;
    let mut changes = host.changes();
    adapter.emit("a", 0, K::Created);
    until_shown(&host, "s", "a", "created").await;
    journal_is(&host, JournalStatus::Stalled).await;
    let told = next_that(&mut changes, |change| match change {
        Change::Journal(health) => Some(health),
        _ => None,
    })
    .await;
    assert_eq!(told.message.as_deref(), Some("the disk is full"));
    store.set(|state| state.faults = None);
    journal_is(&host, JournalStatus::Appending).await;
    host.wait_until(|view| view.stats().journaled == 1).await;
}

#[tokio::test]
async fn a_blocked_journal_is_shown_as_far_as_it_goes_and_not_appended_to() {
    let store = Store::default();
    let before = event_of(
        "old",
        "1",
        "o",
        0,
        K::Created,
        HostSettings::default().clock.now(),
    );
    store.set(|state| {
        state.kept.push(Arc::new(before));
        let fault = JournalFault::new(JournalFaultKind::Blocked, "malformed at line 2");
        state.replay_fault = Some(fault.clone());
        state.faults = Some(fault);
    });
    let (host, adapter) = host_on(&store, |_| ()).await;
    assert_eq!(shown(&host, "old", "o"), "created unproven");
    journal_is(&host, JournalStatus::Blocked).await;
    adapter.emit("a", 0, K::Created);
    until_shown(&host, "s", "a", "created").await;
    assert_eq!(store.kept().len(), 1);
    let error = host.shutdown(Urgency::Graceful).await.unwrap_err();
    assert!(
        error
            .to_string()
            .contains("1 events are not in the journal: malformed"),
        "{error}"
    );
}

#[tokio::test]
async fn one_event_that_cannot_be_written_costs_no_other() {
    let store = Store::default();
    store.set(|state| {
        state.unwritable = Some("b");
        state.stopped = true;
    });
    let (host, adapter) =
        host_on(&store, |settings| settings.journaling = Journaling::Relaxed).await;
    for id in ["a", "b", "c"] {
        adapter.emit(id, 0, K::Created);
    }
    until_shown(&host, "s", "c", "created").await;
    store.set(|state| state.stopped = false);
    let view = host.wait_until(|view| view.stats().journaled == 2).await;
    assert_eq!(names(&store.kept()), ["a created", "c created"]);
    assert_eq!(view.journal().unwrap().lost, 1);
    assert_eq!(view.journal().unwrap().status, JournalStatus::Appending);
}

#[tokio::test]
async fn what_waits_for_a_journal_is_bounded_and_counted() {
    let store = Store::default();
    let (host, adapter) = host_on(&store, |settings| {
        settings.journaling = Journaling::Relaxed;
        settings.journal_backlog = 10;
    })
    .await;
    store.set(|state| state.stopped = true);
    for n in 0..50 {
        adapter.emit("a", n, K::Heartbeat);
    }
    let view = host
        .wait_until(|view| view.stats().events_accepted == 50)
        .await;
    assert_eq!(view.journal().unwrap().waiting, 10);
    assert_eq!(view.journal().unwrap().lost, 40);
    store.set(|state| state.stopped = false);
}

#[tokio::test]
async fn a_journal_that_panics_is_blocked_and_the_view_goes_on() {
    let store = Store::default();
    store.set(|state| state.panics = true);
    let (host, adapter) = host_on(&store, |_| ()).await;
    adapter.emit("a", 0, K::Created);
    adapter.emit("a", 1, K::StateChanged(S::RUNNING));
    until_shown(&host, "s", "a", "running").await;
    journal_is(&host, JournalStatus::Blocked).await;
    assert!(
        host.view()
            .journal()
            .unwrap()
            .message
            .as_deref()
            .unwrap()
            .contains("panicked")
    );
}

/// What a hostile or merely unlucky source may send.
#[derive(Debug, Clone)]
enum Step {
    Event {
        id: usize,
        sequence: u64,
        kind: usize,
    },
    Snapshot(Vec<(usize, usize)>),
    Break,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (0..4_usize, 0..8_u64, 0..9_usize).prop_map(|(id, sequence, kind)| Step::Event { id, sequence, kind }),
        2 => prop::collection::btree_map(0..4_usize, 0..6_usize, 0..4)
            .prop_map(|children| Step::Snapshot(children.into_iter().collect())),
        1 => Just(Step::Break),
    ]
}

const IDS: [&str; 4] = ["a", "b", "c", "d"];
const KINDS: [K; 9] = [
    K::Created,
    K::StateChanged(S::STARTING),
    K::StateChanged(S::RUNNING),
    K::StateChanged(S::WAITING),
    K::Heartbeat,
    K::Activity,
    K::Terminal(Outcome::Completed),
    K::Terminal(Outcome::Failed),
    K::Reconciliation(Some(S::WAITING)),
];

/// What a fold of a journal must agree on with the host that wrote it: what each child is.
///
/// The details of an end that only a snapshot told are not among it: the journal has the derived
/// event, whose details say which snapshot that was.
fn essence(record: &headcount_projector::Record) -> String {
    format!(
        "{} {} {} {:?} {:?} {:?}",
        record.source,
        record.child_id,
        record.state,
        record.lineage,
        record.history,
        record
            .terminal
            .as_ref()
            .map(|end| (end.outcome, end.observed_at))
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_the_host_shows_is_the_fold_of_its_journal(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let store = Store::default();
            let settings = HostSettings::default();
            let clock = settings.clock.clone();
            let adapter = Scripted::new("s", &clock);
            let snapshots = steps.iter().filter_map(|step| match step {
                Step::Snapshot(children) => Some(Answer::Complete(
                    children.iter().map(|(id, state)| (IDS[*id], S::ALL[*state])).collect(),
                )),
                _ => None,
            });
            adapter.answers(snapshots, Answer::Partial(vec![]));
            let host = Host::builder()
                .settings(settings)
                .journal_store(store.clone())
                .adapter_value(AdapterInfo::own("scripted"), adapter.clone())
                .build()
                .unwrap();
            let mut changes = host.changes_with(Delivery::Lossless);
            host.start().await.unwrap();
            while adapter.fanout.subscribers() == 0 {
                tokio::task::yield_now().await;
            }
            for step in &steps {
                match step {
                    Step::Event { id, sequence, kind } => adapter.emit(IDS[*id], *sequence, KINDS[*kind]),
                    Step::Snapshot(_) | Step::Break => {
                        adapter.break_off(DiscontinuityCause::Reconnected, Gap::Possible);
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
            host.shutdown(Urgency::Graceful).await.unwrap();
            let view = host.view();
            let mut told = Vec::new();
            while let Some(change) = changes.next().await {
                if let Change::Event(event) = change {
                    told.push(event);
                }
            }
            let kept = store.kept();
            assert_eq!(told, kept, "what was told is what is in the journal, in one order");
            let mut fold = Projector::new(headcount_projector::Settings::default());
            let mut effects = Vec::new();
            for event in &kept {
                fold.apply(event, clock.now(), &mut effects);
            }
            let shown: Vec<_> = view.sorted().iter().map(|shown| essence(&shown.record)).collect();
            let folded: Vec<_> = fold.records().map(|record| essence(&record)).collect();
            assert_eq!(shown, folded);
        });
    }
}
