//! The children of a source, by slot.

use crate::child::Child;
use crate::fact::Facts;

/// Children in pages, so that adding one moves no other and leaves at most a page unused.
///
/// What every event looks at lies apart from the facts, of which an event sets one: so the former,
/// at 64 bytes a child, stays in the processor's cache with thousands of children.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slab {
    pages: Vec<Box<Page>>,
    free: Vec<u32>,
    used: u32,
}

#[derive(Debug, Clone)]
struct Page {
    children: [Option<Child>; PAGE],
    facts: [Facts; PAGE],
}

const PAGE_BITS: u32 = 5;
const PAGE: usize = 1 << PAGE_BITS;

fn place(slot: u32) -> (usize, usize) {
    ((slot >> PAGE_BITS) as usize, slot as usize % PAGE)
}

impl Slab {
    /// The slot that the child now has.
    pub(crate) fn insert(&mut self, child: Child, facts: Facts) -> u32 {
        let slot = self.free.pop().unwrap_or(self.used);
        let (number, at) = place(slot);
        if number == self.pages.len() {
            self.pages.push(Box::new(Page {
                children: [const { None }; PAGE],
                facts: std::array::from_fn(|_| Facts::default()),
            }));
        }
        let page = &mut self.pages[number];
        page.children[at] = Some(child);
        page.facts[at] = facts;
        self.used = self.used.max(slot + 1);
        slot
    }

    pub(crate) fn get(&self, slot: u32) -> Option<&Child> {
        let (page, at) = place(slot);
        self.pages.get(page)?.children[at].as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Child> {
        let (page, at) = place(slot);
        self.pages.get_mut(page)?.children[at].as_mut()
    }

    /// The facts of the child of a slot; nothing is known in one that nobody has.
    pub(crate) fn facts(&self, slot: u32) -> Option<&Facts> {
        let (page, at) = place(slot);
        self.pages.get(page).map(|page| &page.facts[at])
    }

    pub(crate) fn facts_mut(&mut self, slot: u32) -> Option<&mut Facts> {
        let (page, at) = place(slot);
        self.pages.get_mut(page).map(|page| &mut page.facts[at])
    }

    pub(crate) fn remove(&mut self, slot: u32) -> Option<Child> {
        let (page, at) = place(slot);
        let page = self.pages.get_mut(page)?;
        let child = page.children[at].take()?;
        page.facts[at] = Facts::default();
        self.free.push(slot);
        Some(child)
    }

    /// One more than the highest slot that was ever used.
    pub(crate) fn slots(&self) -> u32 {
        self.used
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Child> {
        self.pages
            .iter_mut()
            .flat_map(|page| page.children.iter_mut().flatten())
    }

    /// All children with their slots, by slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Child)> {
        (0..)
            .zip(self.pages.iter().flat_map(|page| &page.children))
            .filter_map(|(slot, child)| Some((slot, child.as_ref()?)))
    }
}
