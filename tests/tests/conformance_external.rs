//! The conformance kit on processes that somebody else started.

use std::process::ExitCode;

use headcount_adapter_external::REGISTRATION;
use headcount_conformance::Suite;
use headcount_tests::rigs::external::ExternalRig;
use headcount_tests::rigs::registry;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .registry(registry)
        .rig(ExternalRig::default)
        .run()
}
