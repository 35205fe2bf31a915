//! One run from its start to its one terminal event.

use std::cell::RefCell;
use std::future::{Future, pending};
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use headcount_contract::{
    Details, OutputStream, RunEvent, RunStatus, StatusChange, StopSignal, Timestamp,
};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::Hub;
use crate::config::ProcessOptions;
use crate::lines::Splitter;
use crate::os::{Cause, Group, Leader, Pipe, Spawned};
use crate::translate::{End, ended, identity_details};

/// How long a reader waits for a subscriber that is behind before it goes on without it.
const PATIENCE: Duration = Duration::from_millis(250);
/// What is read at once, into one buffer a thread.
const READ_BYTES: usize = 64 * 1024;
/// What is still read from a pipe that others hold open, once the wait for its end is over.
const LAST_BYTES: usize = 1 << 20;
/// How often a group that is being stopped is looked at: soon, then less and less often.
const FIRST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// How urgently the end was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum StopLevel {
    #[default]
    None,
    Graceful,
    Now,
}

/// How far the run and the attempts to stop it have come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) ended: bool,
    /// How many stops have reached their deadline in vain.
    pub(crate) failed_stops: u64,
}

/// What of the options a running supervisor needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policy {
    stop_signal: i32,
    grace: Duration,
    stop_deadline: Duration,
    drain_timeout: Duration,
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
#[derive(Debug)]
pub(crate) struct Supervisor {
    leader: Leader,
    hub: Arc<Hub>,
    policy: Policy,
    stdout: Reader,
    stderr: Reader,
    request: watch::Receiver<StopLevel>,
    /// For setting the request back after a stop that failed.
    request_again: watch::Sender<StopLevel>,
    progress: watch::Sender<Progress>,
    host_stop: Option<StopSignal>,
    exit: Option<Exit>,
    stop: Option<Stop>,
    /// Subscribers are behind; until then nothing is read.
    paused_until: Option<Instant>,
    finished: bool,
}

/// The end of the leader.
#[derive(Debug, Clone, Copy)]
struct Exit {
    cause: Cause,
    stop_requested: bool,
    /// Until then the ends of the outputs are awaited.
    drain_until: Instant,
}

/// A stop under way.
#[derive(Debug, Clone, Copy)]
struct Stop {
    /// When the group is killed; none once it was.
    kill_at: Option<Instant>,
    /// When the stop has failed.
    fail_at: Instant,
    escalated: bool,
    failed: bool,
    gone: bool,
    look_at: Instant,
    look_after: Duration,
}

/// One output stream.
#[derive(Debug)]
struct Reader {
    pipe: Option<Pipe>,
    /// Its end was not waited for.
    left_open: bool,
    splitter: Splitter,
}

/// What happened next.
enum Turn {
    Readable(OutputStream),
    Room,
    Exited(Cause),
    StopRequested,
    HostStop,
    Due,
}

thread_local! {
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

fn now() -> Timestamp {
    SystemTime::now().into()
}

impl Supervisor {
    pub(crate) fn new(
        spawned: Spawned,
        options: &ProcessOptions,
        hub: Arc<Hub>,
        request: &watch::Sender<StopLevel>,
        progress: watch::Sender<Progress>,
        host_stop: Option<StopSignal>,
    ) -> Self {
        let reader = |stream, pipe| Reader {
            pipe: Some(pipe),
            left_open: false,
            splitter: Splitter::new(stream, options.max_line_bytes, options.carriage_return),
        };
        Self {
            leader: spawned.leader,
            hub,
            policy: options.into(),
            stdout: reader(OutputStream::Stdout, spawned.stdout),
            stderr: reader(OutputStream::Stderr, spawned.stderr),
            request: request.subscribe(),
            request_again: request.clone(),
            progress,
            host_stop,
            exit: None,
            stop: None,
            paused_until: None,
            finished: false,
        }
    }

    /// What identifies the process.
    pub(crate) fn facts(&self) -> Details {
        identity_details(self.leader.identity())
    }

    /// Tells that the process was started and, if it still lives, that it is ready.
    pub(crate) fn announce(&mut self) {
        self.status(RunStatus::Starting);
        if self.leader.has_ended().is_none() {
            self.status(RunStatus::Ready);
        }
    }

    fn status(&self, status: RunStatus) {
        self.hub
            .push(&RunEvent::Status(StatusChange::new(status, now())));
    }

    /// Runs until the terminal event has been told.
    pub(crate) async fn run(mut self) {
        while !self.is_over() {
            let turn = self.next_turn().await;
            match turn {
                Turn::Readable(stream) => self.read(stream),
                Turn::Room => self.paused_until = None,
                Turn::Exited(cause) => self.exited(cause),
                Turn::HostStop => {
                    self.host_stop = None;
                    self.request_again
                        .send_if_modified(|level| raise(level, StopLevel::Graceful));
                }
                Turn::StopRequested => self.stop_requested(),
                Turn::Due => {}
            }
            self.do_what_is_due();
        }
        self.finish();
    }

    /// Waits for whatever comes first.
    async fn next_turn(&mut self) -> Turn {
        let due = self.next_due();
        let reading = self.paused_until.is_none();
        let exited = self.exit.is_some();
        tokio::select! {
            () = readable(self.stdout.pipe.as_ref()), if reading => Turn::Readable(OutputStream::Stdout),
            () = readable(self.stderr.pipe.as_ref()), if reading => Turn::Readable(OutputStream::Stderr),
            () = self.hub.room(), if !reading => Turn::Room,
            cause = self.leader.ended(), if !exited => Turn::Exited(cause),
            Ok(()) = self.request.changed() => Turn::StopRequested,
            () = some(self.host_stop.as_mut()) => Turn::HostStop,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Turn::Due,
        }
    }

    /// When something is to be done even if nothing happens.
    fn next_due(&self) -> Option<Instant> {
        let stop = self.stop.iter().flat_map(|stop| {
            let fail_at = (!stop.failed).then_some(stop.fail_at);
            let look_at = (!stop.gone).then_some(stop.look_at);
            [stop.kill_at, fail_at, look_at]
        });
        let drain = self
            .exit
            .filter(|_| self.is_reading())
            .map(|exit| exit.drain_until);
        // While nothing is read, the end of the draining waits too.
        let reading = self.paused_until.or(drain);
        stop.flatten().chain(reading).min()
    }

    fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.paused_until.is_some_and(|until| until <= now) {
            self.hub.give_up_laggards();
            self.paused_until = None;
        }
        if self.paused_until.is_none() && self.exit.is_some_and(|exit| exit.drain_until <= now) {
            self.read_the_last();
        }
        let Some(mut stop) = self.stop else { return };
        if stop.kill_at.is_some_and(|at| at <= now) && !stop.gone {
            stop.kill_at = None;
            stop.escalated = true;
            stop.fail_at = now + self.policy.stop_deadline;
            stop.look_after = FIRST_LOOK;
            stop.look_at = now;
            self.signal(libc::SIGKILL);
        }
        if !stop.gone && stop.look_at <= now {
            stop.gone = self.exit.is_some() && self.leader.group() == Group::Gone;
            stop.look_after = (stop.look_after * 2).min(LONGEST_LOOK);
            stop.look_at = now + stop.look_after;
        }
        if !stop.gone && !stop.failed && stop.fail_at <= now {
            stop.failed = true;
            // The next request is a new stop.
            self.request_again.send_replace(StopLevel::None);
            self.request.mark_unchanged();
            self.progress
                .send_modify(|progress| progress.failed_stops += 1);
        }
        self.stop = Some(stop);
    }

    fn exited(&mut self, cause: Cause) {
        self.exit = Some(Exit {
            cause,
            stop_requested: self.stop.is_some(),
            drain_until: Instant::now() + self.policy.drain_timeout,
        });
        self.host_stop = None;
        self.leader.reap_if_group_stays_in_reach();
        if let Some(stop) = &mut self.stop {
            stop.look_at = Instant::now();
            stop.look_after = FIRST_LOOK;
        }
    }

    fn stop_requested(&mut self) {
        let level = *self.request.borrow_and_update();
        let now = Instant::now();
        // An exit that nobody has looked at yet came before the request.
        if self.stop.is_none()
            && self.exit.is_none()
            && let Some(cause) = self.leader.has_ended()
        {
            self.exited(cause);
        }
        match (level, &mut self.stop) {
            (StopLevel::None, _) => {}
            (level, Some(stop)) if !stop.failed => {
                if level == StopLevel::Now && stop.kill_at.is_some() {
                    stop.kill_at = Some(now);
                }
            }
            (level, _) => {
                let kill_at = match level {
                    StopLevel::Now => now,
                    _ => now + self.policy.grace,
                };
                self.stop = Some(Stop {
                    kill_at: Some(kill_at),
                    fail_at: kill_at + self.policy.stop_deadline,
                    escalated: false,
                    failed: false,
                    gone: false,
                    look_at: now + FIRST_LOOK,
                    look_after: FIRST_LOOK,
                });
                if level != StopLevel::Now {
                    self.signal(self.policy.stop_signal);
                }
            }
        }
    }

    fn signal(&self, signal: i32) {
        if let Err(error) = self.leader.signal_group(signal) {
            self.hub.push(&RunEvent::Error {
                message: format!("the group could not be signalled: {error}"),
                timestamp: now(),
                details: Details::from_iter([("signal", serde_json::json!(signal))]),
            });
        }
    }

    /// Reads once, and hands on the lines.
    fn read(&mut self, stream: OutputStream) {
        let reader = match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        };
        if reader.read_once(&self.hub) == Read::Behind {
            self.paused_until = Some(Instant::now() + PATIENCE);
        }
    }

    /// Reads what already is in pipes whose end does not come, and leaves them.
    fn read_the_last(&mut self) {
        for reader in [&mut self.stdout, &mut self.stderr] {
            for _ in 0..LAST_BYTES / READ_BYTES {
                if matches!(reader.read_once(&self.hub), Read::Empty | Read::Closed) {
                    break;
                }
            }
            reader.leave(&self.hub);
        }
    }

    fn is_reading(&self) -> bool {
        self.stdout.is_open() || self.stderr.is_open()
    }

    /// Whether the process has ended, its output too or it was waited for long enough, and a stop
    /// that was asked for has left nobody.
    fn is_over(&self) -> bool {
        self.exit.is_some() && !self.is_reading() && self.stop.is_none_or(|stop| stop.gone)
    }

    fn finish(&mut self) {
        let Some(exit) = self.exit else { return };
        let leftovers = match self.stop {
            Some(_) => Vec::new(),
            None => match self.leader.group() {
                Group::Gone => Vec::new(),
                Group::Members(members) => members,
            },
        };
        self.leader.reap();
        self.finished = true;
        let end = End {
            cause: exit.cause,
            stop_requested: exit.stop_requested,
            escalated: self.stop.is_some_and(|stop| stop.escalated),
            output_open: self.stdout.left_open() || self.stderr.left_open(),
            leftovers,
        };
        if let Some(diagnostic) = end.diagnostic(now()) {
            self.hub.push(&diagnostic);
        }
        let change = ended(self.leader.identity(), &end, now());
        self.hub.push(&RunEvent::Status(change));
        self.hub.close();
        self.progress.send_modify(|progress| progress.ended = true);
    }
}

impl Drop for Supervisor {
    /// A supervisor that is dropped with its runtime leaves no orphan.
    fn drop(&mut self) {
        if !self.finished {
            let _ = self.leader.signal_group(libc::SIGKILL);
            self.hub.close();
        }
    }
}

/// What a reading has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Read {
    More,
    /// More, and a subscriber is behind.
    Behind,
    Empty,
    Closed,
}

impl Reader {
    fn is_open(&self) -> bool {
        self.pipe.is_some()
    }

    fn left_open(&self) -> bool {
        self.left_open
    }

    fn read_once(&mut self, hub: &Hub) -> Read {
        let Some(pipe) = &self.pipe else {
            return Read::Closed;
        };
        let batch = BUFFER.with_borrow_mut(|buffer| match pipe.try_read(buffer) {
            Ok(0) => Err(Read::Closed),
            Ok(read) => Ok(self.splitter.feed(&buffer[..read], now())),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(Read::Empty),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(_) => Err(Read::Closed),
        });
        match batch {
            Ok(Some(batch)) => {
                if hub.push_log(batch) {
                    Read::Behind
                } else {
                    Read::More
                }
            }
            Ok(None) => Read::More,
            Err(Read::Closed) => {
                self.pipe = None;
                self.flush(hub);
                Read::Closed
            }
            Err(read) => read,
        }
    }

    /// Gives up a pipe whose end has not come.
    fn leave(&mut self, hub: &Hub) {
        if self.pipe.take().is_some() {
            self.left_open = true;
            self.flush(hub);
        }
    }

    fn flush(&mut self, hub: &Hub) {
        if let Some(batch) = self.splitter.finish(now()) {
            // The last line: there is nothing left to hold back.
            let _behind = hub.push_log(batch);
        }
    }
}

/// Raises a request, and says whether that changed it.
pub(crate) fn raise(level: &mut StopLevel, to: StopLevel) -> bool {
    let higher = *level < to;
    *level = to.max(*level);
    higher
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
