//! The lines of the shared corpus whose verdict is a question of projection, not of form.

// Whatever a fixture lacks fails the test that reads it.
#![allow(clippy::unwrap_used)]

use headcount_contract::{SequenceScope, Timestamp, WireLimits, parse_event};
use headcount_projector::{Projector, Settings};

/// One line a file: its name, and `line=verdict` for each of its lines. Read in scope Epoch.
const VERDICTS: &str = include_str!("fixtures/VERDICTS.tsv");

#[test]
fn each_line_of_the_corpus_gets_its_verdict() {
    let mut files = 0;
    for row in VERDICTS.lines() {
        let (file, expected) = row.split_once('\t').unwrap();
        let path = format!("{}/tests/fixtures/{file}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(
            judge(&std::fs::read_to_string(path).unwrap()),
            expected,
            "{file}"
        );
        files += 1;
    }
    assert_eq!(files, 12);
}

fn judge(text: &str) -> String {
    let mut settings = Settings::default();
    settings.scope = SequenceScope::Epoch;
    let mut projector = Projector::new(settings);
    let received_at: Timestamp = "2026-08-24T09:20:00Z".parse().unwrap();
    let verdicts = text.lines().enumerate().map(|(at, line)| {
        let verdict = match parse_event(line, &WireLimits::default()) {
            Ok(parsed) => projector
                .apply(&parsed.event, received_at, &mut Vec::new())
                .to_string(),
            Err(fault) => format!("reject:{}", fault.class()),
        };
        format!("{}={verdict}", at + 1)
    });
    verdicts.collect::<Vec<_>>().join(" ")
}
