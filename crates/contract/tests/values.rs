//! A value tells what it was made of, in accessors and in text for people.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::fmt::Write;

use common::{at, child, now, source};
use headcount_contract::*;
use serde_json::json;

#[test]
fn an_event_tells_what_it_was_made_of() {
    let parts = (
        "evt",
        child("second"),
        child("first"),
        child("parent"),
        at("2026-01-01T00:00:00Z"),
    );
    let (id, second, first, parent, adopted) = parts;
    let lineage = Lineage::new(first.clone())
        .with_attempt(2)
        .with_parent(parent.clone())
        .adopted(adopted);
    let known = Capabilities {
        cancel: Capability::Known,
        ..Capabilities::UNKNOWN
    };
    let details = Details::from_iter([("pid", json!(42))]);
    let event = LifecycleEvent::new(
        EventId::new(id).unwrap(),
        source(),
        ChildIdentity::new(second.clone(), lineage.clone()).unwrap(),
        EventKind::Terminal(Outcome::Lost),
        now(),
        known,
    )
    .with_sequence(Sequence::new(9).unwrap())
    .with_activity(Activity::new("x"))
    .with_details(details.clone());

    assert_eq!(event.event_id().as_str(), id);
    assert_eq!(event.source_identity(), &source());
    assert_eq!(
        (event.source(), event.source_epoch()),
        (&source().source, &source().epoch)
    );
    assert_eq!((event.child_id(), event.lineage()), (&second, &lineage));
    assert_eq!(
        (event.lineage().root(), event.lineage().attempt()),
        (&first, 2)
    );
    assert_eq!(event.lineage().parent(), Some(&parent));
    assert_eq!(
        (event.lineage().is_external(), event.lineage().adopted_at()),
        (true, Some(adopted))
    );
    assert_eq!(
        (event.kind(), event.state()),
        (EventKind::Terminal(Outcome::Lost), Some(ChildState::LOST))
    );
    assert_eq!((event.observed_at(), event.capabilities()), (now(), known));
    assert_eq!(event.sequence().map(Sequence::get), Some(9));
    assert_eq!(event.activity().map(Activity::as_str), Some("x"));
    assert_eq!(event.details(), &details);
    assert!(event.capabilities().cancel.is_known() && !event.capabilities().history.is_known());
}

#[test]
fn a_snapshot_tells_what_it_was_made_of() {
    let sequence = Sequence::new(3).unwrap();
    let details = Details::from_iter([("pid", json!(42))]);
    let listed = SnapshotChild::new(child("a"), ChildState::WAITING)
        .with_sequence(sequence)
        .with_details(details.clone());
    assert_eq!(
        (listed.id(), listed.state()),
        (&child("a"), ChildState::WAITING)
    );
    assert_eq!(
        (listed.sequence(), listed.details()),
        (Some(sequence), &details)
    );
    assert_eq!(
        (listed.lineage(), listed.identity().lineage().root()),
        (None, &child("a"))
    );

    let id = SnapshotId::new("snap").unwrap();
    let coverage = Coverage::Children(vec![child("a"), child("b")]);
    let complete = AuthoritativeSnapshot::new(
        source(),
        id.clone(),
        now(),
        coverage.clone(),
        vec![listed.clone()],
    )
    .unwrap();
    assert_eq!(complete.coverage(), &coverage);
    for (who, covered) in [("a", true), ("b", true), ("c", false)] {
        assert_eq!(complete.covers(&child(who)), covered, "{who}");
    }
    let partial = PartialSnapshot::new(source(), id.clone(), now(), vec![listed.clone()]).unwrap();
    for snapshot in [Snapshot::from(complete), Snapshot::from(partial)] {
        assert_eq!((snapshot.source(), snapshot.id()), (&source(), &id));
        assert_eq!(
            (snapshot.observed_at(), snapshot.children()),
            (now(), &[listed.clone()][..])
        );
    }
}

#[test]
fn a_snapshot_refuses_a_child_twice_and_one_that_is_not_covered() {
    let id = || SnapshotId::new("snap").unwrap();
    let listed = |name| SnapshotChild::new(child(name), ChildState::RUNNING);
    let twice = vec![listed("a"), listed("b"), listed("a")];
    let error = SnapshotError::DuplicateChild(child("a"));
    assert_eq!(
        PartialSnapshot::new(source(), id(), now(), twice.clone()),
        Err(error.clone())
    );
    assert_eq!(
        AuthoritativeSnapshot::new(source(), id(), now(), Coverage::All, twice),
        Err(error)
    );
    let some = Coverage::Children(vec![child("a")]);
    assert_eq!(
        AuthoritativeSnapshot::new(source(), id(), now(), some, vec![listed("a"), listed("b")]),
        Err(SnapshotError::NotCovered(child("b")))
    );
}

#[test]
fn a_sequence_goes_up_by_one_until_the_last() {
    let last = Sequence::new(MAX_INTEGER).unwrap();
    assert_eq!(Sequence::ZERO.next().get(), 1);
    assert_eq!(Sequence::new(41).unwrap().next().get(), 42);
    assert_eq!(Sequence::new(MAX_INTEGER - 1).unwrap().next(), last);
    assert_eq!(last.next(), last);
    assert_eq!(Sequence::new(MAX_INTEGER + 1), None);
}

#[test]
fn a_lineage_must_fit_its_child() {
    let refused = |lineage| ChildIdentity::new(child("c"), lineage).unwrap_err();
    let retry = Lineage::new(child("first"));
    assert_eq!(
        refused(Lineage::new(child("c")).with_attempt(1)),
        LineageError::RetryIsItsOwnRoot
    );
    assert_eq!(
        refused(retry.clone().with_parent(child("c"))),
        LineageError::OwnParent
    );
    assert_eq!(
        refused(retry.with_attempt(MAX_INTEGER + 1)),
        LineageError::AttemptTooLarge
    );
}

/// Keys at the edge of what looks secret: case, separators, length, and counts of tokens.
#[test]
fn keys_that_look_secret() {
    for key in [
        "token",
        "TOKEN",
        "to-ken",
        "x_api.key",
        "Set-Cookie",
        "clientSecret",
        "PGPASSWORD",
        "passwd",
        "authorization",
        "aws credentials",
        "private key",
        "tokens",
    ] {
        assert!(is_secret_key(key), "{key}");
    }
    for key in [
        "", "tok", "toke", "pid", "keys", "author", "pass", "cook", "exitCode",
    ] {
        assert!(!is_secret_key(key), "{key}");
    }
    let kept = |json: serde_json::Value| {
        let details = Details::from_iter([("input_tokens", json.clone())]);
        details.get("input_tokens") == Some(json)
    };
    assert!(kept(json!(512)) && kept(json!(-1)) && kept(json!(null)));
    assert!(!kept(json!("512")) && !kept(json!([512])) && !kept(json!(true)));
}

/// Everything that a person may read, in one place.
#[test]
fn texts_for_people() {
    let mut text = String::new();
    let mut say = |what: &dyn std::fmt::Display| writeln!(text, "{what}").unwrap();
    for error in [
        ChildId::new("").unwrap_err(),
        ChildId::new("x".repeat(600)).unwrap_err(),
        ChildId::new("ab\u{7}").unwrap_err(),
    ] {
        say(&error);
    }
    for error in [
        LineageError::RetryIsItsOwnRoot,
        LineageError::OwnParent,
        LineageError::AttemptTooLarge,
    ] {
        say(&error);
    }
    for error in [
        TimestampError::Form,
        TimestampError::Calendar,
        TimestampError::Range,
    ] {
        say(&error);
    }
    for error in [
        SnapshotError::DuplicateChild(child("a")),
        SnapshotError::NotCovered(child("b")),
    ] {
        say(&error);
    }
    say(&"paused".parse::<ChildState>().unwrap_err());
    for kind in [
        StartErrorKind::NotFound,
        StartErrorKind::NotExecutable,
        StartErrorKind::InvalidInput,
        StartErrorKind::Exhausted,
        StartErrorKind::Aborted,
        StartErrorKind::Other,
    ] {
        say(&StartError::new(kind, "not started").with_context("program", "cargo"));
    }
    for kind in [
        AdapterErrorKind::Unsupported,
        AdapterErrorKind::InvalidConfig,
        AdapterErrorKind::Unavailable,
        AdapterErrorKind::TimedOut,
        AdapterErrorKind::Denied,
        AdapterErrorKind::UnknownChild,
        AdapterErrorKind::Protocol,
        AdapterErrorKind::Closed,
        AdapterErrorKind::Internal,
    ] {
        say(&AdapterError::new(kind, "not done"));
    }
    say(&AdapterError::unsupported("restart"));
    for status in [
        HealthStatus::Idle,
        HealthStatus::Healthy,
        HealthStatus::Degraded,
        HealthStatus::Down,
    ] {
        say(&format!("[{status:<8}]"));
    }
    say(&format!(
        "[{:<9}] [{}] [{}]",
        ChildState::RUNNING,
        Outcome::Lost,
        LiveState::Waiting
    ));
    say(&format!("{:?}", Details::from_iter([("pid", json!(42))])));
    say(&format!(
        "{:?} {:?} {:?}",
        child("a"),
        now(),
        StopSignal::new(std::future::pending())
    ));
    insta::assert_snapshot!(text);
}

#[test]
fn a_batch_tells_its_lines() {
    let mut batch = LogBatch::new(OutputStream::Stderr, now(), 7);
    assert!(batch.is_empty() && batch.last().is_none() && batch.text_bytes() == 0);
    let cut = LineFlags {
        truncated: true,
        lossy: false,
    };
    let lossy = LineFlags {
        truncated: false,
        lossy: true,
    };
    for (text, flags) in [("é", LineFlags::default()), ("", lossy), ("cut", cut)] {
        batch.push(text, flags);
    }
    assert_eq!(
        (batch.len(), batch.is_empty(), batch.text_bytes()),
        (3, false, 5)
    );
    assert_eq!(
        (batch.stream(), batch.timestamp()),
        (OutputStream::Stderr, now())
    );
    let lines: Vec<_> = batch
        .lines()
        .map(|line| (line.number, line.text, line.truncated, line.lossy))
        .collect();
    assert_eq!(
        lines,
        [
            (7, "é", false, false),
            (8, "", false, true),
            (9, "cut", true, false)
        ]
    );
    assert_eq!(batch.last().map(|line| line.number), Some(9));
}

#[test]
fn lines_taken_at_once_are_the_same_as_one_by_one() {
    let new = || LogBatch::new(OutputStream::Stdout, now(), 1);
    for (text, longest, taken) in [
        ("", 9, ""),
        ("no end", 9, ""),
        ("a\n\né\n", 9, "a\n\né\n"),
        ("a\nrest", 9, "a\n"),
        ("a\ntoo long\nb\n", 3, "a\n"),
        ("exact\n", 5, "exact\n"),
        ("a\nb\rc\nd\n", 9, "a\n"),
        ("a\r\nb\n", 9, ""),
    ] {
        let (mut at_once, mut one_by_one) = (new(), new());
        assert_eq!(at_once.push_lines(text, longest), taken.len(), "{text:?}");
        for line in taken.lines() {
            one_by_one.push(line, LineFlags::default());
        }
        assert_eq!(at_once, one_by_one, "{text:?}");
        let lines: Vec<_> = at_once.lines().map(|line| line.text).collect();
        assert_eq!(lines, taken.lines().collect::<Vec<_>>(), "{text:?}");
        assert_eq!(
            at_once.text_bytes(),
            taken.lines().map(str::len).sum::<usize>()
        );
    }
}
