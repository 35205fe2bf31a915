//! One subscriber's queue.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use headcount_contract::RunEvent;

use super::lock;

/// How many log lines wait for a subscriber before further ones are only counted.
const MAX_WAITING_LINES: usize = 4096;

#[derive(Debug)]
pub(super) struct Feed {
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    events: VecDeque<RunEvent>,
    lines: usize,
    ended: bool,
    waker: Option<Waker>,
}

impl Feed {
    pub(super) fn starting_with(event: RunEvent, ended: bool) -> Self {
        Self {
            queue: Mutex::new(Queue {
                events: VecDeque::from([event]),
                lines: 0,
                ended,
                waker: None,
            }),
        }
    }

    /// Adds an event, and returns whom to wake once no lock is held.
    pub(super) fn push(&self, event: RunEvent, ended: bool) -> Option<Waker> {
        let mut queue = lock(&self.queue);
        queue.ended |= ended;
        match event {
            RunEvent::Log(batch) if queue.lines + batch.len() > MAX_WAITING_LINES => {
                let more = batch.len() as u64;
                match queue.events.back_mut() {
                    Some(RunEvent::LogMissed(missed)) => *missed += more,
                    _ => queue.events.push_back(RunEvent::LogMissed(more)),
                }
            }
            event => {
                queue.lines += lines(&event);
                queue.events.push_back(event);
            }
        }
        queue.waker.take()
    }
}

/// Wakes them all; a waker that panics harms no other.
pub(super) fn wake_all(wakers: Vec<Waker>) {
    for waker in wakers {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

#[derive(Debug)]
pub(super) struct Subscription {
    feed: Arc<Feed>,
}

impl Subscription {
    pub(super) fn new(feed: Arc<Feed>) -> Self {
        Self { feed }
    }
}

impl Stream for Subscription {
    type Item = RunEvent;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<RunEvent>> {
        let mut queue = lock(&self.feed.queue);
        if let Some(event) = queue.events.pop_front() {
            queue.lines -= lines(&event);
            return Poll::Ready(Some(event));
        }
        if queue.ended {
            return Poll::Ready(None);
        }
        queue.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

fn lines(event: &RunEvent) -> usize {
    match event {
        RunEvent::Log(batch) => batch.len(),
        _ => 0,
    }
}
