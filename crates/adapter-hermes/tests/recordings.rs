//! Every recording of a real gateway, played through the adapter.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a helper of tests may panic as tests may

mod support;

use futures_util::StreamExt;
use headcount_adapter_hermes::replay;
use headcount_contract::{ChildLifecycleAdapter, Signal, SourceId, Timestamp};
use support::{Transcript, fixtures, recordings};

const BEGAN: Timestamp = Timestamp::UNIX_EPOCH;

async fn play(name: &str) -> Vec<Signal> {
    let source = SourceId::new("hermes").unwrap();
    let adapter = replay::adapter_at(&fixtures().join(name), source, || BEGAN).unwrap();
    let signals: Vec<_> = adapter.subscribe().unwrap().collect().await;
    assert!(!signals.is_empty(), "{name}");
    signals
}

#[tokio::test]
async fn each_is_translated_as_the_page_says() {
    for name in recordings() {
        let transcript = Transcript::of(&play(&name).await);
        let flat = name.trim_end_matches(".jsonl").replace('/', "__");
        insta::assert_snapshot!(flat, transcript);
    }
}
