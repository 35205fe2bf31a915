//! What a host may choose.

use std::time::Duration;

use crate::Clock;

/// How long the host waits, how much it keeps, and what it does first.
///
/// ```
/// use std::time::Duration;
/// let mut settings = headcount::HostSettings::default();
/// settings.snapshot_period = Duration::from_secs(10);
/// settings.projector.heartbeat_deadline = Duration::from_secs(30);
/// assert_eq!(settings.reconnect_attempts, 3);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HostSettings {
    /// Deadlines and bounds of the projection.
    pub projector: headcount_projector::Settings,
    /// How many snapshots in a row must fail after a discontinuity before the events that were held
    /// back go on (rule N8). At least 1. Default 3.
    pub reconnect_attempts: u32,
    /// The pause after the first failed attempt; it doubles with each one after. Default 200 ms.
    pub reconnect_backoff: Duration,
    /// The longest pause between attempts. Default 10 s.
    pub reconnect_backoff_max: Duration,
    /// How often a snapshot is taken without a reason (rule N9). Default 30 s.
    pub snapshot_period: Duration,
    /// By how much of itself the period varies, up and down, so that many adapters do not all ask
    /// at once. From 0 to 1. Default 0.1.
    pub snapshot_jitter: f64,
    /// How long an adapter may take for a snapshot. Default 10 s.
    pub snapshot_timeout: Duration,
    /// How long an adapter may take to answer a cancel request. Default 10 s.
    pub request_timeout: Duration,
    /// How many signals of one adapter are held back after a discontinuity before its stream is
    /// not read any further (rule N8). Default 16,384.
    pub held_signals: usize,
    /// How many signals of one adapter are handed on at once. Default 256.
    pub batch: usize,
    /// How many changes are kept for each subscriber. Default 8,192.
    pub change_buffer: usize,
    /// How large, about, the changes may be together that are kept for each subscriber, in bytes;
    /// one is kept whatever its size. What a stream has begun to hand out is kept beside that.
    /// Default 64 MiB.
    pub change_buffer_bytes: usize,
    /// Whether an event is in the journal before it is shown. Default [`Journaling::Before`].
    pub journaling: Journaling,
    /// How long the view waits for a journal that does not answer, before it goes on without.
    /// Default 5 s.
    pub journal_patience: Duration,
    /// How many events wait for a journal that does not answer; further ones are not journaled, and
    /// counted. Default 65,536.
    pub journal_backlog: usize,
    /// How long [`Host::shutdown`](crate::Host::shutdown) takes at most. Default 30 s.
    pub shutdown_timeout: Duration,
    /// Where the time comes from.
    pub clock: Clock,
}

/// Whether an event is in the journal before it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Journaling {
    /// Nothing is shown that is not in the journal. A journal that is blocked or does not answer
    /// stops appends, not the view; the view says so.
    #[default]
    Before,
    /// Events are shown at once, and journaled soon after.
    Relaxed,
}

impl Default for HostSettings {
    fn default() -> Self {
        Self {
            projector: headcount_projector::Settings::default(),
            reconnect_attempts: 3,
            reconnect_backoff: Duration::from_millis(200),
            reconnect_backoff_max: Duration::from_secs(10),
            snapshot_period: Duration::from_secs(30),
            snapshot_jitter: 0.1,
            snapshot_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(10),
            held_signals: 16_384,
            batch: 256,
            change_buffer: 8_192,
            change_buffer_bytes: 64 << 20,
            journaling: Journaling::Before,
            journal_patience: Duration::from_secs(5),
            journal_backlog: 65_536,
            shutdown_timeout: Duration::from_secs(30),
            clock: Clock::default(),
        }
    }
}

impl HostSettings {
    /// The pause after this many failed attempts, with jitter.
    pub(crate) fn backoff(&self, failed: u32) -> Duration {
        let doubled = self
            .reconnect_backoff
            .saturating_mul(1_u32 << failed.saturating_sub(1).min(20));
        jittered(doubled.min(self.reconnect_backoff_max), 0.2)
    }

    /// The pause until the next snapshot without a reason.
    pub(crate) fn next_period(&self) -> Duration {
        jittered(self.snapshot_period, self.snapshot_jitter)
    }
}

/// The duration, more or less by up to `share` of itself.
fn jittered(duration: Duration, share: f64) -> Duration {
    let share = if share.is_finite() {
        share.clamp(0.0, 1.0)
    } else {
        0.0
    };
    duration.mul_f64(1.0 + share * (2.0 * fastrand::f64() - 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let settings = HostSettings::default();
        for (failed, millis) in [
            (1, 200.0),
            (2, 400.0),
            (5, 3_200.0),
            (9, 10_000.0),
            (u32::MAX, 10_000.0),
        ] {
            let pause = settings.backoff(failed).as_secs_f64() * 1000.0;
            assert!(
                (millis * 0.8..=millis * 1.2).contains(&pause),
                "{failed}: {pause}"
            );
        }
    }

    #[test]
    fn jitter_stays_within_its_share() {
        for share in [0.0, 0.1, 1.0, 7.0, f64::NAN] {
            let pause = jittered(Duration::from_secs(10), share).as_secs_f64();
            assert!((0.0..=20.0).contains(&pause), "{share}: {pause}");
        }
    }
}
