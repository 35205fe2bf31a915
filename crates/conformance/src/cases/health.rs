//! How an adapter tells how it is doing itself.

use headcount_contract::{
    Discontinuity, DiscontinuityCause, Gap, Health, HealthStatus, Signal, SnapshotReason,
};

use crate::Action::{Break, Finish, Restore, StartChild, StartSeveral};
use crate::bench::Bench;
use crate::case::Need::{Can, Rig, SomethingUnknown};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::fold;

pub(super) const CASES: &[Case] = &[
    case!(
        "health::says_that_it_has_begun",
        "health.begun",
        [Can(StartChild)],
        says_that_it_has_begun
    ),
    case!(
        "health::a_break_is_seen",
        "health.break",
        [Can(Break)],
        a_break_is_seen
    ),
    case!(
        "health::a_break_is_told_in_band",
        "health.in_band",
        [Can(Break)],
        a_break_is_told_in_band
    ),
    case!(
        "health::every_change_is_a_signal",
        "health.in_band",
        [Can(StartChild)],
        every_change_is_a_signal
    ),
    case!(
        "health::recovers",
        "health.recovers",
        [Can(Break), Can(Restore), Can(StartChild)],
        recovers
    ),
    case!(
        "health::what_happened_in_a_break_is_not_lost_in_silence",
        "health.gap",
        [
            Can(Break),
            Can(Restore),
            Can(StartChild),
            Can(Finish),
            Can(StartSeveral)
        ],
        what_happened_in_a_break_is_not_lost_in_silence
    ),
    case!(
        "health::limitations_are_listed",
        "health.limitations",
        [Rig, SomethingUnknown],
        limitations_are_listed
    ),
    case!(
        "health::capabilities_never_change",
        "capabilities.constant",
        [Can(StartChild)],
        capabilities_never_change
    ),
];

fn works(status: HealthStatus) -> bool {
    status == HealthStatus::Healthy
}

/// Waits until `health()` is as wanted.
async fn until_health(
    bench: &mut Bench,
    what: &str,
    wanted: fn(HealthStatus) -> bool,
) -> Result<Health, Failure> {
    let adapter = bench.adapter().await?;
    bench.waiting_for(what);
    loop {
        let health = adapter.health();
        if wanted(health.status) {
            return Ok(health);
        }
        // health() has no wake-up of its own: that is what the signals are for.
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn says_that_it_has_begun(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    bench.start().await?;
    bench.settle(&watch).await?;
    let begun = |status| !matches!(status, HealthStatus::Idle | HealthStatus::Down);
    until_health(
        bench,
        "health() of an adapter that reports children to say that it works",
        begun,
    )
    .await
    .map(|_| ())
}

async fn a_break_is_seen(bench: &mut Bench) -> Result<(), Failure> {
    let _watch = bench.watch().await?;
    until_health(bench, "health() to be healthy before the break", works).await?;
    bench.rig()?.break_source().await?;
    let broken = until_health(bench, "health() to tell the break", |status| !works(status)).await?;
    ensure!(
        broken.message.is_some(),
        "health() is {} without a word on why",
        broken.status
    );
    Ok(())
}

async fn a_break_is_told_in_band(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    until_health(bench, "health() to be healthy before the break", works).await?;
    let before = watch.signals().len();
    bench.rig()?.break_source().await?;
    bench.waiting_for("a health signal or a discontinuity that tells the break");
    watch
        .until(|signals| {
            let told = signals.iter().skip(before).any(|signal| match signal {
                Signal::Health(health) => !works(health.status),
                Signal::Discontinuity(at) => at.cause == DiscontinuityCause::Disconnected,
                _ => false,
            });
            told.then_some(())
        })
        .await
}

async fn every_change_is_a_signal(bench: &mut Bench) -> Result<(), Failure> {
    let adapter = bench.adapter().await?;
    let before = adapter.health();
    let watch = bench.watch().await?;
    bench.start().await?;
    bench.settle(&watch).await?;
    bench.waiting_for("the last health signal to agree with health()");
    loop {
        let now = adapter.health();
        let signals = watch.signals();
        let last = signals.iter().rev().find_map(|signal| match signal {
            Signal::Health(health) => Some(health),
            _ => None,
        });
        let told = last.unwrap_or(&before);
        if (told.status, &told.message) == (now.status, &now.message) {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn recovers(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    until_health(bench, "health() to be healthy before the break", works).await?;
    bench.rig()?.break_source().await?;
    until_health(bench, "health() to tell the break", |status| !works(status)).await?;
    bench.rig()?.restore_source().await?;
    until_health(bench, "health() to recover", works).await?;
    bench.start().await?;
    bench.settle(&watch).await
}

async fn what_happened_in_a_break_is_not_lost_in_silence(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    until_health(bench, "health() to be healthy before the break", works).await?;
    let ends_unseen = bench.start().await?;
    bench.settle(&watch).await?;
    let before = watch.signals().len();
    bench.rig()?.break_source().await?;
    until_health(bench, "health() to tell the break", |status| !works(status)).await?;
    let end = bench.finish(&ends_unseen).await?;
    bench.rig()?.restore_source().await?;
    until_health(bench, "health() to recover", works).await?;

    bench.waiting_for(format!(
        "the end of {ends_unseen} during the break, or a discontinuity that says that events may \
         be missing"
    ));
    let told = watch
        .until(|signals| {
            if fold(signals).get(&ends_unseen) == Some(&end) {
                return Some(true);
            }
            let gap = signals.iter().skip(before).any(|signal| {
                matches!(
                    signal,
                    Signal::Discontinuity(Discontinuity {
                        gap: Gap::Possible,
                        ..
                    })
                )
            });
            gap.then_some(false)
        })
        .await?;
    if told {
        return Ok(());
    }
    // The host now asks for a snapshot, which must not show the child alive.
    let adapter = bench.adapter().await?;
    bench.waiting_for(format!("a snapshot in which {ends_unseen} is not alive"));
    loop {
        let snapshots = adapter.snapshot(SnapshotReason::Reconnect).await?;
        let alive = snapshots
            .iter()
            .flat_map(headcount_contract::Snapshot::children)
            .any(|child| *child.id() == ends_unseen && !child.state().is_terminal());
        if !alive {
            return Ok(());
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

async fn limitations_are_listed(bench: &mut Bench) -> Result<(), Failure> {
    let adapter = bench.adapter().await?;
    let _watch = bench.watch().await?;
    let health = adapter.health();
    ensure!(
        !health.limitations.is_empty(),
        "{:?} is all it verified, but health() lists no limitation",
        adapter.capabilities()
    );
    Ok(())
}

async fn capabilities_never_change(bench: &mut Bench) -> Result<(), Failure> {
    let adapter = bench.adapter().await?;
    let built = adapter.capabilities();
    ensure!(
        built == bench.plan.capabilities(),
        "the adapter has verified {built:?}, the suite was told {:?}: Suite::capabilities",
        bench.plan.capabilities()
    );
    let watch = bench.watch().await?;
    bench.live(&watch).await?;
    let lived = adapter.capabilities();
    ensure!(built == lived, "they were {built:?} and became {lived:?}");
    Ok(())
}
