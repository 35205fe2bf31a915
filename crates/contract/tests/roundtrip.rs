//! What can be built is written and read back as it was (rule W7), and no text makes the parser
//! panic.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use common::Line;
use common::any::{details, event, snapshot};
use headcount_contract::*;
use proptest::prelude::*;
use serde_json::{Map, Value};

proptest! {
    #[test]
    fn every_event_is_read_back_as_it_was(event in event()) {
        let line = event.to_json();
        let parsed = parse_event(&line, &WireLimits::default())
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n{line}")))?;
        prop_assert_eq!(&parsed.event, &event, "{}", line);
        prop_assert!(!parsed.capabilities_absent);
        prop_assert_eq!(parsed.event.to_json(), line);
    }

    #[test]
    fn every_snapshot_is_read_back_as_it_was(snapshot in snapshot()) {
        let line = snapshot.to_json();
        let parsed = parse_snapshot(&line, &WireLimits::default())
            .map_err(|fault| TestCaseError::fail(format!("{fault}\n{line}")))?;
        prop_assert_eq!(&parsed, &snapshot, "{}", line);
        prop_assert_eq!(parsed.to_json(), line);
    }

    /// One event is one line, whatever it holds.
    #[test]
    fn every_event_is_one_line(event in event()) {
        prop_assert!(!event.to_json().contains(['\n', '\r']));
    }

    /// Any JSON reader sees the same values: ours is no dialect.
    #[test]
    fn details_mean_to_serde_json_what_they_mean_to_us(details in details()) {
        let value: Value = serde_json::from_str(details.as_json()).unwrap();
        prop_assert_eq!(&Value::Object(details.to_map()), &value);
        for (key, value) in value.as_object().unwrap() {
            prop_assert_eq!(details.get(key), Some(value.clone()), "{}", key);
        }
    }

    #[test]
    fn any_text_is_judged(text in any::<String>()) {
        judge(&text)?;
    }

    #[test]
    fn text_that_looks_like_json_is_judged(text in r#"[\[\]{}:, "a0e1.\-tfnu\\\u{e9}]{0,40}"#) {
        judge(&text)?;
    }

    /// A good line with a piece cut out and another put in.
    #[test]
    fn a_damaged_line_is_judged(
        event in event(),
        at in any::<prop::sample::Index>(),
        len in 0..12_usize,
        put in prop_oneof![any::<String>(), r#"[\[\]{}:,"0-9ntf\\]{0,6}"#],
    ) {
        let line: Vec<char> = event.to_json().chars().collect();
        let start = at.index(line.len());
        let end = (start + len).min(line.len());
        let damaged: String = line[..start].iter().copied().chain(put.chars()).chain(line[end..].iter().copied()).collect();
        judge(&damaged)?;
    }

    /// The order of the fields decides nothing.
    #[test]
    fn the_order_of_fields_is_free(event in event(), seed in any::<u64>()) {
        let text = event.to_json();
        let Value::Object(map) = serde_json::from_str(&text).unwrap() else { unreachable!() };
        let mut members: Vec<_> = map.into_iter().collect();
        let by = usize::try_from(seed % members.len() as u64).unwrap();
        members.rotate_left(by);
        let members: Vec<_> = members
            .iter()
            // The details are compared as text, so their text has to stay.
            .map(|(key, value)| (key.as_str(), if key == "details" { event.details().as_json().to_owned() } else { value.to_string() }))
            .collect();
        let members: Vec<_> = members.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let line = Line::of(&members).text();
        prop_assert_eq!(parse_event(&line, &WireLimits::default()).map(|parsed| parsed.event), Ok(event));
    }
}

/// Both parsers return; a fault points into the text; what is read can be written and read again.
fn judge(text: &str) -> Result<(), TestCaseError> {
    let limits = WireLimits::default();
    match parse_event(text, &limits) {
        Ok(parsed) => {
            let again = parse_event(&parsed.event.to_json(), &limits).map(|again| again.event);
            prop_assert_eq!(again, Ok(parsed.event));
        }
        Err(fault) => prop_assert!(fault.offset() <= text.len(), "{}", fault),
    }
    match parse_snapshot(text, &limits) {
        Ok(snapshot) => prop_assert_eq!(parse_snapshot(&snapshot.to_json(), &limits), Ok(snapshot)),
        Err(fault) => prop_assert!(fault.offset() <= text.len(), "{}", fault),
    }
    Ok(())
}

/// Details that were built, not read, may be of any depth; what is written must still be readable.
#[test]
fn details_of_any_depth_are_read_back() {
    for levels in [1, 40, 58, 59, 60, 61, 62, 63, 64, 65, 100, 400] {
        let mut value = Value::from("the bottom");
        for level in 0..levels {
            value = match level % 2 {
                0 => Value::from(vec![value]),
                _ => Value::Object(Map::from_iter([("in".to_owned(), value)])),
            };
        }
        let details = Details::from_iter([("deep", value)]);
        let event = common::event(EventKind::Heartbeat).with_details(details.clone());
        let read = parse_event(&event.to_json(), &WireLimits::default()).map(|parsed| parsed.event);
        assert_eq!(read, Ok(event), "{levels} levels");

        let child =
            SnapshotChild::new(common::child("a"), ChildState::RUNNING).with_details(details);
        let id = SnapshotId::new("snap").unwrap();
        let snapshot =
            PartialSnapshot::new(common::source(), id, common::now(), vec![child]).unwrap();
        let snapshot = Snapshot::from(snapshot);
        let read = parse_snapshot(&snapshot.to_json(), &WireLimits::default());
        assert_eq!(read, Ok(snapshot), "{levels} levels in a snapshot");
    }
}
