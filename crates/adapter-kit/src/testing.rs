//! Small values for this crate's own tests.

use headcount_contract::{
    Capabilities, ChildId, ChildIdentity, EventId, EventKind, LifecycleEvent, Sequence,
    SourceEpoch, SourceId, SourceIdentity, Timestamp,
};

pub(crate) fn event(child: &str, n: u64, kind: EventKind) -> LifecycleEvent {
    LifecycleEvent::new(
        EventId::new(format!("{child}-{n}")).unwrap(),
        SourceIdentity::new(SourceId::new("s").unwrap(), SourceEpoch::new("e").unwrap()),
        ChildIdentity::root(ChildId::new(child).unwrap()),
        kind,
        Timestamp::UNIX_EPOCH,
        Capabilities::UNKNOWN,
    )
    .with_sequence(Sequence::new(n).unwrap())
}
