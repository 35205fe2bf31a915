//! The children of a source, by slot.

use crate::child::Child;

/// Children in pages, so that adding one moves no other and leaves at most a page unused.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slab {
    pages: Vec<Vec<Option<Child>>>,
    free: Vec<u32>,
    used: u32,
}

const PAGE_BITS: u32 = 5;
const PAGE: usize = 1 << PAGE_BITS;

fn place(slot: u32) -> (usize, usize) {
    ((slot >> PAGE_BITS) as usize, slot as usize % PAGE)
}

impl Slab {
    /// The slot that the next child will have.
    pub(crate) fn insert(&mut self, child: Child) -> u32 {
        if let Some(slot) = self.free.pop() {
            let (page, at) = place(slot);
            self.pages[page][at] = Some(child);
            return slot;
        }
        let slot = self.used;
        let (page, _) = place(slot);
        if page == self.pages.len() {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        self.pages[page].push(Some(child));
        self.used += 1;
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Child> {
        let (page, at) = place(slot);
        self.pages.get(page)?.get(at)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Child> {
        let (page, at) = place(slot);
        self.pages.get_mut(page)?.get_mut(at)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Child> {
        let (page, at) = place(slot);
        let child = self.pages.get_mut(page)?.get_mut(at)?.take()?;
        self.free.push(slot);
        Some(child)
    }

    /// One more than the highest slot that was ever used.
    pub(crate) fn slots(&self) -> u32 {
        self.used
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.pages.iter_mut().flatten().flatten()
    }

    /// All children with their slots, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Child)> {
        (0..)
            .zip(self.pages.iter().flatten())
            .filter_map(|(slot, child)| Some((slot, child.as_ref()?)))
    }
}
