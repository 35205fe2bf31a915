//! Runs one case: in a thread and a runtime of its own, within its time limit.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use crate::bench::{Bench, Story};
use crate::case::Case;
use crate::rule;
use crate::suite::Plan;

/// How long past its time limit a case may take to give up by itself. A case that takes longer
/// blocks its thread.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the case, and says what the adapter did wrong if it failed.
pub(crate) fn run(plan: &Arc<Plan>, case: &'static Case) -> Result<(), String> {
    let story = Arc::new(Story::default());
    let (tell, told) = channel();
    let thread = {
        let (plan, story) = (plan.clone(), story.clone());
        std::thread::Builder::new()
            .name(case.name.into())
            .spawn(move || {
                let outcome = catch_unwind(AssertUnwindSafe(|| within_limit(&plan, &story, case)));
                // Nobody listens any more if the time was up.
                let _ = tell.send(outcome);
            })
    };
    let outcome = match thread {
        Err(error) => Err(format!("no thread could be started: {error}")),
        Ok(_) => match told.recv_timeout(plan.time_limit + PATIENCE) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(format!("panicked: {}", message(panic.as_ref()))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Err(format!(
                "blocked its thread for more than {:?} while waiting for: {}",
                plan.time_limit,
                story.wait()
            )),
        },
    };
    outcome.map_err(|what| {
        let sentence = rule::sentence(case.rule);
        let (remark, seen) = (story.remark(), story.tail());
        format!("{what}{remark}\n  rule {}: {sentence}{seen}", case.rule)
    })
}

fn within_limit(plan: &Arc<Plan>, story: &Arc<Story>, case: &Case) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| format!("no runtime could be started: {error}"))?;
    let outcome = runtime.block_on(async {
        let mut bench = Bench::new(plan.clone(), story.clone());
        let limited = tokio::time::timeout(plan.time_limit, (case.run)(&mut bench)).await;
        drop(bench);
        match limited {
            Ok(outcome) => outcome.map_err(|failure| failure.0),
            Err(_) => Err(format!(
                "not within {:?}: {}",
                plan.time_limit,
                story.wait()
            )),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}
