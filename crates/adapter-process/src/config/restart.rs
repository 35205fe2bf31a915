//! When a run is followed by another attempt. Pure: time enters with the runs themselves.

use std::collections::VecDeque;
use std::time::Duration;

use headcount_adapter_kit::{EndedRun, NextRun, duration};
use headcount_contract::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether and when a run that ended by itself is started again, as a new child of the same root.
///
/// ```
/// use headcount_adapter_process::{ProcessOptions, RestartOptions, RestartWhen};
/// let mut options = ProcessOptions::new("worker");
/// options.restart = RestartOptions::new(RestartWhen::OnFailure);
/// ```
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RestartOptions {
    /// After which ends.
    pub when: RestartWhen,
    /// A run shorter than this counts as a failed start, however it ended.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub min_uptime: Duration,
    /// The delay before the first restart. Each failure in a row doubles it; a run that lasted
    /// `min_uptime` sets it back.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub delay: Duration,
    /// The longest delay. Half of any delay is random, so that many do not restart in step.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub max_delay: Duration,
    /// How many restarts there may be within the window.
    pub limit: u32,
    /// The window for `limit`.
    #[serde(with = "duration")]
    #[schemars(with = "String")]
    pub window: Duration,
}

/// After which ends a run is started again. A stop that was asked for is always the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RestartWhen {
    /// Never.
    #[default]
    Never,
    /// When it failed, or ended sooner than `min_uptime`.
    #[serde(alias = "on-failure")]
    OnFailure,
    /// Whenever it ended by itself.
    Always,
}

impl Default for RestartOptions {
    fn default() -> Self {
        Self {
            when: RestartWhen::Never,
            min_uptime: Duration::from_secs(1),
            delay: Duration::from_millis(500),
            max_delay: Duration::from_mins(1),
            limit: 10,
            window: Duration::from_mins(10),
        }
    }
}

impl RestartOptions {
    /// The default delays and limits: 0.5 s doubled up to 60 s, at most 10 within 10 minutes.
    pub fn new(when: RestartWhen) -> Self {
        Self {
            when,
            ..Self::default()
        }
    }

    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        if self.max_delay < self.delay {
            return Some((
                "restart.max_delay",
                "the longest delay must not be shorter than the first one".into(),
            ));
        }
        None
    }

    /// Decides after each run. `random` gives numbers from 0 up to 1.
    pub(crate) fn decide(self, random: impl FnMut() -> f64 + Send + 'static) -> Restarts {
        Restarts {
            options: self,
            failures: 0,
            now: Duration::ZERO,
            recent: VecDeque::new(),
            random: Box::new(random),
        }
    }
}

/// The decisions of one chain of attempts.
pub(crate) struct Restarts {
    options: RestartOptions,
    /// Failed starts and failures in a row.
    failures: u32,
    /// The time that the chain has taken: runs and delays.
    now: Duration,
    /// When the restarts within the window were.
    recent: VecDeque<Duration>,
    random: Box<dyn FnMut() -> f64 + Send>,
}

impl Restarts {
    pub(crate) fn next(&mut self, ended: &EndedRun) -> NextRun {
        let options = &self.options;
        self.now += ended.lasted;
        let too_short = ended.lasted < options.min_uptime;
        let failed = ended.outcome != Outcome::Completed || too_short;
        let wanted = match options.when {
            RestartWhen::Never => false,
            RestartWhen::OnFailure => failed,
            RestartWhen::Always => true,
        };
        // Cancelled is a stop that was asked for.
        if !wanted || ended.outcome == Outcome::Cancelled {
            return NextRun::None;
        }
        if !too_short {
            self.failures = 0;
        }
        let from = self.now.saturating_sub(options.window);
        self.recent.retain(|at| *at >= from);
        if self.recent.len() >= options.limit as usize {
            let window = duration::write(options.window);
            return NextRun::GiveUp(format!(
                "given up after {} restarts within {window}",
                options.limit
            ));
        }
        let factor = 2_u32.saturating_pow(self.failures.min(31));
        let delay = options.delay.saturating_mul(factor).min(options.max_delay);
        let delay = delay.mul_f64(0.5 + (self.random)() / 2.0);
        self.failures += u32::from(failed);
        self.now += delay;
        self.recent.push_back(self.now);
        NextRun::After(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions for runs of these outcomes and lengths in seconds, without randomness.
    fn decisions(options: &RestartOptions, runs: &[(Outcome, u64)]) -> Vec<String> {
        let mut restarts = options.clone().decide(|| 1.0);
        let decide = |(outcome, seconds): &(Outcome, u64)| {
            let lasted = Duration::from_secs(*seconds);
            match restarts.next(&EndedRun::new(*outcome, lasted, 0)) {
                NextRun::After(delay) => duration::write(delay),
                NextRun::GiveUp(why) => why,
                _ => "-".to_owned(),
            }
        };
        runs.iter().map(decide).collect()
    }

    #[test]
    fn decides_by_policy_outcome_and_length() {
        use Outcome::{Cancelled, Completed, Failed};
        let long = [
            (Completed, 60),
            (Failed, 60),
            (Cancelled, 60),
            (Completed, 0),
        ];
        for (when, expected) in [
            (RestartWhen::Never, ["-", "-", "-", "-"]),
            (RestartWhen::OnFailure, ["-", "500ms", "-", "1s"]),
            (RestartWhen::Always, ["500ms", "500ms", "-", "1s"]),
        ] {
            assert_eq!(
                decisions(&RestartOptions::new(when), &long),
                expected,
                "{when:?}"
            );
        }
    }

    #[test]
    fn failures_in_a_row_double_the_delay_up_to_its_cap_and_a_long_run_sets_it_back() {
        let mut options = RestartOptions::new(RestartWhen::OnFailure);
        options.max_delay = Duration::from_secs(3);
        options.limit = 100;
        let short = (Outcome::Failed, 0);
        let runs = [short, short, short, short, (Outcome::Failed, 60), short];
        assert_eq!(
            decisions(&options, &runs),
            ["500ms", "1s", "2s", "3s", "500ms", "1s"]
        );
    }

    #[test]
    fn the_limit_counts_within_the_window_alone() {
        let mut options = RestartOptions::new(RestartWhen::Always);
        options.limit = 2;
        options.window = Duration::from_secs(100);
        let run = (Outcome::Completed, 40);
        assert_eq!(
            decisions(&options, &[run, run, run, (Outcome::Completed, 90)]),
            [
                "500ms",
                "500ms",
                "given up after 2 restarts within 100s",
                "500ms"
            ]
        );
    }

    #[test]
    fn half_of_a_delay_is_random() {
        for (random, millis) in [(0.0, 250), (0.5, 375)] {
            let mut restarts = RestartOptions::new(RestartWhen::Always).decide(move || random);
            let ended = EndedRun::new(Outcome::Failed, Duration::ZERO, 0);
            let next = restarts.next(&ended);
            assert_eq!(next, NextRun::After(Duration::from_millis(millis)));
        }
    }
}
