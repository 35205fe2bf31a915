//! Every case of the kit is failed by something deliberately broken, or it is said why nothing can
//! fail it.

use headcount_conformance::Suite;
use headcount_contract::Capabilities;

/// What is broken on purpose, and which cases must find it.
const BROKEN: [&str; 3] = [
    include_str!("broken.rs"),
    include_str!("broken_registration.rs"),
    include_str!("broken_runtime.rs"),
];

/// Cases that nothing which compiles against the contract can fail, and why they are there.
const CANNOT_FAIL: [(&str, &str); 2] = [
    (
        "events::are_legal_on_the_wire",
        "no illegal event can be built: it holds the contract's types to the contract's parser, for \
         versions of the two to come",
    ),
    (
        "snapshot::is_legal_on_the_wire",
        "no illegal snapshot can be built; as for events",
    ),
];

#[test]
fn every_case_is_failed_by_something_broken() {
    let reports = Suite::unregistered(Capabilities::UNKNOWN).check();
    let unproven: Vec<_> = reports
        .iter()
        .map(|report| report.name)
        .filter(|name| !CANNOT_FAIL.iter().any(|(case, _)| case == name))
        .filter(|name| {
            let quoted = format!("\"{name}\"");
            !BROKEN.iter().any(|tests| tests.contains(&quoted))
        })
        .collect();
    assert_eq!(unproven, Vec::<&str>::new());
}
