//! The rules of the contract, held by the conformance kit.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use headcount_adapter_spool::REGISTRATION;
use headcount_conformance::{
    Action, Actions, RegistryAnswers, Rig, RigError, Started, Suite, async_trait,
};
use headcount_contract::{AdapterSpec, ChildId, ChildLifecycleAdapter, ChildState, LiveState};
use headcount_registry::Registry;
use serde_json::json;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .rig(SpoolRig::default)
        .registry(registry)
        .run()
}

/// The workers of one folder.
#[derive(Default)]
struct SpoolRig {
    place: Option<tempfile::TempDir>,
    workers: usize,
}

impl SpoolRig {
    /// Where the folder is, or where it is while it is out of reach.
    fn folder(&self, name: &str) -> Result<PathBuf, RigError> {
        let place = self.place.as_ref().ok_or("there is no adapter yet")?;
        Ok(place.path().join(name))
    }

    fn write(&self, child: &ChildId, word: &str) -> Result<(), RigError> {
        let here = self.folder("here")?;
        let folder = if here.exists() {
            here
        } else {
            self.folder("away")?
        };
        // Written beside and moved into place, so that nobody reads half a word.
        let half = folder.join("half-written");
        fs::write(&half, word)?;
        Ok(fs::rename(half, folder.join(format!("{child}.state")))?)
    }
}

#[async_trait]
impl Rig for SpoolRig {
    fn actions(&self) -> Actions {
        Actions::of(&[
            Action::StartChild,
            Action::StartSeveral,
            Action::StartEarly,
            Action::ChangeState,
            Action::Finish,
            Action::Fail,
            Action::Break,
            Action::Restore,
            Action::AdapterAgain,
        ])
    }

    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        self.place = Some(tempfile::tempdir()?);
        fs::create_dir(self.folder("here")?)?;
        self.adapter_again().await
    }

    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        let config = json!({ "folder": self.folder("here")?, "interval_ms": 10 });
        Ok((REGISTRATION.build)(AdapterSpec::new(config))?)
    }

    async fn start_child(&mut self) -> Result<Started, RigError> {
        self.workers += 1;
        let child = ChildId::new(format!("worker-{}", self.workers))?;
        self.write(&child, "running")?;
        Ok(Started::new(child, ChildState::RUNNING))
    }

    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        self.write(child, &to.to_string())?;
        Ok(to.into())
    }

    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.write(child, "done")?;
        Ok(ChildState::COMPLETED)
    }

    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        self.write(child, "failed")?;
        Ok(ChildState::FAILED)
    }

    async fn break_source(&mut self) -> Result<(), RigError> {
        Ok(fs::rename(self.folder("here")?, self.folder("away")?)?)
    }

    async fn restore_source(&mut self) -> Result<(), RigError> {
        Ok(fs::rename(self.folder("away")?, self.folder("here")?)?)
    }
}

/// What the registry of this test says, which links the adapter.
fn registry(kind: &str) -> RegistryAnswers {
    match Registry::linked() {
        Ok(registry) => RegistryAnswers {
            listed: registry.iter().collect(),
            found: registry.get(kind).map_err(|error| error.to_string()),
        },
        Err(error) => RegistryAnswers {
            listed: Vec::new(),
            found: Err(error.to_string()),
        },
    }
}
