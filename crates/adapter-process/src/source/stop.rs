//! A stop under way: asked, killed after its grace, failed after its deadline.

use std::time::Duration;

use tokio::time::Instant;

use super::later;
use crate::config::ProcessOptions;

/// How often a group that is being stopped is looked at: soon, then less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// How urgently the end was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum StopLevel {
    #[default]
    None,
    Graceful,
    Now,
}

/// A stop under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    /// When the group is killed; none once it was.
    kill_at: Option<Instant>,
    /// When the stop has failed.
    fail_at: Instant,
    /// The grace time was over, or there was none to give.
    pub(super) escalated: bool,
    pub(super) failed: bool,
    /// Nobody of the group is left.
    pub(super) gone: bool,
    look_at: Instant,
    look_after: Duration,
}

/// What a stop needs to have done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopStep {
    Kill,
    Look,
    Fail,
}

impl Stop {
    pub(super) fn begin(level: StopLevel, options: &ProcessOptions, now: Instant) -> Self {
        let kill_at = match level {
            StopLevel::Now => now,
            _ => later(now, options.grace),
        };
        Self {
            kill_at: Some(kill_at),
            fail_at: later(kill_at, options.stop_deadline),
            escalated: false,
            failed: false,
            gone: false,
            look_at: now + FIRST_LOOK,
            look_after: FIRST_LOOK,
        }
    }

    /// Ends the grace time.
    pub(super) fn hurry(&mut self, now: Instant) {
        if self.kill_at.is_some() {
            self.kill_at = Some(now);
        }
    }

    /// Looks at the group again at once, and often: something has changed.
    pub(super) fn look_soon(&mut self, now: Instant) {
        self.look_at = now;
        self.look_after = FIRST_LOOK;
    }

    /// When there is something to do; nothing once the group is gone.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.gone {
            return None;
        }
        let fail_at = (!self.failed).then_some(self.fail_at);
        [self.kill_at, fail_at, Some(self.look_at)]
            .into_iter()
            .flatten()
            .min()
    }

    /// The next thing that is due. To be asked until there is none.
    pub(super) fn step(&mut self, options: &ProcessOptions, now: Instant) -> Option<StopStep> {
        if self.gone {
            return None;
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.escalated = true;
            self.fail_at = later(now, options.stop_deadline);
            self.look_soon(now + FIRST_LOOK);
            return Some(StopStep::Kill);
        }
        if self.look_at <= now {
            self.look_after = (self.look_after * 2).min(LONGEST_LOOK);
            self.look_at = now + self.look_after;
            return Some(StopStep::Look);
        }
        if !self.failed && self.fail_at <= now {
            self.failed = true;
            return Some(StopStep::Fail);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stop does, at which millisecond, if the group never goes.
    fn course(level: StopLevel) -> Vec<(u64, StopStep)> {
        let mut options = ProcessOptions::new("true");
        options.grace = Duration::from_millis(100);
        options.stop_deadline = Duration::from_millis(200);
        let began = Instant::now();
        let mut stop = Stop::begin(level, &options, began);
        let mut seen = Vec::new();
        while !stop.failed {
            let now = stop.due().unwrap();
            while let Some(step) = stop.step(&options, now) {
                let at = u64::try_from((now - began).as_millis()).unwrap();
                seen.push((at, step));
            }
        }
        seen
    }

    #[tokio::test]
    async fn kills_after_the_grace_and_fails_after_the_deadline() {
        for (level, kill_at) in [(StopLevel::Graceful, 100), (StopLevel::Now, 0)] {
            let course = course(level);
            let at = |wanted| {
                course
                    .iter()
                    .find(|(_, step)| *step == wanted)
                    .map(|(at, _)| *at)
            };
            assert_eq!(at(StopStep::Kill), Some(kill_at));
            assert_eq!(at(StopStep::Fail), Some(kill_at + 200));
            let looks = course
                .iter()
                .filter(|(_, step)| *step == StopStep::Look)
                .count();
            assert!((5..30).contains(&looks), "{course:?}");
        }
    }
}
