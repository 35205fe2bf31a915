//! One adapter's snapshots: at most one in flight, requests meanwhile share the next (rule N9).

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use headcount_contract::{ChildId, ChildLifecycleAdapter, Snapshot, SnapshotReason, SourceId};
use tokio::time::{Instant, sleep_until, timeout};

use super::Request;
use super::guard::said;
use crate::HostSettings;

/// Takes snapshots of one adapter.
pub(super) struct Snapshots {
    adapter: Arc<dyn ChildLifecycleAdapter>,
    settings: Arc<HostSettings>,
    wanted: Option<SnapshotReason>,
    not_before: Option<Instant>,
    to_find: Vec<(SourceId, ChildId)>,
    flight: Option<Flight>,
}

struct Flight {
    result: BoxFuture<'static, Result<Vec<Snapshot>, String>>,
    searched: Vec<(SourceId, ChildId)>,
}

/// What became of one request.
pub(super) struct Answer {
    pub(super) result: Result<Vec<Snapshot>, String>,
    /// The children that it was to find.
    pub(super) searched: Vec<(SourceId, ChildId)>,
}

impl Snapshots {
    pub(super) fn new(
        adapter: Arc<dyn ChildLifecycleAdapter>,
        settings: Arc<HostSettings>,
    ) -> Self {
        Self {
            adapter,
            settings,
            wanted: None,
            not_before: None,
            to_find: Vec::new(),
            flight: None,
        }
    }

    /// Takes one as soon as none is in flight. A routine one is not taken right after another.
    pub(super) fn want(&mut self, reason: SnapshotReason) {
        let routine = reason == SnapshotReason::Periodic;
        if routine && (self.flight.is_some() || self.wanted.is_some()) {
            return;
        }
        if self.wanted.is_none() || !routine {
            self.wanted = Some(reason);
        }
        self.not_before = None;
    }

    /// Takes one after a pause.
    pub(super) fn want_after(&mut self, reason: SnapshotReason, pause: Duration) {
        self.wanted = Some(reason);
        self.not_before = Some(Instant::now() + pause);
    }

    /// Takes over what the engine asks for.
    pub(super) fn asked(&mut self, request: Request) {
        match request {
            Request::Snapshot(reason) => self.want(reason),
            Request::Find(source, child) => {
                self.to_find.push((source, child));
                if self.wanted.is_none() {
                    self.wanted = Some(SnapshotReason::Periodic);
                    self.not_before = None;
                }
            }
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        self.flight.is_some()
    }

    /// Waits for the next answer; for ever if none is wanted. May be dropped and called again.
    pub(super) async fn answer(&mut self) -> Answer {
        loop {
            if let Some(flight) = &mut self.flight {
                let result = (&mut flight.result).await;
                let searched = self
                    .flight
                    .take()
                    .map(|flight| flight.searched)
                    .unwrap_or_default();
                return Answer { result, searched };
            }
            if self.wanted.is_none() {
                return std::future::pending().await;
            }
            if let Some(at) = self.not_before {
                sleep_until(at).await;
            }
            self.begin();
        }
    }

    fn begin(&mut self) {
        let Some(reason) = self.wanted.take() else {
            return;
        };
        self.not_before = None;
        let (adapter, limit) = (self.adapter.clone(), self.settings.snapshot_timeout);
        let result = async move {
            // A snapshot that panics while it is made, not only while it is waited for, counts too.
            let taken = AssertUnwindSafe(async { adapter.snapshot(reason).await }).catch_unwind();
            match timeout(limit, taken).await {
                Ok(Ok(Ok(snapshots))) => Ok(snapshots),
                Ok(Ok(Err(error))) => Err(error.to_string()),
                Ok(Err(panic)) => Err(said("snapshot", &*panic)),
                Err(_) => Err(format!("it did not answer within {limit:?}")),
            }
        };
        self.flight = Some(Flight {
            result: result.boxed(),
            searched: std::mem::take(&mut self.to_find),
        });
    }
}
