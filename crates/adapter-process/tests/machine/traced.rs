//! A process that even SIGKILL does not end: one whose tracer was stopped and does not let it go.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use headcount_adapter_process::{ProcessOptions, REGISTRATION};
use headcount_contract::*;
use rustix::process::{Pid, Signal as Kill, kill_process};
use serde_json::json;

use crate::support::*;

/// Why nothing can be traced here.
pub(crate) fn missing() -> Option<String> {
    let mut sleeper = Command::new("sleep").arg("60").spawn().ok()?;
    let traced = Tracer::of(sleeper.id()).map(drop);
    let _ = sleeper.kill();
    let _ = sleeper.wait();
    traced.err()
}

/// A tracer of a process; dropping it lets the process go.
struct Tracer(Child);

impl Tracer {
    fn of(pid: u32) -> Result<Self, String> {
        let tracer = Command::new("strace")
            .args(["-o", "/dev/null", "-p", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut tracer = Self(tracer.map_err(|error| format!("no strace: {error}"))?);
        while !status(pid).contains(&format!("TracerPid:\t{}\n", tracer.0.id())) {
            if let Ok(Some(ended)) = tracer.0.try_wait() {
                return Err(format!("strace may not trace here: {ended}"));
            }
            std::thread::yield_now();
        }
        Ok(tracer)
    }

    /// From now on the process waits for the tracer with whatever it has to do, dying included.
    fn hold(&self) {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Kill::STOP).unwrap();
        while !status(self.0.id()).contains("State:\tT") {
            std::thread::yield_now();
        }
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn status(pid: u32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

fn sleeper() -> ProcessOptions {
    let mut options = ProcessOptions::new("sleep");
    options.args = vec!["60".into()];
    options.grace = Duration::from_millis(50);
    options.stop_deadline = Duration::from_millis(100);
    options
}

/// The deadline of a stop reports that it has failed, and never an end that was not seen.
pub(crate) async fn is_told_only_when_it_has_ended() {
    let handle = start(sleeper()).await;
    let stream = handle.subscribe();
    let tracer = Tracer::of(pid_of(&handle)).unwrap();
    tracer.hold();
    for _ in 0..2 {
        let error = within(handle.stop()).await.unwrap_err();
        assert_eq!(error.kind(), AdapterErrorKind::TimedOut);
        assert!(!handle.status().is_terminal(), "{:?}", handle.status());
    }
    let error = within(handle.restart()).await.unwrap_err();
    assert!(
        error.to_string().contains("the next one was not started"),
        "{error}"
    );
    drop(tracer);
    let events: Vec<_> = within(stream.collect()).await;
    let end = end(&events);
    assert_eq!(end.outcome, Some(Outcome::Cancelled));
    assert_eq!(end.details.get("signalName"), Some("SIGKILL".into()));
    let failed = "error: the run could not be stopped and still lives";
    assert_eq!(transcript(&events).matches(failed).count(), 3);
    within(handle.stop()).await.unwrap();
}

/// A supervisor that is dropped kills its process; one that does not die yet is kept in mind.
pub(crate) async fn is_counted_until_it_is_reaped() {
    let config = json!({"command": "sleep", "args": ["60"], "heartbeat_interval": "20ms"});
    let watcher = (REGISTRATION.build)(AdapterSpec::new(config)).unwrap();
    let mut beats = watcher.subscribe().unwrap();
    let short_lived = std::thread::spawn(|| {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let handle = runtime.block_on(start(sleeper()));
        let tracer = Tracer::of(pid_of(&handle)).unwrap();
        tracer.hold();
        drop(runtime);
        tracer
    });
    let tracer = short_lived.join().unwrap();
    for (unreaped, tracer) in [(1, Some(tracer)), (0, None)] {
        while watcher.health().counts.get("unreaped") != Some(&unreaped) {
            within(beats.next()).await.expect("heartbeats go on");
        }
        drop(tracer);
    }
    within(watcher.close(Urgency::Now)).await.unwrap();
}
