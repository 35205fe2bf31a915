//! Which of a session's events have been seen, by their `seq`.

use std::collections::BTreeSet;

/// How many numbers beyond a hole are remembered.
const AHEAD: usize = 4096;

/// The events of one session that have been seen: everything below a number, and some beyond.
///
/// A gateway counts from 1. Threads of it may write two events in the other order than they were
/// counted, and what was missed comes late, in a replay: so a high-water mark alone would take for
/// a repetition what is news.
#[derive(Debug)]
pub(super) struct SeenEvents {
    /// Everything below has been seen.
    next: u64,
    ahead: BTreeSet<u64>,
    /// Some below were never seen, and are not waited for any more.
    gave_up: bool,
}

impl Default for SeenEvents {
    fn default() -> Self {
        Self {
            next: 1,
            ahead: BTreeSet::new(),
            gave_up: false,
        }
    }
}

impl SeenEvents {
    /// Notes a number; whether it is new.
    pub(super) fn note(&mut self, seq: u64) -> bool {
        if seq < self.next || !self.ahead.insert(seq) {
            return false;
        }
        self.advance();
        if self.ahead.len() > AHEAD
            && let Some(oldest) = self.ahead.pop_first()
        {
            // What lies before it is given up on.
            self.gave_up = true;
            self.next = oldest.saturating_add(1);
            self.advance();
        }
        true
    }

    /// The number after which a replay must begin so that nothing is missed.
    pub(super) fn last_seen(&self) -> u64 {
        self.next - 1
    }

    /// Whether every event up to `seq` has been seen.
    pub(super) fn has_all_to(&self, seq: u64) -> bool {
        !self.gave_up && seq < self.next
    }

    fn advance(&mut self) {
        while self.next < u64::MAX && self.ahead.remove(&self.next) {
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_known_and_late_ones_are_new() {
        let mut seen = SeenEvents::default();
        let new = [1, 3, 2, 2, 3, 30, 1, 29].map(|seq| seen.note(seq));
        assert_eq!(new, [true, true, true, false, false, true, false, true]);
        assert_eq!(seen.last_seen(), 3);
    }

    #[test]
    fn what_was_before_the_first_that_was_seen_is_new() {
        let mut seen = SeenEvents::default();
        assert!(seen.note(7));
        assert_eq!(seen.last_seen(), 0);
        assert_eq!(
            [1, 2, 3, 7].map(|seq| seen.note(seq)),
            [true, true, true, false]
        );
        assert_eq!(seen.last_seen(), 3);
        assert!(seen.has_all_to(3) && !seen.has_all_to(4));
    }

    #[test]
    fn memory_is_bounded() {
        let mut seen = SeenEvents::default();
        for seq in 0..20_000_u64 {
            assert!(seen.note(seq * 2 + 1));
        }
        assert!(seen.ahead.len() <= AHEAD);
        assert!(!seen.has_all_to(0), "what was given up on stays missing");
        assert!(!seen.note(39_999));
        assert!(seen.note(u64::MAX));
        assert!(!seen.note(u64::MAX));
    }
}
