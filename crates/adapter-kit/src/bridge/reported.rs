//! Children that a run tells of: they join under its source, with the run as their parent.

use headcount_contract::{
    Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, EventKind,
    LifecycleEvent, Lineage, Sequence, Signal, SourceEpoch, Timestamp,
};
use serde_json::json;

use super::children::{Child, Children};

/// How many live children runs may tell of; more would be a run that went mad.
const LIVE_KEPT: usize = 10_000;

/// What is kept of a child that a run told of.
pub(super) struct Reported {
    /// The run that told of it.
    pub(super) by: ChildId,
    /// That run's own epoch and position.
    last: Option<(SourceEpoch, Sequence)>,
}

/// Why an event was not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// It says nothing new.
    NoEffect,
    /// It cannot be right.
    Wrong(&'static str),
}

impl Children {
    /// Takes an event that a run told, under a name that is unique among all runs: the run's id, a
    /// slash, and the name that the run gave.
    pub(super) fn take_reported(
        &mut self,
        by: &ChildId,
        event: &LifecycleEvent,
    ) -> Result<(), NotTaken> {
        if self.by_id.get(by).is_none_or(Child::is_over) {
            return Err(NotTaken::NoEffect);
        }
        let identity = under(by, event.child())?;
        let id = identity.id().clone();
        let position = event
            .sequence()
            .map(|sequence| (event.source_epoch().clone(), sequence));
        let ends = event.state().is_some_and(ChildState::is_terminal);
        match self.by_id.get_mut(&id) {
            Some(known) => {
                let Some(reported) = &mut known.reported else {
                    return Err(NotTaken::Wrong("the name is that of a run"));
                };
                if known.identity != identity {
                    return Err(NotTaken::Wrong("the lineage is not the one told before"));
                }
                if known.state.is_terminal() || event.kind() == EventKind::Created {
                    return Err(NotTaken::NoEffect);
                }
                if let (Some((epoch, new)), Some((before, last))) = (&position, &reported.last)
                    && epoch == before
                    && new <= last
                    && !ends
                {
                    return Err(NotTaken::NoEffect);
                }
                reported.last = position.or(reported.last.take());
            }
            None if self.reported >= LIVE_KEPT => {
                return Err(NotTaken::Wrong("too many children are alive"));
            }
            None => {
                self.reported += 1;
                let mut child = Child::new(identity, event.observed_at());
                child.announced = true;
                child.reported = Some(Reported {
                    by: by.clone(),
                    last: position,
                });
                self.by_id.insert(id.clone(), child);
            }
        }
        self.emit_reported(&id, event);
        if ends {
            self.reported -= 1;
            self.keep_ended(&id);
        }
        Ok(())
    }

    fn emit_reported(&mut self, id: &ChildId, event: &LifecycleEvent) {
        let Some(child) = self.by_id.get_mut(id) else {
            return;
        };
        if let Some(state) = event.state() {
            child.state = state;
        }
        let origin = json!({ "source": event.source(), "eventId": event.event_id() });
        let mut told = self
            .mint
            .event_as(
                &child.identity,
                event.kind(),
                event.observed_at(),
                verified(event.capabilities()),
            )
            .with_details(event.details().with([("reported", origin)]));
        child.sequence = told.sequence();
        if let Some(activity) = event.activity() {
            told = told.with_activity(activity.clone());
        }
        self.fanout.publish(Signal::Event(told));
    }

    /// A run has ended. What it told of and has not ended is unproven from now on: it is in no
    /// snapshot, so that whoever projects looks into it and in the end counts it as lost. Returns
    /// whether there was any.
    pub(super) fn leave_reported(&mut self, by: &ChildId, at: Timestamp) -> bool {
        if self.reported == 0 {
            return false;
        }
        let mut left: Vec<_> = self
            .by_id
            .iter_mut()
            .filter(|(_, child)| !child.is_over())
            .filter_map(|(id, child)| {
                child.reported.as_ref().filter(|told| told.by == *by)?;
                child.unproven = true;
                Some(id.clone())
            })
            .collect();
        left.sort();
        if left.is_empty() {
            return false;
        }
        self.reported -= left.len();
        for id in &left {
            let message = "the run that told of it has ended; what became of it is not known";
            let details = Details::from_iter([("message", json!(message))]);
            if let Some(child) = self.by_id.get_mut(id) {
                let event = self
                    .mint
                    .event_as(
                        &child.identity,
                        EventKind::Diagnostic(None),
                        at,
                        Capabilities::UNKNOWN,
                    )
                    .with_details(details);
                child.sequence = event.sequence();
                self.fanout.publish(Signal::Event(event));
            }
            self.keep_ended(id);
        }
        self.volunteer_snapshot(at);
        true
    }
}

/// The identity of a run's child among the children of all runs.
fn under(by: &ChildId, child: &ChildIdentity) -> Result<ChildIdentity, NotTaken> {
    let name = |id: &ChildId| {
        ChildId::new(format!("{by}/{id}")).map_err(|_| NotTaken::Wrong("the name is too long"))
    };
    let told = child.lineage();
    let parent = match told.parent() {
        Some(parent) => name(parent)?,
        None => by.clone(),
    };
    let mut lineage = Lineage::new(name(told.root())?)
        .with_attempt(told.attempt())
        .with_parent(parent);
    if let Some(at) = told.adopted_at() {
        lineage = lineage.adopted(at);
    }
    ChildIdentity::new(name(child.id())?, lineage)
        .map_err(|_| NotTaken::Wrong("the lineage does not fit the child"))
}

/// What is verified of it here: we can neither cancel it nor ask for a snapshot of it.
fn verified(told: Capabilities) -> Capabilities {
    Capabilities {
        cancel: Capability::Unknown,
        snapshot: Capability::Unknown,
        ..told
    }
}
