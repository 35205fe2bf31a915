//! What a subscription promises.

mod wakers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

use futures_util::StreamExt;
use headcount_contract::{
    AdapterErrorKind, ChildId, ChildState, Discontinuity, DiscontinuityCause, EventKind,
    Observation, Signal, Urgency,
};

use self::wakers::{CountsWakes, DropsWhenWoken, PanicsWhenWoken, poll_until_pending};
use crate::Action::{Finish, Flood, StartChild, StartSeveral};
use crate::bench::Bench;
use crate::case::Need::{Can, Rig};
use crate::case::{Case, Failure, case, ensure};
use crate::watch::{describe, events};

pub(super) const CASES: &[Case] = &[
    case!(
        "subscribe::everything_after_it_arrives",
        "subscribe.all",
        [Can(StartChild), Can(Finish)],
        everything_after_it_arrives
    ),
    case!(
        "subscribe::a_later_subscriber_sees_what_follows",
        "subscribe.all",
        [Can(StartChild), Can(Finish)],
        a_later_subscriber_sees_what_follows
    ),
    case!(
        "subscribe::two_subscribers_see_one_order",
        "subscribe.order",
        [Can(StartChild)],
        two_subscribers_see_one_order
    ),
    case!(
        "subscribe::is_silent_after_drop",
        "subscribe.drop",
        [Can(StartChild)],
        is_silent_after_drop
    ),
    case!(
        "subscribe::may_be_dropped_inside_a_poll",
        "subscribe.drop",
        [Can(StartChild), Can(Finish)],
        may_be_dropped_inside_a_poll
    ),
    case!(
        "subscribe::a_waker_that_panics_harms_nobody",
        "subscribe.drop",
        [Can(StartChild), Can(Finish)],
        a_waker_that_panics_harms_nobody
    ),
    case!(
        "subscribe::a_slow_subscriber_is_never_left_in_silence",
        "subscribe.slow",
        [Can(StartChild), Can(Flood), Can(Finish)],
        a_slow_subscriber_is_never_left_in_silence
    ),
    case!(
        "subscribe::ends_when_the_adapter_is_dropped",
        "subscribe.end",
        [Can(StartChild)],
        ends_when_the_adapter_is_dropped
    ),
    case!(
        "subscribe::ends_when_the_adapter_is_closed",
        "subscribe.end",
        [Rig],
        ends_when_the_adapter_is_closed
    ),
    case!(
        "subscribe::goes_on_while_the_adapter_lives",
        "subscribe.end",
        [Can(StartSeveral), Can(Finish)],
        goes_on_while_the_adapter_lives
    ),
];

async fn everything_after_it_arrives(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let first = bench.start().await?;
    bench.settle(&watch).await?;
    // Nobody polls this stream while everything happens. A source may begin its first child by
    // itself when it is first subscribed to, so only a second one is seen from its beginning.
    let unread = bench.subscribe().await?;
    let child = if bench.can(StartSeveral) {
        let second = bench.start().await?;
        bench.settle(&watch).await?;
        second
    } else {
        first.clone()
    };
    bench.finish(&child).await?;
    bench.settle(&watch).await?;

    let late = bench.follow(unread).await;
    bench.waiting_for("the subscriber that read late to see the child's end");
    late.until(|signals| ended(signals, &child).then_some(()))
        .await?;
    let (late, prompt) = (ids(&late.signals(), &child), ids(&watch.signals(), &child));
    ensure!(
        late == prompt || (child == first && prompt.ends_with(&late)),
        "one that read late saw the events {late:?} of the child, one that read at once {prompt:?}"
    );
    Ok(())
}

async fn a_later_subscriber_sees_what_follows(bench: &mut Bench) -> Result<(), Failure> {
    let first = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&first).await?;
    let later = bench.watch().await?;
    bench.finish(&child).await?;
    bench.settle(&first).await?;
    bench.waiting_for("the later subscriber to see the child's end");
    later
        .until(|signals| ended(signals, &child).then_some(()))
        .await
}

async fn two_subscribers_see_one_order(bench: &mut Bench) -> Result<(), Failure> {
    let one = bench.watch().await?;
    let two = bench.watch().await?;
    bench.live(&one).await?;
    let one = events(&bench.close(&one).await?);
    bench.waiting_for("the second subscriber's stream to end");
    let two = events(&two.to_the_end().await?);
    // The first one may have seen the source begin before the second one had subscribed.
    let from = one.len().saturating_sub(two.len());
    let first_difference = one[from..].iter().zip(&two).position(|(a, b)| a != b);
    ensure!(
        !two.is_empty() && first_difference.is_none() && two.len() <= one.len(),
        "one saw {} events, the other {}; {}",
        one.len(),
        two.len(),
        first_difference.map_or_else(
            || "none differs where both saw one".to_owned(),
            |at| format!("they differ at the {}th of the second", at + 1)
        )
    );
    Ok(())
}

async fn is_silent_after_drop(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let mut leaver = bench.subscribe().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;

    let wakes = Arc::new(CountsWakes::default());
    poll_until_pending(&mut leaver, &Waker::from(wakes.clone()))?;
    drop(leaver);
    let before = wakes.0.load(Ordering::SeqCst);

    if bench.can(Finish) {
        bench.finish(&child).await?;
    } else if bench.can(StartSeveral) {
        bench.start().await?;
    }
    bench.settle(&watch).await?;
    let after = wakes.0.load(Ordering::SeqCst);
    ensure!(
        after == before,
        "a subscriber was woken {} times after it left",
        after - before
    );
    bench.waiting_for("the adapter to forget a subscriber that has left");
    while Arc::strong_count(&wakes) > 1 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

async fn may_be_dropped_inside_a_poll(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let mut leaver = bench.subscribe().await?;
    let other = bench.subscribe().await?;
    // Woken, it drops its own stream and another's, while the adapter is in the midst of waking.
    let drops = Arc::new(DropsWhenWoken::default());
    poll_until_pending(&mut leaver, &Waker::from(drops.clone()))?;
    drops.put([leaver, other]);

    let child = bench.start().await?;
    bench.settle(&watch).await?;
    bench.finish(&child).await?;
    bench.settle(&watch).await?;
    ensure!(
        drops.is_empty(),
        "a subscriber that waited was not woken by a child's whole life"
    );
    Ok(())
}

async fn a_waker_that_panics_harms_nobody(bench: &mut Bench) -> Result<(), Failure> {
    let before = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&before).await?;
    let mut bad = bench.subscribe().await?;
    let after = bench.watch().await?;
    let panics = Arc::new(PanicsWhenWoken::default());
    poll_until_pending(&mut bad, &Waker::from(panics.clone()))?;
    bench.finish(&child).await?;
    bench.waiting_for(format!("a subscriber to be woken, after {child} has ended"));
    while panics.0.load(Ordering::SeqCst) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // The one that panicked is still a subscriber, and reads on: others may have to wait for it.
    let bad = bench.follow(bad).await;
    for watch in [&before, &after, &bad] {
        bench.waiting_for(format!("the end of {child}, told to every subscriber"));
        watch
            .until(|signals| ended(signals, &child).then_some(()))
            .await?;
    }
    Ok(())
}

async fn a_slow_subscriber_is_never_left_in_silence(bench: &mut Bench) -> Result<(), Failure> {
    /// More than anybody should want to keep for one subscriber.
    const COUNT: u64 = 20_000;
    let watch = bench.watch().await?;
    let mut slow = bench.subscribe().await?;
    let child = bench.start().await?;
    let mut count = Tally::default();
    // An adapter that has not reached its source yet could see nothing of the flood. Until it has,
    // nobody is slow: an adapter may wait for the slowest.
    let read_on = async {
        loop {
            count.add(slow.next().await, &child)?;
        }
    };
    tokio::select! {
        settled = bench.settle(&watch) => settled?,
        ended = read_on => return ended,
    }
    drop(watch);
    bench.waiting_for("the flood, or for it to stand still");
    {
        let mut flood = bench.rig()?.flood(&child, COUNT);
        // Where the adapter makes its source wait, the flood stands still until somebody reads.
        // How long it is given decides nothing but how far it comes first.
        let stood_still = tokio::time::timeout(Duration::from_millis(500), &mut flood).await;
        if let Ok(done) = stood_still {
            done?;
        } else {
            let mut flooding = true;
            while flooding {
                tokio::select! {
                    done = &mut flood => { done?; flooding = false; }
                    signal = slow.next() => count.add(signal, &child)?,
                }
            }
        }
    }
    bench.finish(&child).await?;
    while !count.ended {
        bench.waiting_for(format!(
            "the end of the child, which is never dropped; so far {} activities or lines, {} told \
             as missed; last {}",
            count.seen, count.missed, count.last
        ));
        let signal = slow.next().await;
        count.add(signal, &child)?;
    }
    ensure!(
        count.seen + count.missed >= COUNT || count.lagged,
        "of {COUNT} activities or lines it saw {}, was told of {} missed, and of no discontinuity",
        count.seen,
        count.missed
    );
    Ok(())
}

async fn ends_when_the_adapter_is_dropped(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    bench.start().await?;
    bench.settle(&watch).await?;
    bench.drop_adapter()?;
    bench.waiting_for("the stream to end after the last share of the adapter was dropped");
    watch.to_the_end().await.map(|_| ())
}

async fn ends_when_the_adapter_is_closed(bench: &mut Bench) -> Result<(), Failure> {
    let adapter = bench.adapter().await?;
    let watch = bench.watch().await?;
    if bench.can(StartChild) {
        bench.start().await?;
        bench.settle(&watch).await?;
    }
    bench.waiting_for("close() to return");
    adapter.close(Urgency::Now).await?;
    bench.waiting_for("the stream to end after close()");
    watch.to_the_end().await?;
    match adapter.subscribe() {
        Ok(_) => Err(Failure::new(
            "it could be subscribed to after it was closed",
        )),
        Err(error) => {
            ensure!(
                error.kind() == AdapterErrorKind::Closed,
                "after close, subscribe answered {error} instead of closed"
            );
            Ok(())
        }
    }
}

async fn goes_on_while_the_adapter_lives(bench: &mut Bench) -> Result<(), Failure> {
    let watch = bench.watch().await?;
    let child = bench.start().await?;
    bench.settle(&watch).await?;
    bench.finish(&child).await?;
    bench.settle(&watch).await?;
    // With no child left, the stream must still be there for the next one.
    bench.start().await?;
    bench.settle(&watch).await
}

/// The names of a child's events, in order.
fn ids(signals: &[Signal], child: &ChildId) -> Vec<String> {
    let of_child = events(signals)
        .into_iter()
        .filter(|event| event.child_id() == child);
    // To its end: what a faulty adapter tells after it may have reached one subscriber and not yet the
    // other.
    let mut ended = false;
    of_child
        .take_while(|event| {
            let ends = event.state().is_some_and(ChildState::is_terminal);
            !std::mem::replace(&mut ended, ends)
        })
        .map(|event| event.event_id().to_string())
        .collect()
}

fn ended(signals: &[Signal], child: &ChildId) -> bool {
    signals.iter().any(|signal| ends(signal, child))
}

fn ends(signal: &Signal, child: &ChildId) -> bool {
    matches!(signal, Signal::Event(event)
        if event.child_id() == child && event.state().is_some_and(ChildState::is_terminal))
}

/// What a slow subscriber got, and what it was told it missed.
#[derive(Default)]
struct Tally {
    seen: u64,
    missed: u64,
    lagged: bool,
    ended: bool,
    /// The last signal that was no part of the flood.
    last: String,
}

impl Tally {
    fn add(&mut self, signal: Option<Signal>, child: &ChildId) -> Result<(), Failure> {
        let Some(signal) = signal else {
            return Err(Failure::new("the stream ended before the child did"));
        };
        self.ended |= ends(&signal, child);
        if !matches!(&signal, Signal::Observation(..))
            && !matches!(&signal, Signal::Event(event) if event.kind() == EventKind::Activity)
        {
            self.last = describe(&signal);
        }
        match signal {
            Signal::Event(event) if event.kind() == EventKind::Activity => self.seen += 1,
            Signal::Observation(_, Observation::Output(batch)) => self.seen += batch.len() as u64,
            Signal::Observation(_, Observation::OutputMissed(lines)) => self.missed += lines,
            Signal::Discontinuity(Discontinuity {
                cause: DiscontinuityCause::Lagged { missed },
                ..
            }) => {
                self.lagged = true;
                self.missed += missed;
            }
            _ => {}
        }
        Ok(())
    }
}
