//! What is remembered of recent events, to know them again: bounded, whatever is sent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

use foldhash::quality::RandomState;
use headcount_contract::LifecycleEvent;
use rustc_hash::FxHasher;

use crate::child::{capability_bits, state_code};
use crate::fact::kind_code;

/// What a window knows of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Nothing, or nothing any more.
    None,
    /// It was seen with the same content.
    Same,
    /// Its name or place was seen with other content.
    Other,
}

/// The content of recent sequenced events, by their place (rule O1).
///
/// A table in which a newer event takes the place of an older one of the same remainder. Whether an
/// event was *seen* is for the counters to say; this only tells a duplicate from a conflict.
#[derive(Debug, Clone)]
pub(crate) struct PlaceWindow {
    entries: Vec<(u64, u64)>,
}

impl PlaceWindow {
    pub(crate) fn new(size: usize) -> Self {
        let size = size.clamp(1, 1 << 24).next_power_of_two();
        Self {
            entries: vec![(0, 0); size],
        }
    }

    pub(crate) fn recall(&self, place: u64, event: &LifecycleEvent) -> Memory {
        match self.entries[self.index(place)] {
            (kept, content) if kept == place && content == content_of(event) => Memory::Same,
            (kept, _) if kept == place => Memory::Other,
            _ => Memory::None,
        }
    }

    pub(crate) fn remember(&mut self, place: u64, event: &LifecycleEvent) {
        let index = self.index(place);
        self.entries[index] = (place, content_of(event));
    }

    #[allow(clippy::cast_possible_truncation)] // only the lower bits count
    fn index(&self, place: u64) -> usize {
        place as usize & (self.entries.len() - 1)
    }
}

/// A number for the dedupe key of rule O1: never 0, which stands for an empty entry.
pub(crate) fn place_of(source: u32, epoch: u16, event: &LifecycleEvent, sequence: u64) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u32(source);
    hasher.write_u16(epoch);
    hasher.write(event.child_id().as_str().as_bytes());
    hasher.write_u64(sequence);
    hasher.finish().max(1)
}

/// A number for all that an event says beside its place. It is made for every event, so in few steps:
/// what most events do not have goes in only where it is there.
fn content_of(event: &LifecycleEvent) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(event.event_id().as_str().as_bytes());
    let (at, lineage) = (event.observed_at(), event.lineage());
    hasher.write_i64(at.unix_seconds() << 30 ^ i64::from(at.subsec_nanos()));
    let state = event.state().map_or(8, state_code);
    let kind = kind_code(event.kind());
    hasher.write_u32(u32::from_le_bytes([
        state,
        kind,
        capability_bits(event.capabilities()),
        u8::from(lineage.is_external()) << 2
            | u8::from(lineage.parent().is_some()) << 1
            | u8::from(event.activity().is_some()),
    ]));
    if let Some(activity) = event.activity() {
        hasher.write(activity.as_str().as_bytes());
    }
    if let Some(parent) = lineage.parent() {
        hasher.write(parent.as_str().as_bytes());
    }
    if let Some(at) = lineage.adopted_at() {
        at.hash(&mut hasher);
    }
    if !event.details().is_empty() {
        event.details().hash(&mut hasher);
    }
    hasher.finish()
}

/// The last unsequenced events of a source (rule O2).
///
/// An event is known again by two 64-bit numbers instead of by its bytes, so that a window of events
/// with large details stays small.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameWindow {
    // Keyed by numbers that a hostile source can choose, so not by those alone: the maps' own hasher
    // has a secret. Their order is never looked at.
    events: HashSet<(u64, u64), RandomState>,
    names: HashMap<u64, u32, RandomState>,
    order: VecDeque<(u64, u64)>,
}

impl NameWindow {
    /// What is known of an unsequenced event; from now on it is known.
    pub(crate) fn meet(&mut self, event: &LifecycleEvent, size: usize) -> Memory {
        let mut hasher = FxHasher::default();
        event.event_id().hash(&mut hasher);
        let name = hasher.finish();
        event.source_epoch().hash(&mut hasher);
        event.child().hash(&mut hasher);
        content_of(event).hash(&mut hasher);
        let key = (name, hasher.finish());
        if size == 0 {
            return Memory::None;
        }
        if !self.events.insert(key) {
            return Memory::Same;
        }
        let same_name = self.names.entry(name).or_default();
        *same_name += 1;
        let memory = if *same_name > 1 {
            Memory::Other
        } else {
            Memory::None
        };
        self.order.push_back(key);
        if self.order.len() > size {
            self.forget_oldest();
        }
        memory
    }

    fn forget_oldest(&mut self) {
        let Some(oldest) = self.order.pop_front() else {
            return;
        };
        self.events.remove(&oldest);
        if let Some(same_name) = self.names.get_mut(&oldest.0) {
            *same_name -= 1;
            if *same_name == 0 {
                self.names.remove(&oldest.0);
            }
        }
    }
}
