//! The conformance kit on the process adapter and its runtime.

use std::process::ExitCode;

use headcount_adapter_process::REGISTRATION;
use headcount_conformance::Suite;
use headcount_tests::rigs::process::{ProcessRig, ProcessRuntimeRig};
use headcount_tests::rigs::registry;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .rig(ProcessRig::default)
        .runtime(ProcessRuntimeRig::default)
        .registry(registry)
        .run()
}
