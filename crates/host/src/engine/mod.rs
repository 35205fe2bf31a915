//! The one task that owns the projection: takes what the sessions bring, applies it, has it
//! journaled, and shows it.

mod contain;
mod intents;
mod round;
mod show;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use headcount_contract::{ChildId, SourceId, Timestamp};
use headcount_projector::Projector;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

pub(crate) use self::contain::Entry;
use self::round::Round;
use self::show::Beside;
use crate::change::Hub;
use crate::journal::Writer;
use crate::session::Batch;
use crate::view::Board;
use crate::{HostSettings, ShutdownError, Stats};

/// A child's whole identity (rule I1).
pub(crate) type Key = (SourceId, ChildId);

/// How many batches are applied before the result is shown.
const BATCHES_A_ROUND: usize = 64;

/// The task's state.
pub(crate) struct Engine {
    pub(crate) settings: Arc<HostSettings>,
    pub(crate) projector: Projector,
    pub(crate) board: Arc<Board>,
    pub(crate) hub: Arc<Hub>,
    pub(crate) writer: Option<Writer>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) inputs: mpsc::Receiver<Batch>,
    /// Told how long the engine has left once it is to end.
    pub(crate) stop: watch::Receiver<Option<Duration>>,
    /// Who owns which source; a source of a carrier is learned from its events.
    pub(crate) owners: HashMap<SourceId, usize>,
    pub(crate) carriers: HashMap<SourceId, usize>,
    /// Who observes on the children of an earlier life of the host.
    pub(crate) readopted: HashMap<Key, usize>,
    /// What is shown beside the records.
    pub(crate) beside: HashMap<Key, Beside>,
    pub(crate) stats: Stats,
}

impl Engine {
    /// Runs until it is told to stop; returns what went wrong with the journal, if anything.
    pub(crate) async fn run(mut self) -> Result<(), ShutdownError> {
        let mut stop = self.stop.clone();
        let mut open = true;
        loop {
            let mut round = Round::default();
            let full = self.hub.is_full();
            let wake = self.wake_at();
            tokio::select! {
                biased;
                left = told(&mut stop) => return self.end(left).await,
                () = self.hub.ready(), if full => continue,
                batch = self.inputs.recv(), if open && !full => match batch {
                    Some(batch) => self.take(batch, &mut round),
                    // Every session has ended; time still passes.
                    None => open = false,
                },
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => (),
                () = journal_changed(&mut self.writer) => (),
            }
            for _ in 1..BATCHES_A_ROUND {
                match self.inputs.try_recv() {
                    Ok(batch) => self.take(batch, &mut round),
                    Err(_) => break,
                }
            }
            self.finish(round).await;
        }
    }

    /// Shows what the journal held: whoever lived then is unproven now.
    pub(crate) fn open(&mut self) {
        let mut round = Round::default();
        let now = self.now();
        let mut live = std::collections::BTreeSet::new();
        for record in self.projector.records() {
            if !record.state.is_terminal() {
                live.insert(record.source.clone());
            }
            round.touched.insert((record.source, record.child_id));
        }
        for (at, entry) in self.entries.iter().enumerate() {
            for child in entry.readopts.iter().flatten() {
                let key = (entry.source.clone(), child.clone());
                self.beside.entry(key.clone()).or_default().readopted = true;
                self.readopted.insert(key, at);
            }
            // Where a source has no adapter of its own, this one speaks for it.
            self.owners.entry(entry.source.clone()).or_insert(at);
        }
        let mut effects = Vec::new();
        for source in live {
            self.projector.source_unproven(&source, now, &mut effects);
        }
        self.act(&mut effects, now, &mut round);
        let adapters = self.entries.iter().map(Entry::view).collect();
        self.board.update(now, |view| view.set_adapters(adapters));
        self.show(&mut round);
    }

    /// When time alone has something to do.
    fn wake_at(&self) -> Option<Instant> {
        let due = self.projector.deadline()?;
        Some(Instant::now() + due.saturating_since(self.now()))
    }

    fn now(&self) -> Timestamp {
        self.settings.clock.now()
    }

    /// Takes what the sessions still sent, and closes the journal.
    async fn end(mut self, left: Duration) -> Result<(), ShutdownError> {
        let until = Instant::now() + left;
        let mut round = Round::default();
        while let Ok(batch) = self.inputs.try_recv() {
            self.take(batch, &mut round);
        }
        self.finish(round).await;
        let mut failures = Vec::new();
        if let Some(writer) = self.writer.take() {
            let report = writer
                .close(until.saturating_duration_since(Instant::now()))
                .await;
            let missing = report.health.lost + report.health.waiting;
            if missing > 0 {
                let why = report
                    .health
                    .message
                    .as_deref()
                    .unwrap_or("it did not answer in time");
                failures.push(format!("{missing} events are not in the journal: {why}"));
            }
            self.show_journal(&report);
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(ShutdownError { failures })
        }
    }
}

/// Waits until the engine is to end, and returns how long that may take.
async fn told(stop: &mut watch::Receiver<Option<Duration>>) -> Duration {
    // A host that is gone without a word has no time left.
    let told = stop.wait_for(Option::is_some).await;
    told.map_or(None, |left| *left).unwrap_or_default()
}

async fn journal_changed(writer: &mut Option<Writer>) {
    match writer {
        Some(writer) => writer.changed().await,
        None => std::future::pending().await,
    }
}

impl Drop for Engine {
    /// However it ends, whoever waits for it learns that.
    fn drop(&mut self) {
        let at = self.now();
        self.board.update(at, crate::View::set_stopped);
        self.hub.close();
    }
}
