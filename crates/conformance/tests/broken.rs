//! The kit itself: a sound adapter passes every case, and each fault is found by exactly its case.

#![allow(clippy::unwrap_used)] // helpers of tests may unwrap, as tests may

mod sample;

use std::time::Duration;

use headcount_conformance::{Action, Actions, CaseOutcome, CaseReport, Ownership, Suite};
use headcount_contract::{Capabilities, Capability};
use sample::{Bug, SampleRig};

const ABLE: Capabilities = Capabilities {
    history: Capability::Known,
    snapshot: Capability::Known,
    cancel: Capability::Known,
    terminal_cause: Capability::Known,
    ..Capabilities::UNKNOWN
};

/// What a fault needs to show itself, and what it must not be given, lest other rules break too.
#[derive(Clone, Copy)]
struct Setting {
    capabilities: Capabilities,
    ownership: Ownership,
    without: &'static [Action],
}

const USUAL: Setting = Setting {
    capabilities: ABLE,
    ownership: Ownership::Own,
    without: &[],
};

const UNABLE: Setting = Setting {
    capabilities: Capabilities::UNKNOWN,
    ..USUAL
};

const HEARTBEATS: Setting = Setting {
    capabilities: Capabilities {
        heartbeat: Capability::Known,
        ..ABLE
    },
    ..USUAL
};

const EXTERNAL: Setting = Setting {
    capabilities: Capabilities::UNKNOWN,
    ownership: Ownership::External,
    without: &[Action::Retry],
};

const fn without(actions: &'static [Action]) -> Setting {
    Setting {
        without: actions,
        ..USUAL
    }
}

fn check(bug: Option<Bug>, setting: Setting, limit: Duration) -> Vec<CaseReport> {
    let able: Vec<_> = Action::ALL
        .iter()
        .copied()
        .filter(|action| !setting.without.contains(action))
        .collect();
    let actions = Actions::of(&able);
    Suite::unregistered(setting.capabilities)
        .rig(move || SampleRig::new(bug, setting.capabilities, setting.ownership, actions))
        .time_limit(limit)
        .check()
}

fn failed(reports: &[CaseReport]) -> Vec<&str> {
    let failed = reports
        .iter()
        .filter(|report| matches!(report.outcome, CaseOutcome::Failed(_)));
    failed.map(|report| report.name).collect()
}

#[test]
fn a_sound_adapter_passes_every_case_that_it_can_be_held_to() {
    for setting in [USUAL, UNABLE, HEARTBEATS, EXTERNAL] {
        let reports = check(None, setting, Duration::from_secs(20));
        for report in &reports {
            if let CaseOutcome::Failed(what) = &report.outcome {
                panic!("{}: {what}", report.name);
            }
        }
    }
}

/// A test for each fault: exactly its case fails (two break two rules, and both say so), all others pass or are ignored.
macro_rules! faults {
    ($($bug:ident in $setting:expr => $($case:literal),+;)*) => {$(
        #[test]
        #[allow(non_snake_case)] // named after the fault
        fn $bug() {
            let reports = check(Some(sample::Bug::$bug), $setting, Duration::from_secs(3));
            assert_eq!(failed(&reports), [$($case),+]);
        }
    )*};
}

#[test]
fn an_adapter_that_promises_to_cancel_and_never_does_fails_wherever_it_should_have() {
    let reports = check(
        Some(Bug::CancelIsUnsupported),
        USUAL,
        Duration::from_secs(3),
    );
    let expected = [
        "cancel::never_answers_unsupported_where_it_is_known",
        "cancel::an_accepted_request_ends_a_willing_child",
        "cancel::an_accepted_request_is_not_an_ended_child",
        "cancel::an_unknown_child_is_said_to_be_unknown",
        "cancel::an_ended_child_is_not_cancelled_again",
        "cancel::asking_twice_does_no_harm",
        "cancel::leaves_other_children_alone",
    ];
    assert_eq!(failed(&reports), expected);
}

mod fault {
    use super::*;

    faults! {
        UnreadStreamLosesCreated in USUAL => "subscribe::everything_after_it_arrives";
        LaterSubscriberIsForgotten in USUAL => "subscribe::a_later_subscriber_sees_what_follows", "subscribe::a_waker_that_panics_harms_nobody";
        SecondSubscriberSeesAnotherOrder in USUAL => "subscribe::two_subscribers_see_one_order";
        WakesThoseWhoLeft in USUAL => "subscribe::is_silent_after_drop";
        LocksWhileItWakes in USUAL => "subscribe::may_be_dropped_inside_a_poll";
        WakesWithoutCare in USUAL => "subscribe::a_waker_that_panics_harms_nobody";
        DropsInSilence in USUAL => "subscribe::a_slow_subscriber_is_never_left_in_silence";
        StreamOutlivesTheAdapter in USUAL => "subscribe::ends_when_the_adapter_is_dropped";
        CloseEndsNothing in USUAL => "subscribe::ends_when_the_adapter_is_closed";
        StreamEndsWithTheLastChild in without(&[Action::Retry, Action::Break]) => "subscribe::goes_on_while_the_adapter_lives", "truth::a_random_life_is_projected_as_it_was";
        NoCreated in USUAL => "events::created_comes_first_or_history_is_unknown";
        SequenceHasHoles in USUAL => "events::sequences_follow_the_declared_scope";
        EndsTwice in USUAL => "events::a_child_ends_once";
        HeartbeatAfterTheEnd in USUAL => "events::nothing_follows_a_childs_end";
        FailedIsCompleted in without(&[Action::Retry, Action::StartSeveral]) => "events::a_bad_end_is_told_as_one";
        SameEventId in without(&[Action::AdapterAgain]) => "events::ids_are_unique";
        RepeatsItself in USUAL => "events::a_second_adapter_repeats_nothing";
        AnotherSourceInEvents in without(&[Action::RestartSource, Action::AdapterAgain]) => "events::bear_the_adapters_identity";
        EpochStaysTheSame in USUAL => "events::the_epoch_changes_when_the_source_restarts";
        ClaimsHeartbeats in USUAL => "events::claim_no_capability_that_is_unknown";
        ClockIsAhead in USUAL => "events::clocks_are_sane";
        ActivityIsLost in without(&[Action::Flood, Action::IgnoreCancel]) => "events::activity_arrives_with_its_text";
        NoHeartbeats in HEARTBEATS => "events::heartbeats_come_where_they_are_promised";
        LineageChanges in USUAL => "events::lineage_never_changes";
        RetryIsARoot in USUAL => "events::a_retry_is_a_new_child_of_the_same_root";
        ClaimsToBeExternal in USUAL => "events::own_children_are_not_external";
        ExternalIsNotMarked in EXTERNAL => "events::external_children_are_marked_and_not_overclaimed";
        SnapshotOmitsAChild in without(&[Action::StartEarly, Action::Break]) => "snapshot::complete_ones_list_every_live_child";
        SnapshotClaimsToBeComplete in UNABLE => "snapshot::is_partial_where_completeness_is_unproven";
        SnapshotDisagrees in without(&[Action::Break]) => "snapshot::agrees_with_the_events";
        CoverageNamesNobody in USUAL => "snapshot::coverage_is_true";
        HoleWhileASnapshotIsTaken in USUAL => "snapshot::has_no_hole_after_subscribe";
        EarlyChildrenAreUnseen in USUAL => "snapshot::shows_children_that_were_there_before";
        ReasonMatters in USUAL => "snapshot::the_reason_changes_nothing";
        OneSnapshotAtATime in USUAL => "snapshot::a_hundred_at_once_all_succeed";
        SnapshotIdIsReused in without(&[Action::Break]) => "snapshot::another_content_has_another_id";
        SnapshotOfAnotherSource in without(&[Action::Break]) => "snapshot::bears_the_adapters_identity";
        CancelIsDenied in UNABLE => "cancel::answers_unsupported_where_it_is_unknown";
        CancelledIsFailed in USUAL => "cancel::an_accepted_request_ends_a_willing_child";
        AcceptedIsTheEnd in USUAL => "cancel::an_accepted_request_is_not_an_ended_child";
        UnknownChildIsAccepted in USUAL => "cancel::an_unknown_child_is_said_to_be_unknown";
        EndedChildIsAccepted in USUAL => "cancel::an_ended_child_is_not_cancelled_again";
        CancelledTwiceEndsTwice in USUAL => "cancel::asking_twice_does_no_harm";
        CancelsEverybody in USUAL => "cancel::leaves_other_children_alone";
        SaysThatItIsIdle in without(&[Action::Break]) => "health::says_that_it_has_begun";
        BreakWithoutAWord in USUAL => "health::a_break_is_seen";
        BreakIsNotInBand in USUAL => "health::a_break_is_told_in_band";
        StaysDown in without(&[Action::Finish]) => "health::recovers";
        BreakIsForgotten in UNABLE => "health::what_happened_in_a_break_is_not_lost_in_silence";
        WaitingIsNotTold in without(&[Action::StartSeveral]) => "truth::every_told_state_is_reported";
        BreakKillsEverybody in USUAL => "truth::a_random_life_with_breaks_is_projected_as_it_was";
        HealthIsNotInBand in USUAL => "health::every_change_is_a_signal";
        NoLimitations in USUAL => "health::limitations_are_listed";
        CapabilitiesChange in USUAL => "health::capabilities_never_change";
    }
}
