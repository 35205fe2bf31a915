//! All input and output of a run: its task, its pipes, its group, and those who listen.

mod hub;
mod supervise;

pub(crate) use self::hub::Hub;
pub(crate) use self::supervise::{Progress, StopLevel, Supervisor, raise};
