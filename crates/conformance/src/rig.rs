//! What a test author writes: something that can drive the source behind the adapter.

use std::error::Error;
use std::sync::Arc;

use headcount_contract::{ChildId, ChildLifecycleAdapter, ChildState, LiveState, async_trait};

/// What went wrong in a rig, for a person. Any error becomes one with `?`.
pub type RigError = Box<dyn Error + Send + Sync>;

/// One thing that a rig may be able to make its source do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Action {
    /// [`Rig::start_child`], once the adapter has been subscribed to.
    StartChild,
    /// [`Rig::start_child`] while another child lives.
    StartSeveral,
    /// [`Rig::start_child`] before the adapter has been subscribed to.
    StartEarly,
    /// [`Rig::retry`].
    Retry,
    /// [`Rig::change_state`].
    ChangeState,
    /// [`Rig::activity`].
    Activity,
    /// [`Rig::heartbeat`].
    Heartbeat,
    /// [`Rig::flood`].
    Flood,
    /// [`Rig::finish`].
    Finish,
    /// [`Rig::fail`].
    Fail,
    /// [`Rig::ignore_cancel`].
    IgnoreCancel,
    /// [`Rig::break_source`].
    Break,
    /// [`Rig::restore_source`].
    Restore,
    /// [`Rig::restart_source`].
    RestartSource,
    /// [`Rig::adapter_again`].
    AdapterAgain,
}

impl Action {
    /// All of them. A slice, because there may come to be more.
    pub const ALL: &'static [Self] = &[
        Self::StartChild,
        Self::StartSeveral,
        Self::StartEarly,
        Self::Retry,
        Self::ChangeState,
        Self::Activity,
        Self::Heartbeat,
        Self::Flood,
        Self::Finish,
        Self::Fail,
        Self::IgnoreCancel,
        Self::Break,
        Self::Restore,
        Self::RestartSource,
        Self::AdapterAgain,
    ];

    /// What the rig would have to do, for the reason of an ignored case.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::StartChild => "start a child",
            Self::StartSeveral => "have several children at once",
            Self::StartEarly => "start a child before anybody subscribes",
            Self::Retry => "retry a child",
            Self::ChangeState => "change the state of a live child",
            Self::Activity => "have a child report activity",
            Self::Heartbeat => "have a child send a heartbeat",
            Self::Flood => "flood the adapter",
            Self::Finish => "let a child end well",
            Self::Fail => "let a child end badly",
            Self::IgnoreCancel => "have a child ignore a cancel request",
            Self::Break => "break the source",
            Self::Restore => "restore the source",
            Self::RestartSource => "restart the source",
            Self::AdapterAgain => "build a second adapter on the same source",
        }
    }
}

/// A set of actions.
///
/// ```
/// use headcount_conformance::{Action, Actions};
/// let actions = Actions::of(&[Action::StartChild, Action::Finish]);
/// assert!(actions.has(Action::Finish) && !actions.has(Action::Break));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Actions(u32);

impl Actions {
    /// None.
    pub const NONE: Self = Self(0);

    /// These.
    pub const fn of(actions: &[Action]) -> Self {
        let mut bits = 0;
        let mut at = 0;
        while at < actions.len() {
            bits |= 1 << actions[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Whether the action is one of them.
    pub const fn has(self, action: Action) -> bool {
        self.0 & (1 << action as u32) != 0
    }
}

/// Who started the children of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ownership {
    /// The source itself.
    #[default]
    Own,
    /// Somebody else; they were adopted (contract, External Adoption Limits).
    External,
}

/// A child that a rig started, and what an adapter must now say of it.
///
/// ```
/// use headcount_conformance::Started;
/// use headcount_contract::{ChildId, ChildState};
/// let started = Started::new(ChildId::new("a")?, ChildState::RUNNING);
/// assert_eq!(started.state, ChildState::RUNNING);
/// # Ok::<(), headcount_contract::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Started {
    /// Its name in the adapter's events.
    pub child: ChildId,
    /// The state that the adapter must come to report.
    pub state: ChildState,
}

impl Started {
    /// Joins the two.
    pub fn new(child: ChildId, state: ChildState) -> Self {
        Self { child, state }
    }
}

/// Drives one fresh source and gives the adapter on it.
///
/// Each case makes its own rig, so a constructor should do no I/O; [`adapter`](Self::adapter) is
/// the place to bring the source up, and dropping the rig takes it down.
///
/// # Behavior
///
/// - [`actions`](Self::actions) says which of the other methods work. A case that needs another one
///   is ignored, and says so.
/// - A method returns once the *source* has done it; the kit waits for the adapter to tell.
/// - A method that changes a child's state returns the state that the adapter must come to report:
///   what the source lets anybody know, which may be less than what happened.
#[async_trait]
pub trait Rig: Send + 'static {
    /// What this rig can do. Always the same.
    fn actions(&self) -> Actions;

    /// Who started the children.
    fn ownership(&self) -> Ownership {
        Ownership::Own
    }

    /// The adapter on this rig's source, built and not yet subscribed to. Called once.
    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError>;

    /// Lets go of the adapter, if the rig kept a share of it.
    fn release(&mut self) {}

    /// Starts a child and keeps it alive until told otherwise.
    async fn start_child(&mut self) -> Result<Started, RigError> {
        Err(undeclared(Action::StartChild))
    }

    /// Starts the next attempt of a child that has failed: a new child under the same root.
    async fn retry(&mut self, child: &ChildId) -> Result<Started, RigError> {
        let _ = child;
        Err(undeclared(Action::Retry))
    }

    /// Moves a live child to another live state: the kit asks for `waiting` and `running`.
    async fn change_state(
        &mut self,
        child: &ChildId,
        to: LiveState,
    ) -> Result<ChildState, RigError> {
        let _ = (child, to);
        Err(undeclared(Action::ChangeState))
    }

    /// Has a live child say what it is at work on.
    async fn activity(&mut self, child: &ChildId, text: &str) -> Result<(), RigError> {
        let _ = (child, text);
        Err(undeclared(Action::Activity))
    }

    /// Has a live child show that it lives.
    async fn heartbeat(&mut self, child: &ChildId) -> Result<(), RigError> {
        let _ = child;
        Err(undeclared(Action::Heartbeat))
    }

    /// Has a live child make the adapter emit at least `count` activities or output lines, as fast
    /// as it can. May wait where the adapter makes the source wait.
    async fn flood(&mut self, child: &ChildId, count: u64) -> Result<(), RigError> {
        let _ = (child, count);
        Err(undeclared(Action::Flood))
    }

    /// Lets a live child end well.
    async fn finish(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        let _ = child;
        Err(undeclared(Action::Finish))
    }

    /// Lets a live child end badly.
    async fn fail(&mut self, child: &ChildId) -> Result<ChildState, RigError> {
        let _ = child;
        Err(undeclared(Action::Fail))
    }

    /// Makes a live child one that lives on when its source has accepted to cancel it, at least
    /// until it is told to finish.
    async fn ignore_cancel(&mut self, child: &ChildId) -> Result<(), RigError> {
        let _ = child;
        Err(undeclared(Action::IgnoreCancel))
    }

    /// Cuts the adapter off from its source. Children go on unseen.
    async fn break_source(&mut self) -> Result<(), RigError> {
        Err(undeclared(Action::Break))
    }

    /// Lets the adapter reach its source again.
    async fn restore_source(&mut self) -> Result<(), RigError> {
        Err(undeclared(Action::Restore))
    }

    /// Ends the source and starts it anew; what it does with its children is its own affair.
    /// Returns those that live on, with the state that the adapter must come to report.
    async fn restart_source(&mut self) -> Result<Vec<Started>, RigError> {
        Err(undeclared(Action::RestartSource))
    }

    /// Another adapter on the same source, which has gone on meanwhile: what a host that was
    /// restarted builds. The first adapter is closed and dropped by then.
    async fn adapter_again(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        Err(undeclared(Action::AdapterAgain))
    }
}

fn undeclared(action: Action) -> RigError {
    format!(
        "the rig declares that it can {}, but does not implement it",
        action.describe()
    )
    .into()
}
