//! How the stream stands, for people: what is in the way, what was refused, how far it was read.

use headcount_adapter_kit::HealthCell;
use headcount_contract::{Health, HealthStatus};

use crate::source::{Arrived, now};
use crate::translate::Translator;

/// Says in the health what happened. `refused` is how many lines were refused when it was told last.
pub(crate) fn tell(
    health: &HealthCell,
    arrived: &Arrived,
    translator: &Translator,
    lag: u64,
    refused: &mut u64,
) {
    let total = translator.diagnostics.total();
    let latest = (total > *refused).then(|| translator.diagnostics.kept().last().cloned());
    *refused = total;
    if let Arrived::Began { .. } = arrived {
        health.count("streams", 1);
    }
    match arrived {
        Arrived::Trouble(what) => health.set(HealthStatus::Down, what.clone()),
        Arrived::WriterExited(pid) => health.set(
            HealthStatus::Down,
            format!("the writer, process {pid}, has exited"),
        ),
        // What was in the way, or the writer's exit, says more than this would.
        Arrived::Finished if health.get().status != HealthStatus::Down => health.set(
            HealthStatus::Down,
            "the stream has ended, which proves nothing of its children",
        ),
        Arrived::Began { .. } if total == 0 => health.healthy(),
        Arrived::Nothing if health.get().status == HealthStatus::Down => health.healthy(),
        _ => (),
    }
    if let Some(Some(diagnostic)) = latest {
        // Once a class: a stream of nothing but bad lines must not become a stream of signals.
        let class = diagnostic.class();
        let known = format!("refused.{class}");
        if !health.get().counts.contains_key(&known) {
            health.set(
                HealthStatus::Degraded,
                format!("lines are refused, as {diagnostic}"),
            );
        }
    }
    for (class, count) in translator.diagnostics.counts().filter(|(_, n)| *n > 0) {
        health.gauge(&format!("refused.{class}"), count);
    }
    let counts = translator.counts;
    let millis = u64::try_from(now().as_millis()).unwrap_or_default();
    if let Arrived::Bytes { .. } = arrived {
        health.gauge("bytes", counts.bytes);
        health.gauge("last_byte_unix_ms", millis);
        if health.get().counts.get("lines").copied() != Some(counts.lines) && counts.lines > 0 {
            health.gauge("lines", counts.lines);
            health.gauge("last_line_unix_ms", millis);
        }
        health.gauge("events", counts.events);
        health.gauge("snapshots", counts.snapshots);
    }
    health.gauge("discontinuities", counts.discontinuities);
    health.gauge("lag_bytes", lag);
    for (name, count) in [
        (
            "sources_without_capabilities",
            translator.observed.without_capabilities(),
        ),
        ("children_forgotten", translator.observed.forgotten()),
    ] {
        if count > 0 {
            health.gauge(name, count);
        }
    }
    if translator.observed.forgotten() > 0 {
        health.limit("its snapshot leaves out the children that were heard of first");
    }
}

/// What no stream of lines can tell, whatever is written to it.
pub(crate) fn limits_of_a_stream() -> Health {
    Health::default()
        .with_limitation(
            "what was not written to the stream, or before the place where reading began, is unknown",
        )
        .with_limitation("a stream answers nothing: its snapshots are partial, and it cannot cancel")
}
