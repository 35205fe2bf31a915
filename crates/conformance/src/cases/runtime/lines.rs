//! What a run writes.

use futures_util::StreamExt;
use headcount_contract::{OutputStream, RunEvent};

use super::{rig, runtime, start, up};
use crate::bench::Bench;
use crate::case::{Failure, ensure};

pub(super) async fn lines_arrive_whole_and_in_order(bench: &mut Bench) -> Result<(), Failure> {
    const LINES: [(OutputStream, &str); 4] = [
        (OutputStream::Stdout, "one"),
        (OutputStream::Stderr, "to the other stream"),
        (OutputStream::Stdout, "  two, with spaces, é 数  "),
        (OutputStream::Stdout, "three"),
    ];
    let (_runtime, run) = up(bench).await?;
    let mut events = run.subscribe();
    for (stream, line) in LINES {
        bench.waiting_for("the rig to have the run write a line");
        rig(bench)?.log(run.as_ref(), stream, line).await?;
    }
    let mut seen: Vec<(OutputStream, String)> = Vec::new();
    let expected: Vec<_> = LINES
        .iter()
        .map(|(stream, line)| (*stream, (*line).to_owned()))
        .collect();
    bench.waiting_for("the lines that the run wrote");
    while seen.len() < expected.len() {
        match events.next().await {
            Some(RunEvent::Log(batch)) => {
                seen.extend(
                    batch
                        .lines()
                        .map(|line| (line.stream, line.text.to_owned())),
                );
            }
            Some(_) => {}
            None => return Err(Failure::new("the stream ended while the run is up")),
        }
    }
    for stream in [OutputStream::Stdout, OutputStream::Stderr] {
        // Between the two streams there is no order.
        let of = |lines: &[(OutputStream, String)]| -> Vec<String> {
            let of_stream = lines.iter().filter(|(other, _)| *other == stream);
            of_stream.map(|(_, line)| line.clone()).collect()
        };
        ensure!(
            of(&seen) == of(&expected),
            "on {} it wrote {:?}, and was reported to write {:?}",
            stream.as_str(),
            of(&expected),
            of(&seen)
        );
    }
    Ok(())
}

pub(super) async fn the_first_subscriber_misses_nothing(bench: &mut Bench) -> Result<(), Failure> {
    let runtime = runtime(bench).await?;
    let run = start(bench, &runtime).await?;
    bench.waiting_for("the rig to have the run write a line before anybody subscribes");
    rig(bench)?
        .log(run.as_ref(), OutputStream::Stdout, "an early line")
        .await?;
    let mut events = run.subscribe();
    bench.waiting_for("the line that was written before the first subscriber came");
    loop {
        match events.next().await {
            Some(RunEvent::Log(batch))
                if batch.lines().any(|line| line.text == "an early line") =>
            {
                return Ok(());
            }
            Some(_) => {}
            None => return Err(Failure::new("the stream ended while the run is up")),
        }
    }
}
