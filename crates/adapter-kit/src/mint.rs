//! Events with unique ids and sequences without holes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use headcount_contract::{
    Capabilities, ChildId, ChildIdentity, EventId, EventKind, LifecycleEvent, MAX_INTEGER,
    Sequence, SequenceScope, SourceEpoch, SourceIdentity, Timestamp,
};

/// Makes the events of one source epoch: allocates event ids and sequences.
///
/// Sequences begin at 0 and have no hole, per child or per epoch as declared. A child's counter is
/// kept until [`forget`](Self::forget).
///
/// ```
/// use headcount_adapter_kit::EventMint;
/// use headcount_contract::*;
///
/// let source = SourceIdentity::new(SourceId::new("worker")?, SourceEpoch::new("1")?);
/// let mut mint = EventMint::new(source, Capabilities::UNKNOWN, SequenceScope::Child);
/// let child = ChildIdentity::root(ChildId::new("a")?);
/// let first = mint.event(&child, EventKind::Created, Timestamp::UNIX_EPOCH);
/// let second = mint.event(&child, EventKind::Heartbeat, Timestamp::UNIX_EPOCH);
/// assert_eq!(first.sequence().map(Sequence::get), Some(0));
/// assert_eq!(second.sequence().map(Sequence::get), Some(1));
/// assert_ne!(first.event_id(), second.event_id());
/// # Ok::<(), headcount_contract::IdError>(())
/// ```
#[derive(Debug)]
pub struct EventMint {
    source: SourceIdentity,
    capabilities: Capabilities,
    scope: SequenceScope,
    prefix: String,
    /// Where each counter begins.
    first: Sequence,
    /// The next sequence of each child, for the scope of a child.
    next: HashMap<ChildId, Sequence>,
    /// How many events were made; the next sequence for the scope of an epoch.
    made: u64,
}

impl EventMint {
    /// A mint for one life of a source.
    pub fn new(source: SourceIdentity, capabilities: Capabilities, scope: SequenceScope) -> Self {
        let prefix = short(source.epoch.as_str());
        Self {
            source,
            capabilities,
            scope,
            prefix,
            first: Sequence::ZERO,
            next: HashMap::new(),
            made: 0,
        }
    }

    /// The same with counters that begin at `first`: for a source whose life outlasts the adapter's,
    /// so that an adapter that comes back to it never uses a position twice.
    /// [`first_sequence`] serves well.
    ///
    /// ```
    /// use headcount_adapter_kit::{EventMint, first_sequence};
    /// use headcount_contract::*;
    ///
    /// let source = SourceIdentity::new(SourceId::new("gateway")?, SourceEpoch::new("1")?);
    /// let began = Timestamp::from_millis(1_796_000_000_000)?;
    /// let mut mint = EventMint::new(source, Capabilities::UNKNOWN, SequenceScope::Child)
    ///     .beginning_at(first_sequence(began));
    /// let child = ChildIdentity::root(ChildId::new("a")?);
    /// let event = mint.event(&child, EventKind::Created, Timestamp::UNIX_EPOCH);
    /// assert_eq!(event.sequence().map(Sequence::get), Some(1_796_000_000_000_000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beginning_at(mut self, first: Sequence) -> Self {
        self.first = first;
        self
    }

    /// The source's epoch, or a digest of a long one: what ids that must be unique begin with.
    pub(crate) fn life(&self) -> &str {
        &self.prefix
    }

    /// Whose events these are.
    pub fn source(&self) -> &SourceIdentity {
        &self.source
    }

    /// The next event of a child.
    pub fn event(
        &mut self,
        child: &ChildIdentity,
        kind: EventKind,
        observed_at: Timestamp,
    ) -> LifecycleEvent {
        self.event_as(child, kind, observed_at, self.capabilities)
    }

    /// The next event of a child of which the source has verified other capabilities than of all
    /// its children.
    pub fn event_as(
        &mut self,
        child: &ChildIdentity,
        kind: EventKind,
        observed_at: Timestamp,
        capabilities: Capabilities,
    ) -> LifecycleEvent {
        let sequence = match self.scope {
            SequenceScope::Epoch => {
                Sequence::new(self.first.get().saturating_add(self.made)).unwrap_or_default()
            }
            SequenceScope::Child => {
                let next = self.next.entry(child.id().clone()).or_insert(self.first);
                let sequence = *next;
                *next = sequence.next();
                sequence
            }
        };
        let id = format!(
            "{}-{}",
            self.prefix,
            self.first.get().saturating_add(self.made)
        );
        self.made += 1;
        LifecycleEvent::new(
            event_id(id),
            self.source.clone(),
            child.clone(),
            kind,
            observed_at,
            capabilities,
        )
        .with_sequence(sequence)
    }

    /// Forgets an ended child's counter.
    pub fn forget(&mut self, child: &ChildId) {
        self.next.remove(child);
    }
}

/// Where an adapter begins to count that may come back to a source in the same epoch: the
/// microseconds since 1970 at its own beginning.
///
/// # Behavior
///
/// - An earlier adapter that began to count so is still behind, unless it made more than a million
///   events in each second of its life. With milliseconds, a burst of a thousand would do.
/// - At most 2^53 - 1, which is the year 2255; 0 before 1970.
///
/// ```
/// use headcount_adapter_kit::first_sequence;
/// use headcount_contract::Timestamp;
/// assert_eq!(first_sequence(Timestamp::from_millis(1_796)?).get(), 1_796_000);
/// assert_eq!(first_sequence(Timestamp::from_unix(-1, 0)?).get(), 0);
/// # Ok::<(), headcount_contract::TimestampError>(())
/// ```
pub fn first_sequence(began: Timestamp) -> Sequence {
    let micros = (began.as_nanos() / 1000).clamp(0, i128::from(MAX_INTEGER));
    let micros = u64::try_from(micros).ok();
    micros.and_then(Sequence::new).unwrap_or_default()
}

/// An epoch that no other life of the source has had: the second in which it began and 32 random
/// bits.
///
/// ```
/// use headcount_adapter_kit::new_epoch;
/// use headcount_contract::Timestamp;
/// assert!(new_epoch(Timestamp::UNIX_EPOCH).as_str().starts_with("19700101T000000Z-"));
/// ```
#[allow(clippy::expect_used, clippy::missing_panics_doc)]
pub fn new_epoch(began: Timestamp) -> SourceEpoch {
    let began = began.to_string();
    let second: String = began
        .chars()
        .take(19)
        .filter(|c| !matches!(c, '-' | ':'))
        .collect();
    let text = format!("{second}Z-{:08x}", fastrand::u32(..));
    // A time and eight digits are a legal identifier: this cannot panic.
    SourceEpoch::new(text).expect("a legal identifier")
}

/// The text itself, or a digest of one so long that nothing could be added to it.
fn short(text: &str) -> String {
    if text.len() <= 460 {
        return text.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

fn event_id(text: String) -> EventId {
    #[allow(clippy::expect_used)] // a legal identifier, shortened, with a number
    EventId::new(text).expect("a legal identifier")
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_contract::SourceId;

    fn sequences(scope: SequenceScope) -> Vec<u64> {
        let source =
            SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap());
        let mut mint = EventMint::new(source, Capabilities::UNKNOWN, scope);
        ["a", "b", "a", "a", "b"]
            .map(|id| ChildIdentity::root(ChildId::new(id).unwrap()))
            .iter()
            .map(|child| mint.event(child, EventKind::Heartbeat, Timestamp::UNIX_EPOCH))
            .map(|event| event.sequence().unwrap().get())
            .collect()
    }

    #[test]
    fn counts_in_the_declared_scope() {
        assert_eq!(sequences(SequenceScope::Child), [0, 0, 1, 2, 1]);
        assert_eq!(sequences(SequenceScope::Epoch), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn the_longest_epoch_still_gives_legal_event_ids() {
        let epoch = SourceEpoch::new("x".repeat(512)).unwrap();
        let source = SourceIdentity::new(SourceId::new("s").unwrap(), epoch);
        let mut mint = EventMint::new(source, Capabilities::UNKNOWN, SequenceScope::Child);
        let child = ChildIdentity::root(ChildId::new("a").unwrap());
        let event = mint.event(&child, EventKind::Created, Timestamp::UNIX_EPOCH);
        assert!(event.event_id().as_str().ends_with("-0"));
    }
}
