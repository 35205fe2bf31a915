//! What the task does again and again: look for processes, say that they live, read what they use.

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use headcount_contract::{Observation, Signal};

use super::{CHUNK, Session, now};
use crate::process::{self, Watch};
use crate::scan::{Scan, Scanner};
use crate::translate::Key;

impl Session {
    pub(super) fn begin_scan(&mut self) {
        let Some(mut scanner) = self.scanner.take() else {
            return;
        };
        if self.watches.len() < self.config.max_processes {
            scanner.reconsider(self.waiting.drain(..));
        }
        // The table may be long and a PID file's disk slow.
        self.scanning = Some(tokio::task::spawn_blocking(move || {
            let scan = scanner.scan();
            (scanner, scan)
        }));
    }

    pub(super) fn scanned(&mut self, result: Option<(Scanner, Scan)>) {
        self.scanning = None;
        let Some((scanner, scan)) = result else {
            self.report.scan_failed();
            return;
        };
        self.scanner = Some(scanner);
        self.to_adopt.extend(scan.found);
        self.report.count("scans");
        self.report.scanned(scan.trouble);
        if !self.has_adoptions() {
            self.report.publish(self.watches.len());
        }
    }

    /// How long until the next chunk of heartbeats: all have had one after the interval.
    pub(super) fn beat_pause(&self) -> Duration {
        let chunks = self.watches.len().div_ceil(CHUNK).max(1);
        self.config.heartbeat_interval / u32::try_from(chunks).unwrap_or(u32::MAX)
    }

    pub(super) fn beat(&mut self) {
        // A subscriber that has not taken the last ones gains nothing by more.
        if self.outbox.len() > CHUNK {
            self.report.count("heartbeats_skipped");
            return;
        }
        let at = now();
        for key in self.next_after(self.beaten) {
            self.beaten = key;
            if self.watches.get(&key).and_then(Watch::lives) == Some(true)
                && let Some(event) = self.translator.lives(key, at)
            {
                self.say(event);
            }
        }
    }

    pub(super) fn sample(&mut self) {
        // A sample must not stand before the start of its child, nor after its end.
        if self.fanout.subscribers() == 0 || !self.outbox.is_empty() {
            return;
        }
        let some = self.sampling.next_round(CHUNK);
        let number = |key: &Key| self.translator.process(*key).map(|process| process.pid);
        let pids: Vec<_> = some.iter().filter_map(number).collect();
        let read: HashMap<_, _> = process::used(&pids).into_iter().collect();
        let at = std::time::Instant::now();
        for key in some {
            let pid = self.translator.process(key).map(|process| process.pid);
            // What was read is this process's only if it lived until after the reading.
            let lives = self.watches.get(&key).and_then(Watch::lives) == Some(true);
            let (Some(pid), true) = (pid, lives) else {
                self.sampling.unread(key);
                continue;
            };
            let Some(&used) = read.get(&pid) else {
                self.sampling.unread(key);
                continue;
            };
            let children = || process::children(pid).unwrap_or(0);
            if let Some(usage) = self.sampling.read(key, used, at, children)
                && let Some(id) = self.translator.id(key)
            {
                self.fanout
                    .publish(Signal::Observation(id.clone(), Observation::Usage(usage)));
            }
        }
    }

    /// Up to a chunk of living processes after this one, from the first again after the last.
    pub(super) fn next_after(&self, key: Key) -> Vec<Key> {
        let after = self.watches.range((Bound::Excluded(key), Bound::Unbounded));
        let up_to = self.watches.range(..=key);
        after
            .chain(up_to)
            .map(|(&key, _)| key)
            .take(CHUNK)
            .collect()
    }
}
