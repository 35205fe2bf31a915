//! One transcript for each lettered decision of `docs/semantics.md`: the inputs, one a line, what
//! follows from each, and the records at the end.

// A history that cannot be read fails its test.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss
)]

#[path = "support/mod.rs"]
mod support;

use headcount_contract::{SequenceScope, SourceId};
use headcount_projector::{Effect, Projector, Settings};
use support::{What, transcript};

/// Runs a history with the default settings and compares its transcript.
macro_rules! decision {
    ($name:ident, $history:expr) => {
        decision!($name, Settings::default(), $history);
    };
    ($name:ident, $settings:expr, $history:expr) => {
        #[test]
        fn $name() {
            compare(
                stringify!($name),
                &transcript(&mut Projector::new($settings), $history),
            );
        }
    };
}

/// Compares a transcript with the one on record.
fn compare(name: &str, transcript: &str) {
    insta::with_settings!({omit_expression => true, prepend_module_to_snapshot => false}, {
        insta::assert_snapshot!(name, transcript);
    });
}

fn settings(change: impl FnOnce(&mut Settings)) -> Settings {
    let mut settings = Settings::default();
    change(&mut settings);
    settings
}

fn scope_epoch() -> Settings {
    settings(|s| s.scope = SequenceScope::Epoch)
}

decision!(
    i1_two_sources_may_use_one_child_id,
    "
    0 a created #0 src=s
    1 a created #0 src=t
    2 a running #1 src=t
"
);

decision!(
    i2_a_retry_is_a_child_of_its_own_under_the_same_root,
    "
    0 a created
    1 a terminal:failed
    2 a2 created root=a attempt=1
    3 a2 starting root=a attempt=1
"
);

decision!(
    i3_lineage_never_changes_but_a_parent_may_become_known,
    "
    0 a created #0 root=r
    1 a starting #1 root=r parent=p     // now the parent is known
    2 a running #2 root=r               // absent is no disagreement
    3 a waiting #3 root=r parent=q
    4 a waiting #3 root=other
    5 a waiting #3 root=r attempt=1
    6 a waiting #3 root=r adopted=1
    7 a waiting #3 root=r
"
);

decision!(
    i3_a_child_adopted_anew_is_the_same_child,
    "
    0 a running adopted=0
    9 a running adopted=9
"
);

decision!(
    i5_joining_midway_is_normal,
    "
    0 a heartbeat #7
    1 a running #8
    2 b running #3
    3 c diagnostic:waiting
"
);

decision!(
    i5_an_assumed_state_is_left_without_remark,
    "
    0 a activity text=reading
    1 a waiting
"
);

decision!(
    w6_activity_is_context_and_details_move_nothing,
    "
    0 a created #0
    1 a activity #1 text=reading exit=1
    2 a heartbeat #2 text=writing
    3 a activity #3
"
);

decision!(
    o1_a_repeated_key_is_a_duplicate_or_a_conflict,
    "
    0 a created #0
    1 a starting #1 id=x seen=1
    2 a starting #1 id=x seen=1
    3 a running #1 id=x seen=1
    4 a starting #1 id=y seen=1
    5 b created #1                      // another child: another key
    6 a starting #1 id=x seen=1
"
);

decision!(
    o1_without_memory_of_the_content_it_is_a_duplicate,
    settings(|s| s.conflict_window = 1),
    "
    0 a created #0
    1 a starting #1
    2 a heartbeat #0
"
);

decision!(
    o2_unsequenced_events_are_known_by_id_and_bytes,
    "
    0 a running id=x seen=0
    1 a running id=x seen=0
    2 a waiting id=x seen=0
    3 a running id=x seen=0             // the first again
    4 b running id=x seen=0
"
);

decision!(
    o2_the_window_is_bounded,
    settings(|s| s.unsequenced_window = 2),
    "
    0 a running id=x seen=0
    1 a heartbeat id=y
    2 a heartbeat id=z
    3 a running id=x seen=0             // left the window: no longer known
"
);

decision!(
    o3_state_is_decided_per_child_in_scope_child,
    "
    0 a running #5
    1 b running #1
    2 a waiting #4
    3 b waiting #2
"
);

decision!(
    o3_state_is_decided_per_child_in_scope_epoch,
    scope_epoch(),
    "
    0 a created #0
    1 b created #3
    2 a starting #2                     // late for the epoch, not for its child
    3 a created #1                      // late for its child too
"
);

decision!(
    o4_gaps_are_missing_ranges_in_scope_child,
    "
    0 a created #0
    1 a starting #5
    2 a running #9
    3 a heartbeat #7
    4 a heartbeat #7
    5 a heartbeat #1
    5 a heartbeat #2
    5 a heartbeat #3
    5 a heartbeat #4
    6 a heartbeat #6
    7 a heartbeat #8                    // nothing is missing any more
"
);

decision!(
    o4_gaps_are_the_sources_in_scope_epoch,
    scope_epoch(),
    "
    0 a created #0
    1 b created #2
    2 a starting #1
    3 b starting #3
"
);

decision!(
    o4_another_child_with_a_used_number_is_no_duplicate_in_scope_epoch,
    scope_epoch(),
    "
    0 a created #0
    1 a starting #1
    2 b created #0
    3 b starting #1
    4 b starting #1
"
);

decision!(
    o4_the_list_of_ranges_is_bounded,
    settings(|s| s.gap_ranges = 2),
    "
    0 a created #0
    1 a starting #2
    2 a running #4
    3 a waiting #6                      // the hole at 1 is given up
    4 a heartbeat #1                    // not known whether it was seen
    5 a heartbeat #3
"
);

decision!(
    o5_a_late_terminal_ends_the_child,
    "
    0 a running #1
    1 a heartbeat #3
    2 a terminal:completed #2 exit=0
"
);

decision!(
    o5_a_late_state_yields_to_a_later_one,
    "
    0 a starting #1
    1 a waiting #4
    2 a running #3
    3 a terminal:failed #2              // a later state was applied: the source contradicts itself
"
);

decision!(
    o5_late_activity_counts_if_it_is_newer,
    "
    0 a running #0 seen=0
    5 a activity #3 text=new seen=5
    6 a activity #1 text=old seen=2
    7 a heartbeat #2 seen=3
"
);

decision!(
    o6_the_first_number_is_a_baseline,
    "
    0 a running #7
    1 a heartbeat #8
    2 a starting #5                     // before the baseline: late, and no gap closes
"
);

decision!(
    o6_the_first_number_of_an_epoch_is_a_baseline,
    scope_epoch(),
    "
    0 a running #7
    1 b created #8
"
);

decision!(
    o7_a_new_epoch_restarts_the_counter_and_proves_nothing,
    "
    0 a created #0
    1 a running #3
    2 b running #0
    3 b terminal:completed #1
    4 a heartbeat #0 ep=e2              // another life: the gap of the old one is given up
    5 a waiting #1 ep=e2
    6 a running #4                      // the old life again
"
);

decision!(
    o7_epochs_are_ordered_by_appearance_not_by_name,
    "
    0 a running #0 ep=z
    1 a waiting #0 ep=b
    2 a running #1 ep=z
"
);

decision!(
    o7_a_superseded_terminal_ends_a_child_of_which_nothing_newer_is_known,
    "
    0 a running #0
    1 b running #0
    2 c running #0
    3 b heartbeat #0 ep=e2              // no state
    4 c running #0 ep=e2                // a state
    5 a terminal:completed #1
    5 b terminal:completed #1
    5 c terminal:completed #1
    6 d terminal:failed #4
    7 e running #4
"
);

decision!(
    o7_a_snapshot_may_begin_an_epoch,
    "
    0 a running #0
    1 snapshot p1 all a=running ep=e2
    2 snapshot p2 all a=waiting
    3 a waiting #1
    4 snapshot p3 partial ep=e3
"
);

decision!(
    o8_an_open_gap_asks_for_a_snapshot_once,
    "
    0 a created #0
    1 a running #2
    10.999 advance
    11 advance
    100 advance
    101 snapshot p1 all a=running#2
    102 a heartbeat #3
    103 a heartbeat #5
    113 advance
"
);

decision!(
    o8_an_open_gap_of_an_epoch_asks_for_a_snapshot_once,
    scope_epoch(),
    "
    0 a created #0
    1 b created #2
    11 advance
    12 snapshot p1 of:a,b a=running#2 b=created#2   // speaks of two children, not of all
    13 snapshot p2 all a=running#2 b=created#2
    40 advance
"
);

decision!(
    o8_a_snapshot_tells_what_happened_up_to_its_sequence,
    "
    0 a running #0
    1 snapshot p1 all a=waiting#4
    2 a waiting #3                      // was under way: older than the snapshot
    3 a running #5
    4 a heartbeat #6
"
);

decision!(
    s1_unusual_steps_are_applied_and_audited,
    "
    0 a created #0
    1 a running #1                      // skips starting
    2 a starting #2                     // restarts
    3 a running #3
    4 a waiting #4
    5 a created #5                      // no effect
    6 a starting #6
    7 a completed #7                    // from starting
"
);

decision!(
    s2_terminal_is_final,
    "
    0 a running #0
    1 a terminal:failed #1
    2 a running #2
    3 a terminal:completed #3
    4 a failed #4                       // no contradiction
    5 a heartbeat #5
    6 a activity #6 text=writing
    7 a diagnostic:running #7           // a comment
    8 snapshot p1 all a=running
    9 snapshot p2 all a=failed
    10 snapshot p3 all
    11 a reconciliation:running
"
);

decision!(
    s2_lost_is_final,
    settings(|s| s.reconcile_attempts = 1),
    "
    0 a running #0
    600 advance
    601 fail a errored
    602 a running #1
    603 a terminal:completed #2
    604 snapshot p1 all a=running
"
);

decision!(
    n1_a_complete_snapshot_corrects_on_the_record,
    "
    0 a created #0
    1 b running #0
    2 snapshot p1 all a=running b=completed
    3 snapshot p2 of:a a=waiting
"
);

decision!(
    n2_an_older_snapshot_corrects_nothing,
    "
    0 a running #3
    1 snapshot p1 all a=starting#2
    2 snapshot p2 all a=waiting#3
    9 b running
    10 snapshot p3 all a=waiting b=created seen=8   // no sequence of b: the times tell
"
);

decision!(
    n3_an_unknown_child_is_recorded_with_history_unknown,
    "
    0 snapshot p1 all a=running b=failed c=waiting/r
    1 snapshot p2 partial d=running
    2 a created #0 root=r parent=p      // its first event: it was created after all
    3 a waiting #1 root=r
    4 d running #4
    5 d created #5
"
);

decision!(
    n3_lineage_on_a_replayed_discovery_is_a_guess,
    "
    0 a reconciliation:running id=headcount:found:e1:p1:a
    1 a running #0 root=r parent=p
"
);

decision!(
    n4_a_child_in_a_snapshot_is_fresh_as_of_its_time,
    "
    0 a running #0
    1 snapshot p1 all
    600 advance
    601 snapshot p2 partial a=running
    602 snapshot p3 all                 // the first miss again
    1201 advance
"
);

decision!(
    n4_an_old_look_does_not_end_staleness,
    "
    0 a running #0
    600 advance
    601 snapshot p1 all a=running seen=1
    631 advance                         // the search has ended
    1201 advance
"
);

decision!(
    n5_misses_in_a_row_raise_stale_unknown_and_no_end,
    "
    0 a running
    0 b running
    0 c running src=t
    0 d terminal:completed
    10 snapshot p1 all b=running
    20 snapshot p2 of:b
    30 snapshot p3 of:a,a,b b=running
    40 snapshot p4 all b=running
"
);

decision!(
    n5_a_look_from_before_the_last_proof_is_no_miss,
    "
    0 a running
    5 b created
    6 snapshot p1 all a=running seen=4
"
);

decision!(
    n6_a_partial_snapshot_neither_corrects_nor_counts_misses,
    "
    0 a running
    0 b running
    10 snapshot p1 partial a=waiting
    20 snapshot p2 partial a=completed
    30 snapshot p3 all
    30 snapshot p3 all                  // the same again
"
);

decision!(
    n7_what_is_covered_and_not_listed_was_looked_for,
    "
    0 a running
    0 b running
    10 snapshot p1 of:a,b,x a=running
"
);

decision!(
    n8_after_a_possible_gap_no_live_child_is_proven,
    "
    0 a running #0
    0 b running #0
    0 c terminal:completed #0
    5 unproven
    6 a heartbeat #1                    // life, not state
    7 a waiting #2
    8 snapshot p1 partial b=waiting     // another state: no proof of ours
    9 snapshot p2 partial b=running
"
);

decision!(
    l1_heartbeats_count_where_they_are_verified,
    "
    0 a running heartbeat=known
    60 a activity heartbeat=known
    120 advance
    120 a heartbeat heartbeat=known
    239 advance
    240 advance
"
);

decision!(
    l1_activity_counts_where_heartbeats_are_unknown,
    "
    0 a running
    300 a activity
    899 advance
    900 advance
"
);

decision!(
    l1_a_verified_heartbeat_shortens_the_wait,
    "
    0 a running
    100 a activity heartbeat=known
    119.999 advance
    120 advance
"
);

decision!(
    l2_a_clock_ahead_is_reported_and_extends_nothing,
    "
    0 a running seen=3000
    1 a heartbeat seen=3000             // said once
    2 a heartbeat seen=2
    3 a heartbeat seen=14
    603 advance
"
);

decision!(
    l3_stale_comes_at_the_deadline_and_once,
    "
    0 a running
    599.999 advance
    600 advance
    600 advance
    601 a waiting
    602 advance
"
);

decision!(
    l4_three_failed_attempts_lose_a_child,
    "
    0 a running
    600 advance
    601 fail a errored
    601 fail a errored                  // was answered already
    606 advance
    607 fail a inconclusive
    617 advance
    646 advance
    647 advance                         // unanswered
    648 advance
"
);

decision!(
    l4_an_omission_after_the_mark_is_a_failed_attempt,
    "
    0 a running
    590 snapshot p1 all
    600 advance
    601 snapshot p2 all seen=599        // looked before the mark
    602 snapshot p3 partial
    603 snapshot p4 of:b
    604 snapshot p5 all
"
);

decision!(
    l4_whatever_shows_the_child_ends_the_search,
    "
    0 a running
    0 b running
    600 advance
    601 a heartbeat
    602 snapshot p1 all b=failed
    603 fail a errored
    604 fail b errored
"
);

decision!(
    l6_advancing_early_or_often_changes_nothing,
    "
    0 a running
    1 advance
    1 advance
    300 a heartbeat
    600 advance
    899.999 advance
    900 advance
"
);

decision!(
    c1_a_capability_holds_as_the_source_last_said,
    "
    0 a running #0 heartbeat=known
    1 a waiting #2
    2 a heartbeat #1 heartbeat=known    // late: says what held before
"
);

decision!(
    c5_only_the_terminal_event_ends_a_child,
    "
    0 a running
    1 a diagnostic:cancelled
    2 a terminal:cancelled
"
);

decision!(
    ended_children_shrink_to_tombstones_oldest_first,
    settings(|s| s.ended_children = 1),
    "
    0 a terminal:completed
    1 b terminal:failed
    2 a running
    3 a terminal:completed
    4 snapshot p1 all a=running b=failed
    5 c running
"
);

decision!(
    a_source_that_has_too_many_live_children_is_refused_more,
    settings(|s| s.live_children = 1),
    "
    0 a running
    1 b running
    2 c running
    3 snapshot p1 all a=running d=running
    4 b terminal:failed
    5 a terminal:completed
    6 b2 running
"
);

decision!(
    sources_beyond_the_limit_are_refused,
    settings(|s| s.sources = 1),
    "
    0 a running
    1 a running src=t
    2 snapshot p1 all a=running src=t
"
);

#[test]
fn o4_each_source_has_its_scope() {
    let mut projector = Projector::new(Settings::default());
    projector.set_scope(&SourceId::new("t").unwrap(), SequenceScope::Epoch);
    let history = "
        0 a created #0
        0 a created #0 src=t
        1 b created #1
        1 b created #1 src=t
        2 a starting #2
        2 a starting #2 src=t
    ";
    compare(
        "o4_each_source_has_its_scope",
        &transcript(&mut projector, history),
    );
}

#[test]
fn l5_derived_events_that_come_back_change_nothing() {
    let mut projector = Projector::new(settings(|s| s.reconcile_attempts = 1));
    let mut effects = Vec::new();
    let history = "
        0 a running #0
        1 snapshot p1 all a=waiting b=running
        601 advance
        602 fail b errored
    ";
    for input in history.lines().filter_map(support::input) {
        input.apply(&mut projector, &mut effects);
    }
    let derived = effects.iter().filter_map(|effect| match effect {
        Effect::Derived(event) => Some(What::Event((**event).clone())),
        _ => None,
    });
    let back = derived.map(|what| support::Input { at: 603_000, what });
    let text = support::transcript_of(&mut projector, back.collect::<Vec<_>>());
    compare("l5_derived_events_that_come_back_change_nothing", &text);
}
