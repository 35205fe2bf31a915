//! Pure: what was seen of a process in, lifecycle events and snapshots out.
//!
//! The rows of the contract's "External Adoption Limits" are held here: each piece of evidence
//! says exactly what its row allows, and nothing more.

mod facts;
mod id;
mod runtime;

use std::collections::{BTreeMap, HashMap, VecDeque};

use headcount_adapter_kit::EventMint;
use headcount_contract::{
    AuthoritativeSnapshot, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Coverage,
    Details, EventKind, LifecycleEvent, Lineage, LiveState, Sequence, SequenceScope, SnapshotChild,
    SourceIdentity, Timestamp,
};
use serde_json::json;

use self::facts::{exit_facts, facts_of, gone};
use self::id::{id_of, snapshot_id};
use self::runtime::Followed;
use crate::process::{Finding, ProcessIdentity};

pub(crate) use self::facts::Facts;
pub use self::id::child_id;

/// A child within this adapter, cheaper than its id.
pub(crate) type Key = u64;

/// How many children that have ended are still answered for in snapshots.
const ENDED_KEPT: usize = 4096;

/// What was verified of one child, beyond that it can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Verified {
    /// Its exit status will be told when it ends.
    pub(crate) exit_status: bool,
    /// Somebody with authority over it cancels it when asked.
    pub(crate) cancel: bool,
}

impl Verified {
    /// What may be claimed. History never: nobody saw what came before the adoption.
    pub(crate) fn capabilities(self) -> Capabilities {
        let known = |verified| {
            if verified {
                Capability::Known
            } else {
                Capability::Unknown
            }
        };
        Capabilities {
            history: Capability::Unknown,
            heartbeat: Capability::Known,
            snapshot: Capability::Known,
            cancel: known(self.cancel),
            terminal_cause: known(self.exit_status),
        }
    }
}

/// The children of one life of the source.
#[derive(Debug)]
pub(crate) struct Translator {
    mint: EventMint,
    children: BTreeMap<Key, Child>,
    ids: HashMap<ChildId, Key>,
    /// Those that have ended, oldest first.
    ended: VecDeque<Key>,
    next_key: Key,
    snapshots: u64,
}

#[derive(Debug)]
struct Child {
    identity: ChildIdentity,
    process: ProcessIdentity,
    adopted_at: Timestamp,
    verified: Verified,
    standing: Standing,
    /// What its state rests on.
    basis: String,
    last: Option<Sequence>,
    /// The last status that the host gave no meaning.
    unmapped: Option<String>,
    activity: Option<String>,
    followed: Followed,
}

#[derive(Debug, Clone)]
enum Standing {
    Lives(LiveState),
    /// It has ended, and what it came to is unknown: only the host can find it lost.
    Vanished,
    Ended(ChildState, Details),
}

impl Translator {
    pub(crate) fn new(source: SourceIdentity) -> Self {
        Self {
            mint: EventMint::new(source, Capabilities::UNKNOWN, SequenceScope::Child),
            children: BTreeMap::new(),
            ids: HashMap::new(),
            ended: VecDeque::new(),
            next_key: 0,
            snapshots: 0,
        }
    }

    /// A process was found: it exists, and that is all.
    pub(crate) fn adopted(
        &mut self,
        process: ProcessIdentity,
        facts: &Facts,
        verified: Verified,
        at: Timestamp,
    ) -> (Key, LifecycleEvent) {
        let id = self.free_id(&process);
        let lineage = Lineage::new(id.clone()).adopted(at);
        let identity =
            ChildIdentity::new(id.clone(), lineage).unwrap_or_else(|_| ChildIdentity::root(id));
        let details = facts_of(
            process
                .to_details()
                .chain(facts.to_details())
                .chain([("basis", json!("presence"))]),
        );
        let key = self.insert(identity, process, verified, LiveState::Created, at);
        (key, self.event(key, EventKind::Created, at, details))
    }

    /// A process of an earlier session was found again. Its lineage stays what it was, as it must
    /// (rule I3); what can be seen of it is what can be seen of any adopted process.
    pub(crate) fn readopted(
        &mut self,
        identity: ChildIdentity,
        state: LiveState,
        process: ProcessIdentity,
        facts: Option<&Facts>,
        verified: Verified,
        at: Timestamp,
    ) -> (Key, LifecycleEvent) {
        let (observation, message) = match facts {
            Some(_) => (
                "readopted",
                "a process that another session started still runs; its output and what it did meanwhile are unknown",
            ),
            None => (
                "not_found_again",
                "a process that another session started was not found again",
            ),
        };
        let about = [
            ("observation", json!(observation)),
            ("message", json!(message)),
            ("lookedAt", json!(at.to_string())),
        ];
        let facts = facts.into_iter().flat_map(Facts::to_details);
        let details = facts_of(process.to_details().chain(facts).chain(about));
        let key = self.insert(identity, process, verified, state, at);
        (
            key,
            self.event(key, EventKind::Diagnostic(None), at, details),
        )
    }

    /// The process was seen to live.
    pub(crate) fn lives(&mut self, key: Key, at: Timestamp) -> Option<LifecycleEvent> {
        let child = self.children.get(&key)?;
        matches!(child.standing, Standing::Lives(_))
            .then(|| self.event(key, EventKind::Heartbeat, at, Details::EMPTY))
    }

    /// The process has ended.
    pub(crate) fn ended(
        &mut self,
        key: Key,
        finding: Finding,
        at: Timestamp,
    ) -> Option<LifecycleEvent> {
        let child = self.children.get_mut(&key)?;
        let was_live = matches!(child.standing, Standing::Lives(_));
        if matches!(child.standing, Standing::Ended(..)) {
            return None;
        }
        let process = child.process.to_details();
        let (kind, details) = match finding {
            Finding::Exited { status, read_from } => {
                let details = facts_of(process.chain(exit_facts(status, read_from)));
                let outcome = status.outcome();
                child.standing = Standing::Ended(ChildState::Terminal(outcome), details.clone());
                (EventKind::Terminal(outcome), details)
            }
            // Said once, when it happened; that the status never came adds nothing.
            _ if !was_live => return None,
            Finding::Zombie => (
                EventKind::Diagnostic(None),
                gone(
                    process,
                    "zombie",
                    "the process has ended; its parent has not collected it, and how it ended cannot be read before",
                ),
            ),
            Finding::Gone => (
                EventKind::Diagnostic(None),
                gone(
                    process,
                    "vanished",
                    "the process is gone, and how it ended cannot be known",
                ),
            ),
        };
        if !matches!(child.standing, Standing::Ended(..)) {
            child.standing = Standing::Vanished;
        }
        let event = self.event(key, kind, at, details);
        if was_live {
            self.has_ended(key);
        }
        Some(event)
    }

    /// Somebody with this documented scope was verified to be able to cancel the child.
    pub(crate) fn authority(
        &mut self,
        key: Key,
        scope: &str,
        at: Timestamp,
    ) -> Option<LifecycleEvent> {
        let child = self.children.get_mut(&key)?;
        if child.verified.cancel || !matches!(child.standing, Standing::Lives(_)) {
            return None;
        }
        child.verified.cancel = true;
        let about = [
            ("observation", json!("authority_verified")),
            (
                "message",
                json!("this child can be cancelled, within the scope of its control API"),
            ),
            ("scope", json!(scope)),
        ];
        Some(self.event(key, EventKind::Diagnostic(None), at, facts_of(about)))
    }

    /// What can be said of all children that are answered for.
    ///
    /// Complete for those it covers. An ended one is listed with its outcome; one that vanished is
    /// covered and not listed, which is an omission, so that the host's own rules find it lost.
    pub(crate) fn snapshot(&mut self, at: Timestamp) -> AuthoritativeSnapshot {
        let listed = self.children.values().filter_map(|child| {
            let (state, details) = match &child.standing {
                Standing::Lives(state) => (
                    ChildState::Live(*state),
                    facts_of([("basis", json!(child.basis))]),
                ),
                Standing::Ended(state, details) => (*state, details.clone()),
                Standing::Vanished => return None,
            };
            let mut listed =
                SnapshotChild::with_identity(child.identity.clone(), state).with_details(details);
            if let Some(sequence) = child.last {
                listed = listed.with_sequence(sequence);
            }
            Some(listed)
        });
        let listed = listed.collect();
        let covered = self
            .children
            .values()
            .map(|child| child.identity.id().clone())
            .collect();
        let source = self.mint.source().clone();
        let id = snapshot_id(&source, self.snapshots);
        self.snapshots += 1;
        #[allow(clippy::expect_used)] // ids are unique here, and the coverage is made of them
        AuthoritativeSnapshot::new(source, id, at, Coverage::Children(covered), listed)
            .expect("each child once, all covered")
    }

    pub(crate) fn id(&self, key: Key) -> Option<&ChildId> {
        Some(self.children.get(&key)?.identity.id())
    }

    pub(crate) fn key(&self, id: &ChildId) -> Option<Key> {
        self.ids.get(id).copied()
    }

    /// Whether the child has not been seen to end.
    pub(crate) fn is_live(&self, key: Key) -> bool {
        self.children
            .get(&key)
            .is_some_and(|child| matches!(child.standing, Standing::Lives(_)))
    }

    /// Whether somebody was verified to be able to cancel the child.
    pub(crate) fn is_in_authority(&self, key: Key) -> bool {
        self.children
            .get(&key)
            .is_some_and(|child| child.verified.cancel)
    }

    pub(crate) fn process(&self, key: Key) -> Option<&ProcessIdentity> {
        Some(&self.children.get(&key)?.process)
    }

    fn insert(
        &mut self,
        identity: ChildIdentity,
        process: ProcessIdentity,
        verified: Verified,
        state: LiveState,
        at: Timestamp,
    ) -> Key {
        let key = self.next_key;
        self.next_key += 1;
        self.ids.insert(identity.id().clone(), key);
        let standing = Standing::Lives(state);
        self.children.insert(
            key,
            Child {
                identity,
                process,
                adopted_at: at,
                verified,
                standing,
                basis: "presence".to_owned(),
                last: None,
                unmapped: None,
                activity: None,
                followed: Followed::default(),
            },
        );
        key
    }

    fn event(
        &mut self,
        key: Key,
        kind: EventKind,
        at: Timestamp,
        details: Details,
    ) -> LifecycleEvent {
        #[allow(clippy::expect_used)] // every caller has just looked it up or put it in
        let child = self.children.get_mut(&key).expect("a child of ours");
        let event = self
            .mint
            .event_as(&child.identity, kind, at, child.verified.capabilities())
            .with_details(details);
        child.last = event.sequence();
        event
    }

    /// The id of a process that has none yet. A number that is given out again within one tick
    /// would give the id of the one before.
    fn free_id(&self, process: &ProcessIdentity) -> ChildId {
        let id = id_of(process, None);
        if !self.ids.contains_key(&id) {
            return id;
        }
        let apart = process
            .pidfd_inode
            .map(|inode| id_of(process, Some(inode)))
            .filter(|id| !self.ids.contains_key(id));
        apart.unwrap_or_else(|| id_of(process, Some(self.next_key)))
    }

    fn has_ended(&mut self, key: Key) {
        self.ended.push_back(key);
        while self.ended.len() > ENDED_KEPT {
            let Some(child) = self
                .ended
                .pop_front()
                .and_then(|key| self.children.remove(&key))
            else {
                continue;
            };
            self.ids.remove(child.identity.id());
            self.mint.forget(child.identity.id());
        }
    }
}

#[cfg(test)]
mod tests;
