//! The events and snapshots that are measured with.

use headcount_contract::{
    Activity, AuthoritativeSnapshot, Capabilities, Capability, ChildId, ChildIdentity, ChildState,
    Coverage, EventId, EventKind, LifecycleEvent, Sequence, Snapshot, SnapshotChild, SnapshotId,
    SourceEpoch, SourceId, SourceIdentity, Timestamp,
};

/// Whether events have a place in their child's order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    Sequenced,
    None,
}

const BEGINNING: i64 = 1_787_562_000;

/// That many nanoseconds after the beginning.
pub(crate) fn time(nanos: i64) -> Timestamp {
    let (seconds, nanos) = (
        nanos.div_euclid(1_000_000_000),
        nanos.rem_euclid(1_000_000_000),
    );
    Timestamp::from_unix(BEGINNING + seconds, nanos as u32).unwrap()
}

/// The moment one nanosecond before.
pub(crate) fn before(at: Timestamp) -> Timestamp {
    let nanos = at.as_nanos() - 1 - i128::from(BEGINNING) * 1_000_000_000;
    time(nanos as i64)
}

/// When that many of the children have been silent for too long, if each had two events, one a
/// microsecond.
pub(crate) fn stale_time(children: usize, due: usize) -> Timestamp {
    let last = i64::try_from(children + due).unwrap() - 1;
    time(last * 1_000 + 120_000_000_000)
}

fn source() -> SourceIdentity {
    SourceIdentity::new(
        SourceId::new("worker-cli").unwrap(),
        SourceEpoch::new("start-2").unwrap(),
    )
}

fn child(number: usize) -> ChildId {
    ChildId::new(format!("child-{number:08}")).unwrap()
}

/// `each` events of every child, one a microsecond, the children in another order each time.
pub(crate) fn feed(children: usize, each: usize, numbers: Numbers) -> Vec<LifecycleEvent> {
    let mut rng = fastrand::Rng::with_seed(7);
    let identities: Vec<_> = (0..children)
        .map(|n| ChildIdentity::root(child(n)))
        .collect();
    let work: Vec<_> = (0..16)
        .map(|n| Activity::new(format!("reading src/module_{n}.rs")))
        .collect();
    let capabilities = Capabilities {
        heartbeat: Capability::Known,
        ..Capabilities::UNKNOWN
    };
    let source = source();
    let mut order: Vec<_> = (0..children).collect();
    let mut events = Vec::with_capacity(children * each);
    for step in 0..each {
        if step > 1 {
            rng.shuffle(&mut order);
        }
        for number in &order {
            let kind = match step {
                0 => EventKind::Created,
                1 => EventKind::StateChanged(ChildState::RUNNING),
                _ if step % 8 == 7 => EventKind::StateChanged(ChildState::WAITING),
                _ if step % 8 == 0 => EventKind::StateChanged(ChildState::RUNNING),
                _ if step % 2 == 0 => EventKind::Heartbeat,
                _ => EventKind::Activity,
            };
            let at = time(i64::try_from(events.len()).unwrap() * 1_000);
            let id = EventId::new(format!("evt-{}", events.len())).unwrap();
            let identity = identities[*number].clone();
            let mut event =
                LifecycleEvent::new(id, source.clone(), identity, kind, at, capabilities);
            if numbers == Numbers::Sequenced {
                event = event.with_sequence(Sequence::new(step as u64).unwrap());
            }
            if kind == EventKind::Activity {
                event = event.with_activity(work[rng.usize(..16)].clone());
            }
            events.push(event);
        }
    }
    events
}

/// A complete snapshot of all of them.
pub(crate) fn snapshot(children: usize, state: ChildState, number: usize) -> Snapshot {
    let shown = (0..children)
        .map(|n| SnapshotChild::new(child(n), state))
        .collect();
    let id = SnapshotId::new(format!("snapshot-{number}")).unwrap();
    let at = time(10_000_000_000);
    AuthoritativeSnapshot::new(source(), id, at, Coverage::All, shown)
        .unwrap()
        .into()
}
