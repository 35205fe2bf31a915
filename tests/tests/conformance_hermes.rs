//! The conformance kit on the Hermes adapter, attached to a scripted gateway.

use std::process::ExitCode;

use headcount_adapter_hermes::REGISTRATION;
use headcount_conformance::Suite;
use headcount_tests::rigs::hermes::HermesRig;
use headcount_tests::rigs::registry;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .rig(HermesRig::default)
        .registry(registry)
        .run()
}
