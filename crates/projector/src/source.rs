//! What is kept of one source: its epochs, its children, and what it said lately.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher};

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use headcount_contract::{ChildId, ChildState, Outcome, SequenceScope, SnapshotId, SourceEpoch};
use rustc_hash::FxHasher;

use crate::child::Child;
use crate::fact::{EPOCH_NUMBERS, Facts, Seen};
use crate::sequence::{Counter, Place};
use crate::slab::Slab;
use crate::window::NameWindow;

/// One source.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) scope: SequenceScope,
    /// The epochs by first appearance, the current one last (rule O7).
    epochs: VecDeque<SourceEpoch>,
    /// The number of the current one, modulo [`EPOCH_NUMBERS`].
    pub(crate) epoch: u16,
    /// Raised whenever all of its children become unproven.
    pub(crate) generation: u32,
    /// The counter of the current epoch, in scope Epoch.
    pub(crate) counter: Counter,
    pub(crate) children: Slab,
    /// Slots by child id.
    index: HashTable<u32>,
    pub(crate) live: usize,
    /// The slots of ended children, in the order in which they ended.
    pub(crate) ended: VecDeque<u32>,
    pub(crate) tombstones: Tombstones,
    pub(crate) unsequenced: NameWindow,
    /// The last snapshots that were applied, the newest last.
    pub(crate) snapshots: VecDeque<Taken>,
    /// Whether the source's clock was ahead when it was last looked at.
    pub(crate) clock_ahead: bool,
    /// Whether a child was refused and nothing was accepted since.
    pub(crate) refusing: bool,
}

/// A snapshot that was applied.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) id: SnapshotId,
    pub(crate) seen: Seen,
}

/// How children ended whose records were given up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tombstones {
    outcomes: HashMap<u128, Outcome>,
    order: VecDeque<u128>,
}

impl Source {
    pub(crate) fn new(scope: SequenceScope) -> Self {
        Self {
            scope,
            epochs: VecDeque::new(),
            epoch: 0,
            generation: 0,
            counter: Counter::default(),
            children: Slab::default(),
            index: HashTable::new(),
            live: 0,
            ended: VecDeque::new(),
            tombstones: Tombstones::default(),
            unsequenced: NameWindow::default(),
            snapshots: VecDeque::new(),
            clock_ahead: false,
            refusing: false,
        }
    }

    /// The current epoch; none before the first event or snapshot.
    pub(crate) fn current_epoch(&self) -> Option<&SourceEpoch> {
        self.epochs.back()
    }

    /// The number of an epoch that is remembered.
    #[inline] // mostly, it is the current one
    pub(crate) fn epoch_number(&self, epoch: &SourceEpoch) -> Option<u16> {
        match self.current_epoch() {
            Some(current) if current == epoch => Some(self.epoch),
            _ => self.past_epoch_number(epoch),
        }
    }

    fn past_epoch_number(&self, epoch: &SourceEpoch) -> Option<u16> {
        let back = self.epochs.iter().rev().position(|known| known == epoch)?;
        let back = u16::try_from(back).ok()?;
        Some((self.epoch + EPOCH_NUMBERS - back) % EPOCH_NUMBERS)
    }

    /// The name of the epoch of that number, if it is remembered.
    pub(crate) fn epoch_name(&self, number: u16) -> Option<&SourceEpoch> {
        let back = usize::from(self.age(number));
        self.epochs
            .len()
            .checked_sub(back + 1)
            .map(|at| &self.epochs[at])
    }

    /// How many epochs began after the one of that number.
    pub(crate) fn age(&self, number: u16) -> u16 {
        (self.epoch + EPOCH_NUMBERS - number) % EPOCH_NUMBERS
    }

    /// Makes an epoch the current one.
    pub(crate) fn push_epoch(&mut self, epoch: SourceEpoch, window: usize) {
        self.epoch = (self.epoch + 1) % EPOCH_NUMBERS;
        self.epochs.push_back(epoch);
        while self.epochs.len() > window.clamp(2, usize::from(EPOCH_NUMBERS) / 2) {
            self.epochs.pop_front();
        }
    }

    /// Forgets which numbers were seen, of all children: they will be counted otherwise.
    pub(crate) fn forget_numbers(&mut self) {
        self.counter.reset();
        self.children.iter_mut().for_each(|child| {
            child.counter.reset();
            child.state_sequence = Place::NONE;
        });
    }

    /// The slot of a child.
    pub(crate) fn find(&self, hash: u64, id: &ChildId) -> Option<u32> {
        let is_it = |slot: &u32| {
            self.children
                .get(*slot)
                .is_some_and(|child| child.id == *id)
        };
        self.index.find(hash, is_it).copied()
    }

    /// Adds a live or ended child of which `find` knows none.
    pub(crate) fn add(
        &mut self,
        hash: u64,
        child: Child,
        facts: Facts,
        hasher: &RandomState,
    ) -> u32 {
        if child.is_live() {
            self.live += 1;
        }
        let ended = !child.is_live();
        let slot = self.children.insert(child, facts);
        if ended {
            self.ended.push_back(slot);
        }
        let children = &self.children;
        let rehash = |slot: &u32| children.get(*slot).map_or(0, |c| hash_of(hasher, &c.id));
        self.index.insert_unique(hash, slot, rehash);
        slot
    }

    /// Takes a child out, for a tombstone.
    pub(crate) fn remove(&mut self, slot: u32, hasher: &RandomState) -> Option<Child> {
        let child = self.children.remove(slot)?;
        let hash = hash_of(hasher, &child.id);
        if let Ok(entry) = self.index.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        Some(child)
    }

    /// Whether the snapshot was applied; the same id in another epoch is another snapshot.
    pub(crate) fn has_taken(&self, id: &SnapshotId, epoch: u16) -> bool {
        let mut taken = self.snapshots.iter();
        taken.any(|taken| taken.seen.epoch() == epoch && taken.id == *id)
    }
}

/// The hash of a child's id in the index. Keyed, as the ids are chosen by the source.
pub(crate) fn hash_of(hasher: &RandomState, id: &ChildId) -> u64 {
    hasher.hash_one(id.as_str())
}

impl Tombstones {
    /// How a child ended whose record was given up.
    pub(crate) fn get(&self, id: &ChildId) -> Option<ChildState> {
        if self.outcomes.is_empty() {
            return None;
        }
        self.outcomes
            .get(&fingerprint(id))
            .copied()
            .map(ChildState::Terminal)
    }

    pub(crate) fn bury(&mut self, child: &Child, limit: usize) {
        let Some(outcome) = child.state().outcome() else {
            return;
        };
        let key = fingerprint(&child.id);
        if self.outcomes.insert(key, outcome).is_none() {
            self.order.push_back(key);
        }
        while self.order.len() > limit {
            if let Some(oldest) = self.order.pop_front() {
                self.outcomes.remove(&oldest);
            }
        }
    }
}

/// 128 bits that stand for a child's id.
fn fingerprint(id: &ChildId) -> u128 {
    let half = |seed: u64| {
        let mut hasher = FxHasher::default();
        hasher.write_u64(seed);
        hasher.write(id.as_str().as_bytes());
        u128::from(hasher.finish())
    };
    half(1) << 64 | half(2)
}
