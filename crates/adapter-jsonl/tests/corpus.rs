//! The corpus of `tests/fixtures/corpus`: a verdict for each line of 74 files, however their bytes
//! are cut, and one for each file as a journal.

#![allow(clippy::unwrap_used)] // a test: what fails ends it

use std::path::{Path, PathBuf};

use headcount_adapter_jsonl::{
    Decoded, DecodedLine, Decoder, DecoderLimits, JournalReader, Sequencing,
};
use headcount_contract::SequenceScope;
use headcount_projector::{Projector, Settings};

struct Case {
    name: String,
    bytes: Vec<u8>,
    lines: Vec<String>,
    journal: String,
}

fn limits() -> DecoderLimits {
    DecoderLimits::default()
        .with_max_line(4096)
        .with_max_depth(64)
}

fn cases() -> Vec<Case> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/corpus");
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let cases: Vec<Case> = manifest
        .lines()
        .skip(1)
        .map(|row| {
            let columns: Vec<&str> = row.split('\t').collect();
            let verdicts = columns[2].split(' ').filter(|verdict| *verdict != "-");
            Case {
                name: columns[0].to_owned(),
                bytes: std::fs::read(folder.join(columns[0])).unwrap(),
                lines: verdicts
                    .enumerate()
                    .map(|(at, verdict)| {
                        let (number, verdict) = verdict.split_once('=').unwrap();
                        assert_eq!(number, (at + 1).to_string());
                        verdict.to_owned()
                    })
                    .collect(),
                journal: columns[3].to_owned(),
            }
        })
        .collect();
    assert_eq!(cases.len(), 74);
    assert_eq!(
        cases.iter().map(|case| case.lines.len()).sum::<usize>(),
        318
    );
    cases
}

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<DecodedLine> {
    let mut decoder = Decoder::new(limits());
    let mut lines = Vec::new();
    for chunk in chunks {
        decoder.push(chunk, |line| lines.push(line));
    }
    decoder.finish(|line| lines.push(line));
    lines
}

/// The verdicts of decoder and projector together.
fn verdicts(lines: &[DecodedLine]) -> Vec<String> {
    let mut settings = Settings::default();
    settings.scope = SequenceScope::Epoch;
    let mut projector = Projector::new(settings);
    let mut effects = Vec::new();
    lines
        .iter()
        .map(|line| match &line.decoded {
            Decoded::Event { event, .. } => projector
                .apply(event, event.observed_at(), &mut effects)
                .to_string(),
            Decoded::Snapshot(_) => "snapshot".to_owned(),
            Decoded::Fault(diagnostic) => format!("reject:{}", diagnostic.class()),
        })
        .collect()
}

#[test]
fn every_line_has_the_verdict_of_the_table() {
    let mut wrong = Vec::new();
    for case in cases() {
        let found = verdicts(&decode(std::iter::once(&*case.bytes)));
        for (at, (found, expected)) in found.iter().zip(&case.lines).enumerate() {
            if found != expected {
                wrong.push(format!(
                    "{} line {}: {found}, not {expected}",
                    case.name,
                    at + 1
                ));
            }
        }
        assert_eq!(found.len(), case.lines.len(), "{}", case.name);
    }
    insta::assert_snapshot!(wrong.join("\n"), @"");
}

#[test]
fn no_line_depends_on_how_the_bytes_are_cut() {
    for case in cases() {
        let whole = decode(std::iter::once(&*case.bytes));
        for size in 1..=72 {
            assert_eq!(
                decode(case.bytes.chunks(size)),
                whole,
                "{} by {size}",
                case.name
            );
        }
    }
}

#[test]
fn lines_are_numbered_and_placed() {
    for case in cases() {
        let mut offset = 0;
        let pieces = case.bytes.split_inclusive(|byte| *byte == b'\n');
        let lines = decode(std::iter::once(&*case.bytes));
        assert_eq!(lines.len(), pieces.clone().count(), "{}", case.name);
        for ((line, piece), number) in lines.iter().zip(pieces).zip(1..) {
            assert_eq!(
                (line.number, line.offset),
                (number, offset),
                "{}",
                case.name
            );
            offset += piece.len() as u64;
        }
    }
}

#[test]
fn every_file_is_judged_as_a_journal() {
    let mut wrong = Vec::new();
    for case in cases() {
        for size in [1, 7, 64 * 1024] {
            let reader = Slow {
                bytes: &case.bytes,
                size,
            };
            let sequencing = Sequencing::Events(SequenceScope::Epoch);
            let report = JournalReader::new(reader, limits(), sequencing)
                .verify()
                .unwrap();
            let found = match report.blocked {
                None => "ok".to_owned(),
                Some(reason) => format!("append-blocked({})", reason.as_str()),
            };
            if found != case.journal {
                wrong.push(format!("{}: {found}, not {}", case.name, case.journal));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Gives a few bytes at a time, as a slow disk may.
struct Slow<'a> {
    bytes: &'a [u8],
    size: usize,
}

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let size = self.size.min(buffer.len());
        std::io::Read::read(&mut self.bytes, &mut buffer[..size])
    }
}
