//! What a gateway lists of its children.

use std::collections::{HashMap, HashSet};

use headcount_contract::{
    Activity, AuthoritativeSnapshot, Capability, ChildId, ChildState, Coverage, EventKind,
    PartialSnapshot, Signal, Snapshot, SnapshotChild, SnapshotId, Timestamp,
};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::{cut, details, string};
use super::outcome::state;

/// What came of a listing.
#[derive(Debug, Clone)]
pub(crate) struct Listing {
    pub(crate) snapshot: Snapshot,
    /// Live children that a complete listing does not name: how they ended must be found out.
    pub(crate) omitted: Vec<ChildId>,
}

/// Who wrote a listing, and so what its words mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lister {
    /// `delegation.status`: the running children of the whole gateway process. "running" says no
    /// more than that the child has not ended.
    Gateway,
    /// A host that hands in flat records, which says itself whether it lists all of them.
    Host {
        /// It says so.
        complete: bool,
    },
}

impl Translator {
    /// The adapter asks for listings again and again, so that a child that lives is listed again.
    pub(crate) fn polling(&mut self, polling: Capability) {
        self.polls = polling;
    }

    /// How many children have been met: an answer to what is asked now need not know later ones.
    pub(crate) fn met(&self) -> u64 {
        self.met
    }

    /// Reads what `delegation.status` answered when it was asked after `met` children.
    pub(crate) fn status(&mut self, result: &Value, met: u64, at: Timestamp) -> Option<Listing> {
        if !self.is_open() {
            self.ready(None);
        }
        let record = result.as_object()?;
        record.get("active")?.as_array()?;
        Some(self.listing(record, "active", Lister::Gateway, met, at))
    }

    /// A snapshot record without an envelope; it is handed on.
    pub(super) fn flat_snapshot(&mut self, record: &Map<String, Value>, at: Timestamp) {
        let complete = record.get("complete") == Some(&Value::Bool(true));
        let listing = if record.contains_key("delegations") {
            self.listing(
                record,
                "delegations",
                Lister::Host { complete },
                self.met,
                at,
            )
        } else {
            self.listing(record, "active", Lister::Gateway, self.met, at)
        };
        self.out.signals.push(Signal::Snapshot(listing.snapshot));
    }

    fn listing(
        &mut self,
        record: &Map<String, Value>,
        key: &str,
        lister: Lister,
        met: u64,
        at: Timestamp,
    ) -> Listing {
        let entries: Vec<&Map<String, Value>> = match record.get(key) {
            Some(Value::Array(entries)) => entries.iter().filter_map(Value::as_object).collect(),
            _ => Vec::new(),
        };
        let whole = self.is_whole(lister, !entries.is_empty(), met);
        if whole {
            self.verified.snapshot = Capability::Known;
            self.verified.heartbeat = self.polls;
        } else if self.isolated {
            self.verified.snapshot = Capability::Unknown;
            self.verified.heartbeat = Capability::Unknown;
        }
        let mut named = HashSet::new();
        let mut children = Vec::new();
        for entry in parents_first(&entries) {
            let Some(id) = self.listed_id(entry) else {
                self.count("listed_without_a_legal_id");
                continue;
            };
            if !named.insert(id.clone()) {
                self.count("listed_twice");
                continue;
            }
            self.listed(&id, entry, lister, at);
            if let Some(child) = self.children.get(&id) {
                let mut told = Map::new();
                for (key, name) in [("status", "rawStatus"), ("tool_count", "toolCount")] {
                    if let Some(value @ (Value::String(_) | Value::Number(_))) = entry.get(key) {
                        told.insert(name.to_owned(), value.clone());
                    }
                }
                let one = SnapshotChild::with_identity(child.identity.clone(), child.state);
                let one = one.with_details(told.into());
                children.push(match child.sequence {
                    Some(sequence) => one.with_sequence(sequence),
                    None => one,
                });
            }
        }
        let unlisted = self.live.iter().filter(|id| !named.contains(*id));
        // Whoever began after the question may be missing in the answer.
        let (omitted, later): (Vec<_>, Vec<_>) = unlisted
            .cloned()
            .partition(|id| self.is_met_before(id, met));
        if !whole {
            return Listing {
                snapshot: self.snapshot(None, children, at),
                omitted: Vec::new(),
            };
        }
        let coverage = if later.is_empty() {
            Coverage::All
        } else {
            let ids = children.iter().map(SnapshotChild::id);
            Coverage::Children(ids.chain(&omitted).cloned().collect())
        };
        Listing {
            snapshot: self.snapshot(Some(coverage), children, at),
            omitted,
        }
    }

    fn is_met_before(&self, id: &ChildId, met: u64) -> bool {
        let child = self.children.get(id);
        child.is_some_and(|child| child.met_after < met)
    }

    /// Whether the listing proves that who is not in it does not run.
    ///
    /// With `dashboard.turn_isolation` the children run in other processes, and the listing stays
    /// empty while their events flow.
    fn is_whole(&mut self, lister: Lister, lists_some: bool, met: u64) -> bool {
        match lister {
            Lister::Host { complete } => complete,
            Lister::Gateway if lists_some => {
                self.listed_some = true;
                self.isolated = false;
                true
            }
            Lister::Gateway => {
                let contradicted = self.live.iter().any(|id| {
                    self.children
                        .get(id)
                        .is_some_and(|child| child.seen_in_events && child.met_after < met)
                });
                if contradicted && !self.listed_some {
                    self.isolated = true;
                    self.out.limits.insert(
                        "the gateway's listing is empty while children run (turn isolation?): \
                         a child that ends unseen can only be noticed by its silence",
                    );
                }
                !self.isolated
            }
        }
    }

    fn listed_id(&mut self, entry: &Map<String, Value>) -> Option<ChildId> {
        let raw = raw_id(entry)?;
        let session = string(entry, "session_id");
        self.resolve(raw, session)
    }

    /// One listed child.
    fn listed(&mut self, id: &ChildId, entry: &Map<String, Value>, lister: Lister, at: Timestamp) {
        let is_new = !self.children.contains_key(id);
        if is_new {
            let raw = raw_id(entry).unwrap_or_default().to_owned();
            let session = string(entry, "session_id").map(str::to_owned);
            let parent = string(entry, "parent_id");
            if !self.meet(id, &raw, parent, session.as_deref(), ChildState::CREATED) {
                return;
            }
        }
        let tool_count = entry.get("tool_count").and_then(Value::as_u64);
        let last_tool = string(entry, "last_tool").map(cut);
        let Some(child) = self.children.get_mut(id) else {
            return;
        };
        if !child.is_live() {
            return self.count("listed_after_the_end");
        }
        child.facts.learn(entry);
        child.joined_midway |= is_new;
        let changed = (tool_count.is_some() && tool_count != child.tool_count)
            || (last_tool.is_some() && last_tool != child.last_tool);
        let news = changed && last_tool.is_some();
        child.tool_count = tool_count.or(child.tool_count);
        if news {
            child.last_tool.clone_from(&last_tool);
            child.last_command = None;
        }
        let before = child.state;
        let status = string(entry, "status");
        let told = status.map_or(Some(ChildState::RUNNING), state);
        match (told, lister) {
            (Some(ChildState::Terminal(outcome)), _) => {
                let more = details([("basis", json!("listed")), ("rawStatus", json!(status))]);
                return self.end(id, outcome, more.to_map(), at);
            }
            // A listing of those that run, with a word that is new: it runs.
            (None, Lister::Gateway) => {
                self.bring_up(id, true, at);
                self.not_understood(id, status, at);
            }
            (None, Lister::Host { .. }) => {
                self.not_understood(id, status, at);
                let more = details([("basis", json!("listed")), ("rawStatus", json!(status))]);
                return self.end(id, headcount_contract::Outcome::Failed, more.to_map(), at);
            }
            // The gateway calls running what waits for a person, too.
            (Some(ChildState::RUNNING), Lister::Gateway) if before == ChildState::WAITING => {}
            (Some(told), _) => self.move_to(id, told, at),
        }
        if news {
            let activity = last_tool.as_deref().map(Activity::new);
            let more = details([("toolCount", json!(tool_count))]);
            self.emit(id, EventKind::Activity, more.to_map(), activity, at);
        }
        self.emit(id, EventKind::Heartbeat, Map::new(), None, at);
    }

    /// Moves a live child to a live state that the source names.
    pub(super) fn move_to(&mut self, id: &ChildId, told: ChildState, at: Timestamp) {
        let Some(child) = self.children.get(id) else {
            return;
        };
        let (before, facts) = (child.state, child.details());
        let unsaid = child.sequence.is_none() && before == ChildState::CREATED;
        match told {
            ChildState::CREATED if unsaid => {
                self.emit(id, EventKind::Created, facts, None, at);
            }
            ChildState::STARTING if before == ChildState::CREATED => {
                if unsaid {
                    let mut all = facts.clone();
                    all.insert("inferred".to_owned(), json!(true));
                    self.emit(id, EventKind::Created, all, None, at);
                }
                self.set(id, told);
                self.emit(id, EventKind::StateChanged(told), facts, None, at);
            }
            ChildState::WAITING if before != ChildState::WAITING => {
                self.bring_up(id, false, at);
                self.set(id, told);
                self.emit(id, EventKind::StateChanged(told), facts, None, at);
            }
            ChildState::RUNNING => self.bring_up(id, true, at),
            // A listing that lags does not take back what was known.
            _ => {}
        }
    }

    fn set(&mut self, id: &ChildId, state: ChildState) {
        if let Some(child) = self.children.get_mut(id) {
            child.state = state;
        }
    }

    /// The gateway process has ended: nothing runs in it, unless children ran in other processes.
    pub(crate) fn nothing_runs(&mut self, at: Timestamp) -> Snapshot {
        let coverage = (!self.isolated).then_some(Coverage::All);
        self.snapshot(coverage, Vec::new(), at)
    }

    /// A complete one where a coverage is told. Each child is listed once, all are covered, and the
    /// id is legal: this cannot fail.
    #[allow(clippy::expect_used)]
    fn snapshot(
        &mut self,
        coverage: Option<Coverage>,
        children: Vec<SnapshotChild>,
        at: Timestamp,
    ) -> Snapshot {
        self.snapshots += 1;
        // With the time, so that an adapter that comes back to a gateway names none twice.
        let id = format!("snapshot-{}-{}", at.as_millis(), self.snapshots);
        let id = SnapshotId::new(id).expect("a legal identifier");
        let source = self.identity();
        if let Some(coverage) = coverage {
            AuthoritativeSnapshot::new(source, id, at, coverage, children)
                .expect("each child once, all covered")
                .into()
        } else {
            PartialSnapshot::new(source, id, at, children)
                .expect("each child once")
                .into()
        }
    }
}

fn raw_id(entry: &Map<String, Value>) -> Option<&str> {
    ["subagent_id", "child_id"]
        .into_iter()
        .find_map(|key| string(entry, key))
}

/// The entries in an order in which no parent follows its child, so that lineage can be followed.
fn parents_first<'a>(entries: &[&'a Map<String, Value>]) -> Vec<&'a Map<String, Value>> {
    let by_id: HashMap<&str, usize> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| Some((raw_id(entry)?, at)))
        .collect();
    let mut placed = vec![false; entries.len()];
    let mut order = Vec::with_capacity(entries.len());
    for start in 0..entries.len() {
        let (mut chain, mut next) = (Vec::new(), Some(start));
        while let Some(at) = next.filter(|at| !placed[*at]) {
            placed[at] = true;
            chain.push(entries[at]);
            next = string(entries[at], "parent_id")
                .and_then(|id| by_id.get(id))
                .copied();
        }
        order.extend(chain.into_iter().rev());
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_come_first_and_circles_end() {
        let entry = |id: &str, parent: Option<&str>| {
            json!({"subagent_id": id, "parent_id": parent})
                .as_object()
                .unwrap()
                .clone()
        };
        let entries = [
            entry("c", Some("b")),
            entry("x", Some("y")),
            entry("a", None),
            entry("b", Some("a")),
            entry("y", Some("x")),
            entry("d", Some("gone")),
        ];
        let order = parents_first(&entries.iter().collect::<Vec<_>>());
        let order: Vec<_> = order.into_iter().filter_map(raw_id).collect();
        assert_eq!(order, ["a", "b", "c", "y", "x", "d"]);
    }
}
