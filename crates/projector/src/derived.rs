//! The events that the projector makes itself, with names that a replay makes again (rule L5).

use headcount_contract::{
    ChildState, Details, EventId, EventKind, LifecycleEvent, MAX_ID_BYTES, Outcome, SnapshotId,
    SourceEpoch, SourceId, SourceIdentity, Timestamp,
};
use serde_json::json;

use crate::audit::CORRECTION_REASON;
use crate::child::Child;

/// That a complete snapshot corrected the state, or showed a child that was not known.
pub(crate) fn correction(
    child: &Child,
    source: SourceIdentity,
    from: Option<ChildState>,
    to: ChildState,
    snapshot: &SnapshotId,
    observed_at: Timestamp,
    reason: &'static str,
) -> LifecycleEvent {
    let parts = [source.epoch.as_str(), snapshot.as_str(), child.id.as_str()];
    let what = if from.is_some() {
        "correction"
    } else {
        "found"
    };
    let mut details = Vec::from([
        ("to", json!(to)),
        ("snapshotId", json!(snapshot)),
        ("reason", json!(reason)),
    ]);
    if let Some(from) = from {
        details.insert(0, ("from", json!(from)));
    }
    let kind = EventKind::Reconciliation(Some(to));
    event(event_id(what, &parts), source, child, kind, observed_at)
        .with_details(details.into_iter().collect())
}

/// Why a child appears in the projection that no event told of.
pub(crate) fn found_reason(complete: bool) -> &'static str {
    if complete {
        CORRECTION_REASON
    } else {
        "partial_snapshot"
    }
}

/// That a child is lost.
pub(crate) fn lost(
    child: &Child,
    source: SourceIdentity,
    at: Timestamp,
    proven_at: Timestamp,
    stale_since: Timestamp,
    attempts: u32,
) -> LifecycleEvent {
    let parts = [source.epoch.as_str(), child.id.as_str()];
    let details: Details = [
        ("basis", json!("reconcile_failed")),
        ("lastProvenAt", json!(proven_at)),
        ("staleSince", json!(stale_since)),
        ("reconcileAttempts", json!(attempts)),
    ]
    .into_iter()
    .collect();
    let kind = EventKind::Terminal(Outcome::Lost);
    event(event_id("lost", &parts), source, child, kind, at).with_details(details)
}

/// The source identity under which a child's derived events go.
pub(crate) fn identity(source: &SourceId, epoch: &SourceEpoch) -> SourceIdentity {
    SourceIdentity::new(source.clone(), epoch.clone())
}

fn event(
    id: EventId,
    source: SourceIdentity,
    child: &Child,
    kind: EventKind,
    at: Timestamp,
) -> LifecycleEvent {
    LifecycleEvent::new(id, source, child.identity(), kind, at, child.capabilities())
}

/// A name that depends on nothing but its parts, and that no other parts have.
fn event_id(what: &str, parts: &[&str]) -> EventId {
    let (last, others) = parts.split_last().unwrap_or((&"", &[]));
    let mut name = format!("headcount:{what}:");
    for part in others {
        // Escaped, so that no two lists of parts have one name. The last part ends the name anyway.
        name.push_str(&part.replace('%', "%25").replace(':', "%3A"));
        name.push(':');
    }
    name.push_str(last);
    if name.len() > MAX_ID_BYTES {
        name = format!("headcount:{what}:{:032x}", fnv_1a(&name));
    }
    // The parts are ids, so the name holds no control characters either.
    EventId::new(name).unwrap_or_else(|error| unreachable!("a name of ids is an id: {error}"))
}

/// FNV-1a of 128 bits: spelled out here because these names are kept in journals for ever.
fn fnv_1a(text: &str) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    let mix = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(PRIME);
    text.bytes().fold(OFFSET, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_readable_and_belong_to_one_list_of_parts() {
        assert_eq!(
            event_id("lost", &["start-1", "a:b"]).as_str(),
            "headcount:lost:start-1:a:b"
        );
        assert_eq!(
            event_id("lost", &["start-1:a", "b"]).as_str(),
            "headcount:lost:start-1%3Aa:b"
        );
        assert_ne!(
            event_id("lost", &["a%3A", "b"]),
            event_id("lost", &["a:", "b"])
        );
    }

    #[test]
    fn a_long_name_becomes_a_hash_that_never_changes() {
        let name = event_id("lost", &[&"e".repeat(300), &"c".repeat(300)]);
        assert_eq!(
            name.as_str(),
            "headcount:lost:9bb2aaa70453b0081c8731c168e546f2"
        );
        assert_ne!(
            name,
            event_id("lost", &[&"e".repeat(301), &"c".repeat(299)])
        );
        // The published test vectors of FNV-1a.
        assert_eq!(fnv_1a(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv_1a("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
