//! What an append costs: one by one and in batches, to a short journal and to a long one.

use std::path::Path;
use std::time::Instant;

use headcount_adapter_jsonl::{Durability, Journal, JournalOptions};
use headcount_contract::{LifecycleEvent, WireLimits, parse_event};

use crate::{median, stream};

const ROUNDS: usize = 5;
const BATCH: usize = 64;

pub(crate) fn run(folder: &Path) {
    let events: Vec<LifecycleEvent> = stream::generate(2_000)
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            parse_event(std::str::from_utf8(line).unwrap(), &WireLimits::default())
                .unwrap()
                .event
        })
        .collect();
    println!("\nappending, \u{b5}s an append, median of {ROUNDS} rounds of 256");
    let report = |name: &str, durability, batch| {
        let path = folder.join(format!("{durability:?}-{batch}"));
        let mut journal = open(&path, durability);
        let time = median(
            (0..ROUNDS)
                .map(|_| appends(&mut journal, &events, 256, batch))
                .collect(),
        );
        println!("{time:>9.1}  {name}");
        time
    };
    report(
        "one by one, lock each, not made durable",
        Durability::None,
        1,
    );
    report("batches of 64, not made durable", Durability::None, BATCH);
    let single = report("one by one, lock and fdatasync each", Durability::Batch, 1);
    let batch = report(
        "batches of 64, one lock and fdatasync",
        Durability::Batch,
        BATCH,
    );
    println!(
        "{:>9.1}  one by one to batches, both durable (at least 20)",
        single / batch
    );

    let mut journals: Vec<(Journal, Vec<f64>)> = [1_000, 100_000]
        .into_iter()
        .map(|lines| {
            let path = folder.join(format!("long-{lines}"));
            let mut journal = open(&path, Durability::None);
            for _ in 0..lines / 1_000 {
                journal.append_batch(&events[..1_000]).unwrap();
            }
            (journal, Vec::new())
        })
        .collect();
    for _ in 0..ROUNDS * 3 {
        for (journal, times) in &mut journals {
            times.push(appends(journal, &events, 256, 1));
        }
    }
    let [short, long] = [0, 1].map(|at| median(journals[at].1.clone()));
    println!("{short:>9.1}  an append to a journal of 1,000 lines");
    println!("{long:>9.1}  an append to a journal of 100,000 lines");
    println!("{:>9.2}  long to short (at most 1.3)", long / short);
}

fn open(path: &Path, durability: Durability) -> Journal {
    let mut options = JournalOptions::default();
    options.durability = durability;
    Journal::open(path, options).unwrap()
}

/// Microseconds an append.
fn appends(journal: &mut Journal, events: &[LifecycleEvent], count: usize, batch: usize) -> f64 {
    let start = Instant::now();
    for part in events[..count].chunks(batch) {
        journal.append_batch(part).unwrap();
    }
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}
