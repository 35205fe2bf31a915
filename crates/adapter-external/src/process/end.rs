//! How a process ended.

use serde_json::{Value, json};

use headcount_contract::Outcome;

/// How a process ended: a fact about the process, not about its task (rule C2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// A signal ended it.
    Signal {
        /// The signal's number.
        number: i32,
        /// Whether it left a core dump.
        core_dumped: bool,
    },
}

impl ExitStatus {
    /// Reads the status word that `wait` would have given to the parent.
    ///
    /// ```
    /// use headcount_adapter_external::ExitStatus;
    /// assert_eq!(ExitStatus::from_wait_status(3 << 8), ExitStatus::Code(3));
    /// assert_eq!(ExitStatus::from_wait_status(9), ExitStatus::Signal { number: 9, core_dumped: false });
    /// ```
    pub fn from_wait_status(status: i32) -> Self {
        match status & 0x7f {
            0 => Self::Code((status >> 8) & 0xff),
            number => Self::Signal {
                number,
                core_dumped: status & 0x80 != 0,
            },
        }
    }

    /// Completed for code 0, else failed.
    pub fn outcome(self) -> Outcome {
        match self {
            Self::Code(0) => Outcome::Completed,
            _ => Outcome::Failed,
        }
    }

    /// The process facts of an event: `exitCode`, or `signal`, `signalName` and `coreDumped`.
    pub(crate) fn to_details(self) -> Vec<(&'static str, Value)> {
        match self {
            Self::Code(code) => vec![("exitCode", json!(code))],
            Self::Signal {
                number,
                core_dumped,
            } => {
                let mut facts = vec![("signal", json!(number))];
                facts.extend(signal_name(number).map(|name| ("signalName", json!(name))));
                facts.push(("coreDumped", json!(core_dumped)));
                facts
            }
        }
    }
}

/// For a sentence.
pub(crate) fn in_words(status: Option<ExitStatus>) -> String {
    match status {
        None => "how is unknown".into(),
        Some(ExitStatus::Code(code)) => format!("exit code {code}"),
        Some(ExitStatus::Signal { number, .. }) => match signal_name(number) {
            Some(name) => format!("signal {number}, {name}"),
            None => format!("signal {number}"),
        },
    }
}

/// The name of a signal of this system.
#[cfg(unix)]
fn signal_name(number: i32) -> Option<&'static str> {
    macro_rules! names {
        ($($name:ident)*) => {
            [$((libc::$name, stringify!($name))),*]
        };
    }
    let names = names! {
        SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM SIGTERM
        SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGSYS
    };
    names
        .iter()
        .find(|(of, _)| *of == number)
        .map(|(_, name)| *name)
}

/// Elsewhere there are no signals.
#[cfg(not(unix))]
fn signal_name(_: i32) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_wait_statuses_as_wait_does() {
        let cases = [
            (0, "exit code 0", Outcome::Completed),
            (1 << 8, "exit code 1", Outcome::Failed),
            (255 << 8, "exit code 255", Outcome::Failed),
            (9, "signal 9, SIGKILL", Outcome::Failed),
            (15, "signal 15, SIGTERM", Outcome::Failed),
            (0x8b, "signal 11, SIGSEGV", Outcome::Failed),
            (64, "signal 64", Outcome::Failed),
        ];
        for (word, words, outcome) in cases {
            let status = ExitStatus::from_wait_status(word);
            assert_eq!(
                (&*in_words(Some(status)), status.outcome()),
                (words, outcome)
            );
        }
    }

    #[test]
    fn details_name_the_signal_and_the_dump() {
        let status = ExitStatus::from_wait_status(0x8b);
        assert_eq!(
            status.to_details(),
            [
                ("signal", json!(11)),
                ("signalName", json!("SIGSEGV")),
                ("coreDumped", json!(true))
            ]
        );
    }
}
