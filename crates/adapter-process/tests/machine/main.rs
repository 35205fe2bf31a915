//! What needs something of the machine that not every one has: each test is ignored, with the
//! reason, where it is missing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::wildcard_imports)] // as in any test

mod processes;
#[allow(dead_code)] // each test program uses a part of it
#[path = "../process/server.rs"]
mod server;
#[allow(dead_code)] // as above
#[path = "../process/support.rs"]
mod support;
mod traced;

use std::net::{Ipv6Addr, TcpListener};

use headcount_adapter_process::ReadyCheck;
use libtest_mimic::{Arguments, Trial};

use crate::server::*;

/// A test, or why it cannot be had here.
fn trial<F>(name: &str, missing: Option<String>, test: fn() -> F) -> Trial
where
    F: Future<Output = ()> + 'static,
{
    match missing {
        None => Trial::test(name, move || {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(test());
            Ok(())
        }),
        Some(why) => Trial::test(format!("{name} (ignored: {why})"), move || Err(why.into()))
            .with_ignored_flag(true),
    }
}

fn main() {
    // A process that limits itself is started by one of the tests.
    if std::env::args().nth(1).as_deref() == Some(processes::RUN_OUT) {
        return processes::run_out();
    }
    let no_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0))
        .err()
        .map(|error| format!("no IPv6 loopback: {error}"));
    let trials = vec![
        trial(
            "f08_a_server_on_the_ipv6_loopback_alone_counts",
            no_ipv6,
            ipv6_counts,
        ),
        trial(
            "a_process_that_cannot_be_killed_is_not_told_ended",
            traced::missing(),
            traced::is_told_only_when_it_has_ended,
        ),
        trial(
            "a_child_that_cannot_be_reaped_is_counted_until_it_is",
            traced::missing(),
            traced::is_counted_until_it_is_reaped,
        ),
        trial(
            "processes_that_run_out_are_told_of",
            processes::missing(),
            processes::are_told_of,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

async fn ipv6_counts() {
    let (port, _) = serve((Ipv6Addr::LOCALHOST, 0), &[OK], AT_ONCE);
    becomes_ready(sleeper(ReadyCheck::http(port), LONG)).await;
    becomes_ready(sleeper(ReadyCheck::tcp(port), LONG)).await;
}
