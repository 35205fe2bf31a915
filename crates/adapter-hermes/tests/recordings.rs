//! Every recording of a real gateway, played through the adapter.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a helper of tests may panic as tests may

mod support;

use std::fmt::Write;

use futures_util::StreamExt;
use headcount_adapter_hermes::replay;
use headcount_contract::{ChildLifecycleAdapter, Signal, SourceId, Timestamp};
use headcount_projector::{Effect, Projector, Settings, Verdict};
use support::{Transcript, fixtures, recordings};

const BEGAN: Timestamp = Timestamp::UNIX_EPOCH;

async fn play(name: &str) -> Vec<Signal> {
    let source = SourceId::new("hermes").unwrap();
    let adapter = replay::adapter_at(&fixtures().join(name), source, || BEGAN).unwrap();
    let signals: Vec<_> = adapter.subscribe().unwrap().collect().await;
    assert!(!signals.is_empty(), "{name}");
    signals
}

/// What a host comes to show of it: what the projector makes of each signal that is not simply
/// taken, and each child in the end.
fn projected(signals: &[Signal]) -> String {
    let mut projector = Projector::new(Settings::default());
    let mut effects = Vec::new();
    let mut text = String::from("\nprojected:\n");
    for signal in signals {
        match signal {
            Signal::Event(event) => {
                let verdict = projector.apply(event, event.observed_at(), &mut effects);
                if verdict != Verdict::Accepted {
                    writeln!(
                        text,
                        "{} {}: {verdict:?}",
                        event.child_id(),
                        event.kind().as_str()
                    )
                    .unwrap();
                }
            }
            Signal::Snapshot(snapshot) => {
                projector.apply_snapshot(snapshot, snapshot.observed_at(), &mut effects);
            }
            _ => {}
        }
    }
    for effect in &effects {
        if let Effect::Intent(intent) = effect {
            writeln!(text, "intent: {intent:?}").unwrap();
        }
    }
    for record in projector.records() {
        let parent = record.lineage.as_ref().and_then(|lineage| lineage.parent());
        let parent = parent
            .map(|parent| format!(" under {parent}"))
            .unwrap_or_default();
        let suspect = record
            .terminal
            .as_ref()
            .and_then(|t| t.details.get("outcomeSuspect"));
        let suspect = if suspect.is_some() { ", suspect" } else { "" };
        let gap = if record.gap_detected { ", gap" } else { "" };
        writeln!(
            text,
            "{}{parent}: {}{suspect}{gap}, history {}, {}",
            record.child_id,
            record.state,
            record.history.as_str(),
            record.first_details.get("goal").unwrap_or_default(),
        )
        .unwrap();
    }
    text
}

#[tokio::test]
async fn each_is_translated_as_the_page_says() {
    for name in recordings() {
        let signals = play(&name).await;
        let transcript = format!("{}{}", Transcript::of(&signals), projected(&signals));
        let flat = name.trim_end_matches(".jsonl").replace('/', "__");
        insta::assert_snapshot!(flat, transcript);
    }
}
