//! What a supervisor waits for.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::time::{Instant, Sleep};

use super::Supervisor;
use crate::os::Cause;

/// What happened next.
pub(super) enum Turn {
    StopRequested,
    HostStop,
    Exited(Cause),
    Ready,
    Room,
    Readable(Input),
    Due,
}

/// What is read from a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Stdout,
    Stderr,
    Lifecycle,
}

impl Input {
    /// In which order they are looked at after this one was read: each gets its turn.
    fn order_after(self) -> [Self; 3] {
        match self {
            Self::Stdout => [Self::Stderr, Self::Lifecycle, Self::Stdout],
            Self::Stderr => [Self::Lifecycle, Self::Stdout, Self::Stderr],
            Self::Lifecycle => [Self::Stdout, Self::Stderr, Self::Lifecycle],
        }
    }
}

impl Supervisor {
    /// Waits for whatever comes first. The alarm is one for all turns: it is set again only where
    /// something is due at another time.
    pub(super) async fn next_turn(&mut self, mut alarm: Pin<&mut Sleep>) -> Turn {
        let due = self.next_due();
        if let Some(due) = due
            && due != alarm.deadline()
        {
            alarm.as_mut().reset(due);
        }
        poll_fn(|context| {
            if let Poll::Ready(turn) = self.poll_turn(context) {
                return Poll::Ready(turn);
            }
            // Last, since what is due is looked at in every turn anyway.
            if due.is_some() && alarm.as_mut().poll(context).is_ready() {
                return Poll::Ready(Turn::Due);
            }
            Poll::Pending
        })
        .await
    }

    /// The rare before the frequent: a flood of output keeps neither a stop nor an exit waiting.
    /// Polled by hand, since futures of their own would take half of what an idle run takes.
    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn> {
        if self.control.poll_asked(context).is_ready() {
            return Poll::Ready(Turn::StopRequested);
        }
        if let Some(stop) = &mut self.host_stop
            && Pin::new(stop).poll(context).is_ready()
        {
            return Poll::Ready(Turn::HostStop);
        }
        if self.exit.is_none()
            && let Poll::Ready(cause) = self.leader.poll_ended(context)
        {
            return Poll::Ready(Turn::Exited(cause));
        }
        if let Some(awaited) = &mut self.readiness
            && awaited.probe.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Turn::Ready);
        }
        if self.paused_until.is_some() {
            return self.hub.poll_room(context).map(|()| Turn::Room);
        }
        self.poll_inputs(context)
    }

    fn poll_inputs(&self, context: &mut Context<'_>) -> Poll<Turn> {
        for input in self.last_read.order_after() {
            let pipe = match input {
                Input::Stdout => self.stdout.pipe.as_ref(),
                Input::Stderr => self.stderr.pipe.as_ref(),
                Input::Lifecycle => self
                    .lifecycle
                    .as_ref()
                    .and_then(|reader| reader.pipe.as_ref()),
            };
            if pipe.is_some_and(|pipe| pipe.poll_readable(context).is_ready()) {
                return Poll::Ready(Turn::Readable(input));
            }
        }
        Poll::Pending
    }

    /// When something is to be done even if nothing happens.
    fn next_due(&self) -> Option<Instant> {
        let stop = self.stop.and_then(|stop| stop.due());
        let drain = self
            .exit
            .filter(|_| self.is_reading())
            .map(|exit| exit.drain_until);
        // While nothing is read, the end of the draining waits too.
        let reading = self.paused_until.or(drain);
        let ready = self.readiness.as_ref().and_then(|awaited| awaited.deadline);
        let activity = self.watch.latest.as_ref().map(|_| self.activity_at);
        [
            stop,
            reading,
            ready,
            self.heartbeat_at,
            self.sample_at,
            activity,
        ]
        .into_iter()
        .flatten()
        .min()
    }
}
