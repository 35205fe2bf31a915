//! What a stream has shown of its children, for the snapshot that it can give. Pure.

use std::collections::{HashMap, VecDeque};

use headcount_contract::{
    ChildId, ChildIdentity, ChildState, LifecycleEvent, PartialSnapshot, Sequence, Snapshot,
    SnapshotChild, SnapshotId, SourceEpoch, SourceId, SourceIdentity, Timestamp,
};

/// How many children are remembered of all sources together.
pub(crate) const MAX_CHILDREN: usize = 65_536;
/// How many sources are remembered.
pub(crate) const MAX_SOURCES: usize = 4_096;
/// How many superseded epochs of a source are remembered.
const MAX_EPOCHS: usize = 32;

/// The children of each source's latest epoch, as the stream showed them last. Bounded: beyond the
/// bound those heard of first are forgotten.
#[derive(Debug)]
pub(crate) struct Observed {
    /// Makes the ids of our snapshots unlike those of another life of this adapter.
    prefix: String,
    sources: HashMap<SourceId, Source>,
    /// Children in the order in which they were first heard of.
    order: VecDeque<(SourceId, SourceEpoch, ChildId)>,
    source_order: VecDeque<SourceId>,
    forgotten: u64,
    without_capabilities: u64,
}

#[derive(Debug)]
struct Source {
    epoch: SourceEpoch,
    /// The latest ones before it.
    superseded: VecDeque<SourceEpoch>,
    children: HashMap<ChildId, Child>,
    /// How much was heard, which names the snapshot.
    heard: u64,
    /// What the producer itself said last, if nothing was heard since.
    own: Option<Snapshot>,
    capabilities_absent: bool,
}

#[derive(Debug)]
struct Child {
    identity: ChildIdentity,
    state: Option<ChildState>,
    sequence: Option<Sequence>,
    last_heard: Timestamp,
}

impl Observed {
    pub(crate) fn new(prefix: impl Into<String>) -> Self {
        Self {
            prefix: prefix.into(),
            sources: HashMap::new(),
            order: VecDeque::new(),
            source_order: VecDeque::new(),
            forgotten: 0,
            without_capabilities: 0,
        }
    }

    /// How many children were forgotten for want of room.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// How many sources wrote events without capabilities (rule W4).
    pub(crate) fn without_capabilities(&self) -> u64 {
        self.without_capabilities
    }

    pub(crate) fn event(&mut self, event: &LifecycleEvent, capabilities_absent: bool) {
        let Some(source) = self.source(event.source_identity()) else {
            return;
        };
        source.heard += 1;
        source.own = None;
        let newly_absent = capabilities_absent && !source.capabilities_absent;
        source.capabilities_absent |= capabilities_absent;
        let known = source.children.get_mut(event.child_id());
        let is_new = known.is_none();
        if let Some(child) = known {
            child.event(event);
        } else {
            let child = Child::new(event);
            source.children.insert(event.child_id().clone(), child);
        }
        self.without_capabilities += u64::from(newly_absent);
        if is_new {
            self.make_room();
            self.order.push_back((
                event.source().clone(),
                event.source_epoch().clone(),
                event.child_id().clone(),
            ));
        }
    }

    pub(crate) fn snapshot(&mut self, snapshot: &Snapshot) {
        if let Some(source) = self.source(snapshot.source()) {
            source.heard += 1;
            source.own = Some(snapshot.clone());
        }
    }

    /// What is known now, a snapshot for each source.
    ///
    /// A producer's own latest snapshot if nothing came after it; otherwise a partial one. Its time
    /// is that of the child that was heard of longest ago: to repeat what was heard is no sign of
    /// life, so it must not look newer than what it repeats.
    pub(crate) fn snapshots(&self) -> Vec<Snapshot> {
        let mut all: Vec<_> = self.sources.iter().collect();
        all.sort_by(|a, b| a.0.cmp(b.0));
        all.into_iter()
            .filter_map(|(id, source)| source.snapshot(id, &self.prefix))
            .collect()
    }

    /// The source in its latest epoch; none if it speaks of a superseded one (rule O7).
    fn source(&mut self, identity: &SourceIdentity) -> Option<&mut Source> {
        if !self.sources.contains_key(&identity.source) {
            while self.source_order.len() >= MAX_SOURCES {
                if let Some(source) = self.source_order.pop_front()
                    && let Some(source) = self.sources.remove(&source)
                {
                    self.forgotten += source.children.len() as u64;
                }
            }
            self.source_order.push_back(identity.source.clone());
        }
        let source = self
            .sources
            .entry(identity.source.clone())
            .or_insert_with(|| Source::new(identity.epoch.clone()));
        if source.epoch != identity.epoch {
            if source.superseded.contains(&identity.epoch) {
                return None;
            }
            let former = std::mem::replace(&mut source.epoch, identity.epoch.clone());
            if source.superseded.len() == MAX_EPOCHS {
                source.superseded.pop_front();
            }
            source.superseded.push_back(former);
            source.children.clear();
            source.own = None;
        }
        Some(source)
    }

    fn make_room(&mut self) {
        while self.order.len() >= MAX_CHILDREN {
            if let Some((source, epoch, child)) = self.order.pop_front()
                && let Some(source) = self.sources.get_mut(&source)
                && source.epoch == epoch
                && source.children.remove(&child).is_some()
            {
                self.forgotten += 1;
            }
        }
    }
}

impl Child {
    fn new(event: &LifecycleEvent) -> Self {
        let mut child = Self {
            identity: event.child().clone(),
            state: None,
            sequence: None,
            last_heard: event.observed_at(),
        };
        child.event(event);
        child
    }

    fn event(&mut self, event: &LifecycleEvent) {
        self.last_heard = self.last_heard.max(event.observed_at());
        let late = event.sequence() < self.sequence;
        self.sequence = self.sequence.max(event.sequence());
        let Some(state) = event.state() else {
            return;
        };
        let ended = self.state.is_some_and(ChildState::is_terminal);
        if !ended && (!late || state.is_terminal() || self.state.is_none()) {
            self.state = Some(state);
        }
    }
}

impl Source {
    fn new(epoch: SourceEpoch) -> Self {
        Self {
            epoch,
            superseded: VecDeque::new(),
            children: HashMap::new(),
            heard: 0,
            own: None,
            capabilities_absent: false,
        }
    }

    fn snapshot(&self, id: &SourceId, prefix: &str) -> Option<Snapshot> {
        if let Some(own) = &self.own {
            return Some(own.clone());
        }
        let mut children: Vec<&Child> = self
            .children
            .values()
            .filter(|c| c.state.is_some())
            .collect();
        children.sort_by(|a, b| a.identity.id().cmp(b.identity.id()));
        let oldest = children.iter().map(|child| child.last_heard).min()?;
        let children = children
            .into_iter()
            .filter_map(|child| {
                let shown = SnapshotChild::with_identity(child.identity.clone(), child.state?);
                Some(match child.sequence {
                    Some(sequence) => shown.with_sequence(sequence),
                    None => shown,
                })
            })
            .collect();
        let source = SourceIdentity::new(id.clone(), self.epoch.clone());
        let id = SnapshotId::new(format!("{prefix}-{}", self.heard)).ok()?;
        // Children are keys of a map: none is there twice, which is all that can be wrong.
        PartialSnapshot::new(source, id, oldest, children)
            .ok()
            .map(Snapshot::Partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headcount_contract::{WireLimits, WireLine, parse_line};

    fn line(child: &str, epoch: &str, rest: &str) -> String {
        format!(
            r#"{{"schemaVersion":1,"eventId":"x","source":"w","sourceEpoch":"{epoch}","childId":"{child}","lineage":{{"rootChildId":"{child}","attempt":0,"external":false}},{rest}}}"#
        )
    }

    fn observe(lines: &[String]) -> Observed {
        let mut observed = Observed::new("p");
        for line in lines {
            match parse_line(line, &WireLimits::default()).unwrap() {
                WireLine::Event(parsed) => {
                    observed.event(&parsed.event, parsed.capabilities_absent);
                }
                WireLine::Snapshot(snapshot) => observed.snapshot(&snapshot),
            }
        }
        observed
    }

    fn json(observed: &Observed) -> Vec<String> {
        observed.snapshots().iter().map(Snapshot::to_json).collect()
    }

    const CREATED: &str =
        r#""kind":"created","state":"created","observedAt":"2026-01-01T00:00:10Z","sequence":0"#;
    const RUNNING: &str = r#""kind":"state_changed","state":"running","observedAt":"2026-01-01T00:00:20Z","sequence":1"#;
    const FAILED: &str =
        r#""kind":"terminal","state":"failed","observedAt":"2026-01-01T00:00:30Z","sequence":3"#;
    const LATE: &str = r#""kind":"state_changed","state":"waiting","observedAt":"2026-01-01T00:00:25Z","sequence":2"#;

    #[test]
    fn shows_what_the_stream_showed_no_newer_than_it_is() {
        let observed = observe(&[
            line("a", "e", CREATED),
            line("b", "e", CREATED),
            line("a", "e", RUNNING),
            line("a", "e", FAILED),
            line("a", "e", LATE),
        ]);
        insta::assert_snapshot!(json(&observed).join("\n"), @r#"{"source":"w","sourceEpoch":"e","snapshotId":"p-5","observedAt":"2026-01-01T00:00:10.000Z","complete":false,"children":[{"childId":"a","state":"failed","sequence":3,"lineage":{"rootChildId":"a","attempt":0,"external":false}},{"childId":"b","state":"created","sequence":0,"lineage":{"rootChildId":"b","attempt":0,"external":false}}]}"#);
        assert_eq!(observed.without_capabilities(), 1);
    }

    #[test]
    fn a_new_epoch_knows_none_of_the_former_children() {
        let observed = observe(&[line("a", "e1", CREATED), line("b", "e2", CREATED)]);
        let json = json(&observed).join("\n");
        assert!(json.contains("\"e2\"") && !json.contains("\"a\""), "{json}");
    }

    #[test]
    fn gives_the_producers_own_snapshot_until_something_comes_after_it() {
        let own = r#"{"source":"w","sourceEpoch":"e","snapshotId":"own","observedAt":"2026-01-01T00:00:40.000Z","complete":true,"coverage":"all","children":[{"childId":"a","state":"running"}]}"#;
        let mut lines = vec![line("a", "e", CREATED), own.to_owned()];
        assert_eq!(json(&observe(&lines)), [own]);
        lines.push(line("a", "e", RUNNING));
        assert!(!json(&observe(&lines))[0].contains("own"));
    }

    #[test]
    fn memory_is_bounded() {
        let mut observed = Observed::new("p");
        for n in 0..MAX_CHILDREN + 100 {
            let line = line(&format!("c{n}"), "e", CREATED);
            let parsed = headcount_contract::parse_event(&line, &WireLimits::default()).unwrap();
            observed.event(&parsed.event, false);
        }
        assert_eq!(observed.forgotten(), 100);
        assert_eq!(observed.snapshots()[0].children().len(), MAX_CHILDREN);
        for n in 0..MAX_SOURCES + 10 {
            let line = line("c", "e", CREATED).replace("\"w\"", &format!("\"w{n}\""));
            let parsed = headcount_contract::parse_event(&line, &WireLimits::default()).unwrap();
            observed.event(&parsed.event, false);
        }
        assert!(observed.sources.len() <= MAX_SOURCES);
        assert!(observed.order.len() <= MAX_CHILDREN);
    }
}
