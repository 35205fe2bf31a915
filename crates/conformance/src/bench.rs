//! What a case works at: a fresh rig, the adapter on it, and what the source was told to do.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use headcount_contract::{
    ChildId, ChildLifecycleAdapter, ChildState, LiveState, Signal, SignalStream, Timestamp, Urgency,
};

use crate::case::Failure;
use crate::suite::Plan;
use crate::watch::{Log, Watch, fold};
use crate::{Action, Rig, RuntimeRig, Started};

pub(crate) struct Bench {
    pub(crate) plan: Arc<Plan>,
    pub(crate) began: Timestamp,
    rig: Option<Box<dyn Rig>>,
    pub(crate) run_rig: Option<Box<dyn RuntimeRig>>,
    adapter: Option<Arc<dyn ChildLifecycleAdapter>>,
    /// What the adapter must come to say of each child.
    pub(crate) told: BTreeMap<ChildId, ChildState>,
    story: Arc<Story>,
}

/// What the case is at, for its failure.
#[derive(Debug, Default)]
pub(crate) struct Story {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// What the waits serve, where they are many short ones.
    goal: Option<String>,
    waiting_for: String,
    /// What a person needs to have the same again.
    remark: Option<String>,
    logs: Vec<Arc<Log>>,
}

impl Story {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting_for(&self, what: impl Into<String>) {
        let mut inner = self.lock();
        inner.waiting_for = what.into();
    }

    /// What is being waited for.
    pub(crate) fn wait(&self) -> String {
        let inner = self.lock();
        match &inner.goal {
            Some(goal) => format!("{goal} (at last waiting for {})", inner.waiting_for),
            None => inner.waiting_for.clone(),
        }
    }

    /// How to have the same again, as a line of its own, if there is anything to say.
    pub(crate) fn remark(&self) -> String {
        let inner = self.lock();
        let remark = inner.remark.as_ref();
        remark.map_or_else(String::new, |remark| format!("\n  {remark}"))
    }

    /// What each subscriber has seen last.
    pub(crate) fn tail(&self) -> String {
        let inner = self.lock();
        let mut text = String::new();
        for (at, log) in inner.logs.iter().enumerate() {
            let _ = write!(text, "\n  seen by subscriber {}:\n", at + 1);
            text.push_str(&log.tail(30));
        }
        text
    }
}

impl Bench {
    pub(crate) fn new(plan: Arc<Plan>, story: Arc<Story>) -> Self {
        let rig = plan.new_rig();
        let run_rig = plan.new_run_rig();
        Self {
            plan,
            began: SystemTime::now().into(),
            rig,
            run_rig,
            adapter: None,
            told: BTreeMap::new(),
            story,
        }
    }

    pub(crate) fn can(&self, action: Action) -> bool {
        self.plan.actions.is_some_and(|actions| actions.has(action))
    }

    pub(crate) fn waiting_for(&self, what: impl Into<String>) {
        self.story.waiting_for(what);
    }

    /// What the waits that follow serve.
    pub(crate) fn aim_at(&self, goal: impl Into<String>) {
        let mut inner = self.story.lock();
        inner.goal = Some(goal.into());
    }

    /// Says with a failure, whatever it will be, how to have the same again.
    pub(crate) fn remark(&self, remark: impl Into<String>) {
        self.story.lock().remark = Some(remark.into());
    }

    pub(crate) fn rig(&mut self) -> Result<&mut dyn Rig, Failure> {
        match &mut self.rig {
            Some(rig) => Ok(rig.as_mut()),
            None => Err(Failure::new("there is no rig")),
        }
    }

    pub(crate) async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, Failure> {
        if let Some(adapter) = &self.adapter {
            return Ok(adapter.clone());
        }
        self.waiting_for("the rig to bring its source up and build the adapter");
        let adapter = self.rig()?.adapter().await?;
        self.adapter = Some(adapter.clone());
        Ok(adapter)
    }

    /// Subscribes, without reading.
    pub(crate) async fn subscribe(&mut self) -> Result<SignalStream, Failure> {
        Ok(self.adapter().await?.subscribe()?)
    }

    /// Subscribes, and reads in a task.
    pub(crate) async fn watch(&mut self) -> Result<Watch, Failure> {
        let stream = self.subscribe().await?;
        Ok(self.follow(stream).await)
    }

    /// Subscribes to a second adapter on the same source, the first being gone, and reads in a
    /// task.
    pub(crate) async fn watch_again(&mut self) -> Result<Watch, Failure> {
        self.waiting_for("the rig to build a second adapter");
        let adapter = self.rig()?.adapter_again().await?;
        self.adapter = Some(adapter);
        self.watch().await
    }

    /// Reads a stream in a task.
    pub(crate) async fn follow(&self, stream: SignalStream) -> Watch {
        let watch = Watch::new(stream).await;
        self.story.lock().logs.push(watch.log());
        watch
    }

    pub(crate) async fn start(&mut self) -> Result<ChildId, Failure> {
        self.waiting_for("the rig to start a child");
        let started = self.rig()?.start_child().await?;
        Ok(self.note(started))
    }

    pub(crate) fn note(&mut self, started: Started) -> ChildId {
        self.told.insert(started.child.clone(), started.state);
        started.child
    }

    pub(crate) async fn finish(&mut self, child: &ChildId) -> Result<ChildState, Failure> {
        self.waiting_for(format!("the rig to finish {child}"));
        let state = self.rig()?.finish(child).await?;
        self.told.insert(child.clone(), state);
        Ok(state)
    }

    pub(crate) async fn fail(&mut self, child: &ChildId) -> Result<ChildState, Failure> {
        self.waiting_for(format!("the rig to fail {child}"));
        let state = self.rig()?.fail(child).await?;
        self.told.insert(child.clone(), state);
        Ok(state)
    }

    pub(crate) async fn change(&mut self, child: &ChildId, to: LiveState) -> Result<(), Failure> {
        self.waiting_for(format!("the rig to make {child} {to}"));
        let state = self.rig()?.change_state(child, to).await?;
        self.told.insert(child.clone(), state);
        Ok(())
    }

    /// Waits until the adapter has reported what it must of every child.
    pub(crate) async fn settle(&self, watch: &Watch) -> Result<(), Failure> {
        let told = &self.told;
        let goal: Vec<_> = told
            .iter()
            .map(|(id, state)| format!("{id} {state}"))
            .collect();
        self.waiting_for(format!("the adapter to report: {}", goal.join(", ")));
        let wrong = watch
            .until(|signals| {
                let states = fold(signals);
                let ended_otherwise = told.iter().find_map(|(id, state)| {
                    let seen = *states.get(id)?;
                    (seen.is_terminal() && seen != *state)
                        .then(|| format!("{id} was to become {state}, the adapter says {seen}"))
                });
                if ended_otherwise.is_some() {
                    return Some(ended_otherwise);
                }
                let all = told.iter().all(|(id, state)| states.get(id) == Some(state));
                all.then_some(None)
            })
            .await?;
        match wrong {
            Some(wrong) => Err(Failure::new(wrong)),
            None => Ok(()),
        }
    }

    /// Closes and drops the adapter, and returns everything the watch saw up to the stream's end.
    pub(crate) async fn close(&mut self, watch: &Watch) -> Result<Vec<Signal>, Failure> {
        if let Some(adapter) = &self.adapter {
            self.waiting_for("close() to return");
            adapter.close(Urgency::Now).await?;
        }
        self.drop_adapter()?;
        self.waiting_for("the stream to end after the adapter was closed and dropped");
        watch.to_the_end().await
    }

    /// Drops every share of the adapter that is ours to drop.
    pub(crate) fn drop_adapter(&mut self) -> Result<(), Failure> {
        self.adapter = None;
        self.rig()?.release();
        Ok(())
    }

    /// Some children's whole lives, with everything the rig can make happen in them. The last
    /// child is left alive where there can be several.
    pub(crate) async fn live(&mut self, watch: &Watch) -> Result<(), Failure> {
        let first = self.start().await?;
        self.settle(watch).await?;
        self.busy(&first).await?;
        if self.can(Action::StartSeveral) {
            let second = self.start().await?;
            self.settle(watch).await?;
            self.busy(&second).await?;
            if self.can(Action::Fail) {
                self.fail(&second).await?;
                self.settle(watch).await?;
                if self.can(Action::Retry) {
                    self.waiting_for(format!("the rig to retry {second}"));
                    let started = self.rig()?.retry(&second).await?;
                    self.note(started);
                    self.settle(watch).await?;
                }
            }
            self.start().await?;
        }
        if self.can(Action::Finish) {
            self.finish(&first).await?;
        }
        self.settle(watch).await
    }

    /// What a live child can do short of ending.
    async fn busy(&mut self, child: &ChildId) -> Result<(), Failure> {
        if self.can(Action::Activity) {
            self.waiting_for(format!("the rig to have {child} report activity"));
            self.rig()?.activity(child, "reading src/lib.rs").await?;
        }
        if self.can(Action::Heartbeat) {
            self.waiting_for(format!("the rig to have {child} send a heartbeat"));
            self.rig()?.heartbeat(child).await?;
        }
        if self.can(Action::ChangeState) {
            self.change(child, LiveState::Waiting).await?;
            self.change(child, LiveState::Running).await?;
        }
        Ok(())
    }
}
