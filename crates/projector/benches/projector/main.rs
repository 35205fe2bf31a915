//! Speed and memory of the projector: `cargo xtask bench projector`.
//!
//! Prints medians of several rounds, and ratios to a bare hash map over the same events in the same
//! run: those can be compared between machines, nanoseconds cannot. Sections can be named: `events`,
//! `memory`, `time`, `snapshots`.

#![allow(clippy::print_stdout)] // a program for the terminal
#![allow(clippy::unwrap_used)] // what cannot be built cannot be measured
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)]

mod counting;
mod feed;

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use headcount_contract::{ChildId, ChildState, LifecycleEvent, Timestamp};
use headcount_projector::{Effect, Projector, Settings};

use feed::{Numbers, feed, snapshot, time};

const ROUNDS: usize = 7;

fn main() {
    // `cargo bench` and `cargo test --benches` say which; only the former measures.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("nothing measured: run `cargo xtask bench projector`");
        return;
    }
    let sections: [(&str, fn()); 4] = [
        ("events", events),
        ("memory", memory),
        ("time", time_passes),
        ("snapshots", snapshots),
    ];
    let named = |name: &str| std::env::args().any(|argument| argument == name);
    let all = !sections.iter().any(|(name, _)| named(name));
    for (name, section) in sections {
        if all || named(name) {
            section();
        }
    }
}

/// One million events over ten thousand children, beside a bare hash map.
fn events() {
    let (children, each) = (10_000, 100);
    for (name, numbers) in [
        ("sequenced", Numbers::Sequenced),
        ("unsequenced", Numbers::None),
    ] {
        let events = feed(children, each, numbers);
        let (mut bare, mut ours) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            bare.push(measure(|| bare_fold(&events)) / events.len() as u32);
            ours.push(measure(|| fold(&events)) / events.len() as u32);
        }
        let (bare, ours) = (median(bare), median(ours));
        let ratio = ours.as_secs_f64() / bare.as_secs_f64();
        println!(
            "events, {name:<11}  {:>5} ns an event; bare hash map {:>4} ns; ratio {ratio:.2}",
            ours.as_nanos(),
            bare.as_nanos()
        );
    }
    let events = feed(children, each, Numbers::Sequenced);
    let mut projector = Projector::new(Settings::default());
    apply(&mut projector, &events);
    let again: Vec<_> = (0..ROUNDS)
        .map(|_| measure(|| apply(&mut projector, &events)) / events.len() as u32)
        .collect();
    println!(
        "events, duplicates   {:>5} ns an event",
        median(again).as_nanos()
    );
}

/// The least that any projection does: the last state and time by child.
fn bare_fold(events: &[LifecycleEvent]) -> usize {
    struct Bare {
        state: Option<ChildState>,
        sequence: u64,
        seen: Timestamp,
    }
    let mut map: HashMap<ChildId, Bare> = HashMap::new();
    for event in events {
        let sequence = event
            .sequence()
            .map_or(0, headcount_contract::Sequence::get);
        match map.get_mut(event.child_id()) {
            Some(child) if child.sequence <= sequence => {
                child.state = event.state().or(child.state);
                child.sequence = sequence;
                child.seen = event.observed_at();
            }
            Some(_) => (),
            None => {
                let bare = Bare {
                    state: event.state(),
                    sequence,
                    seen: event.observed_at(),
                };
                map.insert(event.child_id().clone(), bare);
            }
        }
    }
    map.values()
        .filter(|child| child.state.is_some() && child.seen > Timestamp::UNIX_EPOCH)
        .count()
}

fn fold(events: &[LifecycleEvent]) -> usize {
    let mut projector = Projector::new(Settings::default());
    apply(&mut projector, events);
    projector.len()
}

/// As a host does: effects are handed on in batches.
fn apply(projector: &mut Projector, events: &[LifecycleEvent]) -> usize {
    let mut effects: Vec<Effect> = Vec::new();
    let mut handed_on = 0;
    for batch in events.chunks(64) {
        for event in batch {
            projector.apply(event, event.observed_at(), &mut effects);
        }
        handed_on += effects.len();
        effects.clear();
    }
    handed_on
}

/// What one child takes, beside its own strings, which the events hold already.
fn memory() {
    for (children, each) in [(10_000, 10), (10_000, 100), (100_000, 10), (1_000_000, 4)] {
        let events = feed(children, each, Numbers::Sequenced);
        let before = counting::in_use();
        let mut projector = Projector::new(Settings::default());
        let empty = counting::in_use() - before;
        apply(&mut projector, &events);
        let taken = counting::in_use() - before - empty;
        println!(
            "memory, {children:>9} children of {each:>3} events  {:>5.1} bytes a child (empty projector {empty})",
            taken as f64 / children as f64
        );
        drop(black_box(projector));
    }
}

/// A million live children, of which none, some, or many are due.
fn time_passes() {
    let children = 1_000_000;
    let events = feed(children, 2, Numbers::Sequenced);
    let mut projector = Projector::new(Settings::default());
    apply(&mut projector, &events);
    let deadline = projector.deadline().unwrap();
    let calls = 1_000;
    let just_before = feed::before(deadline);
    let idle = (0..ROUNDS).map(|_| {
        measure(|| {
            for _ in 0..calls {
                projector.advance(black_box(just_before), &mut Vec::new());
            }
            0
        }) / calls
    });
    println!(
        "advance, nothing due of {children} live     {:>5} ns",
        median(idle.collect()).as_nanos()
    );
    // Each child's entry is moved to its real deadline, once a deadline, when it is first looked at.
    let mut effects = Vec::new();
    let moved = measure(|| {
        projector.advance(feed::stale_time(children, 0), &mut effects);
        effects.len()
    });
    println!(
        "advance, {children} entries moved, none stale  {:>5} ns for each",
        (moved / children as u32).as_nanos()
    );
    for due in [1_000, 10_000, 100_000] {
        // Events came one a microsecond: that many turn stale by then.
        let now = feed::stale_time(children, due);
        let took = (0..3).map(|_| {
            effects.clear();
            let mut projector = projector.clone();
            measure(|| {
                projector.advance(now, &mut effects);
                0
            })
        });
        let took = median(took.collect());
        let intents = effects
            .drain(..)
            .filter(|effect| matches!(effect, Effect::Intent(_)));
        println!(
            "advance, {due:>7} turn stale of {children}  {:>5} ns for each",
            (took / due as u32).as_nanos()
        );
        assert_eq!(intents.count(), due);
    }
}

/// A complete snapshot of a hundred thousand children.
fn snapshots() {
    let children = 100_000;
    let mut projector = Projector::new(Settings::default());
    apply(&mut projector, &feed(children, 4, Numbers::Sequenced));
    for (name, state) in [
        ("as known", ChildState::RUNNING),
        ("all corrected", ChildState::WAITING),
    ] {
        let took = (0..ROUNDS).map(|round| {
            let mut projector = projector.clone();
            let snapshot = snapshot(children, state, round);
            measure(|| {
                let mut effects = Vec::new();
                projector.apply_snapshot(&snapshot, time(10_000_000_000), &mut effects);
                effects.len()
            })
        });
        println!(
            "snapshot of {children} children, {name:<13}  {:>6.1} ms",
            median(took.collect()).as_secs_f64() * 1e3
        );
    }
}

/// How long the work keeps a processor, where the system tells (Linux does): other programs that run
/// meanwhile count less that way. Elsewhere, how long it takes.
fn measure(work: impl FnOnce() -> usize) -> Duration {
    let (wall, processor) = (Instant::now(), on_processor());
    black_box(work());
    match (processor, on_processor()) {
        // The system counts in ticks of some milliseconds.
        (Some(start), Some(end)) if wall.elapsed() > Duration::from_millis(50) => {
            end.saturating_sub(start)
        }
        _ => wall.elapsed(),
    }
}

fn on_processor() -> Option<Duration> {
    std::thread::yield_now(); // brings the count up to date
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split(' ')
        .next()?
        .parse()
        .ok()
        .map(Duration::from_nanos)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
