//! When time alone has something to do.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What an entry wakes: a child by its slot, or the source's own counter.
pub(crate) const SOURCE_ITSELF: u32 = u32::MAX;

/// A moment at which to look at something again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) at: i64,
    pub(crate) source: u32,
    pub(crate) slot: u32,
}

/// All such moments, the earliest first; those of one moment by source and slot.
///
/// An entry may be too early, never too late: proof of life moves a deadline without touching its
/// entry, and whoever pops an entry asks the child when it is really due. So an event costs nothing
/// here, and time costs what expires.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
}

impl Timers {
    pub(crate) fn push(&mut self, entry: Entry) {
        if self.heap.len() == self.heap.capacity() {
            // An eighth at a time: doubling would cost up to 16 bytes a child.
            self.heap.reserve_exact(self.heap.len() / 8 + 16);
        }
        self.heap.push(Reverse(entry));
    }

    /// The earliest entry that is due by `now`.
    pub(crate) fn pop(&mut self, now: i64) -> Option<Entry> {
        let entry = self.heap.peek()?.0;
        (entry.at <= now).then(|| {
            self.heap.pop();
            entry
        })
    }

    pub(crate) fn next(&self) -> Option<i64> {
        self.heap.peek().map(|entry| entry.0.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// Replaces all entries.
    pub(crate) fn rebuild(&mut self, entries: impl Iterator<Item = Entry>) {
        let mut all = std::mem::take(&mut self.heap).into_vec();
        all.clear();
        all.extend(entries.map(Reverse));
        self.heap = all.into();
    }
}
