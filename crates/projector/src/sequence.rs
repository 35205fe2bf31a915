//! What was seen of a counter: a high-water mark and the missing ranges below it (rule O4), never
//! a set that grows with every event.

use headcount_contract::Sequence;

/// One counter, of a child or of a source epoch.
///
/// Of the numbers up to the highest one seen, those in a missing range are missing, those below the
/// floor are not known about (they came before the baseline, or are told by a snapshot, or were
/// given up), and all others were seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counter {
    /// The highest number seen, plus one, in the upper 54 bits; the floor in the lower 10. There is
    /// one counter a child, so its size counts.
    packed: u64,
    gaps: Option<Box<Gaps>>,
}

/// What a counter needs only if it has, or had, holes, or a floor that is no small number.
#[derive(Debug, Clone, Default)]
struct Gaps {
    floor: u64,
    /// Inclusive ranges, ascending, apart from each other.
    missing: Vec<(u64, u64)>,
    /// When a snapshot is asked for; `i64::MAX` once it was.
    due: i64,
}

const FLOOR_BITS: u32 = 10;
/// Stands for "look into the box".
const LARGE_FLOOR: u64 = (1 << FLOOR_BITS) - 1;

/// What a number means for its counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The first one that is seen: the baseline (rule O6).
    First,
    /// The one after the highest.
    Next,
    /// One further on: the range between is missing. `opened` says whether nothing was before.
    Jump { from: u64, to: u64, opened: bool },
    /// One that was missing; `closed` says whether nothing is any more.
    Filled { closed: bool },
    /// One of which it is not known whether it was seen.
    Untold,
    /// One that was seen.
    Seen,
}

impl Counter {
    /// The highest number seen.
    pub(crate) fn high(&self) -> Option<u64> {
        (self.packed >> FLOOR_BITS).checked_sub(1)
    }

    /// Takes note of a number. The second value is a missing range that had to be given up.
    #[inline]
    pub(crate) fn step(&mut self, number: u64, ranges: usize) -> (Step, Option<(u64, u64)>) {
        let Some(high) = self.high() else {
            self.set_high(number);
            self.set_floor(number.max(self.floor()));
            return (Step::First, None);
        };
        if number > high {
            let from = (high + 1).max(self.floor());
            self.set_high(number);
            return if number > from {
                self.jump(from, number - 1, ranges)
            } else {
                (Step::Next, None)
            };
        }
        if number < self.floor() {
            return (Step::Untold, None);
        }
        let step = if self.fill(number) {
            Step::Filled {
                closed: !self.has_gap(),
            }
        } else {
            Step::Seen
        };
        (step, None)
    }

    /// Takes note that `number` is the highest seen, if it is, without looking for holes.
    pub(crate) fn raise(&mut self, number: u64) {
        if self.high().is_none_or(|high| high < number) {
            self.set_high(number);
        }
    }

    /// Takes note that a snapshot tells what happened up to `number`: nothing is missing there any
    /// more. True if that closed the last hole (rule O8).
    pub(crate) fn cover(&mut self, number: u64) -> bool {
        let had_gap = self.has_gap();
        if self.high().is_none() {
            self.set_high(number);
        }
        if let Some(gaps) = &mut self.gaps {
            gaps.missing.retain(|range| range.1 > number);
            if let Some(first) = gaps.missing.first_mut() {
                first.0 = first.0.max(number + 1);
            }
        }
        self.set_floor((number + 1).max(self.floor()));
        had_gap && !self.has_gap()
    }

    /// Begins anew, as a new epoch does; gives the span of what was still missing.
    pub(crate) fn reset(&mut self) -> Option<(u64, u64)> {
        let before = std::mem::take(self);
        let missing = before.gaps?.missing;
        Some((missing.first()?.0, missing.last()?.1))
    }

    /// Whether something is missing.
    pub(crate) fn has_gap(&self) -> bool {
        self.gaps.as_ref().is_some_and(|g| !g.missing.is_empty())
    }

    /// When a snapshot is to be asked for, as something has been missing for long.
    pub(crate) fn gap_due(&self) -> Option<i64> {
        let gaps = self.gaps.as_ref().filter(|g| !g.missing.is_empty())?;
        (gaps.due != i64::MAX).then_some(gaps.due)
    }

    /// Sets that moment; `i64::MAX` for never again.
    pub(crate) fn set_gap_due(&mut self, due: i64) {
        if let Some(gaps) = &mut self.gaps {
            gaps.due = due;
        }
    }

    fn jump(&mut self, from: u64, to: u64, ranges: usize) -> (Step, Option<(u64, u64)>) {
        let opened = !self.has_gap();
        let gaps = self.gaps();
        gaps.missing.push((from, to));
        let given_up = (gaps.missing.len() > ranges.max(1)).then(|| gaps.missing.remove(0));
        if let Some((_, to)) = given_up {
            self.set_floor(to + 1);
        }
        (Step::Jump { from, to, opened }, given_up)
    }

    /// Whether the number was missing; it no longer is.
    fn fill(&mut self, number: u64) -> bool {
        let Some(gaps) = &mut self.gaps else {
            return false;
        };
        let at = gaps.missing.partition_point(|range| range.1 < number);
        match gaps.missing.get_mut(at) {
            Some(&mut (from, to)) if from <= number => {
                match (from == number, to == number) {
                    (true, true) => drop(gaps.missing.remove(at)),
                    (true, false) => gaps.missing[at].0 = number + 1,
                    (false, true) => gaps.missing[at].1 = number - 1,
                    (false, false) => {
                        gaps.missing[at].1 = number - 1;
                        gaps.missing.insert(at + 1, (number + 1, to));
                    }
                }
                true
            }
            _ => false,
        }
    }

    fn set_high(&mut self, number: u64) {
        self.packed = (number + 1) << FLOOR_BITS | self.packed & LARGE_FLOOR;
    }

    fn floor(&self) -> u64 {
        match self.packed & LARGE_FLOOR {
            LARGE_FLOOR => self.gaps.as_ref().map_or(LARGE_FLOOR, |gaps| gaps.floor),
            small => small,
        }
    }

    fn set_floor(&mut self, floor: u64) {
        if floor >= LARGE_FLOOR {
            self.gaps().floor = floor;
        }
        self.packed = self.packed & !LARGE_FLOOR | floor.min(LARGE_FLOOR);
    }

    fn gaps(&mut self) -> &mut Gaps {
        self.gaps.get_or_insert_default()
    }
}

/// A place in an order, or none; half the size of an `Option<Sequence>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place(u64);

impl Place {
    pub(crate) const NONE: Self = Self(u64::MAX);

    pub(crate) fn new(number: u64) -> Self {
        Self(number)
    }

    pub(crate) fn get(self) -> Option<u64> {
        (self != Self::NONE).then_some(self.0)
    }
}

/// The number as a sequence. Only numbers that came as sequences, or lie between two, are kept.
pub(crate) fn sequence(number: u64) -> Sequence {
    Sequence::new(number).unwrap_or_default()
}
