//! All input and output of a run: its task, its pipes, its group, and those who listen.

use std::time::Duration;

use tokio::time::Instant;

mod control;
mod hub;
mod lifecycle;
mod reader;
mod ready;
mod sampler;
mod stop;
mod supervise;
mod waker;

pub(crate) use self::control::{Control, Ending};
pub(crate) use self::hub::Hub;
pub(crate) use self::ready::Surroundings;
pub(crate) use self::stop::StopLevel;
pub(crate) use self::supervise::Supervisor;

/// A moment after another; one that no clock can tell is far away.
fn later(from: Instant, by: Duration) -> Instant {
    const FAR: Duration = Duration::from_hours(24 * 365 * 10);
    from.checked_add(by.min(FAR)).unwrap_or(from)
}
