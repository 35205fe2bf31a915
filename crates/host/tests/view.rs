//! What a view shows while events pour in: one moment, whole, and none before the last one shown.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headcount::View;
use headcount_contract::*;
use support::*;

const CHILDREN: u64 = 50;
const EVENTS: u64 = 20_000;

/// The state that the event of this number of a child tells: another one each time.
fn state_at(sequence: u64) -> ChildState {
    if sequence.is_multiple_of(2) {
        ChildState::WAITING
    } else {
        ChildState::RUNNING
    }
}

/// How many events of each child a view shows, in the order in which the children have theirs.
fn progress(view: &View) -> Vec<u64> {
    let of = |number: u64| {
        let shown = view.child(&source("s"), &child(&format!("c{number}")))?;
        let last = shown.record.last_sequence.map(Sequence::get)?;
        assert_eq!(
            shown.record.state,
            state_at(last),
            "a record of two moments"
        );
        Some(last)
    };
    (0..CHILDREN)
        .map(|number| of(number).unwrap_or(0))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_taken_under_load_is_a_whole_moment() {
    let settings = settings();
    let adapter = Scripted::new("s", &settings.clock);
    let host = Arc::new(host_with(settings, std::slice::from_ref(&adapter)).await);
    let done = Arc::new(AtomicBool::new(false));

    let looking = {
        let (host, done) = (host.clone(), done.clone());
        std::thread::spawn(move || {
            let (mut moments, mut before, mut version) = (0, 0, 0);
            while !done.load(Ordering::SeqCst) {
                let view = host.view();
                let progress = progress(&view);
                // The children take turns, so at any moment those that had their turn are one ahead
                // of those that had not, and nobody is further.
                assert!(progress.is_sorted_by(|a, b| a >= b), "{progress:?}");
                assert!(
                    progress[0] - progress[progress.len() - 1] <= 1,
                    "{progress:?}"
                );
                let shown: u64 = progress.iter().sum();
                assert!(
                    shown >= before && view.version() >= version,
                    "time ran backwards"
                );
                moments += u64::from(shown > before && shown < EVENTS);
                (before, version) = (shown, view.version());
            }
            moments
        })
    };
    for number in 0..EVENTS {
        let sequence = number / CHILDREN + 1;
        adapter.fanout.ready().await;
        let kind = EventKind::StateChanged(state_at(sequence));
        adapter.emit(&format!("c{}", number % CHILDREN), sequence, kind);
    }
    host.wait_until(|view| progress(view).iter().sum::<u64>() == EVENTS)
        .await;
    done.store(true, Ordering::SeqCst);
    let moments = looking.join().unwrap();
    assert!(moments > 0, "nothing was seen on the way");
}
