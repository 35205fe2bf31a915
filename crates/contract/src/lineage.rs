//! Where a child comes from (rule I3).

use std::fmt;

use crate::{ChildId, Timestamp};

/// The largest integer on the wire: 2^53 - 1, the last one that JavaScript counts exactly (rule W2).
pub const MAX_INTEGER: u64 = (1 << 53) - 1;

/// Where a child comes from: the head of its retry chain, its attempt, its parent, its adoption.
///
/// Lineage never changes during a child's life. External and adopted are one fact: a child has an
/// adoption time exactly if it is external.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lineage {
    root: ChildId,
    attempt: u64,
    parent: Option<ChildId>,
    adopted_at: Option<Timestamp>,
}

/// Why a lineage does not fit a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineageError {
    /// A retry (attempt above 0) that claims to be its own root; it needs a new id.
    RetryIsItsOwnRoot,
    /// A child that names itself as its parent.
    OwnParent,
    /// An attempt above 2^53 - 1.
    AttemptTooLarge,
}

impl fmt::Display for LineageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::RetryIsItsOwnRoot => {
                "an attempt above 0 needs a child id of its own, other than the root's"
            }
            Self::OwnParent => "a child cannot be its own parent",
            Self::AttemptTooLarge => "an attempt is at most 2^53 - 1",
        })
    }
}

impl std::error::Error for LineageError {}

impl Lineage {
    /// Attempt 0 under `root`, which is the child itself unless it belongs to another's tree.
    pub fn new(root: ChildId) -> Self {
        Self {
            root,
            attempt: 0,
            parent: None,
            adopted_at: None,
        }
    }

    /// The same with the given attempt, counted from 0.
    pub fn with_attempt(mut self, attempt: u64) -> Self {
        self.attempt = attempt;
        self
    }

    /// The same as a child of `parent`.
    pub fn with_parent(mut self, parent: ChildId) -> Self {
        self.parent = Some(parent);
        self
    }

    /// The same as an external child, adopted at `at`.
    pub fn adopted(mut self, at: Timestamp) -> Self {
        self.adopted_at = Some(at);
        self
    }

    /// The first run of the retry chain.
    pub fn root(&self) -> &ChildId {
        &self.root
    }

    /// Which try of the chain this is, from 0.
    pub fn attempt(&self) -> u64 {
        self.attempt
    }

    /// The child that started this one, if known.
    pub fn parent(&self) -> Option<&ChildId> {
        self.parent.as_ref()
    }

    /// Whether somebody else started the child and it was adopted.
    pub fn is_external(&self) -> bool {
        self.adopted_at.is_some()
    }

    /// When it was adopted, for an external child.
    pub fn adopted_at(&self) -> Option<Timestamp> {
        self.adopted_at
    }
}

/// A child together with a lineage that fits it.
///
/// ```
/// use headcount_contract::{ChildId, ChildIdentity, Lineage};
/// let first = ChildIdentity::root(ChildId::new("build-1")?);
/// let retry = ChildIdentity::new(
///     ChildId::new("build-2")?,
///     Lineage::new(first.id().clone()).with_attempt(1),
/// )?;
/// assert_eq!(retry.lineage().root(), first.id());
/// assert!(ChildIdentity::new(first.id().clone(), first.lineage().clone().with_attempt(1)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ChildIdentity {
    id: ChildId,
    lineage: Lineage,
}

impl ChildIdentity {
    /// A child at attempt 0 that is its own root and has no parent.
    pub fn root(id: ChildId) -> Self {
        Self {
            lineage: Lineage::new(id.clone()),
            id,
        }
    }

    /// Joins a child with its lineage.
    ///
    /// # Errors
    ///
    /// [`LineageError`] where the two contradict each other (rule I3).
    pub fn new(id: ChildId, lineage: Lineage) -> Result<Self, LineageError> {
        if lineage.attempt > MAX_INTEGER {
            return Err(LineageError::AttemptTooLarge);
        }
        if lineage.attempt > 0 && lineage.root == id {
            return Err(LineageError::RetryIsItsOwnRoot);
        }
        if lineage.parent.as_ref() == Some(&id) {
            return Err(LineageError::OwnParent);
        }
        Ok(Self { id, lineage })
    }

    /// The child.
    pub fn id(&self) -> &ChildId {
        &self.id
    }

    /// Its lineage.
    pub fn lineage(&self) -> &Lineage {
        &self.lineage
    }
}

impl serde::Serialize for Lineage {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("rootChildId", &self.root)?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("external", &self.is_external())?;
        if let Some(parent) = &self.parent {
            map.serialize_entry("parentChildId", parent)?;
        }
        if let Some(at) = &self.adopted_at {
            map.serialize_entry("adoptedAt", at)?;
        }
        map.end()
    }
}
