//! The first seam: observe a source of children.

use std::fmt::Debug;

use async_trait::async_trait;

use crate::{
    AdapterError, CancelOutcome, Capabilities, ChildId, Health, SignalStream, Snapshot,
    SnapshotReason, SourceIdentity,
};

/// Translates one source of children into lifecycle events and snapshots.
///
/// Building an adapter does no I/O. The first [`subscribe`](Self::subscribe) opens the source, on
/// the tokio runtime it is called in if the adapter needs one. Dropping the adapter ends its
/// streams and releases the source.
///
/// # Behavior
///
/// - Events are legal, in the source's order, each child's lineage constant, at most one terminal
///   event a child and none after it.
/// - Nothing is dropped in silence: a subscriber that cannot keep up makes the adapter stop
///   reading its source, or gets a [`Discontinuity`](crate::Discontinuity) that says how many
///   signals it missed. Lifecycle events of a child's end are never dropped.
/// - What the source does not say is unknown; nothing is invented.
///
/// New methods always have a default body.
#[async_trait]
pub trait ChildLifecycleAdapter: Debug + Send + Sync + 'static {
    /// Whose events these are, in the source's present life. A carrier of other sources' events
    /// names itself; its events bear their own.
    fn identity(&self) -> SourceIdentity;

    /// What the adapter has verified that it can do. Never changes during its life.
    fn capabilities(&self) -> Capabilities;

    /// How the adapter is doing now. Does not block; every change is also a signal.
    fn health(&self) -> Health;

    /// Subscribes to everything that happens from now on, and opens the source if it is not open.
    ///
    /// # Behavior
    ///
    /// - Every signal emitted after the return arrives; all subscribers see one order.
    /// - Dropping the stream unsubscribes, also from within a poll.
    /// - The stream ends when the adapter is closed or dropped, and then only.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Closed`](crate::AdapterErrorKind::Closed) after [`close`](Self::close);
    /// another kind if the source cannot be opened at all.
    fn subscribe(&self) -> Result<SignalStream, AdapterError>;

    /// What the source says of its children now: one snapshot for each source it speaks for.
    ///
    /// # Behavior
    ///
    /// - A snapshot is complete only if the source proves that it is; else it is partial.
    /// - Concurrent requests may share one answer. The reason never changes it.
    /// - No event is lost between `subscribe` and a snapshot taken after it.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if the source cannot be asked or does not answer in time.
    async fn snapshot(&self, reason: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError>;

    /// Takes note of child ids that earlier lives of this source have used, as a journal tells.
    ///
    /// A child id is one run, for ever (rule I2): a run that were given one of these again would
    /// be taken for that child, which has ended. An adapter that makes up ids avoids these; one
    /// whose source makes them up has nothing to do.
    ///
    /// # Behavior
    ///
    /// - Called before the first [`subscribe`](Self::subscribe), if at all. Does not block.
    fn avoid_ids(&self, taken: &[ChildId]) {
        let _ = taken;
    }

    /// Whether nothing more can come: what it was to start has ended and will not start again, or
    /// what it reads has come to its end. Does not block.
    ///
    /// # Behavior
    ///
    /// - Once true it stays true, and every signal is in the stream before it is.
    /// - A host that waits for the end of everything asks after each signal; an adapter that
    ///   finishes without one sends its [`Health`] again.
    fn is_finished(&self) -> bool {
        false
    }

    /// Asks the source to cancel a child.
    ///
    /// # Behavior
    ///
    /// - [`CancelOutcome::Unsupported`] exactly if the capability `cancel` is unknown.
    /// - An accepted request is not an ended child; only a terminal event is (rule C5).
    /// - Asking twice does no harm.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if the source cannot be asked or does not answer in time.
    async fn cancel(
        &self,
        child: &ChildId,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        let _ = (child, reason);
        Ok(CancelOutcome::Unsupported)
    }

    /// Ends a child, if it lives, and starts its next attempt: a new child with the same root.
    ///
    /// # Errors
    ///
    /// [`AdapterErrorKind::Unsupported`](crate::AdapterErrorKind::Unsupported) where the source
    /// cannot; [`AdapterError`] if it could not be done.
    async fn restart(&self, child: &ChildId) -> Result<ChildId, AdapterError> {
        let _ = child;
        Err(AdapterError::unsupported("restart"))
    }

    /// Ends the session: stops what the adapter itself started, releases the source, and ends the
    /// streams after the last terminal event. What others started is left alone.
    ///
    /// # Errors
    ///
    /// [`AdapterError`] if something that it started could not be stopped; it says what.
    async fn close(&self, urgency: Urgency) -> Result<(), AdapterError> {
        let _ = urgency;
        Ok(())
    }
}

/// How to stop what an adapter started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Urgency {
    /// Ask, wait for the grace time, then kill.
    Graceful,
    /// Kill at once.
    Now,
}
