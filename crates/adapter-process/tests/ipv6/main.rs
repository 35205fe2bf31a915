//! Readiness of a server on `::1` alone: ignored, with the reason, on a machine without one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::wildcard_imports)] // as in any test

#[allow(dead_code)] // each test program uses a part of it
#[path = "../process/server.rs"]
mod server;
#[allow(dead_code)] // as above
#[path = "../process/support.rs"]
mod support;

use std::net::{Ipv6Addr, TcpListener};

use headcount_adapter_process::ReadyCheck;
use libtest_mimic::{Arguments, Trial};

use crate::server::*;

fn main() {
    let name = "f08_a_server_on_the_ipv6_loopback_alone_counts";
    let trial = match TcpListener::bind((Ipv6Addr::LOCALHOST, 0)) {
        Ok(_) => Trial::test(name, || {
            let runtime = tokio::runtime::Runtime::new()?;
            runtime.block_on(counts());
            Ok(())
        }),
        Err(error) => Trial::test(
            format!("{name} (ignored: no IPv6 loopback here: {error})"),
            || Err("there is no IPv6 loopback here".into()),
        )
        .with_ignored_flag(true),
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

async fn counts() {
    let (port, _) = serve((Ipv6Addr::LOCALHOST, 0), &[OK], AT_ONCE);
    becomes_ready(sleeper(ReadyCheck::http(port), LONG)).await;
    becomes_ready(sleeper(ReadyCheck::tcp(port), LONG)).await;
}
