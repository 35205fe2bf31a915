//! Readiness by another command.

use std::ffi::OsStr;
use std::time::Duration;

use headcount_contract::{Details, RunEvent, StartError};
use serde_json::json;

use super::Surroundings;
use crate::config::ExecCheck;
use crate::os::{Cause, KILL, Leader, Output, SpawnPlan, find_program, spawn};
use crate::source::Hub;
use crate::source::reader::now;

/// Runs the command until it exits with code 0. Whatever it leaves behind is killed.
pub(super) async fn until_it_succeeds(
    check: &ExecCheck,
    surroundings: &Surroundings,
    interval: Duration,
    hub: &Hub,
) {
    let mut told = false;
    loop {
        match start(check, surroundings) {
            Ok(mut probe) => {
                let ended = tokio::time::timeout(check.request_timeout, probe.0.ended()).await;
                if ended == Ok(Cause::Code(0)) {
                    return;
                }
            }
            Err(error) if !std::mem::replace(&mut told, true) => hub.push(&RunEvent::Error {
                message: "the command that shows readiness cannot be started".to_owned(),
                timestamp: now(),
                details: Details::from_iter([("reason", json!(error.to_string()))]),
            }),
            Err(_) => {}
        }
        tokio::time::sleep(interval).await;
    }
}

/// A try. Dropping it kills its whole group.
struct Probe(Leader);

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.0.signal_group(KILL);
    }
}

fn start(check: &ExecCheck, surroundings: &Surroundings) -> Result<Probe, StartError> {
    let program = find_program(&check.command, &surroundings.cwd)?;
    let spawned = spawn(&SpawnPlan {
        program: &program,
        called: OsStr::new(&check.command),
        args: &check.args,
        cwd: &surroundings.cwd,
        env: &surroundings.env,
        output: Output::Discarded,
        lifecycle_fd: None,
        end_with_host: None,
    })?;
    Ok(Probe(spawned.leader))
}
