//! Stop, exit, drop and abort at the same time, in any order: always exactly one terminal event.

use std::time::Duration;

use futures_util::StreamExt;
use headcount_contract::*;

use crate::stress::{Load, stress};
use crate::support::*;

/// One run with everything that can end it, each at a random moment; the same for the same seed.
async fn one(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut moment = move || Duration::from_micros(random.u64(0..8_000));
    let code = seed % 3;
    let mut options = shell(&format!("sleep {}; exit {code}", moment().as_secs_f64()));
    options.grace = moment();
    let mut input = StartInput::new("");
    if seed.is_multiple_of(2) {
        let after = moment();
        input.stop = Some(StopSignal::new(
            async move { tokio::time::sleep(after).await },
        ));
    }
    let handle = match start_with(options, input).await {
        Ok(handle) => handle,
        Err(error) => return assert_eq!(error.kind(), StartErrorKind::Aborted),
    };
    let pid = pid_of(&handle);
    let (first, second) = (handle.subscribe(), handle.subscribe());
    let mut tasks = Vec::new();
    for at in 0..4 {
        if seed >> at & 1 == 1 {
            let (handle, after) = (handle.clone(), moment());
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(after).await;
                match at {
                    0 | 1 => handle.stop().await.unwrap(),
                    2 => handle.kill().await.unwrap(),
                    _ => drop(handle),
                }
            }));
        }
    }
    drop(handle);
    for stream in [first, second] {
        let events: Vec<_> = within(stream.collect()).await;
        let end = end(&events);
        let natural = end.details.get("stopRequested") == Some(false.into());
        let expected = match (natural, code) {
            (false, _) => Outcome::Cancelled,
            (true, 0) => Outcome::Completed,
            (true, _) => Outcome::Failed,
        };
        assert_eq!(end.outcome, Some(expected), "seed {seed}: {end:?}");
    }
    for task in tasks {
        within(task).await.unwrap();
    }
    assert!(!lives(pid), "seed {seed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_order_of_stop_exit_drop_and_abort_ends_in_exactly_one_terminal_event() {
    futures_util::stream::iter(0..400)
        .for_each_concurrent(16, one)
        .await;
}

#[tokio::test]
async fn many_children_of_mixed_behaviour_lose_leave_and_leak_nothing() {
    in_a_process_of_its_own("random::stress_in_this_process").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it counts the descriptors of the whole process; another test runs it in its own"]
async fn stress_in_this_process() {
    let report = stress(Load {
        children: 121,
        at_once: 45,
        seed: fastrand::u64(..1 << 32),
    })
    .await;
    assert!(report.faults.is_empty(), "{report:#?}");
    assert!(report.left_processes.is_empty(), "{report:#?}");
    assert_eq!(report.leaked_descriptors, 0, "{report:#?}");
    assert_eq!(report.by_behaviour.values().sum::<usize>(), report.children);
}
