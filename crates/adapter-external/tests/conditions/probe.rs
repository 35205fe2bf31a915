//! What the machine allows, and tests that need it.

use std::process::{Command, Stdio};

use headcount_adapter_external::ExternalAdapter;
use headcount_contract::ChildLifecycleAdapter;
use libtest_mimic::Trial;

/// A test that is listed as ignored, with the reason, where something is missing.
pub(crate) fn trial<T>(name: &str, missing: Result<(), String>, test: fn() -> T) -> Trial
where
    T: Future<Output = ()> + 'static,
{
    let run = move || {
        block_on(test());
        Ok(())
    };
    match missing {
        Ok(()) => Trial::test(name, run),
        Err(why) => Trial::test(format!("{name} (skipped: {why})"), run).with_ignored_flag(true),
    }
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(test);
}

pub(crate) fn needs(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.to_owned()) }
}

/// Whether the kernel tells how others' children end.
pub(crate) fn exit_status() -> Result<(), String> {
    let adapter = ExternalAdapter::builder().build().unwrap();
    needs(
        adapter.capabilities().terminal_cause.is_known(),
        "the kernel does not tell the exit status of others' children, Linux 6.15 does",
    )
}

pub(crate) fn root() -> Result<(), String> {
    needs(rustix::process::geteuid().is_root(), "not root")
}

/// Whether a program runs and ends well.
pub(crate) fn runs(command: &[&str]) -> Result<(), String> {
    let mut tried = Command::new(command[0]);
    tried.args(&command[1..]);
    tried
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    needs(
        tried.status().is_ok_and(|status| status.success()),
        &format!("`{}` does not work here", command.join(" ")),
    )
}
