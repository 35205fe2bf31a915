//! What a source says of its children at one moment: all of those it covers, or some.

use std::collections::HashSet;
use std::fmt;

use crate::{
    ChildId, ChildIdentity, ChildState, Details, Lineage, Sequence, SnapshotId, SourceIdentity,
    Timestamp,
};

/// Why a snapshot is asked for. The reason never changes the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SnapshotReason {
    /// A session begins.
    SessionOpen,
    /// The connection was lost and is back, or a gap cannot be ruled out.
    Reconnect,
    /// It is time again, or a child is being reconciled.
    Periodic,
}

/// One child in a snapshot.
///
/// The lineage is an addition to the seed's form, left out where the source does not know it: a
/// child first met in a snapshot keeps its place in the tree.
///
/// ```
/// use headcount_contract::{ChildId, ChildState, SnapshotChild};
/// let child = SnapshotChild::new(ChildId::new("a")?, ChildState::RUNNING);
/// assert_eq!(child.lineage(), None);
/// # Ok::<(), headcount_contract::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotChild {
    identity: ChildIdentity,
    lineage_known: bool,
    state: ChildState,
    sequence: Option<Sequence>,
    details: Details,
}

impl SnapshotChild {
    /// A child whose lineage the source does not tell.
    pub fn new(id: ChildId, state: ChildState) -> Self {
        Self {
            lineage_known: false,
            ..Self::with_identity(ChildIdentity::root(id), state)
        }
    }

    /// A child with its lineage.
    pub fn with_identity(identity: ChildIdentity, state: ChildState) -> Self {
        Self {
            identity,
            lineage_known: true,
            state,
            sequence: None,
            details: Details::EMPTY,
        }
    }

    /// The same with the last position that this state includes.
    pub fn with_sequence(mut self, sequence: Sequence) -> Self {
        self.sequence = Some(sequence);
        self
    }

    /// The same with additional facts.
    pub fn with_details(mut self, details: Details) -> Self {
        self.details = details;
        self
    }

    /// Which child.
    pub fn id(&self) -> &ChildId {
        self.identity.id()
    }

    /// Its lineage, if the source tells it.
    pub fn lineage(&self) -> Option<&Lineage> {
        self.lineage_known.then(|| self.identity.lineage())
    }

    /// Which child, as its own root where the source tells no lineage.
    pub fn identity(&self) -> &ChildIdentity {
        &self.identity
    }

    /// What it is doing.
    pub fn state(&self) -> ChildState {
        self.state
    }

    /// The last position of the source's order that this state includes.
    pub fn sequence(&self) -> Option<Sequence> {
        self.sequence
    }

    /// Additional facts.
    pub fn details(&self) -> &Details {
        &self.details
    }
}

/// Which children a complete snapshot speaks of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coverage {
    /// All live children of the source.
    All,
    /// These, and no others; those of them that are not listed were looked for and are absent.
    Children(Vec<ChildId>),
}

/// Why children and coverage make no snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// A child is listed twice.
    DuplicateChild(ChildId),
    /// A child is listed that the coverage does not name (rule N7).
    NotCovered(ChildId),
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DuplicateChild(id) => write!(f, "each child once, {id:?} is listed twice"),
            Self::NotCovered(id) => write!(f, "coverage of every listed child, {id:?} is missing"),
        }
    }
}

impl std::error::Error for SnapshotError {}

/// A complete snapshot: of the children it covers, those it does not list are absent.
///
/// Only this one can correct a projection or count an omission (rule N1).
///
/// ```
/// use headcount_contract::*;
/// let source = SourceIdentity::new(SourceId::new("s")?, SourceEpoch::new("1")?);
/// let child = SnapshotChild::new(ChildId::new("a")?, ChildState::RUNNING);
/// let at = Timestamp::UNIX_EPOCH;
/// let nobody = Coverage::Children(vec![]);
/// let id = SnapshotId::new("snap-1")?;
/// assert!(AuthoritativeSnapshot::new(source.clone(), id.clone(), at, nobody, vec![child.clone()]).is_err());
/// let snapshot = AuthoritativeSnapshot::new(source, id, at, Coverage::All, vec![child])?;
/// assert!(snapshot.covers(&ChildId::new("b")?));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthoritativeSnapshot {
    head: Head,
    coverage: Coverage,
}

/// A snapshot that says nothing of the children it does not list (rule N6).
///
/// ```
/// use headcount_contract::*;
/// let source = SourceIdentity::new(SourceId::new("s")?, SourceEpoch::new("1")?);
/// let snapshot = PartialSnapshot::new(source, SnapshotId::new("snap-1")?, Timestamp::UNIX_EPOCH, vec![])?;
/// assert!(snapshot.children().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialSnapshot {
    head: Head,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Head {
    source: SourceIdentity,
    id: SnapshotId,
    observed_at: Timestamp,
    children: Vec<SnapshotChild>,
}

impl Head {
    fn new(
        source: SourceIdentity,
        id: SnapshotId,
        observed_at: Timestamp,
        children: Vec<SnapshotChild>,
    ) -> Result<Self, SnapshotError> {
        let mut seen = HashSet::with_capacity(children.len());
        match children.iter().find(|child| !seen.insert(child.id())) {
            Some(child) => Err(SnapshotError::DuplicateChild(child.id().clone())),
            None => Ok(Self {
                source,
                id,
                observed_at,
                children,
            }),
        }
    }
}

impl AuthoritativeSnapshot {
    /// A complete snapshot.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if a child is listed twice or is not covered (rule N7).
    pub fn new(
        source: SourceIdentity,
        id: SnapshotId,
        observed_at: Timestamp,
        coverage: Coverage,
        children: Vec<SnapshotChild>,
    ) -> Result<Self, SnapshotError> {
        let head = Head::new(source, id, observed_at, children)?;
        if let Coverage::Children(covered) = &coverage {
            let covered: HashSet<_> = covered.iter().collect();
            if let Some(child) = head.children.iter().find(|c| !covered.contains(c.id())) {
                return Err(SnapshotError::NotCovered(child.id().clone()));
            }
        }
        Ok(Self { head, coverage })
    }

    /// Which children it speaks of.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    /// Whether it speaks of the child. Linear in the length of a listed coverage.
    pub fn covers(&self, child: &ChildId) -> bool {
        match &self.coverage {
            Coverage::All => true,
            Coverage::Children(children) => children.contains(child),
        }
    }
}

impl PartialSnapshot {
    /// A partial snapshot.
    ///
    /// # Errors
    ///
    /// [`SnapshotError`] if a child is listed twice.
    pub fn new(
        source: SourceIdentity,
        id: SnapshotId,
        observed_at: Timestamp,
        children: Vec<SnapshotChild>,
    ) -> Result<Self, SnapshotError> {
        Ok(Self {
            head: Head::new(source, id, observed_at, children)?,
        })
    }
}

macro_rules! head {
    ($($name:ident),*) => {$(
        impl $name {
            /// Whose snapshot it is, from which of the source's lives.
            pub fn source(&self) -> &SourceIdentity {
                &self.head.source
            }

            /// Its name; the same snapshot is applied once.
            pub fn id(&self) -> &SnapshotId {
                &self.head.id
            }

            /// When the source looked, by the source's clock.
            pub fn observed_at(&self) -> Timestamp {
                self.head.observed_at
            }

            /// The children that were found, each once.
            pub fn children(&self) -> &[SnapshotChild] {
                &self.head.children
            }
        }
    )*};
}

head!(AuthoritativeSnapshot, PartialSnapshot);

/// A snapshot of either kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Snapshot {
    /// Covers what it says it covers.
    Complete(AuthoritativeSnapshot),
    /// Proves nothing about children it does not list.
    Partial(PartialSnapshot),
}

impl Snapshot {
    /// Whose snapshot it is, from which of the source's lives.
    pub fn source(&self) -> &SourceIdentity {
        &self.head().source
    }

    /// Its name; the same snapshot is applied once.
    pub fn id(&self) -> &SnapshotId {
        &self.head().id
    }

    /// When the source looked, by the source's clock.
    pub fn observed_at(&self) -> Timestamp {
        self.head().observed_at
    }

    /// The children that were found, each once.
    pub fn children(&self) -> &[SnapshotChild] {
        &self.head().children
    }

    /// The snapshot as one line of JSON, without the line end.
    pub fn to_json(&self) -> String {
        crate::wire::write(self)
    }

    fn head(&self) -> &Head {
        match self {
            Self::Complete(snapshot) => &snapshot.head,
            Self::Partial(snapshot) => &snapshot.head,
        }
    }
}

impl From<AuthoritativeSnapshot> for Snapshot {
    fn from(snapshot: AuthoritativeSnapshot) -> Self {
        Self::Complete(snapshot)
    }
}

impl From<PartialSnapshot> for Snapshot {
    fn from(snapshot: PartialSnapshot) -> Self {
        Self::Partial(snapshot)
    }
}

impl serde::Serialize for Coverage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("all"),
            Self::Children(children) => children.serialize(serializer),
        }
    }
}

impl serde::Serialize for SnapshotChild {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("childId", self.id())?;
        map.serialize_entry("state", &self.state)?;
        if let Some(sequence) = self.sequence {
            map.serialize_entry("sequence", &sequence)?;
        }
        if !self.details.is_empty() {
            map.serialize_entry("details", &self.details)?;
        }
        if let Some(lineage) = self.lineage() {
            map.serialize_entry("lineage", lineage)?;
        }
        map.end()
    }
}

impl serde::Serialize for Snapshot {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let head = self.head();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("source", &head.source.source)?;
        map.serialize_entry("sourceEpoch", &head.source.epoch)?;
        map.serialize_entry("snapshotId", &head.id)?;
        map.serialize_entry("observedAt", &head.observed_at)?;
        map.serialize_entry("complete", &matches!(self, Self::Complete(_)))?;
        if let Self::Complete(snapshot) = self {
            map.serialize_entry("coverage", &snapshot.coverage)?;
        }
        map.serialize_entry("children", &head.children)?;
        map.end()
    }
}
