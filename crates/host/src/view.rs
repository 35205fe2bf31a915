//! What is shown: a consistent snapshot of all records, cheap to take.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headcount_contract::{
    Capabilities, ChildId, ChildState, Health, LogLine, OutputStream, SequenceScope, SourceEpoch,
    SourceId, SourceRole, Timestamp, Usage,
};
use headcount_projector::Record;
use tokio::sync::watch;

use crate::Stats;

/// Everything the host knows at one moment. Does not change; ask the host for a newer one.
///
/// Taking one costs the same however many children there are, and the host goes on meanwhile.
#[derive(Debug, Clone)]
pub struct View {
    shards: Vec<Arc<Shard>>,
    hasher: RandomState,
    adapters: Arc<Vec<AdapterView>>,
    journal: Option<Arc<JournalHealth>>,
    stats: Arc<Stats>,
    at: Timestamp,
    version: u64,
    stopped: bool,
}

/// One child, with what is shown beside its record.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ChildView {
    /// What the projection says of it.
    pub record: Arc<Record>,
    /// Its last output line.
    pub last_line: Option<OutputLine>,
    /// How many output lines were seen.
    pub lines: u64,
    /// How many output lines were not kept.
    pub lines_missed: u64,
    /// What it used of the machine when last looked at.
    pub usage: Option<Usage>,
    /// Complete snapshots keep omitting it, yet it never ended (rule N5).
    pub stale_unknown: bool,
    /// The host that started it died; it is the same process still, observed from outside.
    pub readopted: bool,
    /// The adapter of this host that speaks of it, by that adapter's source.
    pub adapter: Option<SourceId>,
    /// Whether it may be cancelled: it lives, and both it and its adapter have verified it.
    pub cancellable: bool,
}

/// One line of a child's output.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutputLine {
    /// Where it wrote it.
    pub stream: OutputStream,
    /// The line, without its end. May hold escape sequences.
    pub text: Arc<str>,
    /// When.
    pub timestamp: Timestamp,
    /// Its number in its stream.
    pub number: u64,
    /// It was longer than the cap.
    pub truncated: bool,
}

impl OutputLine {
    pub(crate) fn new(line: &LogLine<'_>) -> Self {
        Self {
            stream: line.stream,
            text: line.text.into(),
            timestamp: line.timestamp,
            number: line.number,
            truncated: line.truncated,
        }
    }
}

/// One adapter of the host.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AdapterView {
    /// Its source.
    pub source: SourceId,
    /// The source's present life.
    pub epoch: SourceEpoch,
    /// Its kind.
    pub kind: Arc<str>,
    /// Who provides it.
    pub provided_by: Arc<str>,
    /// Whose events it carries.
    pub role: SourceRole,
    /// Over which events it counts.
    pub scope: SequenceScope,
    /// What it has verified that it can do.
    pub capabilities: Capabilities,
    /// How it is doing, by its own account and the host's.
    pub health: Arc<Health>,
    /// Nothing more can come from it.
    pub finished: bool,
    /// Its events are held back until a snapshot has been taken (rule N8).
    pub holding: bool,
    /// It observes on what an earlier life of the host had started; the source's own adapter, if
    /// there is one, is another.
    pub readopts: bool,
}

/// How the journal is doing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct JournalHealth {
    /// Whether events are being appended.
    pub status: JournalStatus,
    /// Why not, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Events that wait to be appended.
    pub waiting: u64,
    /// Events that were given up.
    pub lost: u64,
}

/// Whether events are being appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum JournalStatus {
    /// They are.
    Appending,
    /// They wait: the journal does not answer now; appending is tried again.
    Stalled,
    /// They are not, until somebody repairs it.
    Blocked,
}

impl View {
    /// All children, in no order.
    pub fn children(&self) -> impl Iterator<Item = &Arc<ChildView>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }

    /// All children, by source and id.
    pub fn sorted(&self) -> Vec<&Arc<ChildView>> {
        let mut children: Vec<_> = self.children().collect();
        children.sort_unstable_by(|a, b| by_name(a, b));
        children
    }

    /// How many children there are.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.shards.iter().all(|shard| shard.is_empty())
    }

    /// One child.
    pub fn child(&self, source: &SourceId, child: &ChildId) -> Option<&Arc<ChildView>> {
        let key = (source.clone(), child.clone());
        self.shards[shard_of(&self.hasher, &key)].get(&key)
    }

    /// The adapters, in the order in which the host got them.
    pub fn adapters(&self) -> &[AdapterView] {
        &self.adapters
    }

    /// How the journal is doing, if there is one.
    pub fn journal(&self) -> Option<&JournalHealth> {
        self.journal.as_deref()
    }

    /// Figures of the host itself.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// When the view last changed.
    pub fn at(&self) -> Timestamp {
        self.at
    }

    /// Rises with every change.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether the host has stopped: this is the last view.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether nothing more can come: every adapter has finished. One that only observes on what an
    /// earlier life of the host had started brings no more children.
    pub fn is_finished(&self) -> bool {
        let others = self.adapters.iter().filter(|adapter| !adapter.readopts);
        others.into_iter().all(|adapter| adapter.finished)
    }

    /// Whether nothing more can come, and every child of this session has ended.
    pub fn is_idle(&self) -> bool {
        let over = |child: &Arc<ChildView>| child.state().is_terminal() || self.is_history(child);
        self.is_finished() && self.children().all(over)
    }

    /// Whether a child is of another session: the journal tells of it, and no adapter of this host
    /// has started it or observes it but as what an earlier life of the host left behind.
    pub fn is_history(&self, child: &ChildView) -> bool {
        let speaks = |adapter: &&AdapterView| {
            !adapter.readopts && Some(&adapter.source) == child.adapter.as_ref()
        };
        match self.adapters.iter().find(speaks) {
            None => true,
            Some(_) if child.readopted => true,
            Some(adapter) => {
                let first = &child.record.provenance.first;
                adapter.role == SourceRole::Own && first.epoch.as_ref() != Some(&adapter.epoch)
            }
        }
    }
}

impl ChildView {
    /// What it is doing.
    pub fn state(&self) -> ChildState {
        self.record.state
    }
}

/// The order of children in all that is shown: by source and id, compared by bytes.
pub(crate) fn by_name(a: &ChildView, b: &ChildView) -> std::cmp::Ordering {
    let (a, b) = (&*a.record, &*b.record);
    (&a.source, &a.child_id).cmp(&(&b.source, &b.child_id))
}

type Key = (SourceId, ChildId);
type Shard = HashMap<Key, Arc<ChildView>>;

/// So many that copying the one a change falls into costs little, and copying the list of them too.
const SHARDS: usize = 256;

fn shard_of(hasher: &RandomState, key: &Key) -> usize {
    #[allow(clippy::cast_possible_truncation)] // the low bits are as good as any
    let hash = hasher.hash_one(key) as usize;
    hash % SHARDS
}

/// Where the present view is kept and changed.
#[derive(Debug)]
pub(crate) struct Board {
    view: Mutex<View>,
    version: watch::Sender<u64>,
}

impl Board {
    pub(crate) fn new(at: Timestamp) -> Self {
        let view = View {
            shards: (0..SHARDS).map(|_| Arc::default()).collect(),
            hasher: RandomState::new(),
            adapters: Arc::default(),
            journal: None,
            stats: Arc::default(),
            at,
            version: 0,
            stopped: false,
        };
        Self {
            view: Mutex::new(view),
            version: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, View> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The present view.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::new(self.lock().clone())
    }

    /// Told whenever the view has changed.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    /// The children of a source that live.
    pub(crate) fn live_children_of(&self, source: &SourceId) -> Vec<ChildId> {
        let view = self.view();
        view.children()
            .filter(|child| child.record.source == *source && !child.state().is_terminal())
            .map(|child| child.record.child_id.clone())
            .collect()
    }

    /// Changes the view in one step: nobody sees half of it.
    pub(crate) fn update<T>(&self, at: Timestamp, change: impl FnOnce(&mut View) -> T) -> T {
        let (done, version) = {
            let mut view = self.lock();
            let done = change(&mut view);
            view.at = at;
            view.version += 1;
            (done, view.version)
        };
        self.version.send_replace(version);
        done
    }
}

impl View {
    pub(crate) fn put(&mut self, child: Arc<ChildView>) {
        let key = (child.record.source.clone(), child.record.child_id.clone());
        let shard = shard_of(&self.hasher, &key);
        Arc::make_mut(&mut self.shards[shard]).insert(key, child);
    }

    pub(crate) fn remove(&mut self, source: &SourceId, child: &ChildId) {
        let key = (source.clone(), child.clone());
        let shard = shard_of(&self.hasher, &key);
        Arc::make_mut(&mut self.shards[shard]).remove(&key);
    }

    pub(crate) fn set_adapters(&mut self, adapters: Vec<AdapterView>) {
        self.adapters = Arc::new(adapters);
    }

    pub(crate) fn adapter_mut(&mut self, index: usize) -> Option<&mut AdapterView> {
        Arc::make_mut(&mut self.adapters).get_mut(index)
    }

    /// Shows how the journal is doing; returns it if whoever is told of changes should be.
    pub(crate) fn set_journal(&mut self, health: JournalHealth) -> Option<Arc<JournalHealth>> {
        let before = self.journal.as_deref();
        let told = before.map(|before| (before.status, &before.message));
        let tell = told != Some((health.status, &health.message));
        let health = Arc::new(health);
        self.journal = Some(health.clone());
        tell.then_some(health)
    }

    pub(crate) fn set_stopped(&mut self) {
        self.stopped = true;
    }

    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        Arc::make_mut(&mut self.stats)
    }
}
