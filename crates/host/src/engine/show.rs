//! Showing what a round brought: the view first, then the stream of changes.

use std::sync::Arc;

use headcount_contract::{Observation, Usage};
use headcount_projector::Record;

use super::round::Round;
use super::{Engine, Key};
use crate::journal::Report;
use crate::view::by_name;
use crate::{Change, ChildView, OutputLine};

/// What is shown beside a child's record.
#[derive(Debug, Clone, Default)]
pub(crate) struct Beside {
    pub(super) last_line: Option<OutputLine>,
    pub(super) lines: u64,
    pub(super) lines_missed: u64,
    pub(super) usage: Option<Usage>,
    pub(super) stale_unknown: bool,
    pub(super) readopted: bool,
}

impl Engine {
    /// What is shown beside a child; none if it is not on record.
    pub(super) fn beside_of(&mut self, key: &Key) -> Option<&mut Beside> {
        if !self.beside.contains_key(key) {
            self.projector.record(&key.0, &key.1)?;
        }
        Some(self.beside.entry(key.clone()).or_default())
    }

    /// Takes over an observation; whether it is of a child on record.
    pub(super) fn set_beside(&mut self, key: &Key, observation: &Observation) -> bool {
        let Some(beside) = self.beside_of(key) else {
            return false;
        };
        match observation {
            Observation::Output(lines) => {
                beside.lines += lines.len() as u64;
                if let Some(last) = lines.last() {
                    beside.last_line = Some(OutputLine::new(&last));
                }
            }
            Observation::OutputMissed(lines) => beside.lines_missed += lines,
            Observation::Usage(usage) => beside.usage = Some(*usage),
            _ => (),
        }
        true
    }

    /// Shows a round: one step for whoever looks, and then the changes in order.
    pub(super) fn show(&mut self, round: &mut Round) {
        for key in &round.forgotten {
            round.touched.remove(key);
            self.beside.remove(key);
        }
        let mut children = Vec::with_capacity(round.touched.len());
        for key in round.touched.drain() {
            if let Some(record) = self.projector.record(&key.0, &key.1) {
                children.push(Arc::new(self.child_view(&key, record)));
            }
        }
        // What is told to subscribers has one order, whatever the order of hashing.
        children.sort_unstable_by(|a, b| by_name(a, b));
        let adapters: Vec<_> = round
            .adapters
            .drain()
            .map(|at| (at, self.entries[at].view()))
            .collect();
        let report = self.writer.as_ref().map(crate::journal::Writer::report);
        self.stats.changes_missed = self.hub.missed();
        if let Some(report) = &report {
            self.stats.journaled = report.appended;
            self.stats.not_journaled = report.health.lost + report.health.waiting;
            self.stats.journal_latency = report.latency.clone();
        }
        let at = self.now();
        let (stats, forgotten) = (&self.stats, &round.forgotten);
        let journal = self.board.update(at, |view| {
            for child in &children {
                view.put(child.clone());
            }
            for (source, child) in forgotten {
                view.remove(source, child);
            }
            for (at, adapter) in &adapters {
                if let Some(shown) = view.adapter_mut(*at) {
                    *shown = adapter.clone();
                }
            }
            view.stats_mut().clone_from(stats);
            report.and_then(|report| view.set_journal(report.health))
        });
        if self.hub.is_deserted() {
            return;
        }
        let mut changes = std::mem::take(&mut round.changes);
        changes.extend(children.into_iter().map(Change::Child));
        changes.extend(
            round
                .forgotten
                .drain(..)
                .map(|(source, child)| Change::Forgotten { source, child }),
        );
        changes.extend(adapters.into_iter().map(|(_, adapter)| Change::Health {
            source: adapter.source,
            health: adapter.health,
        }));
        changes.extend(journal.map(Change::Journal));
        self.hub.publish(changes);
    }

    fn child_view(&self, key: &Key, record: Record) -> ChildView {
        let beside = self.beside.get(key).cloned().unwrap_or_default();
        let ended = record.state.is_terminal();
        let adapter = self
            .owners
            .get(&key.0)
            .or_else(|| self.carriers.get(&key.0));
        let adapter = adapter.map(|at| &self.entries[*at]);
        let cancellable = !ended
            && record.capabilities.cancel.is_known()
            && adapter.is_some_and(|adapter| adapter.capabilities.cancel.is_known());
        ChildView {
            last_line: beside.last_line,
            lines: beside.lines,
            lines_missed: beside.lines_missed,
            usage: if ended { None } else { beside.usage },
            stale_unknown: beside.stale_unknown && !ended,
            readopted: beside.readopted,
            adapter: adapter.map(|adapter| adapter.source.clone()),
            cancellable,
            record: Arc::new(record),
        }
    }

    /// Shows how the journal ended.
    pub(super) fn show_journal(&mut self, report: &Report) {
        self.stats.journaled = report.appended;
        self.stats.not_journaled = report.health.lost + report.health.waiting;
        self.stats.journal_latency = report.latency.clone();
        let (at, stats) = (self.now(), &self.stats);
        let changed = self.board.update(at, |view| {
            view.stats_mut().clone_from(stats);
            view.set_journal(report.health.clone())
        });
        self.hub
            .publish(changed.map(Change::Journal).into_iter().collect());
    }
}
