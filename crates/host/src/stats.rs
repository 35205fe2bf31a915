//! Figures of the host itself.

use std::time::Duration;

/// What the host has done since it started.
#[derive(Debug, Clone, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Stats {
    /// Events that adapters brought.
    pub events_in: u64,
    /// Events that were applied.
    pub events_accepted: u64,
    /// Events that had come before.
    pub duplicates: u64,
    /// Events under the name or at the place of another, with other content.
    pub conflicts: u64,
    /// Events that came late.
    pub out_of_order: u64,
    /// Events that were refused: of another source, of a life that is over, of an ended child.
    pub refused: u64,
    /// Events that the projection made itself.
    pub derived: u64,
    /// Gaps that were seen.
    pub gaps: u64,
    /// Gaps that were closed again.
    pub gaps_closed: u64,
    /// Discontinuities that adapters told.
    pub discontinuities: u64,
    /// Snapshots that were applied.
    pub snapshots: u64,
    /// Attempts to take one that failed.
    pub snapshots_failed: u64,
    /// States that a snapshot corrected.
    pub corrections: u64,
    /// Children that were stale.
    pub stale: u64,
    /// Children that were lost.
    pub lost: u64,
    /// Output lines that were seen.
    pub output_lines: u64,
    /// Output lines that were not kept.
    pub output_lines_missed: u64,
    /// Changes that slow subscribers missed.
    pub changes_missed: u64,
    /// Events in the journal, of this life of the host.
    pub journaled: u64,
    /// Events that are not in the journal, since it was blocked or did not answer.
    pub not_journaled: u64,
    /// From an adapter's event reaching the host to the view showing it.
    pub view_latency: Histogram,
    /// From handing events to the journal to having them in it, a batch.
    pub journal_latency: Histogram,
    /// How old events were when they reached the host, by their sources' clocks.
    pub lag: Histogram,
}

/// Counts of durations by magnitude: four steps for each doubling, from a microsecond to an hour.
/// Its quantiles are exact to 19 %.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
    max: Duration,
}

const STEPS: usize = 4;
const BUCKETS: usize = 32 * STEPS;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            total: 0,
            max: Duration::ZERO,
        }
    }
}

impl Histogram {
    /// Counts `times` times the same duration.
    pub(crate) fn record(&mut self, duration: Duration, times: u64) {
        self.counts[bucket(duration)] += times;
        self.total += times;
        self.max = self.max.max(duration);
    }

    /// How many durations were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// What was counted since `before`, an earlier state of the same histogram. Its longest is that of
    /// the whole, unless nothing that long was counted since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let mut since = Self::default();
        let counts = self.counts.iter().zip(&*before.counts);
        for (bucket, (now, then)) in counts.enumerate() {
            since.counts[bucket] = now.saturating_sub(*then);
            since.total += since.counts[bucket];
            if since.counts[bucket] > 0 {
                since.max = self.longest_of(bucket);
            }
        }
        since
    }

    /// The duration that this share, from 0 to 1, did not exceed; none if nothing was counted.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss
    )]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        // Rounding a count of events to a double's 53 bits moves no quantile.
        let rank = ((self.total as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(self.longest_of(bucket));
            }
        }
        None
    }
}

impl Histogram {
    /// What a duration of a bucket does not exceed. The last one has no end but the longest.
    fn longest_of(&self, bucket: usize) -> Duration {
        if bucket == BUCKETS - 1 {
            self.max
        } else {
            upper_bound(bucket).min(self.max)
        }
    }
}

/// Which bucket a duration falls into.
fn bucket(duration: Duration) -> usize {
    let micros = u64::try_from(duration.as_micros())
        .unwrap_or(u64::MAX)
        .max(1);
    let doublings = micros.ilog2() as usize;
    // The two bits below the highest one.
    let step = if doublings >= 2 {
        (micros >> (doublings - 2)) & 3
    } else {
        (micros << (2 - doublings)) & 3
    };
    (doublings * STEPS + usize::try_from(step).unwrap_or(0)).min(BUCKETS - 1)
}

/// The longest duration of a bucket.
fn upper_bound(bucket: usize) -> Duration {
    let (doublings, step) = (bucket / STEPS, (bucket % STEPS) as u64);
    Duration::from_micros(((STEPS as u64 + step + 1) << doublings) / STEPS as u64)
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} (p50 {:?}, p99 {:?}, max {:?})",
            self.total,
            self.quantile(0.5).unwrap_or_default(),
            self.quantile(0.99).unwrap_or_default(),
            self.max
        )
    }
}

impl serde::Serialize for Histogram {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let millis = |share| self.quantile(share).unwrap_or_default().as_secs_f64() * 1000.0;
        let mut out = serializer.serialize_struct("Histogram", 4)?;
        out.serialize_field("count", &self.total)?;
        out.serialize_field("p50Ms", &millis(0.5))?;
        out.serialize_field("p99Ms", &millis(0.99))?;
        out.serialize_field("maxMs", &(self.max.as_secs_f64() * 1000.0))?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step_of_the_truth() {
        let mut histogram = Histogram::default();
        for micros in 1..=10_000 {
            histogram.record(Duration::from_micros(micros), 1);
        }
        for (share, truth) in [
            (0.5, 5_000.0),
            (0.9, 9_000.0),
            (0.99, 9_900.0),
            (1.0, 10_000.0),
        ] {
            let said = histogram.quantile(share).unwrap().as_secs_f64() * 1e6;
            assert!((truth..=truth * 1.25).contains(&said), "{share}: {said}");
        }
        assert_eq!(histogram.max(), Duration::from_millis(10));
    }

    #[test]
    fn what_was_counted_since_leaves_out_what_was_before() {
        let mut histogram = Histogram::default();
        histogram.record(Duration::from_secs(9), 1_000);
        let before = histogram.clone();
        assert_eq!(histogram.since(&before), Histogram::default());
        histogram.record(Duration::from_millis(2), 10);
        let since = histogram.since(&before);
        assert_eq!(since.count(), 10);
        assert!(since.quantile(1.0).unwrap() < Duration::from_millis(3));
        assert!(since.max() < Duration::from_millis(3));
    }

    #[test]
    fn the_shortest_and_the_longest_are_counted() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        histogram.record(Duration::ZERO, 1);
        histogram.record(Duration::MAX, 1);
        assert_eq!(histogram.count(), 2);
        assert!(histogram.quantile(0.0).unwrap() <= Duration::from_micros(2));
        assert_eq!(histogram.quantile(1.0), Some(Duration::MAX));
    }

    #[test]
    fn every_bucket_ends_where_the_next_begins() {
        for doublings in 2..30 {
            for step in 0..4_u64 {
                let micros = (4 + step) << (doublings - 2);
                let at = bucket(Duration::from_micros(micros));
                assert_eq!(at, doublings * STEPS + usize::try_from(step).unwrap());
                assert!(upper_bound(at) > Duration::from_micros(micros));
                assert_eq!(bucket(upper_bound(at)), at + 1);
            }
        }
    }
}
