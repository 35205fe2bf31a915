//! The kit itself, on registrations: each fault is found by exactly its case.

#![allow(clippy::unwrap_used)] // helpers of tests may unwrap, as tests may

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use headcount_conformance::{Actions, CaseOutcome, RegistryAnswers, Rig, RigError, Suite};
use headcount_contract::*;
use serde_json::{Value, json};

#[derive(Debug)]
struct Quiet {
    identity: SourceIdentity,
    verified: Capabilities,
    closed: AtomicBool,
}

#[async_trait]
impl ChildLifecycleAdapter for Quiet {
    fn identity(&self) -> SourceIdentity {
        self.identity.clone()
    }
    fn capabilities(&self) -> Capabilities {
        self.verified
    }
    fn health(&self) -> Health {
        Health::default().with_limitation("nothing is ever seen")
    }
    fn subscribe(&self) -> Result<SignalStream, AdapterError> {
        if self.closed.load(Ordering::SeqCst) {
            return Err(AdapterError::new(AdapterErrorKind::Closed, "it is closed"));
        }
        Ok(Box::pin(futures_util::stream::empty()))
    }
    async fn snapshot(&self, _: SnapshotReason) -> Result<Vec<Snapshot>, AdapterError> {
        Ok(Vec::new())
    }
    async fn close(&self, _: Urgency) -> Result<(), AdapterError> {
        self.closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}

fn quiet(name: Option<SourceId>) -> Arc<dyn ChildLifecycleAdapter> {
    verifying(name, Capabilities::UNKNOWN)
}

fn verifying(name: Option<SourceId>, verified: Capabilities) -> Arc<dyn ChildLifecycleAdapter> {
    let name = name.unwrap_or_else(|| SourceId::new("quiet").unwrap());
    Arc::new(Quiet {
        identity: SourceIdentity::new(name, SourceEpoch::new("1").unwrap()),
        verified,
        closed: AtomicBool::new(false),
    })
}

/// Builds adapters that have verified this, and can do nothing with their source.
struct VerifyingRig(Capabilities);

#[async_trait]
impl Rig for VerifyingRig {
    fn actions(&self) -> Actions {
        Actions::NONE
    }
    async fn adapter(&mut self) -> Result<Arc<dyn ChildLifecycleAdapter>, RigError> {
        Ok(verifying(None, self.0))
    }
}

fn refuse(why: String) -> AdapterError {
    AdapterError::new(AdapterErrorKind::InvalidConfig, why)
}

/// Reads the one key `path`, as strictly as it should be.
fn strict(config: &Value) -> Result<(), AdapterError> {
    let keys = config
        .as_object()
        .ok_or_else(|| refuse("no table".into()))?;
    match keys.keys().find(|key| *key != "path") {
        Some(unknown) => Err(refuse(format!("unknown key {unknown}"))),
        None => Ok(()),
    }
}

const SOUND: AdapterRegistration = AdapterRegistration {
    kind: "quiet",
    summary: "observes nothing",
    provided_by: "quiet-adapter 1.2.3",
    role: SourceRole::Own,
    sequence_scope: SequenceScope::Child,
    capabilities: Capabilities::UNKNOWN,
    config_schema: || {
        json!({
            "type": "object",
            "properties": { "path": { "type": "string" } },
            "additionalProperties": false,
        })
    },
    example_config: || json!({ "path": "/a" }),
    build: |spec| {
        strict(&spec.config)?;
        Ok(quiet(spec.source))
    },
};

fn failed(suite: Suite) -> Vec<&'static str> {
    let reports = suite.check().into_iter();
    let failed = reports.filter(|report| matches!(report.outcome, CaseOutcome::Failed(_)));
    failed.map(|report| report.name).collect()
}

fn sorted(_: &str) -> RegistryAnswers {
    RegistryAnswers {
        listed: vec![&REGISTERED],
        found: Ok(&REGISTERED),
    }
}

static REGISTERED: AdapterRegistration = SOUND;

#[test]
fn a_sound_registration_passes() {
    let none: [&str; 0] = [];
    assert_eq!(failed(Suite::new(&REGISTERED).registry(sorted)), none);
}

macro_rules! faults {
    ($($name:ident { $($field:ident: $value:expr),* } => [$($case:literal),+];)*) => {$(
        #[test]
        fn $name() {
            static FAULTY: AdapterRegistration = AdapterRegistration {
                $($field: $value,)*
                ..SOUND
            };
            assert_eq!(failed(Suite::new(&FAULTY)), [$($case),+]);
        }
    )*};
}

faults! {
    accepts_unknown_keys {
        build: |spec| match spec.config {
            Value::Object(_) => Ok(quiet(spec.source)),
            _ => Err(refuse("no table".into())),
        }
    } => ["config::an_unknown_key_is_refused_by_its_name"];
    names_no_key_in_its_error {
        build: |spec| {
            strict(&spec.config).map_err(|_| refuse("something is wrong".into()))?;
            Ok(quiet(spec.source))
        }
    } => ["config::an_unknown_key_is_refused_by_its_name"];
    accepts_a_list {
        build: |spec| {
            if !spec.config.is_array() {
                strict(&spec.config)?;
            }
            Ok(quiet(spec.source))
        }
    } => ["config::what_is_no_object_is_refused"];
    describes_another_configuration {
        config_schema: || json!({ "type": "object", "required": ["port"] })
    } => ["config::the_schema_fits_the_example"];
    describes_any_key {
        config_schema: || json!({ "type": "object" })
    } => ["config::the_schema_fits_the_example"];
    opens_a_file_when_it_is_built {
        build: |spec| {
            strict(&spec.config)?;
            let read = std::fs::read("/proc/self/stat");
            read.map_err(|error| refuse(error.to_string()))?;
            Ok(quiet(spec.source))
        }
    } => ["config::building_does_no_io"];
    starts_a_task_when_it_is_built {
        build: |spec| {
            strict(&spec.config)?;
            let runtime = tokio::runtime::Handle::try_current();
            assert!(runtime.is_ok(), "there is no runtime");
            Ok(quiet(spec.source))
        }
    } => ["config::building_does_no_io"];
    keeps_its_own_name {
        build: |spec| {
            strict(&spec.config)?;
            Ok(quiet(None))
        }
    } => ["config::takes_the_name_that_the_host_gives"];
    has_an_example_that_does_not_build {
        build: |spec| {
            strict(&spec.config)?;
            Err(refuse("there is no such path".into()))
        }
    } => [
        "config::the_example_builds",
        "config::building_does_no_io",
        "config::takes_the_name_that_the_host_gives"
    ];
    names_no_version { provided_by: "quiet-adapter" }
        => ["registration::says_who_provides_it"];
    has_a_kind_that_nobody_can_type { kind: "Quiet Adapter" }
        => ["registration::describes_itself"];
}

#[test]
fn a_registry_that_finds_another_one_is_told() {
    static OTHER: AdapterRegistration = SOUND;
    let answers = |_: &str| RegistryAnswers {
        listed: vec![&REGISTERED],
        found: Ok(&OTHER),
    };
    assert_eq!(
        failed(Suite::new(&REGISTERED).registry(answers)),
        ["registration::is_found_by_its_kind"]
    );
}

#[test]
fn a_registry_that_does_not_sort_is_told() {
    static EARLIER: AdapterRegistration = AdapterRegistration {
        kind: "a-first-one",
        ..SOUND
    };
    let answers = |_: &str| RegistryAnswers {
        listed: vec![&REGISTERED, &EARLIER],
        found: Ok(&REGISTERED),
    };
    assert_eq!(
        failed(Suite::new(&REGISTERED).registry(answers)),
        ["registration::is_listed_sorted_and_once"]
    );
}

#[test]
fn an_adapter_that_verifies_more_than_its_registration_promises_is_told() {
    const MORE: Capabilities = Capabilities {
        terminal_cause: Capability::Known,
        ..Capabilities::UNKNOWN
    };
    for (verified, expected) in [
        (Capabilities::UNKNOWN, vec![]),
        (MORE, vec!["registration::promises_all_that_is_verified"]),
    ] {
        let suite = Suite::new(&REGISTERED)
            .registry(sorted)
            .capabilities(verified)
            .rig(move || VerifyingRig(verified));
        assert_eq!(failed(suite), expected);
    }
}
