//! What building an adapter promises.

use std::sync::Arc;

use headcount_contract::{
    AdapterError, AdapterErrorKind, AdapterRegistration, AdapterSpec, ChildLifecycleAdapter,
    SourceId,
};
use serde_json::{Value, json};

use crate::bench::Bench;
use crate::case::Need::{OwnSource, Registration};
use crate::case::{Case, Failure, case, ensure};
use crate::schema;

pub(super) const CASES: &[Case] = &[
    case!(
        "config::the_example_builds",
        "config.example",
        [Registration],
        at_once the_example_builds
    ),
    case!(
        "config::the_schema_fits_the_example",
        "config.schema",
        [Registration],
        at_once the_schema_fits_the_example
    ),
    case!(
        "config::an_unknown_key_is_refused_by_its_name",
        "config.unknown",
        [Registration],
        at_once an_unknown_key_is_refused_by_its_name
    ),
    case!(
        "config::what_is_no_object_is_refused",
        "config.unknown",
        [Registration],
        at_once what_is_no_object_is_refused
    ),
    case!(
        "config::building_does_no_io",
        "config.no_io",
        [Registration],
        at_once building_does_no_io
    ),
    case!(
        "config::takes_the_name_that_the_host_gives",
        "config.name",
        [Registration, OwnSource],
        at_once takes_the_name_that_the_host_gives
    ),
];

fn registration(bench: &Bench) -> Result<&'static AdapterRegistration, Failure> {
    bench
        .plan
        .registration
        .ok_or_else(|| Failure::new("there is no registration"))
}

fn build(
    registration: &AdapterRegistration,
    config: Value,
) -> Result<Arc<dyn ChildLifecycleAdapter>, AdapterError> {
    (registration.build)(AdapterSpec::new(config))
}

fn the_example_builds(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    build(registration, (registration.example_config)())?;
    Ok(())
}

fn the_schema_fits_the_example(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    let schema = (registration.config_schema)();
    let example = (registration.example_config)();
    schema::check(&schema, &example)
        .map_err(|fault| Failure::new(format!("the example does not fit the schema: {fault}")))?;
    let stray = with_key(&example, STRAY);
    ensure!(
        schema::check(&schema, &stray).is_err(),
        "the schema accepts the key {STRAY}, which the adapter must refuse: it lacks \
         additionalProperties: false"
    );
    Ok(())
}

const STRAY: &str = "no_adapter_has_this_key";

fn with_key(config: &Value, key: &str) -> Value {
    let mut config = config.clone();
    config[key] = json!(1);
    config
}

fn an_unknown_key_is_refused_by_its_name(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    match build(
        registration,
        with_key(&(registration.example_config)(), STRAY),
    ) {
        Ok(_) => Err(Failure::new(format!(
            "it was built, although its configuration has {STRAY}"
        ))),
        Err(error) => {
            ensure!(
                error.kind() == AdapterErrorKind::InvalidConfig,
                "the kind of the error is {}, not invalid-config",
                error.kind().as_str()
            );
            ensure!(
                format!("{error} {error:?}").contains(STRAY),
                "the error does not name the key {STRAY}: {error:?}"
            );
            Ok(())
        }
    }
}

fn what_is_no_object_is_refused(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    let example = (registration.example_config)();
    // A derived reader takes the list of a struct's values for the struct.
    let values: Vec<_> = example
        .as_object()
        .into_iter()
        .flat_map(|keys| keys.values().cloned())
        .collect();
    let no_objects = [
        json!(values),
        json!([]),
        json!(["text"]),
        json!("text"),
        json!(7),
        json!(true),
    ];
    for config in no_objects {
        match build(registration, config.clone()) {
            Ok(_) => return Err(Failure::new(format!("it was built of {config}"))),
            Err(error) => ensure!(
                error.kind() == AdapterErrorKind::InvalidConfig,
                "of {config}, the kind of the error is {}, not invalid-config",
                error.kind().as_str()
            ),
        }
    }
    Ok(())
}

fn takes_the_name_that_the_host_gives(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    let name = SourceId::new("the-hosts-own-name").map_err(|e| Failure::new(e.to_string()))?;
    let spec = AdapterSpec::new((registration.example_config)()).named(name.clone());
    let identity = (registration.build)(spec)?.identity();
    ensure!(
        identity.source == name,
        "the host named the source {name}, the adapter calls itself {}",
        identity.source
    );
    Ok(())
}

fn building_does_no_io(bench: &mut Bench) -> Result<(), Failure> {
    let registration = registration(bench)?;
    // Outside of any runtime, where spawning a task would panic.
    let watched = std::thread::spawn(move || footprint::of_building(registration));
    match watched.join() {
        Ok(outcome) => outcome.map_err(Failure::new),
        Err(_) => Err(Failure::new(
            "building it outside of a tokio runtime panics",
        )),
    }
}

/// What building an adapter leaves on the system, as far as the system tells.
mod footprint {
    use headcount_contract::AdapterRegistration;

    /// Other tests of this process open files and start threads too, so one difference proves
    /// nothing. What building does itself, it does every time.
    const TRIES: usize = 12;

    pub(super) fn of_building(registration: &AdapterRegistration) -> Result<(), String> {
        let example = (registration.example_config)();
        // Whatever is set up once in a process is set up now.
        super::build(registration, example.clone()).map_err(|error| format!("{error:?}"))?;
        let mut least = [u64::MAX; 4];
        for _ in 0..TRIES {
            let before = Footprint::now();
            let adapter = super::build(registration, example.clone());
            let after = Footprint::now();
            drop(adapter);
            for (least, (after, before)) in least.iter_mut().zip(after.0.iter().zip(before.0)) {
                *least = (*least).min(after.saturating_sub(before));
            }
        }
        let idle = Footprint::cost();
        let grown = [
            ("opens files or sockets", least[0], 0),
            ("starts threads", least[1], 0),
            ("reads", least[2], idle[0]),
            ("writes", least[3], idle[1]),
        ];
        match grown.iter().find(|(_, grown, allowed)| grown > allowed) {
            Some((what, ..)) => Err(format!("building it {what}; the first subscribe may")),
            None => Ok(()),
        }
    }

    /// Open files, threads, and this thread's calls that read and write. Zeros where the system
    /// does not tell.
    struct Footprint([u64; 4]);

    impl Footprint {
        fn now() -> Self {
            let [reads, writes] = calls();
            Self([
                entries("/proc/self/fd"),
                entries("/proc/self/task"),
                reads,
                writes,
            ])
        }

        /// What taking a footprint itself adds to the calls.
        fn cost() -> [u64; 2] {
            let mut least = [u64::MAX; 2];
            for _ in 0..TRIES {
                let (before, after) = (Self::now().0, Self::now().0);
                least[0] = least[0].min(after[2].saturating_sub(before[2]));
                least[1] = least[1].min(after[3].saturating_sub(before[3]));
            }
            least
        }
    }

    fn entries(path: &str) -> u64 {
        std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64)
    }

    /// Of this thread only.
    fn calls() -> [u64; 2] {
        let text = std::fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
        ["syscr:", "syscw:"].map(|name| {
            let mut lines = text.lines();
            let value = lines.find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
            value.unwrap_or(0)
        })
    }
}
