//! What each row of "External Adoption Limits" lets us say, as transcripts.

use headcount_contract::{EventId, Snapshot, SourceEpoch, SourceId};

use super::*;
use crate::process::ExitStatus;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_unix(1_790_000_000 + second, 0).unwrap()
}

pub(super) fn translator() -> Translator {
    Translator::new(SourceIdentity::new(
        SourceId::new("external").unwrap(),
        SourceEpoch::new("e1").unwrap(),
    ))
}

pub(super) fn process(pid: u32) -> ProcessIdentity {
    ProcessIdentity::new(pid)
        .started_at_tick(9001)
        .in_boot("3f9a01bc-7d52-4b1e-9c07-000000000000")
        .with_pidfd_inode(u64::from(pid) * 10)
}

pub(super) fn facts() -> Facts {
    Facts {
        name: Some("node".into()),
        command: vec!["node".into(), "agent.js".into()],
        user: Some("ada".into()),
        parent: Some(5),
        children: Some(0),
        started_at: Some(at(-60)),
        container_pid: None,
        found_by: "pid".into(),
    }
}

pub(super) const ALL: Verified = Verified {
    exit_status: true,
    cancel: false,
};

pub(super) fn exited(word: i32) -> Finding {
    Finding::Exited {
        status: ExitStatus::from_wait_status(word),
        read_from: "pidfd_info",
    }
}

pub(super) fn lines(events: impl IntoIterator<Item = LifecycleEvent>) -> String {
    events
        .into_iter()
        .map(|event| event.to_json() + "\n")
        .collect()
}

#[test]
fn presence_only() {
    let mut translator = translator();
    let nothing = Verified::default();
    let (key, created) = translator.adopted(process(7), &facts(), nothing, at(0));
    let beats = [at(30), at(60)].map(|at| translator.lives(key, at).unwrap());
    insta::assert_snapshot!(lines([created].into_iter().chain(beats)));
}

#[test]
fn an_exit_code() {
    let mut said = Vec::new();
    let mut translator = translator();
    for (pid, word) in [(7, 0), (8, 3 << 8), (9, 0x8b), (10, 64)] {
        let (key, _) = translator.adopted(process(pid), &facts(), ALL, at(0));
        said.extend(translator.ended(key, exited(word), at(9)));
        assert_eq!(
            translator.ended(key, exited(word), at(10)),
            None,
            "it ends once"
        );
        assert_eq!(translator.ended(key, Finding::Gone, at(10)), None);
        assert_eq!(
            translator.lives(key, at(11)),
            None,
            "nothing comes after the end"
        );
    }
    insta::assert_snapshot!(lines(said));
}

#[test]
fn vanished_without_a_code_is_said_and_never_decided() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let said = translator.ended(key, Finding::Gone, at(9)).unwrap();
    assert_eq!(translator.ended(key, Finding::Gone, at(10)), None);
    assert_eq!(translator.lives(key, at(11)), None);
    insta::assert_snapshot!(lines([said]));
    let snapshot = translator.snapshot(at(12));
    let id = child_id(&process(7));
    assert!(
        snapshot.covers(&id) && snapshot.children().is_empty(),
        "a covered omission"
    );
}

#[test]
fn a_zombie_that_is_collected_later_ends_with_its_code() {
    let mut translator = translator();
    let (key, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    let zombie = translator.ended(key, Finding::Zombie, at(9)).unwrap();
    assert!(translator.snapshot(at(10)).children().is_empty());
    let end = translator.ended(key, exited(1 << 8), at(99)).unwrap();
    insta::assert_snapshot!(lines([zombie, end]));
    assert_eq!(
        translator.snapshot(at(100)).children()[0].state(),
        ChildState::FAILED
    );
}

#[test]
fn a_snapshot_lists_the_living_and_the_known_ends() {
    let mut translator = translator();
    let keys = [7, 8, 9].map(|pid| translator.adopted(process(pid), &facts(), ALL, at(0)).0);
    translator.ended(keys[1], exited(0), at(1));
    translator.ended(keys[2], Finding::Gone, at(2));
    insta::assert_snapshot!(Snapshot::from(translator.snapshot(at(3))).to_json());
    assert_ne!(
        translator.snapshot(at(4)).id(),
        translator.snapshot(at(5)).id()
    );
}

#[test]
fn a_child_of_an_earlier_session_keeps_its_lineage_and_state() {
    let mut translator = translator();
    let root = ChildId::new("run-0").unwrap();
    let lineage = Lineage::new(root).with_attempt(1);
    let child = ChildIdentity::new(ChildId::new("run-1").unwrap(), lineage).unwrap();
    let (key, found) = translator.readopted(
        child.clone(),
        LiveState::Running,
        process(7),
        Some(&facts()),
        ALL,
        at(0),
    );
    let end = translator.ended(key, exited(0), at(1)).unwrap();
    let (_, not_found) = translator.readopted(
        child,
        LiveState::Running,
        process(8),
        None,
        Verified::default(),
        at(2),
    );
    insta::assert_snapshot!(lines([found, end, not_found]));
}

#[test]
fn a_number_that_is_given_out_again_within_one_tick_is_another_child() {
    let mut translator = translator();
    let (first, _) = translator.adopted(process(7), &facts(), ALL, at(0));
    translator.ended(first, exited(0), at(1));
    let again = process(7).with_pidfd_inode(999);
    let (second, _) = translator.adopted(again, &facts(), ALL, at(2));
    let blind = ProcessIdentity {
        pidfd_inode: None,
        ..process(7)
    };
    let (third, _) = translator.adopted(blind, &facts(), ALL, at(3));
    let ids = [first, second, third].map(|key| translator.id(key).unwrap().as_str());
    assert_eq!(
        ids,
        [
            "pid-7-9001-3f9a01bc",
            "pid-7-9001-3f9a01bc-i999",
            "pid-7-9001-3f9a01bc-i2"
        ]
    );
    let snapshot = translator.snapshot(at(4));
    let states: Vec<_> = snapshot
        .children()
        .iter()
        .map(SnapshotChild::state)
        .collect();
    assert_eq!(
        states,
        [
            ChildState::COMPLETED,
            ChildState::CREATED,
            ChildState::CREATED
        ]
    );
}

#[test]
fn ids_are_the_same_in_every_session_of_a_boot_and_in_no_other() {
    let of = |process: ProcessIdentity| child_id(&process).to_string();
    assert_eq!(of(process(7)), of(process(7).with_pidfd_inode(1)));
    assert_ne!(of(process(7)), of(process(7).in_boot("4f9a01bc-7d52")));
    assert_eq!(of(ProcessIdentity::new(7)), "pid-7");
    assert_eq!(of(ProcessIdentity::new(7).with_pidfd_inode(5)), "pid-7-i5");
    assert_eq!(of(process(7).in_boot("\u{7}é\n")), "pid-7-9001-");
}

#[test]
fn the_ended_are_forgotten_oldest_first_and_the_living_never() {
    let mut translator = translator();
    let (living, _) = translator.adopted(process(2), &facts(), ALL, at(0));
    for pid in 3..u32::try_from(ENDED_KEPT).unwrap() + 103 {
        let (key, _) = translator.adopted(process(pid), &facts(), ALL, at(0));
        translator.ended(key, exited(0), at(1));
    }
    let snapshot = translator.snapshot(at(2));
    assert_eq!(snapshot.children().len(), ENDED_KEPT + 1);
    assert_eq!(translator.ids.len(), translator.children.len());
    assert_eq!(Some(snapshot.children()[0].id()), translator.id(living));
    assert!(
        !snapshot.covers(&child_id(&process(3))),
        "what is forgotten is not covered"
    );
}

#[test]
fn event_ids_and_sequences_never_repeat() {
    let mut translator = translator();
    let mut seen = std::collections::HashSet::<(EventId, u64)>::new();
    for pid in 2..50 {
        let (key, created) = translator.adopted(process(pid), &facts(), ALL, at(0));
        let rest = [
            translator.lives(key, at(1)),
            translator.ended(key, exited(0), at(2)),
        ];
        for (expected, event) in [Some(created)]
            .into_iter()
            .chain(rest)
            .flatten()
            .enumerate()
        {
            let sequence = event.sequence().unwrap().get();
            assert_eq!(sequence, expected as u64);
            assert!(seen.insert((event.event_id().clone(), sequence)));
        }
    }
}
