//! Which event or snapshot set a fact, and when (rule C3), in as few bytes as that takes.

use headcount_contract::{Activity, EventId, EventKind, LifecycleEvent, Timestamp};

use crate::sequence::Place;

/// The facts of which it is kept, a child, who set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fact {
    /// What it was last at work on.
    Activity,
    /// When it last said that it lives.
    Heartbeat,
    /// Its state.
    State,
    /// That it exists.
    First,
}

/// What a child is at work on, and who set each of its facts. What is set together lies together.
#[derive(Debug, Clone, Default)]
#[repr(C)]
pub(crate) struct Facts {
    pub(crate) activity: Option<Activity>,
    activity_name: Name,
    // Two by two, as each alone would be padded by four bytes.
    work_seen: [Seen; 2],
    heartbeat_name: Name,
    state_name: Name,
    told_seen: [Seen; 2],
    first_name: Name,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Facts>() == 160);

/// One event, or one child in a snapshot, as far as it is kept of which fact came from it.
#[derive(Debug, Clone)]
pub(crate) struct Stamp {
    pub(crate) name: Name,
    pub(crate) seen: Seen,
}

/// What names an event, or a snapshot.
#[derive(Debug, Clone)]
pub(crate) enum Name {
    /// Its id, or the snapshot's in the same form.
    Id(EventId),
    /// Its place in its child's order, which names it as well (rule O1); none at [`Place::NONE`].
    Place(Place),
}

impl Default for Name {
    fn default() -> Self {
        Self::Place(Place::NONE)
    }
}

impl Stamp {
    /// An event by its id: for what is set once or rarely.
    pub(crate) fn by_id(event: &LifecycleEvent, seen: Seen) -> Self {
        let name = Name::Id(event.event_id().clone());
        Self { name, seen }
    }

    /// An event by its place, if it has one: for what is set all the time. To let go of the id that was
    /// kept before would cost a cache miss an event.
    pub(crate) fn by_place(event: &LifecycleEvent, seen: Seen) -> Self {
        match event.sequence() {
            Some(sequence) => Self {
                name: Name::Place(Place::new(sequence.get())),
                seen,
            },
            None => Self::by_id(event, seen),
        }
    }
}

/// When it was observed and received, in which epoch, and what kind it was: 20 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Seen {
    observed: [u32; 2],
    received: [u32; 2],
    /// Bits 32 to 39 of the two times' seconds.
    upper: [u8; 2],
    /// The epoch's number in the upper 13 bits, the origin in the lower 3.
    epoch_and_origin: u16,
}

/// What set a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// An event of a kind of that name.
    Event(&'static str),
    /// A snapshot.
    Snapshot,
}

/// Epochs are told apart by the lower 13 bits of their number; far fewer are remembered.
pub(crate) const EPOCH_NUMBERS: u16 = 1 << 13;

const SNAPSHOT: u16 = 7;
const RECONCILIATION: u16 = 5;

/// The place of a kind in [`EventKind::NAMES`].
pub(crate) fn kind_code(kind: EventKind) -> u8 {
    match kind {
        EventKind::Created => 0,
        EventKind::StateChanged(_) => 1,
        EventKind::Activity => 2,
        EventKind::Heartbeat => 3,
        EventKind::Terminal(_) => 4,
        EventKind::Reconciliation(_) => 5,
        EventKind::Diagnostic(_) => 6,
    }
}

impl Seen {
    pub(crate) fn event(event: &LifecycleEvent, received_at: Timestamp, epoch: u16) -> Self {
        Self::new(
            event.observed_at(),
            received_at,
            epoch,
            kind_code(event.kind()).into(),
        )
    }

    pub(crate) fn snapshot(observed_at: Timestamp, received_at: Timestamp, epoch: u16) -> Self {
        Self::new(observed_at, received_at, epoch, SNAPSHOT)
    }

    fn new(observed_at: Timestamp, received_at: Timestamp, epoch: u16, origin: u16) -> Self {
        let (observed, observed_upper) = pack(observed_at);
        let (received, received_upper) = pack(received_at);
        Self {
            observed,
            received,
            upper: [observed_upper, received_upper],
            epoch_and_origin: epoch << 3 | origin,
        }
    }

    pub(crate) fn observed_at(&self) -> Timestamp {
        unpack(self.observed, self.upper[0])
    }

    pub(crate) fn received_at(&self) -> Timestamp {
        unpack(self.received, self.upper[1])
    }

    /// Until when at least it is known to hold: the source's clock never counts beyond ours (L2).
    pub(crate) fn known_at(&self) -> Timestamp {
        self.observed_at().min(self.received_at())
    }

    pub(crate) fn epoch(&self) -> u16 {
        self.epoch_and_origin >> 3
    }

    pub(crate) fn origin(&self) -> Origin {
        match self.epoch_and_origin & 7 {
            SNAPSHOT => Origin::Snapshot,
            kind => Origin::Event(EventKind::NAMES[usize::from(kind)]),
        }
    }

    /// Whether it came from looking at the source, not from the source's own events.
    pub(crate) fn is_second_hand(&self) -> bool {
        matches!(self.epoch_and_origin & 7, SNAPSHOT | RECONCILIATION)
    }
}

impl Facts {
    /// Those of a child as first observed.
    pub(crate) fn new(first: &Stamp) -> Self {
        Self {
            told_seen: [first.seen; 2],
            state_name: first.name.clone(),
            first_name: first.name.clone(),
            ..Self::default()
        }
    }

    pub(crate) fn set(&mut self, fact: Fact, by: Stamp) {
        match fact {
            Fact::Activity => (self.work_seen[0], self.activity_name) = (by.seen, by.name),
            Fact::Heartbeat => (self.work_seen[1], self.heartbeat_name) = (by.seen, by.name),
            Fact::State => (self.told_seen[0], self.state_name) = (by.seen, by.name),
            Fact::First => (self.told_seen[1], self.first_name) = (by.seen, by.name),
        }
    }

    fn get(&self, fact: Fact) -> (&Name, &Seen) {
        match fact {
            Fact::Activity => (&self.activity_name, &self.work_seen[0]),
            Fact::Heartbeat => (&self.heartbeat_name, &self.work_seen[1]),
            Fact::State => (&self.state_name, &self.told_seen[0]),
            Fact::First => (&self.first_name, &self.told_seen[1]),
        }
    }

    /// What set a fact.
    pub(crate) fn by(&self, fact: Fact) -> Stamp {
        let (name, seen) = self.get(fact);
        Stamp {
            name: name.clone(),
            seen: *seen,
        }
    }

    /// When a fact was told, and by what kind of thing; none if it was not.
    pub(crate) fn seen(&self, fact: Fact) -> Option<&Seen> {
        let (name, seen) = self.get(fact);
        (!name.is_none()).then_some(seen)
    }

    /// The same of the state, which somebody told or was taken to have told.
    pub(crate) fn state(&self) -> &Seen {
        self.get(Fact::State).1
    }

    /// The same of the child's first observation.
    pub(crate) fn first(&self) -> &Seen {
        self.get(Fact::First).1
    }
}

impl Name {
    fn is_none(&self) -> bool {
        matches!(self, Self::Place(Place::NONE))
    }
}

/// Seconds of year 0 relative to 1970; no time is earlier.
const YEAR_ZERO: i64 = -62_167_219_200;

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // 0000 to 9999 takes 39 bits
fn pack(at: Timestamp) -> ([u32; 2], u8) {
    let seconds = (at.unix_seconds() - YEAR_ZERO) as u64;
    ([seconds as u32, at.subsec_nanos()], (seconds >> 32) as u8)
}

fn unpack([seconds, nanos]: [u32; 2], upper: u8) -> Timestamp {
    let seconds = i64::from(upper) << 32 | i64::from(seconds);
    Timestamp::from_unix(seconds + YEAR_ZERO, nanos).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Nanoseconds since 1970, held at the years 1677 and 2262: for deadlines, never for showing.
pub(crate) fn nanos(at: Timestamp) -> i64 {
    at.unix_seconds()
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(at.subsec_nanos()))
}

/// The moment of [`nanos`].
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // rem_euclid is below a billion
pub(crate) fn moment(nanos: i64) -> Timestamp {
    let within = nanos.rem_euclid(1_000_000_000) as u32;
    Timestamp::from_unix(nanos.div_euclid(1_000_000_000), within).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// A duration in nanoseconds, held at 292 years.
pub(crate) fn length(duration: std::time::Duration) -> i64 {
    i64::try_from(duration.as_secs())
        .unwrap_or(i64::MAX)
        .saturating_mul(1_000_000_000)
        .saturating_add(i64::from(duration.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_comes_back_as_it_went_in() {
        for text in [
            "0000-01-01T00:00:00.000Z",
            "0001-01-01T00:00:00.000000001Z",
            "1969-12-31T23:59:59.999999999Z",
            "2026-08-24T09:15:30.123456789Z",
            "9999-12-31T23:59:59.999999999Z",
        ] {
            let at: Timestamp = text.parse().unwrap();
            let seen = Seen::snapshot(at, Timestamp::UNIX_EPOCH, EPOCH_NUMBERS - 1);
            assert_eq!(seen.observed_at(), at);
            assert_eq!(seen.received_at(), Timestamp::UNIX_EPOCH);
            assert_eq!(seen.epoch(), EPOCH_NUMBERS - 1);
            assert_eq!(seen.origin(), Origin::Snapshot);
        }
    }
}
