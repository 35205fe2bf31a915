//! A scripted gateway on a WebSocket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headcount_adapter_hermes::scripted::{Faults, Gateway, Served, Version};
use headcount_adapter_hermes::{HermesAdapter, HermesConfig};
use headcount_conformance::{Action, Actions, Rig, RigError, Started};
use headcount_contract::{
    ChildId, ChildLifecycleAdapter, ChildState, LiveState, SourceId, async_trait,
};

const SESSION: &str = "s1";
const TOKEN: &str = "sesame";
const NEVER: &str = "the gateway was never served";

/// A gateway of the present version, whose children begin and end as the rig says.
#[derive(Debug)]
pub struct HermesRig {
    gateway: Gateway,
    served: Option<Served>,
    token: Option<tempfile::TempPath>,
    commands: u64,
    /// The commands for which children wait.
    asked: HashMap<ChildId, String>,
}

impl HermesRig {
    /// Has a child wait until this command is approved.
    fn ask(&self, child: &ChildId, command: &str) {
        self.gateway.tool(child.as_str(), "terminal", command);
        self.gateway.approval(SESSION, command);
    }
}

impl Default for HermesRig {
    fn default() -> Self {
        Self {
            gateway: Gateway::new(Version::V0_22),
            served: None,
            token: None,
            commands: 0,
            asked: HashMap::new(),
        }
    }
}

#[async_trait]
impl Rig for HermesRig {
    fn actions(&self) -> Actions {
        Actions::of(&[
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::ChangeState,
            Action::Activity,
            Action::Heartbeat,
            Action::Flood,
            Action::Finish,
            Action::Fail,
            Action::IgnoreCancel,
            Action::Break,
            Action::Restore,
            Action::RestartSource,
            Action::AdapterAgain,
        ])
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let served = self.gateway.serve(TOKEN).await?;
        let token = tempfile::NamedTempFile::new()?.into_temp_path();
        std::fs::write(&token, TOKEN)?;
        self.served = Some(served);
        self.token = Some(token);
        self.adapter_again().await
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let mut config = HermesConfig::default();
        config.ws = Some(self.served.as_ref().ok_or(NEVER)?.url());
        config.token_file = self.token.as_ref().map(|token| token.to_path_buf());
        // Its session, so that its events come here, and its children are ours to interrupt.
        config.resume = vec![format!("stored-{SESSION}")];
        config.poll_interval = Duration::from_millis(50);
        config.reconnect_max = Duration::from_millis(250);
        Ok(Arc::new(HermesAdapter::new(
            SourceId::new("hermes")?,
            config,
        )?))
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        let child = self.gateway.start(SESSION, None, "a job");
        Ok(Started::new(ChildId::new(child)?, ChildState::RUNNING))
    }

    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        if to == LiveState::Waiting {
            // A gateway says which command waits, so it has to be this child's and no other's.
            self.commands += 1;
            let command = format!("rm -rf nothing-{}", self.commands);
            self.ask(child, &command);
            self.asked.insert(child.clone(), command);
            return Ok(ChildState::WAITING);
        }
        self.asked.remove(child);
        self.gateway.thinking(child.as_str(), "(¬_¬) mulling...");
        Ok(ChildState::RUNNING)
    }

    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        self.gateway.progress(child.as_str(), text);
        // Whoever goes on waits no longer, as a gateway tells it; this one shall wait on.
        if let Some(command) = self.asked.get(child) {
            self.ask(child, command);
        }
        Ok(())
    }

    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        // A child that waits is silent: being listed is its heartbeat.
        if !self.asked.contains_key(child) {
            self.gateway.thinking(child.as_str(), "(¬_¬) mulling...");
        }
        Ok(())
    }

    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        for number in 0..count {
            self.gateway
                .progress(child.as_str(), &format!("step {number}"));
        }
        Ok(())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.gateway.complete(child.as_str(), "completed");
        Ok(ChildState::COMPLETED)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.gateway.complete(child.as_str(), "failed");
        Ok(ChildState::FAILED)
    }

    async fn ignore_cancel(&mut self, _: &ChildId) -> Result<(), RigError> {
        self.gateway.misbehave(Faults {
            ignores_interrupts: true,
            ..Faults::default()
        });
        Ok(())
    }

    async fn break_source(&mut self) -> Result<(), RigError> {
        self.served.as_ref().ok_or(NEVER)?.shut();
        Ok(())
    }

    async fn restore_source(&mut self) -> Result<(), RigError> {
        self.served.as_ref().ok_or(NEVER)?.reopen();
        Ok(())
    }

    async fn restart_source(&mut self) -> Result<Vec<Started>, RigError> {
        self.gateway.new_life();
        self.gateway.hang_up();
        Ok(Vec::new())
    }
}
