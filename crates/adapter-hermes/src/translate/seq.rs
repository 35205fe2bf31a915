//! Which of a session's events have been seen, by their `seq`.

use std::collections::BTreeSet;

/// How many numbers beyond a hole are remembered.
const AHEAD: usize = 4096;

/// The events of one session that have been seen: everything below a number, and some beyond.
///
/// Threads of the gateway may write two events in the other order than they were counted, so a
/// high-water mark alone would take the later one for a repetition.
#[derive(Debug, Default)]
pub(super) struct SeenEvents {
    /// Everything below has been seen, or lies before we looked.
    next: Option<u64>,
    ahead: BTreeSet<u64>,
}

impl SeenEvents {
    /// Notes a number; whether it is new.
    pub(super) fn note(&mut self, seq: u64) -> bool {
        let next = *self.next.get_or_insert(seq);
        if seq < next || !self.ahead.insert(seq) {
            return false;
        }
        self.advance(next);
        if self.ahead.len() > AHEAD
            && let Some(oldest) = self.ahead.pop_first()
        {
            self.advance(oldest.saturating_add(1));
        }
        true
    }

    /// A replay from the session's first event is expected, which a gateway numbers 1.
    pub(super) fn expect_all(&mut self) {
        self.next.get_or_insert(1);
    }

    /// The number after which a replay must begin so that nothing is missed.
    pub(super) fn last_seen(&self) -> u64 {
        self.next.map_or(0, |next| next.saturating_sub(1))
    }

    fn advance(&mut self, mut next: u64) {
        while next < u64::MAX && self.ahead.remove(&next) {
            next += 1;
        }
        self.next = Some(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_known_and_late_ones_are_new() {
        let mut seen = SeenEvents::default();
        let new = [8, 10, 9, 9, 10, 30, 8, 29].map(|seq| seen.note(seq));
        assert_eq!(new, [true, true, true, false, false, true, false, true]);
        assert_eq!(seen.last_seen(), 10);
    }

    #[test]
    fn a_replay_from_the_start_is_new_even_after_a_later_event() {
        let mut seen = SeenEvents::default();
        seen.expect_all();
        assert_eq!([7, 1, 2].map(|seq| seen.note(seq)), [true; 3]);
        assert_eq!(seen.last_seen(), 2);
    }

    #[test]
    fn memory_is_bounded() {
        let mut seen = SeenEvents::default();
        for seq in 0..20_000_u64 {
            assert!(seen.note(seq * 2 + 1));
        }
        assert!(seen.ahead.len() <= AHEAD);
        assert!(!seen.note(39_999));
        assert!(seen.note(u64::MAX));
        assert!(!seen.note(u64::MAX));
    }
}
