//! Where the time comes from: the one place at which it enters.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use headcount_contract::Timestamp;

/// A clock of the host's choice; the system's by default.
///
/// ```
/// use headcount::Clock;
/// use headcount_contract::Timestamp;
/// let stopped = Clock::new(|| Timestamp::UNIX_EPOCH);
/// assert_eq!(stopped.now(), Timestamp::UNIX_EPOCH);
/// ```
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    /// A clock that asks `now`.
    pub fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        (self.0)()
    }
}

impl Default for Clock {
    /// The operating system's clock.
    fn default() -> Self {
        Self::new(|| SystemTime::now().into())
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}
