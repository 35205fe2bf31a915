//! How a run ends: the exit, the stop that was asked for, and the one terminal event.

use std::time::Duration;

use headcount_contract::Details;
use serde_json::json;
use tokio::time::Instant;

use super::{Exit, Supervisor};
use crate::os::{Cause, Group, KILL, Processes, holders};
use crate::source::reader::now;
use crate::source::sampler::escaped_event;
use crate::source::stop::{Stop, StopLevel, StopStep};
use crate::source::{Ending, later};
use crate::translate::{AskedBy, End, ended};

/// How old the table of processes may be in which a stop looks for those it will not reach.
const RECENT: Duration = Duration::from_millis(100);

impl Supervisor {
    pub(super) fn exited(&mut self, cause: Cause) {
        self.exit = Some(Exit {
            cause,
            asked_by: self.asked_by,
            drain_until: later(Instant::now(), self.options.drain_timeout),
        });
        self.host_stop = None;
        self.readiness = None;
        self.heartbeat_at = None;
        self.sample_at = None;
        self.sampling = None;
        self.watch.want_nothing();
        self.leader.reap_if_group_stays_in_reach();
        if let Some(stop) = &mut self.stop {
            stop.look_soon(Instant::now());
        }
    }

    pub(super) fn stop_requested(&mut self) {
        let level = self.control.level();
        if level == StopLevel::None {
            return;
        }
        // An exit that nobody has looked at yet came before the request.
        if self.stop.is_none()
            && self.exit.is_none()
            && let Some(cause) = self.leader.has_ended()
        {
            self.exited(cause);
        }
        self.begin_stop(level, AskedBy::Host);
    }

    pub(super) fn begin_stop(&mut self, level: StopLevel, asked_by: AskedBy) {
        let now = Instant::now();
        self.readiness = None;
        if let Some(stop) = &mut self.stop
            && !stop.failed
        {
            if level == StopLevel::Now {
                stop.hurry(now);
            }
            return;
        }
        self.asked_by = asked_by;
        self.stop = Some(Stop::begin(level, &self.options, now));
        self.tell_whom_it_does_not_reach();
        if level != StopLevel::Now {
            self.signal(self.options.stop_signal.number());
        }
    }

    /// Processes that have left the group are told of, not hunted.
    fn tell_whom_it_does_not_reach(&mut self) {
        if self.exit.is_some() {
            return;
        }
        let recent = std::time::Instant::now().checked_sub(RECENT);
        let table = Processes::read(recent.unwrap_or_else(std::time::Instant::now));
        let escaped = table.tree(self.leader.identity().pid).escaped;
        match &self.sampling {
            Some(sampling) => sampling.tell_escaped(&escaped),
            None if escaped.is_empty() => {}
            None => self.hub.push(&escaped_event(&escaped)),
        }
    }

    pub(super) fn carry_out(&mut self, step: StopStep) {
        match step {
            StopStep::Kill => self.signal(KILL),
            StopStep::Look => {
                let gone = self.exit.is_some() && self.leader.is_gone();
                if let Some(stop) = &mut self.stop {
                    stop.gone = gone;
                }
            }
            StopStep::Fail => {
                self.diagnostic(
                    "the run could not be stopped and still lives",
                    Details::EMPTY,
                );
                self.control.stop_failed();
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let Err(error) = self.leader.signal_group(signal) {
            let details = Details::from_iter([("signal", json!(signal))]);
            self.diagnostic(
                format!("the group could not be signalled: {error}"),
                details,
            );
        }
    }

    /// Whether the process has ended, its output too or it was waited for long enough, and a stop
    /// that was asked for has left nobody.
    pub(super) fn is_over(&self) -> bool {
        self.exit.is_some() && !self.is_reading() && self.stop.is_none_or(|stop| stop.gone)
    }

    pub(super) async fn finish(&mut self) {
        let Some(exit) = self.exit else { return };
        let left_open: Vec<u64> = [&self.stdout, &self.stderr]
            .into_iter()
            .filter_map(|reader| reader.left_open)
            .collect();
        let leftovers = match self.stop {
            Some(_) => Vec::new(),
            None => match self.leader.group() {
                Group::Gone => Vec::new(),
                Group::Members(members) => members,
            },
        };
        let since = self.leader.identity().start_ticks;
        let mut held_by = Vec::new();
        if !left_open.is_empty() {
            // It looks at every process's descriptors, which takes milliseconds.
            let search = tokio::task::spawn_blocking({
                let left_open = left_open.clone();
                move || holders(&left_open, since)
            });
            held_by = search.await.unwrap_or_default();
        }
        self.leader.reap();
        self.finished = true;
        let end = End {
            cause: exit.cause,
            asked_by: exit.asked_by,
            escalated: self.stop.is_some_and(|stop| stop.escalated),
            output_open: !left_open.is_empty(),
            leftovers,
            held_by,
        };
        if let Some(diagnostic) = end.diagnostic(now()) {
            self.hub.push(&diagnostic);
        }
        self.hub.end(ended(self.leader.identity(), &end, now()));
        self.control.end(Ending::Ended);
    }
}

impl Drop for Supervisor {
    /// A supervisor that is dropped with its runtime leaves no orphan.
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.leader.signal_group(KILL);
            self.hub.close();
            self.control.end(Ending::Abandoned);
        }
    }
}
