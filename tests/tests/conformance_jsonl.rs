//! The conformance kit on the JSONL adapter.

use std::process::ExitCode;

use headcount_adapter_jsonl::REGISTRATION;
use headcount_conformance::Suite;
use headcount_tests::rigs::jsonl::JsonlRig;
use headcount_tests::rigs::registry;

fn main() -> ExitCode {
    Suite::new(&REGISTRATION)
        .rig(JsonlRig::default)
        .registry(registry)
        .run()
}
