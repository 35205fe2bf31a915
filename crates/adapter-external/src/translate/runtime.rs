//! What the runtime itself tells of an adopted process: its status, its events, its snapshot.

use headcount_contract::{
    Activity, ChildState, Details, EventKind, LifecycleEvent, LiveState, Outcome, Sequence,
    SourceIdentity, Timestamp,
};
use serde_json::{Value, json};

use super::{Child, Key, Standing, Translator, facts_of};
use crate::enrich::{StatusReading, StreamSnapshot};

/// How far a child's own stream was followed.
#[derive(Debug, Default)]
pub(super) struct Followed {
    source: Option<SourceIdentity>,
    /// The highest sequence that was seen of it in this epoch.
    high: Option<Sequence>,
    /// What the last snapshot includes.
    snapshot_at: Option<Timestamp>,
}

/// What an event of the child's own stream came to.
#[derive(Debug, Default)]
pub(crate) struct FromStream {
    pub(crate) events: Vec<LifecycleEvent>,
    /// Events are missing before one of them: the runtime's snapshot is needed again.
    pub(crate) gap: bool,
    /// Events that were told before, or that happened before the adoption or the snapshot.
    pub(crate) passed_over: u64,
}

impl Translator {
    /// A status endpoint answered: its present state can be told.
    pub(crate) fn status(
        &mut self,
        key: Key,
        reading: StatusReading,
        at: Timestamp,
    ) -> Vec<LifecycleEvent> {
        let Some(child) = self.living(key) else {
            return Vec::new();
        };
        let raw = json!(reading.raw);
        let unmapped = reading.state.is_none() && child.unmapped.as_ref() != Some(&reading.raw);
        child.unmapped = reading.state.is_none().then_some(reading.raw);
        let activity = reading
            .activity
            .filter(|text| child.activity.as_ref() != Some(text));
        if activity.is_some() {
            child.activity.clone_from(&activity);
        }
        let mut said = Vec::new();
        if unmapped {
            let about = [
                ("observation", json!("status_not_mapped")),
                (
                    "message",
                    json!("the configuration does not say which state this is"),
                ),
                ("rawStatus", raw.clone()),
            ];
            said.push(self.event(key, EventKind::Diagnostic(None), at, facts_of(about)));
        }
        if let Some(text) = activity {
            let details = facts_of([("basis", json!("status_endpoint"))]);
            said.push(
                self.event(key, EventKind::Activity, at, details)
                    .with_activity(Activity::new(text)),
            );
        }
        if let Some(state) = reading.state {
            said.extend(self.changed(
                key,
                state,
                at,
                [("basis", json!("status_endpoint")), ("rawStatus", raw)],
            ));
        }
        said
    }

    /// The runtime's complete snapshot: what is so now.
    pub(crate) fn stream_snapshot(
        &mut self,
        key: Key,
        snapshot: StreamSnapshot,
        at: Timestamp,
    ) -> Vec<LifecycleEvent> {
        let Some(child) = self.living(key) else {
            return Vec::new();
        };
        child.followed = Followed {
            source: Some(snapshot.source),
            high: snapshot.sequence,
            snapshot_at: Some(snapshot.observed_at),
        };
        match snapshot.state {
            Some(ChildState::Terminal(Outcome::Lost)) | None => {
                let about = [
                    ("observation", json!("not_in_snapshot")),
                    (
                        "message",
                        json!(
                            "the process lives, and its runtime's complete snapshot does not know it"
                        ),
                    ),
                    ("basis", json!("event_stream")),
                ];
                vec![self.event(key, EventKind::Diagnostic(None), at, facts_of(about))]
            }
            Some(state) => self
                .changed(
                    key,
                    state,
                    snapshot.observed_at,
                    [("basis", json!("event_stream")), ("by", json!("snapshot"))],
                )
                .into_iter()
                .collect(),
        }
    }

    /// Events of the child's own stream. Nothing before its adoption is claimed.
    pub(crate) fn stream_events(&mut self, key: Key, events: Vec<LifecycleEvent>) -> FromStream {
        let mut result = FromStream::default();
        for event in events {
            let Some(child) = self.living(key) else {
                break;
            };
            match child.place(&event) {
                Place::Next => {}
                Place::AfterGap => result.gap = true,
                Place::Known => {
                    result.passed_over += 1;
                    continue;
                }
            }
            result.events.extend(self.one_of_stream(key, &event));
        }
        result
    }

    fn one_of_stream(&mut self, key: Key, event: &LifecycleEvent) -> Option<LifecycleEvent> {
        let at = event.observed_at();
        let facts = [
            ("basis", json!("event_stream")),
            ("reported", reported(event)),
        ];
        match event.kind() {
            // What began before it was adopted did not begin now.
            EventKind::Created | EventKind::StateChanged(ChildState::Live(LiveState::Created)) => {
                None
            }
            EventKind::Heartbeat => {
                Some(self.event(key, EventKind::Heartbeat, at, facts_of(facts)))
            }
            EventKind::Activity => {
                let said = self.event(key, EventKind::Activity, at, facts_of(facts));
                Some(match event.activity() {
                    Some(activity) => said.with_activity(activity.clone()),
                    None => said,
                })
            }
            // Only the host finds a child lost.
            EventKind::Terminal(Outcome::Lost)
            | EventKind::StateChanged(ChildState::Terminal(Outcome::Lost)) => {
                let about = [
                    ("observation", json!("lost_by_its_runtime")),
                    (
                        "message",
                        json!("the process lives, and its runtime has lost it"),
                    ),
                ];
                Some(self.event(
                    key,
                    EventKind::Diagnostic(None),
                    at,
                    facts_of(about.into_iter().chain(facts)),
                ))
            }
            EventKind::StateChanged(state) => self.changed(key, state, at, facts),
            EventKind::Terminal(outcome) => {
                self.changed(key, ChildState::Terminal(outcome), at, facts)
            }
            EventKind::Reconciliation(_) | EventKind::Diagnostic(_) => {
                Some(self.event(key, EventKind::Diagnostic(None), at, facts_of(facts)))
            }
        }
    }

    /// The child is in this state now; nothing if it was.
    fn changed<const N: usize>(
        &mut self,
        key: Key,
        state: ChildState,
        at: Timestamp,
        facts: [(&'static str, Value); N],
    ) -> Option<LifecycleEvent> {
        let child = self.living(key)?;
        let details = facts_of(facts);
        child.basis = details
            .get("basis")
            .and_then(|basis| basis.as_str().map(str::to_owned))
            .unwrap_or_default();
        match state {
            ChildState::Live(live) => {
                if matches!(child.standing, Standing::Lives(now) if now == live) {
                    return None;
                }
                child.standing = Standing::Lives(live);
                Some(self.event(key, EventKind::StateChanged(state), at, details))
            }
            ChildState::Terminal(outcome) => {
                child.standing = Standing::Ended(state, details.clone());
                let event = self.event(key, EventKind::Terminal(outcome), at, details);
                self.has_ended(key);
                Some(event)
            }
        }
    }

    fn living(&mut self, key: Key) -> Option<&mut Child> {
        self.children
            .get_mut(&key)
            .filter(|child| matches!(child.standing, Standing::Lives(_)))
    }
}

/// Where an event stands in the order of the stream.
enum Place {
    Next,
    AfterGap,
    Known,
}

impl Child {
    fn place(&mut self, event: &LifecycleEvent) -> Place {
        let followed = &mut self.followed;
        let same_life = followed.source.as_ref() == Some(event.source_identity());
        if !same_life {
            followed.source = Some(event.source_identity().clone());
            followed.high = None;
        }
        let before = event.observed_at() < self.adopted_at;
        let place = match (event.sequence(), followed.high) {
            (Some(sequence), Some(high)) if sequence <= high => Place::Known,
            (Some(sequence), Some(high)) if sequence > high.next() => Place::AfterGap,
            (Some(_), Some(_)) => Place::Next,
            // Without an order, what the snapshot includes is told by time.
            _ if same_life
                && followed
                    .snapshot_at
                    .is_some_and(|at| event.observed_at() < at) =>
            {
                Place::Known
            }
            _ => Place::Next,
        };
        if let Some(sequence) = event.sequence()
            && followed.high.is_none_or(|high| sequence > high)
        {
            followed.high = Some(sequence);
        }
        if before { Place::Known } else { place }
    }
}

/// What the runtime said, as it said it.
fn reported(event: &LifecycleEvent) -> Value {
    let mut said = json!({
        "eventId": event.event_id(),
        "source": event.source(),
        "sourceEpoch": event.source_epoch(),
        "childId": event.child_id(),
        "kind": event.kind().as_str(),
    });
    if let Some(sequence) = event.sequence() {
        said["sequence"] = json!(sequence.get());
    }
    if event.details() != &Details::EMPTY {
        said["details"] = Value::Object(event.details().to_map());
    }
    said
}

#[cfg(test)]
mod tests;
