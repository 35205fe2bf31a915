//! What a test crate calls: the adapter, its rig, and the run.

use std::fmt;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{AdapterRegistration, Capabilities, SequenceScope, SourceRole};
use libtest_mimic::{Arguments, Completion, Failed, Trial};

use crate::case::Case;
use crate::{Actions, Ownership, Rig, RunAction, RuntimeRig, cases, execute, rule};

/// Holds one adapter to the contract, one test a case.
///
/// # Behavior
///
/// - Each case gets a fresh rig and its own time limit.
/// - A case that needs a capability or an action that is not there is *ignored*, at list time too,
///   and the reason is printed; it is never left out and never passed.
/// - Takes the arguments of libtest (a filter, `--list`, `--exact`, …), and `--rules`, which prints
///   each rule with the cases that hold it.
///
/// A whole test file, with `harness = false` in `Cargo.toml`:
///
/// ```no_run
/// # use headcount_conformance::{Actions, Rig, RigError, Suite};
/// # use headcount_contract::{AdapterRegistration, ChildLifecycleAdapter, async_trait};
/// # static REGISTRATION: AdapterRegistration = AdapterRegistration {
/// #     kind: "", summary: "", provided_by: "",
/// #     role: headcount_contract::SourceRole::Own,
/// #     sequence_scope: headcount_contract::SequenceScope::Child,
/// #     capabilities: headcount_contract::Capabilities::UNKNOWN,
/// #     config_schema: || serde_json::json!({}), example_config: || serde_json::json!({}),
/// #     build: |_| Err(headcount_contract::AdapterError::unsupported("build")),
/// # };
/// # struct MyRig;
/// # impl MyRig { fn new() -> Self { Self } }
/// # #[async_trait]
/// # impl Rig for MyRig {
/// #     fn actions(&self) -> Actions { Actions::NONE }
/// #     async fn adapter(&mut self) -> Result<std::sync::Arc<dyn ChildLifecycleAdapter>, RigError> {
/// #         Err("".into())
/// #     }
/// # }
/// fn main() -> std::process::ExitCode {
///     Suite::new(&REGISTRATION).rig(MyRig::new).run()
/// }
/// ```
pub struct Suite {
    plan: Plan,
}

/// How one case went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CaseReport {
    /// Its name, `group::statement`.
    pub name: &'static str,
    /// How it went.
    pub outcome: CaseOutcome,
}

/// How a case went.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CaseOutcome {
    /// The adapter keeps the rule.
    Passed,
    /// It could not be tried, for this reason.
    Ignored(String),
    /// The adapter breaks the rule, in this way.
    Failed(String),
}

/// The registry's answers about one kind.
#[derive(Debug, Clone)]
pub struct RegistryAnswers {
    /// All registrations, in the registry's own order.
    pub listed: Vec<&'static AdapterRegistration>,
    /// What it finds under the kind; an error's text if nothing.
    pub found: Result<&'static AdapterRegistration, String>,
}

/// All that a suite was told.
pub(crate) struct Plan {
    pub(crate) registration: Option<&'static AdapterRegistration>,
    pub(crate) registry: Option<fn(&str) -> RegistryAnswers>,
    capabilities: Option<Capabilities>,
    pub(crate) actions: Option<Actions>,
    pub(crate) ownership: Ownership,
    pub(crate) run_actions: Option<&'static [RunAction]>,
    pub(crate) time_limit: Duration,
    make_rig: Option<Box<dyn Fn() -> Box<dyn Rig> + Send + Sync>>,
    make_run_rig: Option<Box<dyn Fn() -> Box<dyn RuntimeRig> + Send + Sync>>,
}

impl Plan {
    /// What the adapter on the rig has verified.
    pub(crate) fn capabilities(&self) -> Capabilities {
        self.capabilities
            .or(self
                .registration
                .map(|registration| registration.capabilities))
            .unwrap_or(Capabilities::UNKNOWN)
    }

    pub(crate) fn role(&self) -> SourceRole {
        self.registration
            .map_or(SourceRole::Own, |registration| registration.role)
    }

    pub(crate) fn scope(&self) -> SequenceScope {
        self.registration
            .map_or(SequenceScope::Child, |registration| {
                registration.sequence_scope
            })
    }

    pub(crate) fn new_rig(&self) -> Option<Box<dyn Rig>> {
        self.make_rig.as_ref().map(|make| make())
    }

    pub(crate) fn new_run_rig(&self) -> Option<Box<dyn RuntimeRig>> {
        self.make_run_rig.as_ref().map(|make| make())
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite")
            .field("registration", &self.plan.registration)
            .field("actions", &self.plan.actions)
            .finish_non_exhaustive()
    }
}

impl Suite {
    /// Of an adapter with a registration.
    pub fn new(registration: &'static AdapterRegistration) -> Self {
        Self::of(Some(registration))
    }

    /// Of an adapter that no registry knows, such as a bridge over a runtime: it is its own source
    /// and counts per child.
    pub fn unregistered(capabilities: Capabilities) -> Self {
        Self::of(None).capabilities(capabilities)
    }

    fn of(registration: Option<&'static AdapterRegistration>) -> Self {
        let plan = Plan {
            registration,
            registry: None,
            capabilities: None,
            actions: None,
            ownership: Ownership::Own,
            run_actions: None,
            time_limit: Duration::from_secs(20),
            make_rig: None,
            make_run_rig: None,
        };
        Self { plan }
    }

    /// The same with the rig that drives its source.
    pub fn rig<R: Rig>(mut self, make: impl Fn() -> R + Send + Sync + 'static) -> Self {
        let rig = make();
        self.plan.actions = Some(rig.actions());
        self.plan.ownership = rig.ownership();
        self.plan.make_rig = Some(Box::new(move || Box::new(make())));
        self
    }

    /// The same with the rig of the [`AgentRuntime`](headcount_contract::AgentRuntime) beneath.
    pub fn runtime<R: RuntimeRig>(mut self, make: impl Fn() -> R + Send + Sync + 'static) -> Self {
        self.plan.run_actions = Some(make().actions());
        self.plan.make_run_rig = Some(Box::new(move || Box::new(make())));
        self
    }

    /// The same with the answers of the registry that should know the adapter.
    pub fn registry(mut self, ask: fn(kind: &str) -> RegistryAnswers) -> Self {
        self.plan.registry = Some(ask);
        self
    }

    /// The same for a rig whose adapter has verified less than its registration can promise.
    pub fn capabilities(mut self, verified: Capabilities) -> Self {
        self.plan.capabilities = Some(verified);
        self
    }

    /// The same with another time limit for each case; 20 seconds by default.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.plan.time_limit = limit;
        self
    }

    /// Runs the cases that the command line selects, prints what came of each, and returns the
    /// exit code for `main`.
    pub fn run(self) -> ExitCode {
        if std::env::args().any(|argument| argument == "--rules") {
            // Nobody reads a closed pipe.
            let _ = write!(std::io::stdout(), "{}", rule::list());
            return ExitCode::SUCCESS;
        }
        let arguments = Arguments::from_args();
        let plan = Arc::new(self.plan);
        let ignored: Vec<_> = cases::all()
            .filter_map(|case| Some((case.name, case.ignored(&plan)?)))
            .collect();
        let conclusion = libtest_mimic::run(
            &arguments,
            cases::all().map(|case| trial(&plan, case)).collect(),
        );
        if !arguments.list && conclusion.num_ignored > 0 {
            let mut out = std::io::stdout().lock();
            // A pipe that nobody reads any more is no failure.
            let _ = out.write_all(reasons(&ignored).as_bytes());
        }
        conclusion.exit_code()
    }

    /// Runs every case, one after the other, and returns what came of each.
    pub fn check(self) -> Vec<CaseReport> {
        let plan = Arc::new(self.plan);
        cases::all()
            .map(|case| CaseReport {
                name: case.name,
                outcome: match case.ignored(&plan) {
                    Some(reason) => CaseOutcome::Ignored(reason),
                    None => match execute::run(&plan, case) {
                        Ok(()) => CaseOutcome::Passed,
                        Err(failure) => CaseOutcome::Failed(failure),
                    },
                },
            })
            .collect()
    }
}

/// Why cases were ignored: each reason once, with its cases.
fn reasons(ignored: &[(&str, String)]) -> String {
    let mut by_reason: Vec<(&str, Vec<&str>)> = Vec::new();
    for (name, reason) in ignored {
        match by_reason.iter_mut().find(|(known, _)| known == reason) {
            Some((_, names)) => names.push(name),
            None => by_reason.push((reason, vec![name])),
        }
    }
    let mut text = "ignored, because\n".to_owned();
    for (reason, names) in by_reason {
        let _ = write!(text, "  {reason}\n    {}\n", names.join("\n    "));
    }
    text
}

fn trial(plan: &Arc<Plan>, case: &'static Case) -> Trial {
    let reason = case.ignored(plan);
    let is_ignored = reason.is_some();
    let plan = plan.clone();
    Trial::ignorable_test(case.name, move || match reason {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => execute::run(&plan, case)
            .map(|()| Completion::Completed)
            .map_err(Failed::from),
    })
    .with_ignored_flag(is_ignored)
}
