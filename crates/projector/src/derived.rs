//! The events that the projector makes itself, with names that a replay makes again (rule L5).

use headcount_contract::{
    ChildId, ChildState, Details, EventId, EventKind, LifecycleEvent, MAX_ID_BYTES, Outcome,
    Snapshot, SnapshotId, SourceEpoch, SourceId, SourceIdentity, Timestamp,
};
use serde_json::json;

use crate::audit::CORRECTION_REASON;
use crate::child::Child;

/// Makes the events of one snapshot: that it corrected a state, or showed a child that was not known.
#[derive(Debug)]
pub(crate) struct Corrections {
    source: SourceIdentity,
    snapshot: SnapshotId,
    observed_at: Timestamp,
    reason: &'static str,
    /// What the names begin with, of corrections and of children found.
    names: [Name; 2],
    /// The details of each step that came up: thousands of children take the same few.
    details: Vec<(Option<ChildState>, ChildState, Details)>,
}

impl Corrections {
    /// Those of a snapshot.
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let parts = [snapshot.source().epoch.as_str(), snapshot.id().as_str()];
        Self {
            names: ["correction", "found"].map(|what| Name::new(what, &parts)),
            source: snapshot.source().clone(),
            snapshot: snapshot.id().clone(),
            observed_at: snapshot.observed_at(),
            reason: match snapshot {
                Snapshot::Complete(_) => CORRECTION_REASON,
                Snapshot::Partial(_) => "partial_snapshot",
            },
            details: Vec::new(),
        }
    }

    /// That the child's state is `to`, and was `from` or unknown; `told` is what the snapshot said
    /// beside it.
    pub(crate) fn event(
        &mut self,
        child: &Child,
        from: Option<ChildState>,
        to: ChildState,
        told: &Details,
    ) -> LifecycleEvent {
        let [correction, found] = &mut self.names;
        let name = if from.is_some() { correction } else { found };
        let id = name.of(&child.id);
        let details = if told.is_empty() {
            self.details(from, to)
        } else {
            told.with(self.details(from, to).to_map())
        };
        let (source, at) = (self.source.clone(), self.observed_at);
        let kind = EventKind::Reconciliation(Some(to));
        event(id, source, child, kind, at).with_details(details)
    }

    fn details(&mut self, from: Option<ChildState>, to: ChildState) -> Details {
        let mut known = self.details.iter();
        if let Some((_, _, details)) = known.find(|(f, t, _)| (*f, *t) == (from, to)) {
            return details.clone();
        }
        let from_member = from.map(|from| ("from", json!(from)));
        let others = [
            ("to", json!(to)),
            ("snapshotId", json!(self.snapshot)),
            ("reason", json!(self.reason)),
        ];
        let details: Details = from_member.into_iter().chain(others).collect();
        self.details.push((from, to, details.clone()));
        details
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
    let id = Name::new("lost", &[source.epoch.as_str()]).of(&child.id);
    let details: Details = [
        ("basis", json!("reconcile_failed")),
        ("lastProvenAt", json!(proven_at)),
        ("staleSince", json!(stale_since)),
        ("reconcileAttempts", json!(attempts)),
    ]
    .into_iter()
    .collect();
    let kind = EventKind::Terminal(Outcome::Lost);
    event(id, source, child, kind, at).with_details(details)
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

/// The names of events that differ only in their child. A name depends on nothing but what is told
/// here, and nothing else has it.
#[derive(Debug)]
struct Name {
    what: &'static str,
    /// What all names begin with, and behind that whatever was last appended.
    text: String,
    beginning: usize,
}

impl Name {
    fn new(what: &'static str, parts: &[&str]) -> Self {
        let mut text = format!("headcount:{what}:");
        for part in parts {
            // Escaped, so that no two lists of parts have one name. The child ends it anyway.
            text.push_str(&part.replace('%', "%25").replace(':', "%3A"));
            text.push(':');
        }
        let beginning = text.len();
        Self {
            what,
            text,
            beginning,
        }
    }

    fn of(&mut self, child: &ChildId) -> EventId {
        self.text.truncate(self.beginning);
        self.text.push_str(child.as_str());
        let name = if self.text.len() > MAX_ID_BYTES {
            EventId::new(format!(
                "headcount:{}:{:032x}",
                self.what,
                fnv_1a(&self.text)
            ))
        } else {
            EventId::new(self.text.as_str())
        };
        // The parts are ids, so the name holds no control characters either.
        name.unwrap_or_else(|error| unreachable!("a name of ids is an id: {error}"))
    }
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

    fn event_id(what: &'static str, [part, child]: [&str; 2]) -> EventId {
        let child = ChildId::new(child).unwrap();
        Name::new(what, &[part]).of(&child)
    }

    #[test]
    fn names_are_readable_and_belong_to_one_list_of_parts() {
        assert_eq!(
            event_id("lost", ["start-1", "a:b"]).as_str(),
            "headcount:lost:start-1:a:b"
        );
        assert_eq!(
            event_id("lost", ["start-1:a", "b"]).as_str(),
            "headcount:lost:start-1%3Aa:b"
        );
        assert_ne!(
            event_id("lost", ["a%3A", "b"]),
            event_id("lost", ["a:", "b"])
        );
    }

    #[test]
    fn a_long_name_becomes_a_hash_that_never_changes() {
        let name = event_id("lost", [&"e".repeat(300), &"c".repeat(300)]);
        assert_eq!(
            name.as_str(),
            "headcount:lost:9bb2aaa70453b0081c8731c168e546f2"
        );
        assert_ne!(name, event_id("lost", [&"e".repeat(301), &"c".repeat(299)]));
        // The published test vectors of FNV-1a.
        assert_eq!(fnv_1a(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv_1a("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
