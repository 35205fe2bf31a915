//! What `run`, `watch`, `tail`, `adopt` and `hermes` share: a host, shown until it ends.

use std::io::IsTerminal;
use std::sync::Arc;

use futures_util::StreamExt;
use headcount::projector::Record;
use headcount::{
    Change, ChangeStream, Delivery, Host, HostBuilder, HostError, JournalSettings, View,
};
use headcount_contract::Urgency;
use tokio::task::JoinHandle;

use crate::args::Common;
use crate::commands::interrupt::Interrupts;
use crate::exit::Failure;
use crate::output::{Form, Printer, Writer};
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

/// Whether a child is one that the journal holds of another session.
pub(super) fn is_history(view: &View, record: &Record) -> bool {
    let child = view.child(&record.source, &record.child_id);
    child.is_none_or(|child| view.is_history(child))
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

    async fn print(
        &mut self,
        mut changes: ChangeStream,
        mut printer: Printer,
    ) -> Result<(), Failure> {
        let writer = Writer::start();
        let mut interrupted = false;
        let mut text = String::new();
        let host = self.host.clone();
        let until = self.until;
        let mut over = Box::pin(Self::over(&host, until));
        let mut batches = (&mut changes).ready_chunks(256);
        loop {
            let stopping = self.is_stopping();
            tokio::select! {
                biased;
                () = self.interrupts.next() => {
                    if !interrupted {
                        term::note("stopping… once more kills at once");
                    }
                    interrupted = true;
                    self.stop();
                }
                room = writer.room(), if !text.is_empty() => {
                    let Ok(room) = room else {
                        // The reader has gone. What we started must not outlive that.
                        if !stopping {
                            self.stop();
                        }
                        break;
                    };
                    room.send(std::mem::take(&mut text));
                }
                batch = batches.next(), if text.is_empty() => match batch {
                    Some(batch) => batch.iter().for_each(|change: &Change| printer.change(change, &mut text)),
                    None => break,
                },
                _ = &mut over, if !stopping => self.stop(),
            }
        }
        drop(batches);
        drop(changes);
        let mut written = std::pin::pin!(writer.finish());
        loop {
            tokio::select! {
                done = &mut written => {
                    done?;
                    return Ok(());
                }
                () = self.interrupts.next() => {
                    if interrupted {
                        return Ok(());
                    }
                    interrupted = true;
                }
            }
        }
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
