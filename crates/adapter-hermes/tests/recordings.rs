//! Every recording of a real gateway, played through the adapter.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a helper of tests may panic as tests may

mod support;

use std::fmt::Write;

use futures_util::StreamExt;
use headcount_adapter_hermes::replay;
use headcount_contract::{ChildLifecycleAdapter, Discontinuity, Gap, Signal, SourceId, Timestamp};
use headcount_projector::{Change, Changes, Effect, Projector, Record, Settings, Verdict};
use support::live::source;
use support::{Transcript, fixtures, recordings};

const BEGAN: Timestamp = Timestamp::UNIX_EPOCH;

async fn play(name: &str) -> Vec<Signal> {
    let adapter = replay::adapter_at(&fixtures().join(name), source(), || BEGAN).unwrap();
    let signals: Vec<_> = adapter.subscribe().unwrap().collect().await;
    assert!(!signals.is_empty(), "{name}");
    signals
}

/// What a host makes of it: the projection of each signal that the signal itself does not tell, in
/// its place, and each child in the end.
struct Host {
    projector: Projector,
    source: SourceId,
    transcript: Transcript,
}

impl Host {
    fn account_of(signals: &[Signal]) -> String {
        let mut host = Self {
            projector: Projector::new(Settings::default()),
            source: source(),
            transcript: Transcript::beginning_at(signals),
        };
        for signal in signals {
            host.transcript.signal(signal);
            host.take(signal);
        }
        let ends = host.ends();
        format!("{}\nprojected:\n{ends}", host.transcript.finish())
    }

    fn take(&mut self, signal: &Signal) {
        let mut effects = Vec::new();
        match signal {
            Signal::Event(event) => {
                let verdict = self
                    .projector
                    .apply(event, event.observed_at(), &mut effects);
                if verdict != Verdict::Accepted {
                    self.transcript.line(&format!("   => {verdict:?}"));
                }
            }
            Signal::Snapshot(snapshot) => {
                let at = snapshot.observed_at();
                self.projector.apply_snapshot(snapshot, at, &mut effects);
            }
            Signal::Discontinuity(Discontinuity {
                gap: Gap::Possible, ..
            }) => self
                .projector
                .source_unproven(&self.source, BEGAN, &mut effects),
            _ => {}
        }
        let told = matches!(signal, Signal::Event(_));
        for effect in &effects {
            match effect {
                Effect::Changed(change) => self.changed(change, told),
                Effect::SourceChanged { change, .. } => {
                    self.transcript.line(&format!("   => all {change:?}"));
                }
                Effect::Intent(intent) => self.transcript.line(&format!("   => {intent:?}")),
                Effect::Audit(entry) => {
                    let whose = entry.child.as_ref().map_or("all", |child| child.as_str());
                    self.transcript
                        .line(&format!("   => {whose} {:?}", entry.kind));
                }
                Effect::Derived(event) => {
                    self.transcript.line(&format!("   => {}", event.to_json()));
                }
                _ => {}
            }
        }
    }

    /// A mark that changed, or a state that no event told.
    fn changed(&mut self, change: &Change, told: bool) {
        let marks = Changes::STALE | Changes::UNPROVEN | Changes::GAP;
        if !change.what.intersects(marks) && (told || !change.what.contains(Changes::STATE)) {
            return;
        }
        let record = self.projector.record_at(change.child).unwrap();
        self.transcript
            .line(&format!("   => {} {}", record.child_id, standing(&record)));
    }

    fn ends(&self) -> String {
        let mut text = String::new();
        for record in self.projector.records() {
            let parent = record.lineage.as_ref().and_then(|lineage| lineage.parent());
            let parent = parent
                .map(|parent| format!(" under {parent}"))
                .unwrap_or_default();
            writeln!(
                text,
                "{}{parent}: {}, history {}, {}",
                record.child_id,
                standing(&record),
                record.history.as_str(),
                record.first_details.get("goal").unwrap_or_default(),
            )
            .unwrap();
        }
        text
    }
}

/// The state of a child and its marks.
fn standing(record: &Record) -> String {
    let suspect = record
        .terminal
        .as_ref()
        .is_some_and(|t| t.details.get("outcomeSuspect").is_some());
    let marks = [
        ("suspect", suspect),
        ("stale", record.stale),
        ("unproven", record.unproven),
        ("gap", record.gap_detected),
    ];
    let mut text = record.state.to_string();
    for (mark, _) in marks.iter().filter(|(_, is_set)| *is_set) {
        write!(text, ", {mark}").unwrap();
    }
    text
}

#[tokio::test]
async fn each_is_translated_as_the_page_says() {
    for name in recordings() {
        let signals = play(&name).await;
        let transcript = Host::account_of(&signals);
        let flat = name.trim_end_matches(".jsonl").replace('/', "__");
        insta::assert_snapshot!(flat, transcript);
    }
}
