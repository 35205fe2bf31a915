//! What needs more of the machine than any test may expect: a kernel's feature, the rights of root,
//! a namespace, a program. Where it is missing the test is listed as ignored, with the reason in its
//! name.
//!
//! Some run this program again under other conditions; `HEADCOUNT_ROLE` says what it then does.
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

#[cfg(target_os = "linux")]
mod again;
#[cfg(target_os = "linux")]
mod confined;
#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod probe;
#[cfg(target_os = "linux")]
mod reuse;
#[cfg(target_os = "linux")]
#[path = "../support/mod.rs"]
mod support;

#[cfg(not(target_os = "linux"))]
fn main() {
    let trial = libtest_mimic::Trial::test("conditions (skipped: not Linux)", || Ok(()));
    let arguments = libtest_mimic::Arguments::from_args();
    libtest_mimic::run(&arguments, vec![trial.with_ignored_flag(true)]).exit();
}

#[cfg(target_os = "linux")]
fn main() {
    if let Ok(role) = std::env::var("HEADCOUNT_ROLE") {
        return again::play(&role);
    }
    let trials = [kernel::trials(), reuse::trials(), confined::trials()];
    let trials = trials.into_iter().flatten().collect();
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
