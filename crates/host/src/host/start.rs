//! From a host that was built to one that runs.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use headcount_contract::{ChildId, SourceId};
use headcount_projector::Projector;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::{Engine, Host, Running, Stage};
use crate::builder::{Journal, Member};
use crate::engine::{self, Entry};
use crate::fault::panic_message;
use crate::journal::{JournalStore, Writer};
use crate::session::{Session, guarded};
use crate::{HostError, JournalFault, Stats, readopt};

/// How many batches wait for the engine.
const INPUTS: usize = 256;

impl Host {
    /// Opens the journal, replays it, and starts the adapters.
    ///
    /// # Behavior
    ///
    /// - What the journal holds is in the view before this returns. A journal that cannot be read to
    ///   its end is shown as far as it can be, and not appended to; the view says so.
    /// - Children that were live are unproven until their sources, or their processes, tell more.
    ///
    /// # Errors
    ///
    /// [`HostError`] if the host was started before, there is no tokio runtime, or the journal
    /// cannot be opened at all.
    pub async fn start(&self) -> Result<(), HostError> {
        tokio::runtime::Handle::try_current().map_err(|_| HostError::NoRuntime)?;
        let (members, journal) = self.leave_built()?;
        let mut projector = Projector::new(self.settings.projector.clone());
        for member in &members {
            projector.set_scope(&member.source, member.info.scope);
        }
        let opened = match journal {
            None => Opened {
                members,
                projector,
                store: None,
                blocked: None,
            },
            Some(journal) => {
                let replayed = self.replay(journal, projector, members).await;
                replayed.inspect_err(|_| *self.stage() = Stage::Ended)?
            }
        };
        let running = self.spawn(opened)?;
        *self.stage() = Stage::Running(running);
        Ok(())
    }

    fn leave_built(&self) -> Result<(Vec<Member>, Option<Journal>), HostError> {
        let mut stage = self.stage();
        match std::mem::replace(&mut *stage, Stage::Starting) {
            Stage::Built { members, journal } => Ok((members, journal)),
            other => {
                let why = match &other {
                    Stage::Ending | Stage::Ended => "has stopped",
                    _ => "runs already",
                };
                *stage = other;
                Err(HostError::NotStartable(why))
            }
        }
    }

    /// Reads the journal on a thread that may block.
    async fn replay(
        &self,
        journal: Journal,
        mut projector: Projector,
        mut members: Vec<Member>,
    ) -> Result<Opened, HostError> {
        let now = self.settings.clock.now();
        let work = tokio::task::spawn_blocking(move || {
            let mut store = journal.open()?;
            let mut effects = Vec::new();
            let read = store.replay(&mut |event| {
                // What follows from it was acted on in the life before.
                projector.apply(&event, now, &mut effects);
                effects.clear();
            });
            let found = readopt::adapters(&projector, &members, now);
            members.extend(found);
            Ok(Opened {
                members,
                projector,
                store: Some(store),
                blocked: read.err(),
            })
        });
        work.await.unwrap_or_else(|error| {
            let message = error.try_into_panic().map_or_else(
                |error| error.to_string(),
                |panic| format!("reading it panicked: {}", panic_message(&*panic)),
            );
            Err(HostError::Journal {
                path: "(the store)".into(),
                message,
            })
        })
    }

    fn spawn(&self, opened: Opened) -> Result<Running, HostError> {
        let Opened {
            members,
            projector,
            store,
            blocked,
        } = opened;
        let settings = self.settings.clone();
        let writer = match store {
            None => None,
            Some(store) => {
                let (patience, backlog) = (settings.journal_patience, settings.journal_backlog);
                let started = Writer::start(store, patience, backlog, blocked);
                Some(started.map_err(|error| HostError::Journal {
                    path: "(the store)".into(),
                    message: format!("its thread cannot be started: {error}"),
                })?)
            }
        };
        let (out, inputs) = mpsc::channel(INPUTS);
        let (stop, stopping) = watch::channel(None);
        let mut sessions = JoinSet::new();
        let mut entries = Vec::new();
        let readopting = members.iter().filter(|member| member.readopts.is_some());
        let readopting = readopting.map(|member| member.adapter.clone()).collect();
        let mut live: HashMap<SourceId, usize> = HashMap::new();
        let mut used: HashMap<SourceId, Vec<ChildId>> = HashMap::new();
        for record in projector.records() {
            if !record.state.is_terminal() {
                *live.entry(record.source.clone()).or_default() += 1;
            }
            used.entry(record.source).or_default().push(record.child_id);
        }
        for (index, member) in members.into_iter().enumerate() {
            let (ask, requests) = mpsc::unbounded_channel();
            entries.push(Entry::new(&member, ask));
            if let Some(used) = used.get(&member.source) {
                // One that panics here is found out as soon as it is subscribed to.
                let _ = guarded("avoid_ids", || member.adapter.avoid_ids(used));
            }
            let session = Session {
                index,
                has_past: live.contains_key(&member.source),
                adapter: member.adapter,
                settings: settings.clone(),
                out: out.clone(),
                requests,
            };
            let out = out.clone();
            sessions.spawn(async move {
                let ran = AssertUnwindSafe(session.run()).catch_unwind().await;
                if let Err(panic) = ran {
                    crate::session::report_panic(index, &panic_message(&*panic), &out).await;
                }
            });
        }
        let mut engine = engine::Engine {
            settings,
            projector,
            board: self.board.clone(),
            hub: self.hub.clone(),
            writer,
            entries,
            inputs,
            stop: stopping,
            owners: self.by_source.clone(),
            carriers: HashMap::new(),
            readopted: HashMap::new(),
            beside: HashMap::new(),
            stats: Stats::default(),
        };
        engine.open();
        Ok(Running {
            sessions,
            readopting,
            stop,
            engine: Engine(tokio::spawn(engine.run())),
        })
    }
}

/// What a journal held, and the journal.
struct Opened {
    /// The adapters that were asked for, and those that observe on what was found again.
    members: Vec<Member>,
    projector: Projector,
    store: Option<Box<dyn JournalStore>>,
    blocked: Option<JournalFault>,
}
