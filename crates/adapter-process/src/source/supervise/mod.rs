//! One run from its start to its one terminal event.

mod ending;
mod turn;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use headcount_contract::{Details, OutputStream, RunEvent, RunStatus, StatusChange, StopSignal};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use self::turn::{Input, Turn};
use crate::config::{OnTimeout, ProcessOptions, ReadyCheck};
use crate::os::{Cause, Leader, Spawned};
use crate::source::lifecycle::LifecycleReader;
use crate::source::reader::{LineWatch, Read, Reader, now};
use crate::source::sampler::Sampling;
use crate::source::stop::{Stop, StopLevel};
use crate::source::{Control, Hub, later, ready};
use crate::translate::{AskedBy, identity_details};

/// How long a reader waits for a subscriber that is behind before it goes on without it.
///
/// Long enough for a subscriber on a machine with ten times the work it can do; one that is stuck
/// costs the process this pause once.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often one stream is read before the other gets its turn, and others on this thread.
const READS_IN_A_ROW: usize = 8;
/// The pause between two activities.
const ACTIVITY_PAUSE: Duration = Duration::from_secs(1);

/// Supervises one process: reads its output, notices its end, stops its group.
pub(crate) struct Supervisor {
    leader: Leader,
    hub: Arc<Hub>,
    options: Arc<ProcessOptions>,
    stdout: Reader,
    stderr: Reader,
    last_read: Input,
    /// How many reads filled the buffer since others last had their turn.
    reads: usize,
    lifecycle: Option<Box<LifecycleReader>>,
    watch: LineWatch,
    control: Arc<Control>,
    host_stop: Option<StopSignal>,
    readiness: Option<Box<Awaited>>,
    /// Who asked for the present stop.
    asked_by: AskedBy,
    exit: Option<Exit>,
    stop: Option<Stop>,
    /// Subscribers are behind; until then nothing is read.
    paused_until: Option<Instant>,
    heartbeat_at: Option<Instant>,
    activity_at: Instant,
    /// When sampling begins: most runs are over before.
    sample_at: Option<Instant>,
    sampling: Option<Sampling>,
    finished: bool,
}

/// The readiness that is waited for.
struct Awaited {
    probe: Pin<Box<dyn Future<Output = ()> + Send>>,
    deadline: Option<Instant>,
}

/// The end of the leader.
#[derive(Debug, Clone, Copy)]
struct Exit {
    cause: Cause,
    asked_by: AskedBy,
    /// Until then the ends of the outputs are awaited.
    drain_until: Instant,
}

impl Supervisor {
    pub(crate) fn new(
        spawned: Spawned,
        options: &Arc<ProcessOptions>,
        hub: Arc<Hub>,
        control: Arc<Control>,
        host_stop: Option<StopSignal>,
    ) -> Self {
        let now = Instant::now();
        // An interval of zero means never.
        let after = |interval: Duration| (!interval.is_zero()).then(|| later(now, interval));
        Self {
            stdout: Reader::new(OutputStream::Stdout, spawned.stdout, options),
            stderr: Reader::new(OutputStream::Stderr, spawned.stderr, options),
            last_read: Input::Lifecycle,
            reads: 0,
            lifecycle: spawned
                .lifecycle
                .map(|pipe| Box::new(LifecycleReader::new(pipe))),
            leader: spawned.leader,
            hub,
            options: options.clone(),
            watch: LineWatch::new(options.activity),
            control,
            host_stop,
            readiness: None,
            asked_by: AskedBy::Nobody,
            exit: None,
            stop: None,
            paused_until: None,
            heartbeat_at: after(options.heartbeat_interval),
            activity_at: now,
            sample_at: after(options.sample_interval),
            sampling: None,
            finished: false,
        }
    }

    /// What identifies the process.
    pub(crate) fn facts(&self) -> Details {
        identity_details(self.leader.identity())
    }

    /// Tells that the process was started and, if nothing more is asked of it, that it is ready.
    pub(crate) fn announce(&mut self, surroundings: ready::Surroundings) {
        self.status(RunStatus::Starting);
        let options = self.options.clone();
        let Some(readiness) = &options.ready else {
            return self.ready();
        };
        if let ReadyCheck::Log(check) = &readiness.check {
            self.watch.want(check);
        }
        let deadline = Some(later(Instant::now(), readiness.timeout));
        let leader = self.leader.identity().pid;
        let probe = ready::probe(options, surroundings, leader, self.hub.clone());
        self.readiness = Some(Box::new(Awaited {
            probe: Box::pin(probe),
            deadline,
        }));
    }

    fn status(&self, status: RunStatus) {
        self.hub
            .push(&RunEvent::Status(StatusChange::new(status, now())));
    }

    fn diagnostic(&self, message: impl Into<String>, details: Details) {
        self.hub.push(&RunEvent::Error {
            message: message.into(),
            timestamp: now(),
            details,
        });
    }

    /// Never ready once an exit was seen or a stop was asked for.
    fn ready(&mut self) {
        self.readiness = None;
        self.watch.want_nothing();
        let stopping = self.stop.is_some() || self.is_asked_to_stop();
        if self.exit.is_none() && !stopping && self.leader.has_ended().is_none() {
            self.status(RunStatus::Ready);
        }
    }

    /// Whether the end was asked for, even if its turn has not come yet.
    fn is_asked_to_stop(&mut self) -> bool {
        let by_signal = self.host_stop.as_mut().and_then(FutureExt::now_or_never);
        if by_signal.is_some() {
            self.host_stop = None;
            self.control.ask(StopLevel::Graceful);
        }
        self.control.level() != StopLevel::None
    }

    /// Runs until the terminal event has been told.
    pub(crate) async fn run(&mut self) {
        let mut alarm = pin!(sleep_until(Instant::now()));
        while !self.is_over() {
            match self.next_turn(alarm.as_mut()).await {
                Turn::Readable(input) => {
                    self.read(input);
                    // A flood for which nobody has to be waited would keep the thread.
                    if self.reads >= READS_IN_A_ROW {
                        self.reads = 0;
                        tokio::task::yield_now().await;
                    }
                }
                Turn::Room => self.paused_until = None,
                Turn::Ready => self.ready(),
                Turn::Exited(cause) => self.exited(cause),
                Turn::HostStop => {
                    self.host_stop = None;
                    self.control.ask(StopLevel::Graceful);
                }
                Turn::StopRequested => self.stop_requested(),
                Turn::Due => {}
            }
            self.do_what_is_due();
        }
        // Boxed, because it is needed once and every run would hold its size all the time.
        Box::pin(self.finish()).await;
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.watch.found && self.readiness.is_some() {
            self.ready();
        }
        if self
            .readiness
            .as_ref()
            .and_then(|r| r.deadline)
            .is_some_and(|at| at <= now)
        {
            self.not_ready_in_time();
        }
        if self.paused_until.is_some_and(|until| until <= now) {
            self.hub.give_up_laggards();
            self.paused_until = None;
        }
        if self.paused_until.is_none() && self.exit.is_some_and(|exit| exit.drain_until <= now) {
            self.read_the_last();
        }
        while let Some(stop) = &mut self.stop
            && let Some(step) = stop.step(&self.options, now)
        {
            self.carry_out(step);
        }
        if self.heartbeat_at.is_some_and(|at| at <= now) {
            self.heartbeat_at = Some(later(now, self.options.heartbeat_interval));
            if self.leader.has_ended().is_none() {
                self.hub
                    .push(&RunEvent::Heartbeat(SystemTime::now().into()));
            }
        }
        if self.sample_at.is_some_and(|at| at <= now) {
            self.sample_at = None;
            let interval = self.options.sample_interval;
            self.sampling = Some(Sampling::begin(&self.hub, self.leader.identity(), interval));
        }
        if self.activity_at <= now
            && let Some(text) = self.watch.latest.take()
        {
            self.activity_at = now + ACTIVITY_PAUSE;
            self.hub.push(&RunEvent::Activity {
                text,
                timestamp: SystemTime::now().into(),
            });
        }
    }

    fn not_ready_in_time(&mut self) {
        // An end that nobody has looked at yet came before, and so did a request.
        if let Some(cause) = self.leader.has_ended() {
            return self.exited(cause);
        }
        if self.is_asked_to_stop() {
            return;
        }
        let Some(awaited) = &mut self.readiness else {
            return;
        };
        awaited.deadline = None;
        let Some(readiness) = self.options.ready.clone() else {
            return;
        };
        let timeout = headcount_adapter_kit::duration::write(readiness.timeout);
        let details = Details::from_iter([("readyTimeout", json!(timeout))]);
        self.diagnostic(
            format!("the process was not ready within {timeout}"),
            details,
        );
        if readiness.on_timeout == OnTimeout::Fail {
            self.begin_stop(StopLevel::Graceful, AskedBy::NotReady);
        }
    }

    fn read(&mut self, input: Input) {
        self.last_read = input;
        // One that fills the buffer most likely has more.
        for _ in 0..READS_IN_A_ROW {
            let read = match input {
                Input::Stdout => self.stdout.read_once(&self.hub, &mut self.watch),
                Input::Stderr => self.stderr.read_once(&self.hub, &mut self.watch),
                Input::Lifecycle => match &mut self.lifecycle {
                    Some(lifecycle) => lifecycle.read_once(&self.hub),
                    None => return,
                },
            };
            match read {
                Read::Full => self.reads += 1,
                Read::Behind => {
                    self.paused_until = Some(Instant::now() + PATIENCE);
                    return;
                }
                _ => return,
            }
        }
    }

    fn read_the_last(&mut self) {
        self.stdout.read_the_last(&self.hub, &mut self.watch);
        self.stderr.read_the_last(&self.hub, &mut self.watch);
        if let Some(lifecycle) = &mut self.lifecycle {
            lifecycle.read_the_last(&self.hub);
        }
    }

    fn is_reading(&self) -> bool {
        let lifecycle = self
            .lifecycle
            .as_ref()
            .is_some_and(|lifecycle| lifecycle.pipe.is_some());
        self.stdout.is_open() || self.stderr.is_open() || lifecycle
    }
}
