//! What holds of every input, whatever is sent (proptest).

// A history that cannot be built fails its property.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

#[allow(dead_code)] // shared with the transcripts, which read histories; here they are written
mod support;

use std::collections::HashMap;

use headcount_contract::{ChildId, ChildState, SequenceScope, SourceId};
use headcount_projector::{AuditKind, Effect, Projector, Record, Settings};
use proptest::prelude::*;
use support::{Input, What, input, transcript_of};

/// One line of a hostile history: few names, few numbers, so that they meet often.
fn line() -> impl Strategy<Value = String> {
    let child = prop::sample::select(&["a", "b", "c"][..]);
    let epoch = prop::sample::select(&["e1", "e1", "e1", "e2", "e3"][..]);
    let source = prop::sample::select(&["s", "s", "s", "t"][..]);
    let kind = prop::sample::select(
        &[
            "created",
            "starting",
            "running",
            "waiting",
            "heartbeat",
            "heartbeat",
            "activity",
            "terminal:completed",
            "failed",
            "reconciliation:running",
            "reconciliation",
            "diagnostic:waiting",
        ][..],
    );
    let number =
        prop_oneof![3 => (0..12_u32).prop_map(|n| format!("#{n}")), 1 => Just(String::new())];
    let oddity = prop::sample::select(
        &[
            "",
            "",
            "",
            "",
            "id=x",
            "heartbeat=known",
            "parent=p",
            "root=r",
            "seen=5",
            "seen=900",
            "text=t",
        ][..],
    );
    let event = (child, kind, number, epoch, source, oddity).prop_map(
        |(child, kind, number, epoch, source, oddity)| {
            format!("{child} {kind} {number} ep={epoch} src={source} {oddity}")
        },
    );
    let coverage = prop::sample::select(&["all", "all", "of:a,b,c", "partial"][..]);
    let state = prop::sample::select(&["running", "waiting", "completed", "created"][..]);
    let shown = prop::sample::subsequence(vec!["a", "b", "c"], 0..=3);
    let snapshot = (
        0..20_u32,
        coverage,
        shown,
        state,
        prop::option::of(0..12_u32),
        epoch_of_snapshot(),
    )
        .prop_map(|(id, coverage, shown, state, number, epoch)| {
            let number = number.map_or(String::new(), |n| format!("#{n}"));
            let shown: Vec<_> = shown
                .iter()
                .map(|id| format!("{id}={state}{number}"))
                .collect();
            format!("snapshot p{id} {coverage} {} ep={epoch}", shown.join(" "))
        });
    let fail =
        prop::sample::select(&["a", "b"][..]).prop_map(|child| format!("fail {child} errored"));
    prop_oneof![
        12 => event,
        3 => snapshot,
        1 => fail,
        1 => Just("unproven".to_string()),
        3 => Just("advance".to_string()),
    ]
}

fn epoch_of_snapshot() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["e1", "e1", "e2"][..])
}

/// A hostile history: lines at times that mostly rise.
fn hostile() -> impl Strategy<Value = Vec<Input>> {
    prop::collection::vec((0..400_i64, line()), 0..60).prop_map(|lines| {
        let mut now = 0;
        lines
            .into_iter()
            .map(|(step, line)| {
                now += step - 20; // a host's clock may be set back
                input(&format!("{} {line}", now.max(0))).unwrap()
            })
            .collect()
    })
}

/// Settings under which the bounds are met soon.
fn tight(scope: SequenceScope) -> Settings {
    let mut settings = Settings::default();
    settings.scope = scope;
    settings.gap_ranges = 3;
    settings.conflict_window = 8;
    settings.ended_children = 2;
    settings
}

fn scope() -> impl Strategy<Value = SequenceScope> {
    prop_oneof![Just(SequenceScope::Child), Just(SequenceScope::Epoch)]
}

fn apply_all(projector: &mut Projector, inputs: &[Input]) -> Vec<Effect> {
    let mut effects = Vec::new();
    for input in inputs {
        input.apply(projector, &mut effects);
    }
    effects
}

fn states(projector: &Projector) -> HashMap<(SourceId, ChildId), ChildState> {
    projector
        .records()
        .map(|r| ((r.source, r.child_id), r.state))
        .collect()
}

/// What a view shows, without when it was last proven: duplicates must not change any of it.
fn shown(record: &Record) -> String {
    serde_json::to_string(record).unwrap()
}

fn events_only(inputs: &[Input]) -> Vec<Input> {
    inputs
        .iter()
        .filter(|input| matches!(input.what, What::Event(_)))
        .cloned()
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_same_inputs_give_the_same_transcript(inputs in hostile(), scope in scope()) {
        let run = || transcript_of(&mut Projector::new(tight(scope)), inputs.clone());
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn an_end_never_changes(inputs in hostile(), scope in scope()) {
        let mut projector = Projector::new(tight(scope));
        let mut ended = HashMap::new();
        for input in &inputs {
            input.apply(&mut projector, &mut Vec::new());
            for (name, state) in states(&projector) {
                if let Some(before) = ended.get(&name) {
                    prop_assert_eq!(before, &state, "{:?}", name);
                }
                if state.is_terminal() {
                    ended.insert(name, state);
                }
            }
        }
    }

    #[test]
    fn lost_comes_only_after_stale_and_a_failed_search(inputs in hostile(), scope in scope()) {
        let mut projector = Projector::new(tight(scope));
        let mut looked_for: HashMap<(SourceId, ChildId), bool> = HashMap::new();
        for effect in apply_all(&mut projector, &inputs) {
            let Effect::Audit(entry) = effect else { continue };
            let Some(child) = entry.child else { continue };
            let name = (entry.source, child);
            match entry.kind {
                AuditKind::Stale { .. } => drop(looked_for.insert(name, false)),
                AuditKind::ReconcileFailed { .. } => {
                    *looked_for.get_mut(&name).expect("an attempt follows a stale mark") = true;
                }
                AuditKind::Lost => {
                    prop_assert_eq!(looked_for.remove(&name), Some(true));
                }
                _ => (),
            }
        }
    }

    /// Replaying what was seen, once more in the same order, changes no record: every event is a
    /// duplicate, or of a life that is over, or came too late to matter.
    #[test]
    fn replaying_a_prefix_changes_nothing(
        inputs in hostile(), scope in scope(), cut in 0..60_usize,
    ) {
        let mut settings = tight(scope);
        settings.conflict_window = 4_096;
        settings.ended_children = 100;
        let mut projector = Projector::new(settings.clone());
        let events = events_only(&inputs);
        apply_all(&mut projector, &events);
        let before: Vec<_> = projector.records().map(|r| shown(&r)).collect();
        // No later than the last receipt, so that nothing turns stale for want of time.
        let now = events.iter().map(|input| input.at).max().unwrap_or(0);
        let prefix = &events[..cut.min(events.len())];
        let again: Vec<_> = prefix.iter().map(|input| Input { at: now, ..input.clone() }).collect();
        apply_all(&mut projector, &again);
        let after: Vec<_> = projector.records().map(|r| shown(&r)).collect();
        let all = events.iter().chain(&again).cloned();
        let account = || transcript_of(&mut Projector::new(settings.clone()), all.clone());
        prop_assert_eq!(&before, &after, "{}", account());
    }

    /// Partial snapshots, and those of a life that is over, judge nobody.
    #[test]
    fn only_complete_snapshots_of_the_current_epoch_judge(inputs in hostile(), scope in scope()) {
        let mut projector = Projector::new(tight(scope));
        for input in &inputs {
            let mut effects = Vec::new();
            let verdict = input.apply(&mut projector, &mut effects);
            let What::Snapshot(snapshot) = &input.what else { continue };
            if matches!(snapshot, headcount_contract::Snapshot::Complete(_)) && verdict == "applied" {
                continue;
            }
            for effect in &effects {
                let judged = match effect {
                    Effect::Audit(entry) => matches!(
                        entry.kind,
                        AuditKind::Omission { .. } | AuditKind::Correction { .. } | AuditKind::Lost
                    ),
                    Effect::Intent(intent) => {
                        matches!(intent, headcount_projector::Intent::StaleUnknown { .. })
                    }
                    _ => false,
                };
                prop_assert!(!judged, "{} by {}: {:?}", verdict, snapshot.id(), effect);
            }
        }
    }

    /// Duplicates, and any order that keeps the order of what bears a state of one child, end in the
    /// same states.
    #[test]
    fn disorder_between_children_and_duplicates_change_no_state(
        lives in prop::collection::vec(prop::collection::vec(0..6_u8, 1..8), 1..4),
        shuffle in any::<u64>(), scope in scope(),
    ) {
        let events = lives_in_order(&lives, scope);
        let mut in_order = Projector::new(settings(scope));
        apply_all(&mut in_order, &events);
        let mut shuffled = Projector::new(settings(scope));
        apply_all(&mut shuffled, &disorder(&events, shuffle));
        prop_assert_eq!(states(&in_order), states(&shuffled));
    }

    /// Whatever is sent, `deadline` moves on once it was served.
    #[test]
    fn time_never_stands_still(inputs in hostile(), scope in scope()) {
        let mut projector = Projector::new(tight(scope));
        apply_all(&mut projector, &inputs);
        let mut last = None;
        for _ in 0..1_000 {
            let Some(deadline) = projector.deadline() else { return Ok(()) };
            prop_assert!(last < Some(deadline), "{last:?}, then {deadline:?}");
            last = Some(deadline);
            projector.advance(deadline, &mut Vec::new());
        }
        prop_assert!(false, "still not at rest: {:?}", last);
    }
}

fn settings(scope: SequenceScope) -> Settings {
    let mut settings = Settings::default();
    settings.scope = scope;
    settings
}

/// True lives of some children, interleaved, in the order in which they happened.
fn lives_in_order(lives: &[Vec<u8>], scope: SequenceScope) -> Vec<Input> {
    let longest = lives.iter().map(Vec::len).max().unwrap_or(0);
    let mut shared = 0;
    let mut inputs = Vec::new();
    for step in 0..longest {
        for (child, life) in lives.iter().enumerate() {
            let Some(what) = life.get(step) else { continue };
            let last = step + 1 == life.len();
            let kind = match what {
                _ if step == 0 => "created",
                0 => "heartbeat",
                1 => "activity",
                2 => "starting",
                3 => "running",
                4 => "waiting",
                _ if last => "terminal:completed",
                _ => "running",
            };
            let number = if scope == SequenceScope::Epoch {
                shared
            } else {
                step
            };
            shared += 1;
            inputs.push(input(&format!("{shared} k{child} {kind} #{number}")).unwrap());
        }
    }
    inputs
}

/// Repeats some inputs and moves them, but keeps what bears a state of one child in order.
fn disorder(inputs: &[Input], seed: u64) -> Vec<Input> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut out = inputs.to_vec();
    for _ in 0..inputs.len() {
        let again = inputs[rng.usize(..inputs.len())].clone();
        let first = out.iter().position(|i| id_of(i) == id_of(&again)).unwrap();
        out.insert(rng.usize(first + 1..=out.len()), again);
    }
    for _ in 0..4 * out.len() {
        let at = rng.usize(..out.len().max(2) - 1);
        let Some(pair) = out.get(at..at + 2) else {
            continue;
        };
        let (What::Event(a), What::Event(b)) = (&pair[0].what, &pair[1].what) else {
            continue;
        };
        let bound = a.child_id() == b.child_id() && a.state().is_some() && b.state().is_some();
        if !bound {
            out.swap(at, at + 1);
        }
    }
    out
}

fn id_of(input: &Input) -> String {
    match &input.what {
        What::Event(event) => event.event_id().to_string(),
        _ => String::new(),
    }
}
