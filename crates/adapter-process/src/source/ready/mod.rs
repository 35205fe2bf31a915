//! Finds out when a process is ready. A probe runs until it succeeds; whoever awaits it sets the
//! time limit and drops it when the process ends or is to end.

mod exec;
mod http;
mod listener;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::select_ok;
use headcount_contract::{Details, RunEvent};
use serde_json::json;
use tokio::net::TcpStream;

use self::listener::Verdict;
use super::Hub;
use super::reader::now;
use crate::config::{Listener, ProcessOptions, ReadyCheck, TcpCheck};

/// Where a process runs, for commands that run beside it.
#[derive(Debug)]
pub(crate) struct Surroundings {
    pub(crate) cwd: PathBuf,
    pub(crate) env: BTreeMap<OsString, OsString>,
}

/// Completes when the process is ready. A line is looked for by whoever reads the lines.
pub(super) async fn probe(
    options: Arc<ProcessOptions>,
    surroundings: Surroundings,
    leader: u32,
    hub: Arc<Hub>,
) {
    let Some(readiness) = &options.ready else {
        return;
    };
    let interval = readiness.interval;
    match &readiness.check {
        ReadyCheck::Delay(delay) => tokio::time::sleep(*delay).await,
        ReadyCheck::Log(_) => pending().await,
        ReadyCheck::Exec(check) => {
            exec::until_it_succeeds(check, &surroundings, interval, &hub).await;
        }
        ReadyCheck::Tcp(check) => {
            let mut owner = Owner::new(check.listener, check.port, leader, &hub);
            until_connected(check, interval, &mut owner).await;
        }
        ReadyCheck::Http(check) => {
            let mut owner = Owner::new(check.listener, check.port, leader, &hub);
            http::until_it_answers(check, interval, &mut owner).await;
        }
    }
}

async fn until_connected(check: &TcpCheck, interval: Duration, owner: &mut Owner<'_>) {
    loop {
        // At once, because one that is never answered must not hide the other.
        let tries = ["127.0.0.1", "::1"].map(|host| TcpStream::connect((host, check.port)).boxed());
        if select_ok(tries).await.is_ok() && owner.is_right() {
            return;
        }
        tokio::time::sleep(interval).await;
    }
}

/// Whether the one who listens is the run itself.
struct Owner<'a> {
    wanted: Listener,
    port: u16,
    leader: u32,
    hub: &'a Hub,
    told: bool,
}

impl<'a> Owner<'a> {
    fn new(wanted: Listener, port: u16, leader: u32, hub: &'a Hub) -> Self {
        Self {
            wanted,
            port,
            leader,
            hub,
            told: false,
        }
    }

    /// Looks who listens. A stranger is told of once.
    fn is_right(&mut self) -> bool {
        if self.wanted == Listener::Any {
            return true;
        }
        let stranger = match listener::of(self.port, self.leader) {
            Verdict::Own | Verdict::Unknown => return true,
            Verdict::Strange(pid) => pid,
        };
        if !std::mem::replace(&mut self.told, true) {
            let mut details = Details::from_iter([("port", json!(self.port))]);
            if let Some(pid) = stranger {
                details = details.with([("listener", json!(pid))]);
            }
            self.hub.push(&RunEvent::Error {
                message: format!(
                    "port {} is listened on by a process that is not of this run; it does not count as ready",
                    self.port
                ),
                timestamp: now(),
                details,
            });
        }
        false
    }
}
