//! One run from its start to its one terminal event.

mod ending;

use std::future::{Future, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use headcount_contract::{Details, OutputStream, RunEvent, RunStatus, StatusChange, StopSignal};
use serde_json::json;
use tokio::time::{Instant, sleep_until};

use crate::config::{OnTimeout, ProcessOptions, ReadyCheck};
use crate::os::{Cause, Leader, Pipe, Spawned};
use crate::source::lifecycle::LifecycleReader;
use crate::source::reader::{LineWatch, Read, Reader, now};
use crate::source::sampler::Sampling;
use crate::source::stop::{Stop, StopLevel};
use crate::source::{Control, Hub, ready};
use crate::translate::{AskedBy, identity_details};

/// How long a reader waits for a subscriber that is behind before it goes on without it.
///
/// Long enough for a subscriber on a machine with ten times the work it can do; one that is stuck
/// costs the process this pause once.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often one stream is read before the other gets its turn.
const READS_IN_A_ROW: usize = 8;
/// The pause between two activities.
const ACTIVITY_PAUSE: Duration = Duration::from_secs(1);

/// What of the options a running supervisor needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policy {
    pub(super) stop_signal: i32,
    pub(super) grace: Duration,
    pub(super) stop_deadline: Duration,
    pub(super) drain_timeout: Duration,
}

impl From<&ProcessOptions> for Policy {
    fn from(options: &ProcessOptions) -> Self {
        Self {
            stop_signal: options.stop_signal.number(),
            grace: options.grace,
            stop_deadline: options.stop_deadline,
            drain_timeout: options.drain_timeout,
        }
    }
}

/// Supervises one process: reads its output, notices its end, stops its group.
pub(crate) struct Supervisor {
    leader: Leader,
    hub: Arc<Hub>,
    policy: Policy,
    stdout: Reader,
    stderr: Reader,
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
    heartbeat: Option<(Instant, Duration)>,
    activity_at: Instant,
    /// When sampling begins: most runs are over before.
    sample: Option<(Instant, Duration)>,
    sampling: Option<Sampling>,
    finished: bool,
}

/// The readiness that is waited for.
struct Awaited {
    probe: Pin<Box<dyn Future<Output = ()> + Send>>,
    deadline: Option<Instant>,
    options: Arc<ProcessOptions>,
}

/// The end of the leader.
#[derive(Debug, Clone, Copy)]
struct Exit {
    cause: Cause,
    asked_by: AskedBy,
    /// Until then the ends of the outputs are awaited.
    drain_until: Instant,
}

/// What happened next.
enum Turn {
    Readable(OutputStream),
    LifecycleReadable,
    Room,
    Ready,
    Exited(Cause),
    StopRequested,
    HostStop,
    Due,
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
        let beat = options.heartbeat_interval;
        let leader = spawned.leader;
        let sample = options.sample_interval;
        Self {
            stdout: Reader::new(OutputStream::Stdout, spawned.stdout, options),
            stderr: Reader::new(OutputStream::Stderr, spawned.stderr, options),
            lifecycle: spawned
                .lifecycle
                .map(|pipe| Box::new(LifecycleReader::new(pipe))),
            leader,
            hub,
            policy: (&**options).into(),
            watch: LineWatch::new(options.activity),
            control,
            host_stop,
            readiness: None,
            asked_by: AskedBy::Nobody,
            exit: None,
            stop: None,
            paused_until: None,
            heartbeat: (!beat.is_zero()).then(|| (now + beat, beat)),
            activity_at: now,
            sample: (!sample.is_zero()).then(|| (now + sample, sample)),
            sampling: None,
            finished: false,
        }
    }

    /// What identifies the process.
    pub(crate) fn facts(&self) -> Details {
        identity_details(self.leader.identity())
    }

    /// Tells that the process was started and, if nothing more is asked of it, that it is ready.
    pub(crate) fn announce(
        &mut self,
        options: &Arc<ProcessOptions>,
        surroundings: ready::Surroundings,
    ) {
        self.status(RunStatus::Starting);
        let Some(readiness) = &options.ready else {
            return self.ready();
        };
        if let ReadyCheck::Log(check) = &readiness.check {
            self.watch.want(check);
        }
        let probe = ready::probe(
            options.clone(),
            surroundings,
            self.leader.identity().pid,
            self.hub.clone(),
        );
        self.readiness = Some(Box::new(Awaited {
            probe: Box::pin(probe),
            deadline: Some(Instant::now() + readiness.timeout),
            options: options.clone(),
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
        while !self.is_over() {
            let turn = self.next_turn().await;
            match turn {
                Turn::Readable(stream) => self.read(stream),
                Turn::LifecycleReadable => self.read_lifecycle(),
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

    /// Waits for whatever comes first.
    async fn next_turn(&mut self) -> Turn {
        let due = self.next_due();
        let reading = self.paused_until.is_none();
        let exited = self.exit.is_some();
        let lifecycle = self
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.pipe.as_ref());
        let probe = self
            .readiness
            .as_mut()
            .map(|awaited| awaited.probe.as_mut());
        tokio::select! {
            () = readable(self.stdout.pipe.as_ref()), if reading => Turn::Readable(OutputStream::Stdout),
            () = readable(self.stderr.pipe.as_ref()), if reading => Turn::Readable(OutputStream::Stderr),
            () = readable(lifecycle), if reading => Turn::LifecycleReadable,
            () = self.hub.room(), if !reading => Turn::Room,
            () = some(probe) => Turn::Ready,
            cause = self.leader.ended(), if !exited => Turn::Exited(cause),
            () = self.control.asked() => Turn::StopRequested,
            () = some(self.host_stop.as_mut()) => Turn::HostStop,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Turn::Due,
        }
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
        let heartbeat = self.heartbeat.map(|(at, _)| at);
        let sample = self.sample.map(|(at, _)| at);
        let activity = self.watch.latest.as_ref().map(|_| self.activity_at);
        [stop, reading, ready, heartbeat, sample, activity]
            .into_iter()
            .flatten()
            .min()
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
            && let Some(step) = stop.step(self.policy, now)
        {
            self.carry_out(step);
        }
        if let Some((at, interval)) = self.heartbeat
            && at <= now
        {
            self.heartbeat = Some((now + interval, interval));
            if self.leader.has_ended().is_none() {
                self.hub
                    .push(&RunEvent::Heartbeat(SystemTime::now().into()));
            }
        }
        if let Some((at, interval)) = self.sample
            && at <= now
        {
            self.sample = None;
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
        let Some(awaited) = &mut self.readiness else {
            return;
        };
        awaited.deadline = None;
        let Some(readiness) = awaited.options.ready.clone() else {
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

    fn read(&mut self, stream: OutputStream) {
        let reader = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        // A stream that fills the buffer most likely has more.
        for _ in 0..READS_IN_A_ROW {
            match reader.read_once(&self.hub, &mut self.watch) {
                Read::Full => {}
                Read::Behind => {
                    self.paused_until = Some(Instant::now() + PATIENCE);
                    return;
                }
                _ => return,
            }
        }
    }

    fn read_lifecycle(&mut self) {
        if let Some(lifecycle) = &mut self.lifecycle
            && lifecycle.read_once(&self.hub) == Read::Behind
        {
            self.paused_until = Some(Instant::now() + PATIENCE);
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

async fn readable(pipe: Option<&Pipe>) {
    match pipe {
        Some(pipe) => pipe.readable().await,
        None => pending().await,
    }
}

async fn some(future: Option<impl Future<Output = ()> + Unpin>) {
    match future {
        Some(future) => future.await,
        None => pending().await,
    }
}
