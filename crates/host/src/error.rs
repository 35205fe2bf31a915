//! What goes wrong in a host, said so that somebody can act on it.

use std::path::PathBuf;

use headcount_contract::{AdapterError, ChildId, SourceId};
use headcount_registry::RegistryError;

/// Why a host cannot be built or started, or does not do what it is asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    /// The kind is not known, or the linked adapters cannot be listed.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// An adapter's configuration is wrong.
    #[error("adapter {number} ({kind}): {error}")]
    Config {
        /// Which adapter, counted from 1 in the order in which they were added.
        number: usize,
        /// Its kind.
        kind: String,
        /// What its build function says.
        error: AdapterError,
    },
    /// An adapter's build function panicked.
    #[error(
        "adapter {number} ({kind}) panicked while it was built: {message}; this is a fault of the adapter"
    )]
    BuildPanicked {
        /// Which adapter, counted from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// What it said.
        message: String,
    },
    /// Two adapters speak for one source.
    #[error(
        "adapter {number} ({kind}) has the source name {source_id:?}, as another one does; \
         give each a name of its own (`source = \"…\"`)"
    )]
    DuplicateSource {
        /// Which adapter, counted from 1.
        number: usize,
        /// Its kind.
        kind: String,
        /// The name.
        source_id: SourceId,
    },
    /// The journal cannot be read or written at all.
    #[error("the journal {} cannot be opened: {message}", path.display())]
    Journal {
        /// Where it lies.
        path: PathBuf,
        /// Why, and what to do.
        message: String,
    },
    /// The program was built without the journal.
    #[error("this program was built without the journal; build with the cargo feature `jsonl`")]
    NoJournal,
    /// The host runs already, or has stopped.
    #[error("a host can be started once; this one {0}")]
    NotStartable(&'static str),
    /// The host is not running.
    #[error("the host is not running")]
    NotRunning,
    /// No tokio runtime was found.
    #[error("a host is started within a tokio runtime with timers enabled; there is none here")]
    NoRuntime,
}

/// Why a request about a child was not passed on, or what its source answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The host knows no such child.
    #[error("there is no child {child:?} of source {source_id:?}")]
    UnknownChild {
        /// The source.
        source_id: SourceId,
        /// The child.
        child: ChildId,
    },
    /// The child has ended.
    #[error("{child} has ended already")]
    Ended {
        /// The child.
        child: ChildId,
    },
    /// Neither child nor adapter have verified that this can be done (rule C1).
    #[error("{child} cannot be {done} from here: {why}")]
    NoAuthority {
        /// The child.
        child: ChildId,
        /// What was asked: "cancelled", "restarted".
        done: &'static str,
        /// Why.
        why: String,
    },
    /// The adapter answered with an error, or not at all.
    #[error(transparent)]
    Adapter(#[from] AdapterError),
}

/// Why a host could not stop everything it had started.
#[derive(Debug, thiserror::Error)]
#[error("the end is not whole: {}", failures.join("; "))]
#[non_exhaustive]
pub struct ShutdownError {
    /// One sentence for each adapter that failed, and one for the journal if it did.
    pub failures: Vec<String>,
}
