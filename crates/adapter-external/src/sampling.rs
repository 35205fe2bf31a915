//! What adopted processes use, and how seldom it is looked at while nothing happens.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use headcount_contract::Usage;

use crate::process::Used;
use crate::translate::Key;

/// How many rounds at most lie between two samples of a process that does nothing.
const LONGEST: u64 = 12;

/// Which processes are sampled in which round.
///
/// One that used no processor time and kept its memory is sampled half as often each time, down to
/// every twelfth round; one that does something, in every round again. Those that have waited
/// longest come first, so that a bound on each round delays all, and starves none.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    round: u64,
    due: BTreeSet<(u64, Key)>,
    samples: BTreeMap<Key, Sample>,
}

#[derive(Debug, Default)]
struct Sample {
    due: u64,
    /// How many rounds until the next.
    pause: u64,
    last: Option<(Instant, Used)>,
    children: u32,
}

impl Sampling {
    pub(crate) fn add(&mut self, key: Key) {
        self.remove(key);
        let due = self.round;
        self.due.insert((due, key));
        let sample = Sample {
            due,
            ..Sample::default()
        };
        self.samples.insert(key, sample);
    }

    pub(crate) fn remove(&mut self, key: Key) {
        if let Some(sample) = self.samples.remove(&key) {
            self.due.remove(&(sample.due, key));
        }
    }

    /// Whom to read in the next round, at most so many.
    pub(crate) fn next_round(&mut self, at_most: usize) -> Vec<Key> {
        self.round += 1;
        let due = self.due.iter().take_while(|(due, _)| *due <= self.round);
        due.map(|(_, key)| *key).take(at_most).collect()
    }

    /// What a process uses by this reading. `children` is asked where their number may have changed.
    pub(crate) fn read(
        &mut self,
        key: Key,
        used: Used,
        at: Instant,
        children: impl FnOnce() -> u32,
    ) -> Option<Usage> {
        let sample = self.samples.get_mut(&key)?;
        let is_idle = sample.last.is_some_and(|(_, last)| last == used);
        let cpu_percent = sample.last.map_or(0.0, |(then, last)| {
            percent(used.cpu.saturating_sub(last.cpu), at.duration_since(then))
        });
        sample.pause = if is_idle {
            (sample.pause * 2).min(LONGEST)
        } else {
            // To start one, it must have done something.
            sample.children = children();
            1
        };
        sample.last = Some((at, used));
        self.due.remove(&(sample.due, key));
        sample.due = self.round + sample.pause;
        self.due.insert((sample.due, key));
        let processes = sample.children.saturating_add(1);
        Some(Usage::new(cpu_percent, used.memory_bytes, processes))
    }

    /// A process that could not be read is tried again as one that does nothing.
    pub(crate) fn unread(&mut self, key: Key) {
        if let Some(sample) = self.samples.get_mut(&key) {
            self.due.remove(&(sample.due, key));
            sample.due = self.round + LONGEST;
            self.due.insert((sample.due, key));
        }
    }
}

/// Of one processor.
#[allow(clippy::cast_possible_truncation)] // what is shown needs no more digits
fn percent(cpu: Duration, wall: Duration) -> f32 {
    if wall.is_zero() {
        return 0.0;
    }
    (cpu.as_secs_f64() / wall.as_secs_f64() * 100.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_secs(5);

    fn used(cpu_ms: u64, memory_bytes: u64) -> Used {
        Used {
            cpu: Duration::from_millis(cpu_ms),
            memory_bytes,
        }
    }

    /// The rounds in which one process is sampled, whose processor time is this function of the
    /// round's number.
    fn sampled_in(rounds: u64, cpu_ms: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut sampling = Sampling::default();
        sampling.add(7);
        let began = Instant::now();
        let mut seen = Vec::new();
        for round in 1..=rounds {
            for key in sampling.next_round(10) {
                let at = began + ROUND * u32::try_from(round).unwrap();
                sampling.read(key, used(cpu_ms(round), 1), at, || 0);
                seen.push(round);
            }
        }
        seen
    }

    #[test]
    fn what_does_nothing_is_looked_at_ever_more_seldom() {
        assert_eq!(sampled_in(50, |_| 3), [1, 2, 4, 8, 16, 28, 40]);
    }

    #[test]
    fn what_does_something_is_looked_at_in_every_round() {
        assert_eq!(sampled_in(5, |round| round), [1, 2, 3, 4, 5]);
        let wakes = |round: u64| round.saturating_sub(20);
        assert_eq!(sampled_in(31, wakes), [1, 2, 4, 8, 16, 28, 29, 30, 31]);
    }

    #[test]
    fn a_share_is_of_the_time_between_two_readings() {
        let mut sampling = Sampling::default();
        sampling.add(7);
        let began = Instant::now();
        let mut read = |used: Used, at: Instant, children: u32| {
            sampling.next_round(1);
            sampling.read(7, used, at, || children).unwrap()
        };
        assert_eq!(read(used(900, 4096), began, 0), Usage::new(0.0, 4096, 1));
        let second = read(used(1_900, 8192), began + ROUND, 2);
        assert_eq!(second, Usage::new(20.0, 8192, 3));
        // Children are not counted anew where nothing was done.
        let third = read(used(1_900, 8192), began + ROUND * 2, 9);
        assert_eq!(third, Usage::new(0.0, 8192, 3));
    }

    #[test]
    fn a_bound_on_each_round_starves_nobody() {
        let mut sampling = Sampling::default();
        (0..100).for_each(|key| sampling.add(key));
        let mut counts = BTreeMap::new();
        let at = Instant::now();
        for round in 0..100 {
            for key in sampling.next_round(10) {
                sampling.read(key, used(round, 1), at, || 0);
                *counts.entry(key).or_insert(0) += 1;
            }
        }
        assert!(counts.values().all(|&count| count == 10), "{counts:?}");
        assert_eq!(counts.len(), 100);
    }

    #[test]
    fn what_has_ended_is_forgotten() {
        let mut sampling = Sampling::default();
        sampling.add(1);
        sampling.add(2);
        sampling.add(2);
        sampling.remove(1);
        assert_eq!(sampling.next_round(10), [2]);
        sampling.unread(2);
        assert!(sampling.next_round(10).is_empty());
        assert_eq!(sampling.read(1, used(1, 1), Instant::now(), || 0), None);
        sampling.remove(2);
        assert!(sampling.due.is_empty() && sampling.samples.is_empty());
    }
}
