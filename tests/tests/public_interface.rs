//! The public interface that third parties build on. Whatever is taken away or changed in shape
//! stops this file from compiling; whatever is added must be listed here, so that it is meant.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use headcount_contract::{self as contract, AdapterError, AdapterSpec, ChildLifecycleAdapter};

/// Names every item twice: for the compiler, and for the comparison with what the crate exports.
macro_rules! interface {
    ($list:ident of $krate:ident: $($item:ident),* $(,)?) => {
        #[allow(unused_imports)] // naming them is the test
        mod $list {
            pub(super) mod items {
                pub(crate) use $krate::{$($item),*};
            }
            pub(super) const NAMES: &[&str] = &[$(stringify!($item)),*];
        }
    };
}

interface!(contract_items of headcount_contract:
    Activity, AdapterError, AdapterErrorKind, AdapterRegistration, AdapterSpec, AgentRuntime,
    AuthoritativeSnapshot, BuildAdapter, CancelOutcome, Capabilities, Capability, ChildId,
    ChildIdentity, ChildLifecycleAdapter, ChildState, Coverage, Details, Discontinuity,
    DiscontinuityCause, EventId, EventKind, FaultClass, Gap, Health, HealthStatus, IdError,
    LifecycleEvent, LineFlags, Lineage, LineageError, LiveState, LogBatch, LogLine,
    MAX_ACTIVITY_CHARS, MAX_ID_BYTES, MAX_INTEGER, Observation, Outcome, OutputStream, ParsedEvent,
    PartialSnapshot, ProjectIdentity, REDACTED, RunEvent, RunEventStream, RunHandle, RunId,
    RunStatus, RuntimeCapabilities, SCHEMA_VERSION, Sequence, SequenceScope, Signal, SignalStream,
    Snapshot, SnapshotChild, SnapshotError, SnapshotId, SnapshotReason, SourceEpoch, SourceId,
    SourceIdentity, SourceRole, StartError, StartErrorKind, StartInput, StatusChange, StopSignal,
    TOO_DEEP, Timestamp, TimestampError, UnknownState, Urgency, Usage, WireFault, WireLimits,
    WireLine, WireReader, async_trait, is_secret_key, parse_event, parse_event_with, parse_line,
    parse_snapshot,
);

interface!(registry_items of headcount_registry:
    Registry, RegistryError, Submission, inventory, submit_adapter,
);

interface!(kit_items of headcount_adapter_kit:
    Announce, Coalescer, EndedRun, EventMint, Fanout, HealthCell, NextRun, RunPlan, RuntimeAdapter,
    RuntimeAdapterBuilder, Told, config_object, duration, first_sequence,
    new_epoch,
);

interface!(conformance_items of headcount_conformance:
    Action, Actions, CaseOutcome, CaseReport, Ownership, RegistryAnswers, Rig, RigError, RunAction,
    RuntimeRig, Started, Suite, async_trait, rules, stub,
);

#[test]
fn every_item_of_the_interface_is_listed_here() {
    let crates = [
        ("contract", contract_items::NAMES),
        ("registry", registry_items::NAMES),
        ("adapter-kit", kit_items::NAMES),
        ("conformance", conformance_items::NAMES),
    ];
    for (folder, listed) in crates {
        let listed: BTreeSet<_> = listed.iter().map(|name| (*name).to_owned()).collect();
        let exported = exported(folder);
        let unlisted: Vec<_> = exported.difference(&listed).collect();
        let gone: Vec<_> = listed.difference(&exported).collect();
        assert!(
            unlisted.is_empty() && gone.is_empty(),
            "of {folder}, not listed: {unlisted:?}; listed and not exported: {gone:?}"
        );
    }
}

/// What a crate's `lib.rs` makes public: `pub use`, `pub mod`, `pub fn`, and exported macros.
fn exported(folder: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../crates")
        .join(folder)
        .join("src/lib.rs");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let code: String = text
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, " "])
        .collect();
    let mut names = BTreeSet::new();
    for statement in code.split_inclusive([';', '{']) {
        let statement = statement.trim();
        if let Some(at) = statement.find("pub mod ") {
            names.insert(word(&statement[at + 8..]));
        } else if let Some(at) = statement.find("pub fn ") {
            names.insert(word(&statement[at + 7..]));
        } else if let Some(at) = statement.find("macro_rules! ") {
            names.insert(word(&statement[at + 13..]));
        }
    }
    for import in code.split("pub use ").skip(1) {
        let import = import.split(';').next().unwrap_or_default();
        let items = match import.split_once('{') {
            Some((_, items)) => items.trim_end_matches([' ', '}']),
            None => import.rsplit("::").next().unwrap_or_default(),
        };
        names.extend(items.split(',').map(word).filter(|name| !name.is_empty()));
    }
    // `schema` is there with a feature only.
    names.remove("schema");
    names
}

fn word(text: &str) -> String {
    text.trim()
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect()
}

/// An adapter with every method of the trait as it is now: a changed signature does not compile.
#[derive(Debug)]
struct Everything;

#[contract::async_trait]
impl ChildLifecycleAdapter for Everything {
    fn identity(&self) -> contract::SourceIdentity {
        unreachable!()
    }

    fn capabilities(&self) -> contract::Capabilities {
        contract::Capabilities::UNKNOWN
    }

    fn health(&self) -> contract::Health {
        contract::Health::default()
    }

    fn subscribe(&self) -> Result<contract::SignalStream, AdapterError> {
        Err(AdapterError::unsupported("subscribe"))
    }

    async fn snapshot(
        &self,
        _: contract::SnapshotReason,
    ) -> Result<Vec<contract::Snapshot>, AdapterError> {
        Ok(Vec::new())
    }

    fn is_finished(&self) -> bool {
        true
    }

    async fn cancel(
        &self,
        _: &contract::ChildId,
        _: Option<&str>,
    ) -> Result<contract::CancelOutcome, AdapterError> {
        Ok(contract::CancelOutcome::Unsupported)
    }

    async fn restart(&self, _: &contract::ChildId) -> Result<contract::ChildId, AdapterError> {
        Err(AdapterError::unsupported("restart"))
    }

    async fn close(&self, _: contract::Urgency) -> Result<(), AdapterError> {
        Ok(())
    }
}

/// A registration with every field, written as third parties write it.
static EVERYTHING: contract::AdapterRegistration = contract::AdapterRegistration {
    kind: "everything",
    summary: "names every field",
    provided_by: "headcount-tests 0.0.0",
    role: contract::SourceRole::Own,
    sequence_scope: contract::SequenceScope::Child,
    capabilities: contract::Capabilities::UNKNOWN,
    config_schema: || serde_json::json!({ "type": "object" }),
    example_config: || serde_json::json!({}),
    build: |_: AdapterSpec| Ok(Arc::new(Everything)),
};

#[test]
fn a_registration_builds_what_it_names() {
    let adapter = (EVERYTHING.build)(AdapterSpec::new((EVERYTHING.example_config)()));
    assert!(adapter.is_ok_and(|adapter| adapter.is_finished()));
}
