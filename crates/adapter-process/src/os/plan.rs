//! What is to be started and what was, the same on every system.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use super::{Leader, Pipe};

/// What is to be started.
#[derive(Debug)]
pub(crate) struct SpawnPlan<'a> {
    pub(crate) program: &'a Path,
    /// How the program was called, for its own messages.
    pub(crate) called: &'a OsStr,
    pub(crate) args: &'a [String],
    pub(crate) cwd: &'a Path,
    pub(crate) env: &'a BTreeMap<OsString, OsString>,
    pub(crate) output: Output,
    /// The descriptor that becomes the writing end of a pipe.
    pub(crate) lifecycle_fd: Option<u16>,
    /// The signal that the system sends it when the host dies.
    #[cfg_attr(any(not(unix), headcount_portable), allow(dead_code))]
    // no such system does this
    pub(crate) end_with_host: Option<i32>,
}

/// What becomes of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Piped,
    Discarded,
}

impl SpawnPlan<'_> {
    /// The command, with no input and exactly the given environment.
    pub(super) fn command(&self) -> Command {
        let output = || match self.output {
            Output::Piped => Stdio::piped(),
            Output::Discarded => Stdio::null(),
        };
        let mut command = Command::new(self.program);
        command
            .args(self.args)
            .current_dir(self.cwd)
            .env_clear()
            .envs(self.env)
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output());
        command
    }
}

/// What was started.
#[derive(Debug)]
pub(crate) struct Spawned {
    pub(crate) leader: Leader,
    pub(crate) stdout: Option<Pipe>,
    pub(crate) stderr: Option<Pipe>,
    pub(crate) lifecycle: Option<Pipe>,
}
