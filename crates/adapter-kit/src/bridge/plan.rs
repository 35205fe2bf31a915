//! What to start by itself, and when to start it again.

use std::fmt;
use std::time::Duration;

use headcount_contract::{Outcome, StartInput};

/// A run that has ended, for the decision whether to start it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndedRun {
    /// How it ended; `lost` if it is over and nobody can say how.
    pub outcome: Outcome,
    /// How long it lasted, from its creation, by the clock of its events.
    pub lasted: Duration,
    /// Which attempt it was, from 0.
    pub attempt: u64,
}

impl EndedRun {
    /// An ended run.
    ///
    /// ```
    /// use headcount_adapter_kit::EndedRun;
    /// let ended = EndedRun::new(headcount_contract::Outcome::Failed, std::time::Duration::ZERO, 0);
    /// assert_eq!(ended.attempt, 0);
    /// ```
    pub fn new(outcome: Outcome, lasted: Duration, attempt: u64) -> Self {
        Self {
            outcome,
            lasted,
            attempt,
        }
    }
}

/// What follows a run that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextRun {
    /// Nothing: that was the last one.
    None,
    /// Another attempt, after this delay.
    After(Duration),
    /// Nothing, although another attempt was wanted. The reason shows in the adapter's health.
    GiveUp(String),
}

impl From<Option<Duration>> for NextRun {
    fn from(delay: Option<Duration>) -> Self {
        delay.map_or(Self::None, Self::After)
    }
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
type Decide = Box<dyn FnMut(&EndedRun) -> NextRun + Send>;

impl RunPlan {
    /// Starts one run. `input` makes the input of each attempt; its run id names the first child.
    pub fn once(input: impl Fn() -> StartInput + Send + Sync + 'static) -> Self {
        Self {
            input: Box::new(input),
            next: Box::new(|_| NextRun::None),
        }
    }

    /// After each run that was not stopped by request, asks `next` whether and after which delay to
    /// start another attempt. That attempt's `created` event says in its details which child it
    /// follows (`restartOf`) and after which delay (`restartDelayMs`); meanwhile the adapter's health
    /// tells that it waits.
    pub fn restarting<N: Into<NextRun>>(
        mut self,
        mut next: impl FnMut(&EndedRun) -> N + Send + 'static,
    ) -> Self {
        self.next = Box::new(move |ended| next(ended).into());
        self
    }

    pub(super) fn input(&self) -> StartInput {
        (self.input)()
    }

    pub(super) fn next(&mut self, ended: &EndedRun) -> NextRun {
        (self.next)(ended)
    }
}

impl fmt::Debug for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunPlan")
    }
}
