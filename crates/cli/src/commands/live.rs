//! What `run`, `watch`, `tail`, `adopt` and `hermes` share: a host, shown until it ends.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use headcount::{ChangeStream, Delivery, Host, HostBuilder, HostError, JournalSettings, View};
use headcount_contract::Urgency;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::args::Common;
use crate::commands::interrupt::Interrupts;
use crate::exit::Failure;
use crate::output::{Form, PIECE, Printer, Progress, Writer};
use crate::{term, tui};

/// When there is nothing more to show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Every child of this session has ended and nothing more can come.
    Idle,
    /// Nothing more can come: what a stream leaves unfinished stays so.
    Finished,
}

/// Runs the host until its end or until somebody asks for it, and shows it as `--output` says.
pub(super) fn show(
    builder: HostBuilder,
    common: &Common,
    until: Until,
) -> Result<Arc<View>, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::ours(format_args!("no runtime can be had: {error}")))?;
    let ended = runtime.block_on(session(builder, common, until));
    // A blocked write to a pipe that nobody reads must not hold up the end.
    runtime.shutdown_background();
    let view = ended?;
    if common.stats {
        let stats = serde_json::to_string_pretty(view.stats()).map_err(Failure::ours)?;
        term::note(stats);
    }
    Ok(view)
}

async fn session(
    builder: HostBuilder,
    common: &Common,
    until: Until,
) -> Result<Arc<View>, Failure> {
    let builder = match &common.journal {
        Some(path) => builder.journal(path, JournalSettings::default()),
        None => builder,
    };
    let form = Form::of(common.output);
    if form == Form::Tui && common.log.is_some() && std::io::stderr().is_terminal() {
        return Err(Failure::usage("the log would be written over the table")
            .help("2>FILE keeps it in a file; --output plain shows lines instead of a table"));
    }
    let mut interrupts = Interrupts::new()?;
    let host = Arc::new(builder.build().map_err(|error| host_failure(&error))?);
    // Subscribed to before the start, so that nothing of it is missed.
    let delivery = if form == Form::Tui {
        Delivery::Lossy
    } else {
        Delivery::Lossless
    };
    let changes = host.changes_with(delivery);
    host.start().await.map_err(|error| host_failure(&error))?;
    let mut session = Session {
        host,
        interrupts: &mut interrupts,
        until,
        stop: None,
    };
    let shown = match form {
        Form::Tui => {
            // The table looks at the view; it needs no changes.
            drop(changes);
            tui::show(&mut session).await
        }
        Form::Plain => session.print(changes, Printer::plain()).await,
        Form::Json => session.print(changes, Printer::Json).await,
    };
    let view = session.end(shown).await?;
    if form == Form::Tui {
        tui::farewell(&view).into_iter().for_each(term::note);
    }
    Ok(view)
}

fn host_failure(error: &HostError) -> Failure {
    Failure::usage(error)
}

/// How many changes are printed before anything else is looked at.
const AT_ONCE: usize = 256;

/// For how long, after an interrupt, a reader may read nothing.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many interrupts are a wish to end whatever that costs: the second has killed the children.
const ENOUGH: u32 = 3;

/// For how long it may read nothing from then on: one that reads loses nothing.
const HURRY: Duration = Duration::from_millis(500);

/// What we know of whoever reads our output.
#[derive(Debug, Default)]
struct Reader {
    interrupts: u32,
    /// When it is given up unless it reads; none without an interrupt.
    deadline: Option<Instant>,
    given_up: bool,
    /// How many lines were thrown away.
    lost: u64,
}

impl Reader {
    /// Counts an interrupt.
    fn interrupted(&mut self) -> u32 {
        self.interrupts += 1;
        // Further ones neither lengthen nor shorten what it has.
        if self.interrupts == 1 || self.interrupts == ENOUGH {
            self.deadline = Some(Instant::now() + self.patience());
        }
        self.interrupts
    }

    fn patience(&self) -> Duration {
        if self.interrupts < ENOUGH {
            PATIENCE
        } else {
            HURRY
        }
    }

    fn reads(&mut self) {
        if self.deadline.is_some() {
            self.deadline = Some(Instant::now() + self.patience());
        }
    }

    /// Completes once there is no sense in waiting for it.
    async fn is_given_up(&self) {
        match self.deadline {
            _ if self.given_up => {}
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    }
}

/// Adds to the text what has changed meanwhile, as long as it is one piece: few large writes are
/// faster than many small ones.
fn gather(changes: &mut ChangeStream, printer: &mut Printer, writer: &mut Writer) {
    for _ in 0..AT_ONCE {
        if writer.pending() >= PIECE {
            return;
        }
        let Some(Some(change)) = changes.next().now_or_never() else {
            return;
        };
        printer.change(&change, writer.text());
    }
}

/// A host that is being shown.
pub(crate) struct Session<'i> {
    pub(crate) host: Arc<Host>,
    pub(crate) interrupts: &'i mut Interrupts,
    until: Until,
    /// The host is being shut down.
    stop: Option<JoinHandle<Option<String>>>,
}

impl Session<'_> {
    /// Completes when there is nothing more to come.
    pub(crate) async fn over(host: &Host, until: Until) -> Arc<View> {
        match until {
            Until::Idle => host.idle().await,
            Until::Finished => host.wait_until(View::is_finished).await,
        }
    }

    pub(crate) fn until(&self) -> Until {
        self.until
    }

    /// Asks the host to end: gracefully the first time, at once the second.
    pub(crate) fn stop(&mut self) {
        let urgency = if self.stop.is_some() {
            Urgency::Now
        } else {
            Urgency::Graceful
        };
        let host = self.host.clone();
        let before = self.stop.take();
        self.stop = Some(tokio::spawn(async move {
            let ended = host
                .shutdown(urgency)
                .await
                .err()
                .map(|error| error.to_string());
            // What the first one could not do was told to the second one as well.
            drop(before);
            ended
        }));
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Prints until the host has ended and everything is written.
    ///
    /// Without an interrupt a reader that does not read is waited for, as by every program in a
    /// pipe; the host waits with us. After one it has [`PATIENCE`], and what it did not read is
    /// counted.
    async fn print(
        &mut self,
        mut changes: ChangeStream,
        mut printer: Printer,
    ) -> Result<(), Failure> {
        let mut writer = Writer::start();
        let mut reader = Reader::default();
        let host = self.host.clone();
        let mut over = Box::pin(Self::over(&host, self.until));
        loop {
            let stopping = self.is_stopping();
            let waiting = writer.pending() > 0;
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    // Asked for before anything is said of it: standard error may be blocked too.
                    self.stop();
                    if reader.interrupted() == 1 {
                        term::hurry();
                        term::note("stopping… once more kills at once");
                    }
                }
                handed = writer.hand_on(), if waiting => {
                    if handed.is_err() {
                        // The reader has gone. What we started must not outlive that.
                        if !stopping {
                            self.stop();
                        }
                        break;
                    }
                    reader.reads();
                }
                () = reader.is_given_up(), if waiting => {
                    // From here on nothing is written, since there would be a hole.
                    reader.given_up = true;
                    reader.lost += writer.discard();
                }
                change = changes.next(), if !waiting => {
                    let Some(change) = change else {
                        break;
                    };
                    if reader.given_up {
                        reader.lost += printer.count(&change);
                        continue;
                    }
                    printer.change(&change, writer.text());
                    gather(&mut changes, &mut printer, &mut writer);
                }
                _ = &mut over, if !stopping => self.stop(),
            }
        }
        drop(changes);
        self.written(writer, reader).await
    }

    /// Waits until everything is written, or until there is no hope of it.
    async fn written(&mut self, mut writer: Writer, mut reader: Reader) -> Result<(), Failure> {
        loop {
            tokio::select! {
                biased;
                progress = writer.finish() => match progress {
                    Progress::Piece => reader.reads(),
                    Progress::Ended(result) => {
                        result?;
                        break;
                    }
                },
                () = reader.is_given_up() => break,
                () = self.interrupts.next() => {
                    term::hurry();
                    reader.interrupted();
                }
            }
        }
        let lost = reader.lost + writer.unwritten();
        if lost > 0 {
            let lines = if lost == 1 { "line was" } else { "lines were" };
            term::note(format_args!(
                "{lost} {lines} not written: nobody read the output"
            ));
        }
        Ok(())
    }

    /// Waits for the end of the host and tells what it could not end.
    async fn end(mut self, shown: Result<(), Failure>) -> Result<Arc<View>, Failure> {
        if !self.is_stopping() {
            self.stop();
        }
        let Some(mut stop) = self.stop.take() else {
            return Err(Failure::ours("not stopped"));
        };
        let complaint = loop {
            tokio::select! {
                ended = &mut stop => break ended.unwrap_or(None),
                () = self.interrupts.next() => {
                    self.stop = Some(stop);
                    self.stop();
                    match self.stop.take() {
                        Some(next) => stop = next,
                        None => break None,
                    }
                }
            }
        };
        if let Some(complaint) = complaint {
            term::note(format_args!("warning: {complaint}"));
        }
        shown.map(|()| self.host.view())
    }
}
