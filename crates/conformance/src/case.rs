//! A case: one rule, what holding an adapter to it needs, and how it is done.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use headcount_contract::{AdapterError, Capabilities, SourceRole};

use crate::bench::Bench;
use crate::suite::Plan;
use crate::{Action, Ownership, RigError, RunAction};

/// One case.
pub(crate) struct Case {
    /// `group::statement`.
    pub(crate) name: &'static str,
    /// The id of its rule.
    pub(crate) rule: &'static str,
    pub(crate) needs: &'static [Need],
    pub(crate) run: for<'a> fn(&'a mut Bench) -> Verdict<'a>,
}

pub(crate) type Verdict<'a> = Pin<Box<dyn Future<Output = Result<(), Failure>> + 'a>>;

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Case {
    /// Why the case cannot be held here, if it cannot.
    pub(crate) fn ignored(&self, plan: &Plan) -> Option<String> {
        self.needs.iter().find_map(|need| need.missing(plan))
    }
}

/// What a case needs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Need {
    /// A rig at all.
    Rig,
    /// A rig that can do this.
    Can(Action),
    /// An adapter that has verified this.
    Known(Ability),
    /// An adapter that has not verified this.
    NotKnown(Ability),
    /// An adapter that has not verified at least one of the five.
    SomethingUnknown,
    /// An adapter that is its own source.
    OwnSource,
    /// Children that the source started itself.
    OwnChildren,
    /// Children that somebody else started.
    ExternalChildren,
    Registration,
    Registry,
    /// A runtime rig at all.
    Runtime,
    /// A runtime rig that can do this.
    RunCan(RunAction),
}

/// One of the five capabilities, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ability {
    Heartbeat,
    Snapshot,
    Cancel,
    TerminalCause,
}

impl Ability {
    pub(crate) fn is_known(self, of: Capabilities) -> bool {
        match self {
            Self::Heartbeat => of.heartbeat,
            Self::Snapshot => of.snapshot,
            Self::Cancel => of.cancel,
            Self::TerminalCause => of.terminal_cause,
        }
        .is_known()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Heartbeat => "heartbeat",
            Self::Snapshot => "snapshot",
            Self::Cancel => "cancel",
            Self::TerminalCause => "terminalCause",
        }
    }
}

impl Need {
    /// As the list of rules has it.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Rig => "a rig".into(),
            Self::Can(action) => format!("a rig that can {}", action.describe()),
            Self::Known(ability) => format!("the capability {}", ability.name()),
            Self::NotKnown(ability) => format!("no capability {}", ability.name()),
            Self::SomethingUnknown => "a capability that is unknown".into(),
            Self::OwnSource => "an adapter that is its own source".into(),
            Self::OwnChildren => "children that the source started".into(),
            Self::ExternalChildren => "children that somebody else started".into(),
            Self::Registration => "a registration".into(),
            Self::Registry => "the registry's answers".into(),
            Self::Runtime => "a runtime rig".into(),
            Self::RunCan(action) => format!("a runtime rig that can {}", action.describe()),
        }
    }

    fn missing(self, plan: &Plan) -> Option<String> {
        let known = plan.capabilities();
        let met = match self {
            Self::Rig => plan.actions.is_some(),
            Self::Can(action) => plan.actions.is_some_and(|actions| actions.has(action)),
            Self::Known(ability) => ability.is_known(known),
            Self::NotKnown(ability) => !ability.is_known(known),
            Self::SomethingUnknown => known != ALL_KNOWN,
            Self::OwnSource => plan.role() == SourceRole::Own,
            Self::OwnChildren => plan.ownership == Ownership::Own,
            Self::ExternalChildren => plan.ownership == Ownership::External,
            Self::Registration => plan.registration.is_some(),
            Self::Registry => plan.registry.is_some(),
            Self::Runtime => plan.run_actions.is_some(),
            Self::RunCan(action) => plan.run_actions.is_some_and(|able| able.contains(&action)),
        };
        (!met).then(|| match self {
            Self::Can(_) if plan.actions.is_none() => "there is no rig: Suite::rig".into(),
            Self::RunCan(_) if plan.run_actions.is_none() => {
                "there is no runtime: Suite::runtime".into()
            }
            Self::Can(action) => format!("the rig cannot {}", action.describe()),
            Self::RunCan(action) => format!("the runtime rig cannot {}", action.describe()),
            Self::Known(ability) => format!("the capability {} is unknown", ability.name()),
            Self::NotKnown(ability) => format!("the capability {} is known", ability.name()),
            Self::SomethingUnknown => "every capability is known".into(),
            Self::OwnSource => "the adapter carries other sources' events".into(),
            Self::OwnChildren => "the children are external".into(),
            Self::ExternalChildren => "the children are not external".into(),
            Self::Rig => "there is no rig: Suite::rig".into(),
            Self::Registration => "there is no registration: Suite::new".into(),
            Self::Registry => "the registry's answers are not there: Suite::registry".into(),
            Self::Runtime => "there is no runtime: Suite::runtime".into(),
        })
    }
}

const ALL_KNOWN: Capabilities = Capabilities {
    history: headcount_contract::Capability::Known,
    heartbeat: headcount_contract::Capability::Known,
    snapshot: headcount_contract::Capability::Known,
    cancel: headcount_contract::Capability::Known,
    terminal_cause: headcount_contract::Capability::Known,
};

/// What an adapter did that the rule forbids.
#[derive(Debug)]
pub(crate) struct Failure(pub(crate) String);

impl Failure {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl From<RigError> for Failure {
    fn from(error: RigError) -> Self {
        Self(format!("the rig failed: {error}"))
    }
}

impl From<AdapterError> for Failure {
    fn from(error: AdapterError) -> Self {
        Self(format!("the adapter refused: {error:?}"))
    }
}

/// Fails the case unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::case::Failure::new(format!($($message)+)));
        }
    };
}
pub(crate) use ensure;

/// One case as a line of a table.
macro_rules! case {
    ($name:literal, $rule:literal, [$($need:expr),* $(,)?], $run:ident) => {
        $crate::case::Case {
            name: $name,
            rule: $rule,
            needs: &[$($need),*],
            run: |bench| Box::pin($run(bench)),
        }
    };
    // A case that has nothing to wait for.
    ($name:literal, $rule:literal, [$($need:expr),* $(,)?], at_once $run:ident) => {
        $crate::case::Case {
            name: $name,
            rule: $rule,
            needs: &[$($need),*],
            run: |bench| Box::pin(std::future::ready($run(bench))),
        }
    };
}
pub(crate) use case;
