//! What the tests of this crate share.
// Each test binary uses its own part of it; a helper of tests may panic as tests may.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

pub mod live;

use std::collections::HashMap;
use std::fmt::Write;
use std::path::PathBuf;

use headcount_contract::{
    Capabilities, ChildId, EventKind, LifecycleEvent, Signal, Snapshot, Timestamp,
};

pub fn fixtures() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// Every recording, by its path below the fixtures.
pub fn recordings() -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![fixtures()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "jsonl") {
                let name = path.strip_prefix(fixtures()).unwrap();
                found.push(name.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    assert!(found.len() > 40, "the recordings are there");
    found
}

/// A readable account of signals: time since the first event, child, what happened, details.
pub struct Transcript {
    began: Timestamp,
    text: String,
    capabilities: HashMap<ChildId, Capabilities>,
    last: String,
    repeated: usize,
}

impl Transcript {
    pub fn of(signals: &[Signal]) -> String {
        let mut transcript = Self::beginning_at(signals);
        for signal in signals {
            transcript.signal(signal);
        }
        transcript.finish()
    }

    /// One that tells times after the first event of these.
    pub fn beginning_at(signals: &[Signal]) -> Self {
        let began = signals.iter().find_map(|signal| match signal {
            Signal::Event(event) => Some(event.observed_at()),
            _ => None,
        });
        Self {
            began: began.unwrap_or(Timestamp::UNIX_EPOCH),
            text: String::new(),
            capabilities: HashMap::new(),
            last: String::new(),
            repeated: 0,
        }
    }

    pub fn signal(&mut self, signal: &Signal) {
        match signal {
            Signal::Event(event) => self.event(event),
            Signal::Snapshot(snapshot) => self.snapshot(snapshot),
            Signal::Discontinuity(d) => self.line(&format!("-- {:?}, gap {:?}", d.cause, d.gap)),
            Signal::Health(health) => self.line(&format!(
                "-- health {} {:?} {:?}",
                health.status, health.message, health.limitations
            )),
            other => self.line(&format!("{other:?}")),
        }
    }

    pub fn finish(mut self) -> String {
        self.line("");
        self.text
    }

    fn event(&mut self, event: &LifecycleEvent) {
        let after = event.observed_at().saturating_since(self.began);
        let after = after.as_secs_f64();
        let child = event.child_id();
        let mut what = event.kind().as_str().to_owned();
        if let Some(state) = event.state().filter(|_| event.kind() != EventKind::Created) {
            write!(what, " {state}").unwrap();
        }
        if let Some(activity) = event.activity() {
            write!(what, " {:?}", activity.as_str()).unwrap();
        }
        if event.kind() == EventKind::Heartbeat && event.details().is_empty() {
            // Runs of signs of life are told once.
            return self.line(&format!("{child} lives"));
        }
        let mut line = format!("{after:7.3} {child} {what}");
        if let Some(parent) = event.lineage().parent()
            && event.kind() == EventKind::Created
        {
            write!(line, " under {parent} root {}", event.lineage().root()).unwrap();
        }
        if !event.details().is_empty() {
            write!(line, " {}", event.details().as_json()).unwrap();
        }
        let now = event.capabilities();
        if self.capabilities.insert(child.clone(), now) != Some(now) {
            let known = [
                ("history", now.history),
                ("heartbeat", now.heartbeat),
                ("snapshot", now.snapshot),
                ("cancel", now.cancel),
                ("terminalCause", now.terminal_cause),
            ];
            let known: Vec<_> = known
                .iter()
                .filter(|(_, c)| c.is_known())
                .map(|(n, _)| *n)
                .collect();
            write!(line, " | known: {}", known.join(" ")).unwrap();
        }
        self.line(&line);
    }

    fn snapshot(&mut self, snapshot: &Snapshot) {
        let kind = match snapshot {
            Snapshot::Complete(_) => "complete",
            Snapshot::Partial(_) => "partial",
        };
        let children: Vec<_> = snapshot
            .children()
            .iter()
            .map(|child| format!("{} {}", child.id(), child.state()))
            .collect();
        self.line(&format!("== {kind}: [{}]", children.join(", ")));
    }

    pub fn line(&mut self, line: &str) {
        if line == self.last {
            self.repeated += 1;
            return;
        }
        if self.repeated > 0 {
            writeln!(self.text, "        (and {} times more)", self.repeated).unwrap();
        }
        self.repeated = 0;
        line.clone_into(&mut self.last);
        if !line.is_empty() {
            writeln!(self.text, "{line}").unwrap();
        }
    }
}
