//! Starts and supervises subprocesses as Headcount children.
//!
//! [`ProcessRuntime`] is the runtime seam, [`adapter()`] and [`REGISTRATION`] the lifecycle seam.
//!
//! ```
//! use futures_util::StreamExt;
//! use headcount_adapter_process::{ProcessOptions, ProcessRuntime};
//! use headcount_contract::{AgentRuntime, RunStatus, StartInput};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! let mut options = ProcessOptions::new("echo");
//! options.args = vec!["hello".into()];
//! let run = ProcessRuntime::new(options)?.start(StartInput::new("")).await?;
//! let events: Vec<_> = run.subscribe().collect().await;
//! assert_eq!(run.status(), RunStatus::Stopped);
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
