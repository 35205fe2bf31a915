//! Exit codes: fixed, since scripts depend on them.

use std::fmt;
use std::process::ExitCode;

/// The same for people, at the end of `--help`.
pub(crate) const HELP: &str = "\
Exit codes:
  0      done; of run: the child's own code, whatever it is
  1      the answer is no: a child failed, a line was rejected, nothing could be observed
  2      a wrong option or file
  124    out of time: wait, or run of a child that was not ready in time
  125    Headcount's own failure, or a child that could not be started for another reason
  126    run: the program cannot be executed
  127    run: the program was not found
  128+N  run: signal N ended the child; 141: whoever read the output has gone";

/// How the program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit(u8);

impl Exit {
    pub(crate) const OK: Self = Self(0);
    /// Something was found wanting: a rejected line, a failed child, a blocked journal.
    pub(crate) const NEGATIVE: Self = Self(1);
    /// A wrong option or file.
    pub(crate) const USAGE: Self = Self(2);
    /// `wait` ran out of time, or what `run` started was not ready in time, as `timeout` has it.
    pub(crate) const TIMED_OUT: Self = Self(124);
    /// Headcount's own failure, as `env` has it.
    pub(crate) const OURS: Self = Self(125);
    /// The program was found and could not be executed.
    pub(crate) const NOT_EXECUTABLE: Self = Self(126);
    /// The program was not found.
    pub(crate) const NOT_FOUND: Self = Self(127);

    /// The code that a child ended with.
    pub(crate) fn of_code(code: i64) -> Self {
        // The system keeps eight bits, as it does for every process.
        Self(code.rem_euclid(256).try_into().unwrap_or(u8::MAX))
    }

    /// A child that a signal ended, as shells have it.
    pub(crate) fn of_signal(signal: i64) -> Self {
        Self::of_code(128 + signal)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Why a command could not be carried out.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    help: Option<String>,
}

impl Failure {
    /// A wrong option or file: what was wrong, and where.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::USAGE,
            message: message.to_string(),
            help: None,
        }
    }

    /// Headcount's own failure.
    pub(crate) fn ours(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::OURS,
            message: message.to_string(),
            help: None,
        }
    }

    /// An answer of "no", with its reason.
    pub(crate) fn negative(message: impl fmt::Display) -> Self {
        Self {
            exit: Exit::NEGATIVE,
            message: message.to_string(),
            help: None,
        }
    }

    /// Whoever read our output has gone; there is nothing to say and nobody to say it to. The code is
    /// that of a program which SIGPIPE ended.
    pub(crate) fn reader_gone() -> Self {
        Self {
            exit: Exit::of_signal(13),
            message: String::new(),
            help: None,
        }
    }

    /// The same with what would be right.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn help_line(&self) -> Option<&str> {
        self.help.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<&Failure> for Exit {
    fn from(failure: &Failure) -> Self {
        failure.exit
    }
}
