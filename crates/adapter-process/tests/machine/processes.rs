//! A user who may start no more processes.

use std::process::Command;

use futures_util::StreamExt;
use headcount_adapter_process::{ProcessOptions, REGISTRATION};
use headcount_contract::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::support::*;

/// The argument with which this program limits itself.
pub(crate) const RUN_OUT: &str = "--run-out-of-processes";
/// What it prints where the limit does not hold.
const NO_LIMIT: &str = "the limit of processes does not hold";

/// Why the number of processes cannot be limited here.
pub(crate) fn missing() -> Option<String> {
    let own = std::env::current_exe().ok()?;
    let probe = Command::new(own).args([RUN_OUT, "probe"]).output().ok()?;
    let text = String::from_utf8_lossy(&probe.stdout);
    text.contains(NO_LIMIT).then(|| NO_LIMIT.to_owned())
}

/// In a process of its own, since all of it is limited.
pub(crate) async fn are_told_of() {
    let own = std::env::current_exe().unwrap();
    let mut options = ProcessOptions::new(own.to_str().unwrap());
    options.args = vec![RUN_OUT.into()];
    options.inherit_all = true;
    let events = run(options).await;
    let exit_code = end(&events).details.get("exitCode");
    assert_eq!(exit_code, Some(0.into()), "{}", transcript(&events));
}

fn limit(processes: Option<u64>) {
    let limit = Rlimit {
        current: processes,
        ..getrlimit(Resource::Nproc)
    };
    setrlimit(Resource::Nproc, limit).unwrap();
}

#[allow(clippy::print_stdout)] // that is how a process answers
pub(crate) fn run_out() {
    // Nothing limits the superuser. The thread is another user's, and all that it starts.
    if rustix::process::geteuid().is_root() {
        let nobody = rustix::process::Uid::from_raw(65534);
        let _ = rustix::thread::set_thread_res_uid(nobody, nobody, nobody);
    }
    limit(Some(0));
    if Command::new("true").status().is_ok() {
        println!("{NO_LIMIT}");
        return;
    }
    if std::env::args().nth(2).is_some() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(start_fails_until_there_is_room());
}

async fn start_fails_until_there_is_room() {
    let before = getrlimit(Resource::Nproc).maximum;
    let adapter = (REGISTRATION.build)(AdapterSpec::new(json!({
        "command": "sleep", "args": ["60"], "heartbeat_interval": "20ms", "sample_interval": "0s",
        "orphan": "terminate",
        "restart": {"when": "on_failure", "delay": "1ms", "max_delay": "5ms", "limit": 100_000},
    })))
    .unwrap();
    let mut signals = adapter.subscribe().unwrap();
    let failure = loop {
        if let Some(Signal::Event(event)) = within(signals.next()).await
            && event.state() == Some(ChildState::FAILED)
        {
            break event.details().clone();
        }
    };
    assert_eq!(failure.get("startError"), Some("exhausted".into()));
    let told = failure.get("message").unwrap();
    assert_eq!(told, "no more processes can be started");
    until_health(&mut signals, |health| {
        let message = health.message.as_deref().unwrap_or_default();
        health.status == HealthStatus::Degraded
            && message.contains("no more processes can be started")
    })
    .await;
    // There is room again.
    limit(before);
    until_health(&mut signals, |health| {
        health.status == HealthStatus::Healthy
    })
    .await;
    within(adapter.close(Urgency::Now)).await.unwrap();
}

async fn until_health(signals: &mut SignalStream, wanted: impl Fn(&Health) -> bool) {
    loop {
        match within(signals.next()).await.expect("it goes on") {
            Signal::Health(health) if wanted(&health) => return,
            _ => {}
        }
    }
}
