//! The rules every Headcount adapter is held to, as a test suite, and an in-memory runtime to test
//! hosts with.
//!
//! A test author writes a [`Rig`] that can drive the source behind the adapter, and runs a
//! [`Suite`] on it. Each case holds the adapter to one rule of the contract; `--rules` prints them.

mod bench;
mod case;
mod cases;
mod execute;
mod rig;
mod rule;
mod runtime_rig;
mod schema;
pub mod stub;
mod suite;
mod watch;

pub use headcount_contract::async_trait;
pub use rig::{Action, Actions, Ownership, Rig, RigError, Started};
pub use runtime_rig::{RunAction, RuntimeRig};
pub use suite::{CaseOutcome, CaseReport, RegistryAnswers, Suite};

/// Every rule with the cases that hold it and what they need, as Markdown: what `--rules` prints.
///
/// ```
/// assert!(headcount_conformance::rules().contains("**subscribe.order** All subscribers see one order."));
/// ```
pub fn rules() -> String {
    rule::list()
}
