//! The host's side of a journal: what it asks of one, and the thread that appends.

#[cfg(feature = "jsonl")]
mod file;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use headcount_contract::LifecycleEvent;

#[cfg(feature = "jsonl")]
pub(crate) use file::FileJournal;
pub(crate) use writer::{Report, Writer};

/// An append-only store of events. The one of `headcount-adapter-jsonl` is used for a path; a host
/// that keeps its events elsewhere hands in its own.
///
/// All calls come from one thread at a time, and may block.
///
/// ```
/// use std::sync::Arc;
/// use headcount::{JournalFault, JournalStore};
/// use headcount_contract::LifecycleEvent;
///
/// /// Keeps events as long as the program runs.
/// #[derive(Debug, Default)]
/// struct Memory(Vec<Arc<LifecycleEvent>>);
///
/// impl JournalStore for Memory {
///     fn replay(&mut self, each: &mut dyn FnMut(LifecycleEvent)) -> Result<(), JournalFault> {
///         self.0.iter().for_each(|event| each(LifecycleEvent::clone(event)));
///         Ok(())
///     }
///     fn append(&mut self, events: &[Arc<LifecycleEvent>]) -> Result<(), JournalFault> {
///         self.0.extend_from_slice(events);
///         Ok(())
///     }
/// }
/// ```
pub trait JournalStore: std::fmt::Debug + Send + 'static {
    /// Hands over what it holds, in order. Called once, before the first append.
    ///
    /// # Errors
    ///
    /// [`JournalFault`] if it cannot be read to its end. What was handed over before counts.
    fn replay(&mut self, each: &mut dyn FnMut(LifecycleEvent)) -> Result<(), JournalFault>;

    /// Appends events, all or none, and returns once they are as durable as it makes them.
    ///
    /// # Errors
    ///
    /// [`JournalFault`]; nothing was appended then.
    fn append(&mut self, events: &[Arc<LifecycleEvent>]) -> Result<(), JournalFault>;
}

/// How a journal file is kept.
///
/// ```
/// use headcount::{JournalDurability, JournalSettings};
/// let mut settings = JournalSettings::default();
/// settings.durability = JournalDurability::None;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalSettings {
    /// When an append counts as done.
    pub durability: JournalDurability,
    /// From which age the lock of a program that is proven dead is taken over. Default 300 s, as
    /// the reference implementation, for journals that are shared with it.
    pub lock_stale_after: Duration,
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self {
            durability: JournalDurability::default(),
            lock_stale_after: Duration::from_mins(5),
        }
    }
}

/// When an append counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum JournalDurability {
    /// When the operating system has it. A crash of the program loses nothing, one of the machine
    /// may.
    None,
    /// When the disk has the batch.
    #[default]
    Batch,
    /// When the disk has each event, before the next is written.
    Append,
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct JournalFault {
    /// What the host can do about it.
    pub kind: JournalFaultKind,
    /// What is wrong, where, and what a person can do.
    pub message: String,
}

impl JournalFault {
    /// A fault of this kind.
    ///
    /// ```
    /// use headcount::{JournalFault, JournalFaultKind};
    /// let fault = JournalFault::new(JournalFaultKind::Retry, "the disk is full; make room");
    /// assert_eq!(fault.to_string(), "the disk is full; make room");
    /// ```
    pub fn new(kind: JournalFaultKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// What a host can do about a [`JournalFault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum JournalFaultKind {
    /// Try again soon: somebody else holds the lock, or the disk is full.
    Retry,
    /// Wait for somebody who repairs it. Tried again, slowly.
    Blocked,
    /// One of the events cannot be written at all; the others can.
    Unwritable,
}
