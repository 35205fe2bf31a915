//! Makes the source of the sample do things.

use std::sync::Arc;

use headcount_conformance::{Actions, Ownership, Rig, RigError, Started};
use headcount_contract::*;

use super::Bug::{self, *};
use super::{Sample, Shared};

/// Drives a [`Sample`].
pub(crate) struct SampleRig {
    bug: Option<Bug>,
    capabilities: Capabilities,
    sample: Option<Arc<Sample>>,
    actions: Actions,
    ownership: Ownership,
}

impl SampleRig {
    pub(crate) fn new(
        bug: Option<Bug>,
        capabilities: Capabilities,
        ownership: Ownership,
        actions: Actions,
    ) -> Self {
        let external = ownership == Ownership::External;
        let sample = Some(Sample::new(bug, capabilities, external));
        Self {
            bug,
            capabilities,
            sample,
            actions,
            ownership,
        }
    }

    fn sample(&self) -> Result<&Sample, RigError> {
        self.sample
            .as_deref()
            .ok_or_else(|| "it was released".into())
    }

    fn end(&self, child: &ChildId, outcome: Outcome) -> Result<ChildState, RigError> {
        let sample = self.sample()?;
        sample.act(|state| sample.end(state, child, outcome));
        Ok(outcome.into())
    }
}

#[async_trait]
impl Rig for SampleRig {
    fn actions(&self) -> Actions {
        self.actions
    }

    fn ownership(&self) -> Ownership {
        self.ownership
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let sample = self.sample.clone().ok_or("it was released")?;
        Ok(Arc::new(Shared(sample)))
    }

    fn release(&mut self) {
        self.sample = None;
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let sample = Sample::new(
            self.bug,
            self.capabilities,
            self.ownership == Ownership::External,
        );
        sample.act(|state| {
            // It numbers its events from 1 like every adapter here, so it needs its own epoch.
            if !sample.has(RepeatsItself) {
                state.epoch += 100;
            }
        });
        self.sample = Some(sample);
        self.adapter().await
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        Ok(self.sample()?.start(None))
    }

    async fn retry(&mut self, child: &ChildId) -> Result<Started, RigError> {
        Ok(self.sample()?.start(Some(child)))
    }

    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        self.sample()?
            .tell(child, EventKind::StateChanged(to.into()), None);
        Ok(to.into())
    }

    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        self.sample()?.tell(child, EventKind::Activity, Some(text));
        Ok(())
    }

    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.sample()?.tell(child, EventKind::Heartbeat, None);
        Ok(())
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        for number in 0..count {
            self.activity(child, &number.to_string()).await?;
        }
        Ok(())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Completed)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.end(child, Outcome::Failed)
    }

    async fn ignore_cancel(&mut self, child: &ChildId) -> Result<(), RigError> {
        self.sample()?.act(|state| {
            if let Some(child) = state.children.get_mut(child) {
                child.ignores_cancel = true;
            }
        });
        Ok(())
    }

    async fn break_source(&mut self) -> Result<(), RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.connected = false;
            let message = "the source was cut off";
            if sample.has(BreakIsNotInBand) {
                state.health.status = HealthStatus::Down;
                state.health.message = Some(message.into());
            } else {
                let message = (!sample.has(BreakWithoutAWord)).then_some(message);
                sample.health(state, HealthStatus::Down, message);
            }
        });
        Ok(())
    }

    async fn restore_source(&mut self) -> Result<(), RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.connected = true;
            if !sample.has(BreakIsForgotten) {
                sample.discontinuity(state, DiscontinuityCause::Reconnected);
            }
            if !sample.has(StaysDown) {
                sample.health(state, HealthStatus::Healthy, None);
            }
            if sample.has(BreakKillsEverybody) {
                for child in state.live() {
                    sample.happens(state, &child, EventKind::Terminal(Outcome::Lost), None);
                }
            }
        });
        Ok(())
    }

    async fn restart_source(&mut self) -> Result<Vec<Started>, RigError> {
        let sample = self.sample()?;
        sample.act(|state| {
            state.children.clear();
            if !sample.has(EpochStaysTheSame) {
                state.epoch += 1;
            }
            sample.discontinuity(state, DiscontinuityCause::SourceRestarted);
        });
        Ok(vec![])
    }
}
