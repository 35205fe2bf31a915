//! The conformance kit on the stub, under the bridge that every runtime gets.

use std::process::ExitCode;

use headcount_conformance::Suite;
use headcount_contract::{Capabilities, Capability};
use headcount_tests::rigs::stub::{StubRig, StubRuntimeRig};

const VERIFIED: Capabilities = Capabilities {
    history: Capability::Known,
    snapshot: Capability::Known,
    cancel: Capability::Known,
    terminal_cause: Capability::Known,
    ..Capabilities::UNKNOWN
};

fn main() -> ExitCode {
    Suite::unregistered(VERIFIED)
        .rig(StubRig::default)
        .runtime(StubRuntimeRig::default)
        .run()
}
