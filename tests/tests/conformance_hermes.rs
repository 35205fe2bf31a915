//! The conformance kit on the Hermes adapter, attached to a scripted gateway.

use std::process::ExitCode;
use std::time::Duration;

use headcount_adapter_hermes::REGISTRATION;
use headcount_conformance::Suite;
use headcount_tests::rigs::hermes::HermesRig;
use headcount_tests::rigs::registry;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .rig(HermesRig::default)
        .registry(registry)
        // The flood is read twice, as JSON, by code that nothing has optimised: on a busy machine that
        // takes longer than a case usually may.
        .time_limit(Duration::from_mins(2))
        .run()
}
