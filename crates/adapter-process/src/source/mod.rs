//! All input and output of a run: its task, its pipes, its group, and those who listen.

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
