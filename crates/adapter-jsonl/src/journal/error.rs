//! What can go wrong with a journal, said so that a person can act on it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use headcount_contract::FaultClass;

use crate::lock::LockError;

/// Why an operation on a journal failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum JournalError {
    /// The journal's content forbids appending; nothing was written.
    Blocked {
        /// The journal.
        path: PathBuf,
        /// Why, and where.
        blocked: Blocked,
    },
    /// The lock was not had or not kept.
    Lock(LockError),
    /// The event cannot be written as a line that a reader would accept; nothing was written.
    Unwritable {
        /// Why.
        reason: String,
    },
    /// A file operation failed. If it was an append, the file was cut back to where it was.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// An append failed halfway and could not be undone: the journal ends in a torn line until it
    /// is repaired.
    Torn {
        /// The journal.
        path: PathBuf,
        /// Why the append failed.
        source: io::Error,
        /// Why cutting back failed.
        cutting: io::Error,
    },
    /// The journal has nothing that a repair may cut; why.
    NotRepairable {
        /// The journal.
        path: PathBuf,
        /// Where the fault is.
        blocked: Blocked,
    },
}

impl JournalError {
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// Why the journal is append-blocked, if that is the error.
    pub fn blocked(&self) -> Option<&Blocked> {
        match self {
            Self::Blocked { blocked, .. } | Self::NotRepairable { blocked, .. } => Some(blocked),
            _ => None,
        }
    }
}

impl From<LockError> for JournalError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocked { path, blocked } => {
                write!(
                    f,
                    "the journal {} is append-blocked: {blocked}",
                    path.display()
                )?;
                if blocked.reason == BlockedReason::Truncated {
                    f.write_str("; `headcount journal repair` cuts a torn last line")?;
                }
                Ok(())
            }
            Self::Lock(error) => error.fmt(f),
            Self::Unwritable { reason } => write!(f, "the event cannot be journaled: {reason}"),
            Self::Io {
                doing,
                path,
                source,
            } => write!(f, "{doing} {}: {source}", path.display()),
            Self::Torn {
                path,
                source,
                cutting,
            } => write!(
                f,
                "an append to {} failed ({source}) and could not be undone ({cutting}); the \
                 journal is append-blocked until `headcount journal repair` cuts its torn last line",
                path.display()
            ),
            Self::NotRepairable { path, blocked } => write!(
                f,
                "{} is not repaired: {blocked}; only a torn last line is cut, never the middle",
                path.display()
            ),
        }
    }
}

impl std::error::Error for JournalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Lock(error) => error.source(),
            Self::Io { source, .. } | Self::Torn { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The first fault of a journal's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// What kind of fault.
    pub reason: BlockedReason,
    /// The line, from 1.
    pub line: u64,
    /// The offset of the line's first byte.
    pub offset: u64,
    /// What is wrong with it, without a word of its content.
    pub what: String,
}

/// The kinds of faults after which nothing is appended.
///
/// Exhaustive: the contract names these four.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BlockedReason {
    /// A line that is no event.
    Malformed,
    /// A line over the cap.
    Oversized,
    /// The last line has no line end.
    Truncated,
    /// A `journalSequence` that does not follow the one before it.
    NonMonotonic,
}

impl BlockedReason {
    /// Its name in outputs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Oversized => "oversized",
            Self::Truncated => "truncated",
            Self::NonMonotonic => "non-monotonic",
        }
    }
}

impl From<FaultClass> for BlockedReason {
    /// Whatever is wrong with a line's content is malformed.
    fn from(class: FaultClass) -> Self {
        match class {
            FaultClass::Oversized => Self::Oversized,
            FaultClass::Truncated => Self::Truncated,
            _ => Self::Malformed,
        }
    }
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} content in line {} (byte {}): {}",
            self.reason.as_str(),
            self.line,
            self.offset,
            self.what
        )
    }
}
