//! What to start by itself, and when to start it again.

use std::fmt;
use std::time::Duration;

use headcount_contract::{Outcome, StartInput};

/// A run that has ended, for the decision whether to start it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRun {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it lasted, from its creation, by the clock of its events.
    pub lasted: Duration,
    /// Which attempt it was, from 0.
    pub attempt: u64,
}

/// One agent that an adapter runs by itself: what to start, and when to start it again.
///
/// ```
/// use headcount_adapter_kit::RunPlan;
/// use headcount_contract::{Outcome, StartInput};
/// use std::time::Duration;
///
/// let plan = RunPlan::once(|| StartInput::new("/srv/agent"));
/// let stubborn = RunPlan::once(|| StartInput::new("/srv/agent"))
///     .restarting(|ended| (ended.outcome == Outcome::Failed).then_some(Duration::from_secs(1)));
/// ```
pub struct RunPlan {
    input: Box<dyn Fn() -> StartInput + Send + Sync>,
    next: Decide,
}

/// Whether to start another attempt, and after which delay.
type Decide = Box<dyn FnMut(&EndedRun) -> Option<Duration> + Send>;

impl RunPlan {
    /// Starts one run. `input` makes the input of each attempt; its run id names the first child.
    pub fn once(input: impl Fn() -> StartInput + Send + Sync + 'static) -> Self {
        Self {
            input: Box::new(input),
            next: Box::new(|_| None),
        }
    }

    /// After each run that was not stopped by request, asks `next` whether and after which delay to
    /// start another attempt.
    pub fn restarting(
        mut self,
        next: impl FnMut(&EndedRun) -> Option<Duration> + Send + 'static,
    ) -> Self {
        self.next = Box::new(next);
        self
    }

    pub(super) fn input(&self) -> StartInput {
        (self.input)()
    }

    pub(super) fn next(&mut self, ended: &EndedRun) -> Option<Duration> {
        (self.next)(ended)
    }
}

impl fmt::Debug for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunPlan")
    }
}
