//! One thing that happened to one child.

use std::sync::Arc;

use crate::{
    Capabilities, ChildId, ChildIdentity, ChildState, Details, EventId, Lineage, Outcome,
    SourceEpoch, SourceId, Timestamp, lineage::MAX_INTEGER,
};

/// The schema version that is read and written.
pub const SCHEMA_VERSION: u64 = 1;

/// The longest activity text, in characters; longer ones are cut (rule W6).
pub const MAX_ACTIVITY_CHARS: usize = 512;

/// A source in one of its lives.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceIdentity {
    /// The source.
    pub source: SourceId,
    /// Which of its lives; a source that may have begun its counters anew has another epoch.
    pub epoch: SourceEpoch,
}

impl SourceIdentity {
    /// Joins the two.
    ///
    /// ```
    /// use headcount_contract::{SourceEpoch, SourceId, SourceIdentity};
    /// let us = SourceIdentity::new(SourceId::new("worker-cli")?, SourceEpoch::new("start-2")?);
    /// # Ok::<(), headcount_contract::IdError>(())
    /// ```
    pub fn new(source: SourceId, epoch: SourceEpoch) -> Self {
        Self { source, epoch }
    }
}

/// A position in a source's order, from 0 to 2^53 - 1 (rule W2).
///
/// ```
/// use headcount_contract::Sequence;
/// assert_eq!(Sequence::new(7).map(Sequence::get), Some(7));
/// assert_eq!(Sequence::new(1 << 53), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize)]
pub struct Sequence(u64);

impl Sequence {
    /// The first position.
    pub const ZERO: Self = Self(0);

    /// The position, or nothing above 2^53 - 1.
    pub const fn new(value: u64) -> Option<Self> {
        if value > MAX_INTEGER {
            None
        } else {
            Some(Self(value))
        }
    }

    /// Its number.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The position after it; the last one stays where it is.
    pub const fn next(self) -> Self {
        Self(if self.0 < MAX_INTEGER {
            self.0 + 1
        } else {
            self.0
        })
    }
}

/// What a child is at work on, in at most 512 characters (rule W6). Context, never proof of state.
///
/// ```
/// use headcount_contract::Activity;
/// assert_eq!(Activity::new("reading src/lib.rs").as_str(), "reading src/lib.rs");
/// assert_eq!(Activity::new("é".repeat(600)).as_str().chars().count(), 512);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Activity(Arc<str>);

impl Activity {
    /// Takes the text, cut after 512 characters.
    pub fn new<'a>(text: impl Into<std::borrow::Cow<'a, str>>) -> Self {
        let text = text.into();
        match text.char_indices().nth(MAX_ACTIVITY_CHARS) {
            Some((end, _)) => Self(text[..end].into()),
            None => Self(text.into()),
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What kind of event, with what only that kind carries (rule W1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// The child exists; its state is `created`.
    Created,
    /// The child's state changed. Into a terminal state it ends the child as `Terminal` does.
    StateChanged(ChildState),
    /// What the child is at work on.
    Activity,
    /// The child lives.
    Heartbeat,
    /// The child ended.
    Terminal(Outcome),
    /// The projection was corrected, or looked into; with the state that was found, if one was.
    Reconciliation(Option<ChildState>),
    /// Something about the child or its source that a person may want to know.
    Diagnostic(Option<ChildState>),
}

impl EventKind {
    /// Its name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::StateChanged(_) => "state_changed",
            Self::Activity => "activity",
            Self::Heartbeat => "heartbeat",
            Self::Terminal(_) => "terminal",
            Self::Reconciliation(_) => "reconciliation",
            Self::Diagnostic(_) => "diagnostic",
        }
    }

    /// The names of all kinds on the wire, in the order of the contract.
    pub const NAMES: [&'static str; 7] = [
        "created",
        "state_changed",
        "activity",
        "heartbeat",
        "terminal",
        "reconciliation",
        "diagnostic",
    ];

    /// The state that it carries on the wire.
    pub const fn state(self) -> Option<ChildState> {
        match self {
            Self::Created => Some(ChildState::CREATED),
            Self::StateChanged(state) => Some(state),
            Self::Terminal(outcome) => Some(ChildState::Terminal(outcome)),
            Self::Reconciliation(state) | Self::Diagnostic(state) => state,
            Self::Activity | Self::Heartbeat => None,
        }
    }
}

/// One thing that happened to one child, as schema version 1 has it.
///
/// Whatever can be built here is a legal event; [`parse_event`](crate::parse_event) is the only
/// other way to get one. Cloning is cheap.
///
/// ```
/// use headcount_contract::*;
/// let source = SourceIdentity::new(SourceId::new("worker-cli")?, SourceEpoch::new("start-2")?);
/// let child = ChildIdentity::root(ChildId::new("child-42")?);
/// let at = "2026-08-24T09:15:30Z".parse()?;
/// let event = LifecycleEvent::new(
///     EventId::new("evt-7")?,
///     source,
///     child,
///     EventKind::StateChanged(ChildState::RUNNING),
///     at,
///     Capabilities::UNKNOWN,
/// )
/// .with_sequence(Sequence::new(7).ok_or("too large")?);
/// let line = event.to_json();
/// assert_eq!(parse_event(&line, &WireLimits::default())?.event, event);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LifecycleEvent {
    event_id: EventId,
    source: SourceIdentity,
    child: ChildIdentity,
    kind: EventKind,
    observed_at: Timestamp,
    sequence: Option<Sequence>,
    activity: Option<Activity>,
    details: Details,
    capabilities: Capabilities,
}

impl LifecycleEvent {
    /// An event without sequence, activity or details.
    pub fn new(
        event_id: EventId,
        source: SourceIdentity,
        child: ChildIdentity,
        kind: EventKind,
        observed_at: Timestamp,
        capabilities: Capabilities,
    ) -> Self {
        Self {
            event_id,
            source,
            child,
            kind,
            observed_at,
            sequence: None,
            activity: None,
            details: Details::EMPTY,
            capabilities,
        }
    }

    /// The same at a position of the source's order.
    pub fn with_sequence(mut self, sequence: Sequence) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// The same with what the child is at work on.
    pub fn with_activity(mut self, activity: Activity) -> Self {
        self.activity = Some(activity);
        self
    }

    /// The same with additional facts.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }

    /// The same with what the source has verified for this child by now.
    pub fn with_capabilities(mut self, capabilities: Capabilities) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Its name.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// Who says so, in which of its lives.
    pub fn source_identity(&self) -> &SourceIdentity {
        &self.source
    }

    /// Who says so.
    pub fn source(&self) -> &SourceId {
        &self.source.source
    }

    /// In which of its lives the source says so.
    pub fn source_epoch(&self) -> &SourceEpoch {
        &self.source.epoch
    }

    /// Of which child, with its lineage.
    pub fn child(&self) -> &ChildIdentity {
        &self.child
    }

    /// Of which child.
    pub fn child_id(&self) -> &ChildId {
        self.child.id()
    }

    /// Where the child comes from.
    pub fn lineage(&self) -> &Lineage {
        self.child.lineage()
    }

    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The state on the wire, if it carries one.
    pub fn state(&self) -> Option<ChildState> {
        self.kind.state()
    }

    /// When the source observed it, by the source's clock.
    pub fn observed_at(&self) -> Timestamp {
        self.observed_at
    }

    /// Its position in the source's order, if the source counts.
    pub fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// What the child is at work on.
    pub fn activity(&self) -> Option<&Activity> {
        self.activity.as_ref()
    }

    /// Additional facts.
    pub fn details(&self) -> &Details {
        &self.details
    }

    /// What the source has verified that it can do for this child.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The event as one line of JSON, without the line end.
    pub fn to_json(&self) -> String {
        crate::wire::write(self)
    }
}

impl serde::Serialize for LifecycleEvent {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schemaVersion", &SCHEMA_VERSION)?;
        map.serialize_entry("eventId", &self.event_id)?;
        map.serialize_entry("source", &self.source.source)?;
        map.serialize_entry("sourceEpoch", &self.source.epoch)?;
        map.serialize_entry("childId", self.child.id())?;
        map.serialize_entry("lineage", self.child.lineage())?;
        map.serialize_entry("kind", self.kind.as_str())?;
        if let Some(state) = self.kind.state() {
            map.serialize_entry("state", &state)?;
        }
        map.serialize_entry("observedAt", &self.observed_at)?;
        if let Some(sequence) = self.sequence {
            map.serialize_entry("sequence", &sequence)?;
        }
        if let Some(activity) = &self.activity {
            map.serialize_entry("activity", activity)?;
        }
        if !self.details.is_empty() {
            map.serialize_entry("details", &self.details)?;
        }
        map.serialize_entry("capabilities", &self.capabilities)?;
        map.end()
    }
}
