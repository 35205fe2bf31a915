//! The host: what it is made of, how it starts, what can be asked of it, and how it ends.

mod start;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::join_all;
use headcount_contract::{
    AdapterError, AdapterErrorKind, CancelOutcome, ChildId, ChildLifecycleAdapter, SourceId,
    Urgency,
};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout, timeout_at};

use crate::builder::{Journal, Member};
use crate::change::Hub;
use crate::fault::panic_message;
use crate::view::Board;
use crate::{
    ChangeStream, Delivery, Explanation, HostBuilder, HostSettings, RequestError, ShutdownError,
    View,
};

/// Runs adapters, projects what they tell, keeps it in a journal, and shows it.
///
/// # Behavior
///
/// - One task an adapter: one that panics, hangs, floods or lies is contained, shown in its health,
///   and harms no other. (An adapter that blocks a thread of the runtime blocks that thread.)
/// - What is shown is consistent, and, with a journal, in the journal before it is shown.
/// - Runs on the tokio runtime in which [`start`](Self::start) is called. Dropping it ends its
///   tasks and drops its adapters; [`shutdown`](Self::shutdown) ends them in order.
///
/// ```
/// use headcount::Host;
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let host = Host::builder().build()?;
/// let mut changes = host.changes();
/// host.start().await?;
/// host.idle().await;
/// assert!(host.view().is_empty());
/// # Ok::<(), headcount::HostError>(()) }).unwrap();
/// ```
#[derive(Debug)]
pub struct Host {
    settings: Arc<HostSettings>,
    board: Arc<Board>,
    hub: Arc<Hub>,
    adapters: Vec<Asked>,
    by_source: HashMap<SourceId, usize>,
    stage: Mutex<Stage>,
}

/// What is asked of an adapter beside its stream.
#[derive(Debug)]
struct Asked {
    source: SourceId,
    cancels: bool,
    adapter: Arc<dyn ChildLifecycleAdapter>,
}

/// What a host is made of.
pub(crate) struct Ingredients {
    pub(crate) members: Vec<Member>,
    pub(crate) journal: Option<Journal>,
    pub(crate) settings: HostSettings,
}

#[derive(Debug)]
enum Stage {
    Built {
        members: Vec<Member>,
        journal: Option<Journal>,
    },
    Starting,
    Running(Running),
    Ending,
    Ended,
}

/// The tasks of a host that runs. Dropping it ends them.
#[derive(Debug)]
struct Running {
    sessions: JoinSet<()>,
    /// The adapters beside those that the host was given.
    readopting: Vec<Arc<dyn ChildLifecycleAdapter>>,
    stop: watch::Sender<Option<Duration>>,
    engine: Engine,
}

/// The engine's task, ended when this is dropped.
#[derive(Debug)]
struct Engine(JoinHandle<Result<(), ShutdownError>>);

impl Drop for Engine {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Host {
    /// Collects what a host is made of.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    pub(crate) fn new(ingredients: Ingredients) -> Self {
        let Ingredients {
            members,
            journal,
            settings,
        } = ingredients;
        let asked = |member: &Member| Asked {
            source: member.source.clone(),
            cancels: member.info.at_best.cancel.is_known() && member.capabilities.cancel.is_known(),
            adapter: member.adapter.clone(),
        };
        Self {
            board: Arc::new(Board::new(settings.clock.now())),
            hub: Hub::new(settings.change_buffer, settings.change_buffer_bytes),
            settings: Arc::new(settings),
            adapters: members.iter().map(asked).collect(),
            by_source: (0..)
                .zip(&members)
                .map(|(at, member)| (member.source.clone(), at))
                .collect(),
            stage: Mutex::new(Stage::Built { members, journal }),
        }
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Everything that is known now. Cheap; does not change.
    pub fn view(&self) -> Arc<View> {
        self.board.view()
    }

    /// The changes from now on; one who does not keep up misses some, and is told how many. A
    /// subscription that is made before [`start`](Self::start) misses nothing of the start.
    pub fn changes(&self) -> ChangeStream {
        self.changes_with(Delivery::Lossy)
    }

    /// The changes from now on, delivered as told.
    pub fn changes_with(&self, delivery: Delivery) -> ChangeStream {
        self.hub.subscribe(delivery)
    }

    /// Where each fact about a child comes from; none if the host does not know the child.
    pub fn explain(&self, source: &SourceId, child: &ChildId) -> Option<Explanation> {
        let view = self.view();
        view.child(source, child)
            .map(|child| Explanation::of(&child.record))
    }

    /// Waits until the view is as wanted, or the host has stopped, and returns that view.
    pub async fn wait_until(&self, mut wanted: impl FnMut(&View) -> bool) -> Arc<View> {
        let mut versions = self.board.watch();
        loop {
            versions.borrow_and_update();
            let view = self.view();
            if wanted(&view) || view.is_stopped() {
                return view;
            }
            if versions.changed().await.is_err() {
                return self.view();
            }
        }
    }

    /// Waits until nothing more can come and every child of this session has ended, or the host has
    /// stopped. What the journal tells of other sessions is not waited for ([`View::is_history`]).
    pub async fn idle(&self) -> Arc<View> {
        self.wait_until(View::is_idle).await
    }

    /// Asks a child's source to cancel it.
    ///
    /// # Behavior
    ///
    /// - Asked only if both the child and its adapter have verified that they can be cancelled:
    ///   children that somebody else started cannot be, by default (rule C1).
    /// - Accepted is not ended: only the child's terminal event is (rule C5).
    ///
    /// # Errors
    ///
    /// [`RequestError`] if it was not asked, or did not answer.
    pub async fn cancel(
        &self,
        source: &SourceId,
        child: &ChildId,
        reason: Option<&str>,
    ) -> Result<CancelOutcome, RequestError> {
        let asked = self.authority(source, child, "cancelled")?;
        let answer = asked.adapter.cancel(child, reason);
        let outcome = self
            .bounded("cancel", self.settings.request_timeout, answer)
            .await?;
        if outcome == CancelOutcome::Unsupported {
            tracing::warn!(%source, "the adapter said that it can cancel, and does not");
        }
        Ok(outcome)
    }

    /// Ends a child, if it lives, and starts its next attempt. Returns that attempt's id.
    ///
    /// # Errors
    ///
    /// [`RequestError`] if it was not asked, or could not be done.
    pub async fn restart(
        &self,
        source: &SourceId,
        child: &ChildId,
    ) -> Result<ChildId, RequestError> {
        let asked = self.authority(source, child, "restarted")?;
        // It may have to wait for the grace time of the run that is to end.
        let limit = self.settings.request_timeout + self.settings.shutdown_timeout;
        Ok(self
            .bounded("restart", limit, asked.adapter.restart(child))
            .await?)
    }

    /// The adapter that may act on a child (rule C1).
    fn authority(
        &self,
        source: &SourceId,
        child: &ChildId,
        done: &'static str,
    ) -> Result<&Asked, RequestError> {
        let refused = |why: &str| RequestError::NoAuthority {
            child: child.clone(),
            done,
            why: why.to_owned(),
        };
        let view = self.view();
        let known = view
            .child(source, child)
            .ok_or_else(|| RequestError::UnknownChild {
                source_id: source.clone(),
                child: child.clone(),
            })?;
        if known.state().is_terminal() {
            return Err(RequestError::Ended {
                child: child.clone(),
            });
        }
        if known.readopted {
            return Err(refused(
                "the host that started it died; it is only observed now",
            ));
        }
        let adapter = known
            .adapter
            .as_ref()
            .and_then(|adapter| self.by_source.get(adapter));
        let asked = adapter.and_then(|at| self.adapters.get(*at));
        let asked =
            asked.ok_or_else(|| refused("no adapter of this host speaks for its source"))?;
        if !asked.cancels {
            return Err(refused("its adapter has not verified that it can"));
        }
        if !known.record.capabilities.cancel.is_known() {
            return Err(refused("its source has not verified that it can"));
        }
        Ok(asked)
    }

    /// What an adapter answers, within a time and without its panics.
    async fn bounded<T>(
        &self,
        what: &str,
        limit: Duration,
        answer: impl Future<Output = Result<T, AdapterError>>,
    ) -> Result<T, AdapterError> {
        match timeout(limit, AssertUnwindSafe(answer).catch_unwind()).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => {
                let said = format!("the adapter panicked in {what}: {}", panic_message(&*panic));
                Err(AdapterError::new(AdapterErrorKind::Internal, said))
            }
            Err(_) => Err(AdapterError::new(
                AdapterErrorKind::TimedOut,
                "the adapter did not answer",
            )
            .with_context("asked", what)
            .with_context("waited", format!("{limit:?}"))),
        }
    }

    /// Ends everything in order: adapters stop what they started, what they still tell is shown and
    /// journaled, and the changes end.
    ///
    /// # Behavior
    ///
    /// - Takes at most [`HostSettings::shutdown_timeout`]. Adapters of what others started leave it
    ///   alone.
    /// - May be called again meanwhile with [`Urgency::Now`], which kills what is still being waited
    ///   for.
    ///
    /// # Errors
    ///
    /// [`ShutdownError`] if something could not be stopped, or is not in the journal.
    pub async fn shutdown(&self, urgency: Urgency) -> Result<(), ShutdownError> {
        let until = Instant::now() + self.settings.shutdown_timeout;
        let mut failures: Vec<String> = join_all(self.adapters.iter().map(|asked| async move {
            let left = until.saturating_duration_since(Instant::now());
            let closed = self
                .bounded("close", left, asked.adapter.close(urgency))
                .await;
            closed
                .err()
                .map(|error| format!("{}: {error}", asked.source))
        }))
        .await
        .into_iter()
        .flatten()
        .collect();
        let readopting = match &*self.stage() {
            Stage::Running(running) => running.readopting.clone(),
            _ => Vec::new(),
        };
        for adapter in readopting {
            let left = until.saturating_duration_since(Instant::now());
            let closed = self.bounded("close", left, adapter.close(urgency)).await;
            failures.extend(closed.err().map(|error| error.to_string()));
        }
        let stage = std::mem::replace(&mut *self.stage(), Stage::Ending);
        if let Stage::Running(mut running) = stage {
            let ended = async { while running.sessions.join_next().await.is_some() {} };
            if timeout_at(until, ended).await.is_err() {
                failures.push(format!(
                    "{} adapters did not end their streams",
                    running.sessions.len()
                ));
                running.sessions.abort_all();
            }
            // However late it is, what was told is written down.
            let left = until
                .saturating_duration_since(Instant::now())
                .max(Duration::from_secs(1));
            running.stop.send_replace(Some(left));
            match (&mut running.engine.0).await {
                Ok(Ok(())) => (),
                Ok(Err(error)) => failures.extend(error.failures),
                Err(error) => failures.push(format!("the host itself failed: {error}")),
            }
            *self.stage() = Stage::Ended;
        } else {
            let (before, after) = match stage {
                Stage::Ending | Stage::Ended => (stage, None),
                // Never started, or not yet: there is nothing to end.
                _ => (Stage::Ended, Some(())),
            };
            *self.stage() = before;
            if after.is_some() {
                self.hub.close();
                self.board
                    .update(self.settings.clock.now(), View::set_stopped);
            }
            // Another call ends it.
            let stopped = self.wait_until(View::is_stopped);
            let _ = timeout_at(until, stopped).await;
        }
        if failures.is_empty() {
            Ok(())
        } else {
            Err(ShutdownError { failures })
        }
    }
}
