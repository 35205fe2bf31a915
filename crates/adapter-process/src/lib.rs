//! Starts and supervises subprocesses as Headcount children.
//!
//! [`ProcessRuntime`] is the runtime seam, [`adapter`] and [`REGISTRATION`] the lifecycle seam.

mod adapter;
mod config;
mod lines;
mod os;
mod runtime;
mod source;
mod translate;

pub use adapter::{REGISTRATION, adapter};
pub use config::{
    ActivityFrom, CarriageReturn, ExecCheck, HttpCheck, Listener, LogCheck, OnTimeout, Orphan,
    ProcessOptions, Readiness, ReadyCheck, RestartOptions, RestartWhen, StopSignalName, TcpCheck,
    UnknownSignal,
};
pub use runtime::ProcessRuntime;

headcount_registry::submit_adapter!(REGISTRATION);
