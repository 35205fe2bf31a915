//! The JSONL adapter: the rig is the worker that writes the stream.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::time::SystemTime;

use headcount_adapter_jsonl::REGISTRATION;
use headcount_conformance::{Action, Actions, Rig, RigError, Started};
use headcount_contract::{
    Activity, AdapterSpec, Capabilities, ChildId, ChildIdentity, ChildLifecycleAdapter, ChildState,
    EventId, EventKind, LifecycleEvent, Lineage, LiveState, Outcome, Sequence, SourceEpoch,
    SourceId, SourceIdentity, async_trait,
};
use serde_json::json;

/// The name of the worker's file.
const STREAM: &str = "events.jsonl";

/// A worker with one file.
#[derive(Debug, Default)]
pub struct JsonlRig {
    folder: Option<tempfile::TempDir>,
    stream: Option<File>,
    children: HashMap<ChildId, Child>,
    life: u32,
    written: u64,
    started: u64,
}

#[derive(Debug)]
struct Child {
    identity: ChildIdentity,
    last: u64,
}

impl JsonlRig {
    fn say(&mut self, id: &ChildId, kind: EventKind, text: Option<&str>) -> Result<(), RigError> {
        let line = self.line(id, kind, text)?;
        self.write(&line)
    }

    fn line(
        &mut self,
        id: &ChildId,
        kind: EventKind,
        text: Option<&str>,
    ) -> Result<String, RigError> {
        let epoch = SourceEpoch::new(format!("start-{}", self.life))?;
        let source = SourceIdentity::new(SourceId::new("worker")?, epoch);
        self.written += 1;
        let event_id = EventId::new(format!("event-{}", self.written))?;
        let child = self.children.get_mut(id).ok_or("an unknown child")?;
        child.last += 1;
        let mut event = LifecycleEvent::new(
            event_id,
            source,
            child.identity.clone(),
            kind,
            SystemTime::now().into(),
            Capabilities::UNKNOWN,
        )
        .with_sequence(Sequence::new(child.last).ok_or("too many events")?);
        if let Some(text) = text {
            event = event.with_activity(Activity::new(text));
        }
        Ok(event.to_json() + "\n")
    }

    fn write(&mut self, lines: &str) -> Result<(), RigError> {
        let stream = self.stream.as_mut().ok_or("there is no stream")?;
        Ok(stream.write_all(lines.as_bytes())?)
    }

    fn begin(&mut self, before: Option<&ChildId>) -> Result<Started, RigError> {
        self.started += 1;
        let id = ChildId::new(format!("child-{}", self.started))?;
        let mut lineage = Lineage::new(id.clone());
        if let Some(before) = before {
            let before = self.children.get(before).ok_or("an unknown child")?;
            let before = before.identity.lineage();
            lineage = Lineage::new(before.root().clone()).with_attempt(before.attempt() + 1);
        }
        let identity = ChildIdentity::new(id.clone(), lineage)?;
        self.children
            .insert(id.clone(), Child { identity, last: 0 });
        self.say(&id, EventKind::Created, None)?;
        self.say(&id, EventKind::StateChanged(ChildState::RUNNING), None)?;
        Ok(Started::new(id, ChildState::RUNNING))
    }

    fn end(&mut self, child: &ChildId, outcome: Outcome) -> Result<ChildState, RigError> {
        self.say(child, EventKind::Terminal(outcome), None)?;
        Ok(outcome.into())
    }
}

#[async_trait]
impl Rig for JsonlRig {
    fn actions(&self) -> Actions {
        Actions::of(&[
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::Retry,
            Action::ChangeState,
            Action::Activity,
            Action::Heartbeat,
            Action::Flood,
            Action::Finish,
            Action::Fail,
            Action::RestartSource,
            Action::AdapterAgain,
        ])
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join(STREAM);
        self.stream = Some(OpenOptions::new().create(true).append(true).open(path)?);
        self.folder = Some(folder);
        self.adapter_again().await
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let folder = self.folder.as_ref().ok_or("there is no stream")?;
        let config = json!({ "path": folder.path().join(STREAM), "poll_ms": 20 });
        Ok((REGISTRATION.build)(AdapterSpec::new(config))?)
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        self.begin(None)
    }

    async fn retry(&mut self, child: &ChildId) -> Result<Started, RigError> {
        self.begin(Some(child))
    }

    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        self.say(child, EventKind::StateChanged(to.into()), None)?;
        Ok(to.into())
    }

    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        self.say(child, EventKind::Activity, Some(text))
    }

    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.say(child, EventKind::Heartbeat, None)
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        let mut lines = String::new();
        for number in 0..count {
            lines += &self.line(child, EventKind::Activity, Some(&number.to_string()))?;
        }
        self.write(&lines)
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Completed)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Failed)
    }

    /// The worker begins anew, and goes on in the same file.
    async fn restart_source(&mut self) -> Result<Vec<Started>, RigError> {
        self.life += 1;
        self.children.clear();
        Ok(Vec::new())
    }
}
