//! Properties of the translation.

use std::path::Path;

use headcount_contract::{
    Capability, ChildState, LifecycleEvent, Sequence, Signal, Snapshot, SourceEpoch, SourceId,
    Timestamp,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::Translator;
use crate::frame::{Frame, FrameDecoder, classify};

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn translator() -> Translator {
    let source = SourceId::new("hermes").unwrap();
    Translator::new(source, SourceEpoch::new("e").unwrap(), Sequence::ZERO)
}

fn frame(value: Value) -> Frame {
    let Value::Object(object) = value else {
        panic!()
    };
    classify(object).unwrap()
}

/// Everything that comes of the frames in these pieces of a stream.
fn translate<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut decoder, mut translator) = (FrameDecoder::new(1 << 20), translator());
    let mut told = Vec::new();
    for piece in pieces {
        let mut read = Vec::new();
        decoder.push(piece, &mut read);
        for decoded in read {
            match decoded.unwrap() {
                Frame::Response { outcome, .. } => {
                    if let Some(listing) = outcome
                        .ok()
                        .and_then(|r| translator.status(&r, translator.met(), AT))
                    {
                        translator.volunteer(Signal::Snapshot(listing.snapshot));
                    }
                }
                frame => translator.frame(frame, AT),
            }
        }
        let signals = translator.take().signals;
        told.extend(signals.iter().map(|signal| match signal {
            Signal::Event(event) => event.to_json(),
            Signal::Snapshot(snapshot) => snapshot.to_json(),
            other => format!("{other:?}"),
        }));
    }
    told
}

fn recording(name: &str) -> Vec<u8> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    std::fs::read(fixtures.join(name)).unwrap()
}

const RECORDINGS: [&str; 4] = [
    "v0.19.0/06_nested_depth2.jsonl",
    "v0.19.0/02_interrupt_one.jsonl",
    "v0.22.2-iot/09_sigterm_midrun.jsonl",
    "v0.22.2-iot/14_tool_progress_off.jsonl",
];

fn event(session: &str, kind: &str, child: usize) -> Value {
    let kind = format!("subagent.{kind}");
    json!({"jsonrpc": "2.0", "method": "event", "params": {"type": kind, "session_id": session,
        "payload": {"subagent_id": format!("sa-{child}"), "status": "interrupted"}}})
}

fn states(translator: &Translator, session: &str) -> Vec<(String, ChildState)> {
    let children = translator.children.values();
    let own = children.filter(|child| child.session.as_deref() == Some(session));
    own.map(|child| (child.id().to_string(), child.state))
        .collect()
}

#[test]
fn history_is_known_only_if_nothing_lies_before_the_replay() {
    let check = |seen: &[u64], after: u64, truncated: bool, expected: Capability| {
        let mut translator = translator();
        for seq in seen {
            let mut event = event("s", "tool", 0);
            event["params"]["seq"] = json!(seq);
            translator.frame(frame(event), AT);
        }
        let answer = json!({"events": [], "truncated": truncated});
        translator.replayed("s", after, Some(&answer), AT);
        assert_eq!(
            translator.sessions["s"].history, expected,
            "{seen:?}, {after}"
        );
    };
    check(&[4, 7], 0, false, Capability::Known);
    check(&[1, 2, 3], 3, false, Capability::Known);
    check(&[1, 2, 3], 2, false, Capability::Known);
    check(&[1, 2, 3], 3, true, Capability::Unknown);
    check(&[4, 7], 7, false, Capability::Unknown);
    check(&[1, 3], 3, false, Capability::Unknown);
}

const KINDS: [&str; 5] = ["start", "tool", "thinking", "complete", "spawn_requested"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_recording_may_be_cut_anywhere(
        which in 0..RECORDINGS.len(),
        cuts in proptest::collection::vec(0.0_f64..1.0, 0..40),
    ) {
        let bytes = recording(RECORDINGS[which]);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
        let mut cuts: Vec<_> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
        cuts.sort_unstable();
        cuts.push(bytes.len());
        let mut from = 0;
        let pieces: Vec<_> = cuts
            .iter()
            .map(|cut| &bytes[std::mem::replace(&mut from, *cut)..*cut])
            .collect();
        let whole = translate([&bytes[..]]);
        prop_assert!(whole.len() > 10);
        prop_assert_eq!(translate(pieces), whole);
    }

    #[test]
    fn no_event_of_one_session_moves_a_child_of_another(
        events in proptest::collection::vec((any::<bool>(), 0..KINDS.len(), 0..4_usize), 1..80),
    ) {
        let mut translator = translator();
        for (first, kind, child) in events {
            let (session, other) = if first { ("one", "two") } else { ("two", "one") };
            let before = states(&translator, other);
            translator.frame(frame(event(session, KINDS[kind], child)), AT);
            prop_assert_eq!(states(&translator, other), before);
        }
    }

    #[test]
    fn an_incomplete_snapshot_never_omits(
        live in proptest::collection::btree_set(0..12_usize, 0..8),
        listed in proptest::collection::btree_set(0..12_usize, 0..8),
        complete in prop_oneof![Just(json!(false)), Just(json!("true")), Just(Value::Null)],
    ) {
        let mut translator = translator();
        for child in &live {
            translator.frame(frame(event("s", "start", *child)), AT);
        }
        let before = states(&translator, "s");
        translator.take();
        let entry = |child: &usize| json!({"subagent_id": format!("sa-{child}"), "status": "running"});
        let listing: Vec<_> = listed.iter().map(entry).collect();
        translator.frame(frame(json!({"delegations": listing, "complete": complete})), AT);
        let signals = translator.take().signals;
        let partial = matches!(signals.last(), Some(Signal::Snapshot(Snapshot::Partial(_))));
        prop_assert!(partial);
        let after = states(&translator, "s");
        prop_assert!(before.iter().all(|child| after.contains(child)));
    }

    #[test]
    fn nothing_follows_an_end_and_no_position_is_missing(
        events in proptest::collection::vec((0..KINDS.len(), 0..3_usize), 1..80),
    ) {
        let mut translator = translator();
        for (kind, child) in events {
            translator.frame(frame(event("s", KINDS[kind], child)), AT);
        }
        let mut told = std::collections::BTreeMap::<String, Vec<_>>::new();
        for signal in translator.take().signals {
            let Signal::Event(event) = signal else { continue };
            told.entry(event.child_id().to_string()).or_default().push(event);
        }
        for events in told.values() {
            let before = &events[..events.len() - 1];
            prop_assert!(before.iter().all(|e| !e.state().is_some_and(ChildState::is_terminal)));
            let positions: Vec<_> = events.iter().filter_map(LifecycleEvent::sequence).map(Sequence::get).collect();
            prop_assert_eq!(positions, (0..events.len() as u64).collect::<Vec<_>>());
        }
    }
}
