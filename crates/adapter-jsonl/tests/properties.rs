//! Properties of the decoder over generated and damaged streams: the stable twin of
//! `fuzz/fuzz_targets/decoder.rs`. And JSON's dark corners, one by one.
#![allow(clippy::unwrap_used)] // a test: what fails ends it

use std::path::Path;

use headcount_adapter_jsonl::{
    Decoded, DecodedLine, Decoder, DecoderLimits, JournalReader, Sequencing,
};
use headcount_contract::{FaultClass, SequenceScope, WireLimits, parse_event};
use proptest::prelude::*;

fn limits() -> DecoderLimits {
    DecoderLimits::default()
        .with_max_line(1024)
        .with_max_depth(8)
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

/// All lines of the corpus, with their line ends.
fn corpus() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "jsonl")
        })
        .collect();
    files.sort();
    files
        .iter()
        .flat_map(|path| {
            let bytes = std::fs::read(path).unwrap();
            bytes
                .split_inclusive(|b| *b == b'\n')
                .map(<[u8]>::to_vec)
                .collect::<Vec<_>>()
        })
        .collect()
}

/// What is done to a stream.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Cut(usize, usize),
    Repeat(usize, usize),
    Insert(usize, Vec<u8>),
}

fn damage() -> impl Strategy<Value = Damage> {
    let piece = prop_oneof![
        Just(b"\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"\xff".to_vec()),
        Just(b"\xed\xa0\x80".to_vec()),
        Just(b"\\ud800".to_vec()),
        Just(b"\0".to_vec()),
        Just(b"\xef\xbb\xbf".to_vec()),
        Just(b"[[[[[[[[[[".to_vec()),
        Just(vec![b'x'; 1100]),
        proptest::collection::vec(any::<u8>(), 1..8),
    ];
    prop_oneof![
        (0..4096_usize, any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        (0..4096_usize, 1..64_usize).prop_map(|(at, n)| Damage::Cut(at, n)),
        (0..4096_usize, 1..64_usize).prop_map(|(at, n)| Damage::Repeat(at, n)),
        (0..4096_usize, piece).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    let range = |at: usize, n: usize| at.min(bytes.len())..(at + n).min(bytes.len());
    match damage {
        Damage::Flip(at, byte) => {
            if let Some(place) = bytes.get_mut(*at) {
                *place ^= byte;
            }
        }
        Damage::Cut(at, n) => drop(bytes.drain(range(*at, *n))),
        Damage::Repeat(at, n) => {
            let again = bytes[range(*at, *n)].to_vec();
            let to = (at + n).min(bytes.len());
            bytes.splice(to..to, again);
        }
        Damage::Insert(at, piece) => {
            let at = (*at).min(bytes.len());
            bytes.splice(at..at, piece.iter().copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_damaged_stream_is_judged_line_by_line_however_it_is_cut(
        picks in proptest::collection::vec(0..318_usize, 1..8),
        damages in proptest::collection::vec(damage(), 0..4),
        sizes in proptest::collection::vec(1..80_usize, 1..6),
    ) {
        let corpus = corpus();
        let mut bytes: Vec<u8> = picks.iter().flat_map(|at| corpus[at % corpus.len()].clone()).collect();
        for damage in &damages {
            apply(&mut bytes, damage);
        }
        let whole = decode(std::iter::once(&*bytes));
        let mut rest = &*bytes;
        let mut sizes = sizes.iter().cycle();
        let cut = decode(std::iter::from_fn(|| {
            let (chunk, more) = rest.split_at((*sizes.next()?).min(rest.len()));
            rest = more;
            (!chunk.is_empty()).then_some(chunk)
        }));
        prop_assert_eq!(&whole, &cut);

        let pieces: Vec<&[u8]> = bytes.split_inclusive(|b| *b == b'\n').collect();
        prop_assert_eq!(whole.len(), pieces.len());
        for (line, piece) in whole.iter().zip(&pieces) {
            // A line is judged as it would be alone.
            let alone = decode(std::iter::once(*piece));
            match (&line.decoded, &alone[0].decoded) {
                (Decoded::Fault(here), Decoded::Fault(there)) => {
                    prop_assert_eq!(here.fault(), there.fault());
                    prop_assert_eq!(here.length(), there.length());
                }
                (here, there) => prop_assert_eq!(here, there),
            }
            // What is accepted is read back as it is written.
            if let Decoded::Event { event, .. } = &line.decoded {
                let again = parse_event(&event.to_json(), &WireLimits::default());
                let again = again.map(|parsed| parsed.event);
                prop_assert_eq!(again.as_ref(), Ok(event));
            }
        }
        // A journal is blocked by the first line that is refused, and by no line before it.
        let refused = whole.iter().position(|line| !matches!(line.decoded, Decoded::Event { .. }));
        for scope in [SequenceScope::Child, SequenceScope::Epoch] {
            let report = JournalReader::new(&*bytes, limits(), Sequencing::Events(scope)).verify().unwrap();
            let line = report.line.map(|line| usize::try_from(line).unwrap() - 1);
            match (line, refused) {
                (Some(line), Some(refused)) => prop_assert!(line <= refused),
                (None, Some(refused)) => prop_assert!(false, "line {} passed", refused + 1),
                _ => (),
            }
            prop_assert_eq!(report.entries, line.unwrap_or(whole.len()) as u64);
        }
    }

    #[test]
    fn any_bytes_are_judged_however_they_are_cut(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        size in 1..40_usize,
    ) {
        prop_assert_eq!(decode(bytes.chunks(size)), decode(std::iter::once(&*bytes)));
    }
}

/// A value where any JSON value may stand: in an ignored field.
fn ignored(value: &[u8]) -> Result<(), FaultClass> {
    let head = br#"{"schemaVersion":1,"eventId":"e","source":"s","sourceEpoch":"x","childId":"c","lineage":{"rootChildId":"c","attempt":0,"external":false},"kind":"heartbeat","observedAt":"2026-08-24T09:15:30Z","extra":"#;
    let line = [head, value, b"}\n"].concat();
    match decode(std::iter::once(&*line)).remove(0).decoded {
        Decoded::Event { .. } => Ok(()),
        Decoded::Fault(diagnostic) => Err(diagnostic.class()),
        Decoded::Snapshot(_) => panic!("it has an eventId"),
    }
}

#[test]
fn valid_json_is_accepted_in_ignored_fields() {
    let values: [&[u8]; 30] = [
        b"0",
        b"-0",
        b"-1",
        b"1.5",
        b"1e5",
        b"1E+5",
        b"1e-5",
        b"0.0",
        b"123456789012345678901234567890",
        b"1e9999",
        b"-0.0e-0",
        b"true",
        b"false",
        b"null",
        b"\"\"",
        b"[]",
        b"{}",
        b"[ ]",
        b"{ }",
        b"\"\\u0000\"",
        b"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
        b"\"\\uD83D\\uDE00\"",
        b"\"\\uffff\"",
        b"\"\x7f\"",
        "\"\u{2028}\u{2029}\u{feff}\u{10ffff}\"".as_bytes(),
        b"[1,[2,[3]]]",
        b"{\"\":0}",
        b"\t\r [ 1 ,\t2 ]",
        b"{\"a\":{\"a\":1},\"b\":{\"a\":1}}",
        b"[[[[[[[]]]]]]]",
    ];
    for value in values {
        assert_eq!(ignored(value), Ok(()), "{}", String::from_utf8_lossy(value));
    }
}

#[test]
fn what_is_not_json_is_refused_in_ignored_fields_as_anywhere() {
    use FaultClass::{InvalidUtf8, MalformedJson, SchemaViolation};
    let values: [(&[u8], FaultClass); 56] = [
        (b"", MalformedJson),
        (b"-", MalformedJson),
        (b"+1", MalformedJson),
        (b".5", MalformedJson),
        (b"1.", MalformedJson),
        (b"1.e5", MalformedJson),
        (b"1e", MalformedJson),
        (b"1e+", MalformedJson),
        (b"01", MalformedJson),
        (b"-01", MalformedJson),
        (b"0x10", MalformedJson),
        (b"1_000", MalformedJson),
        (b"NaN", MalformedJson),
        (b"-Infinity", MalformedJson),
        (b"nul", MalformedJson),
        (b"TRUE", MalformedJson),
        (b"'a'", MalformedJson),
        (b"\"", MalformedJson),
        (b"\"\\\"", MalformedJson),
        (b"\"\\x41\"", MalformedJson),
        (b"\"\\u\"", MalformedJson),
        (b"\"\\u12\"", MalformedJson),
        (b"\"\\u123g\"", MalformedJson),
        (b"\"\\uD800\"", MalformedJson),
        (b"\"\\uDC00\"", MalformedJson),
        (b"\"\\uD800\\uD800\"", MalformedJson),
        (b"\"\\uDC00\\uD800\"", MalformedJson),
        (b"\"\\uD800\\n\"", MalformedJson),
        (b"\"\t\"", MalformedJson),
        (b"\"\0\"", MalformedJson),
        (b"\"\x1f\"", MalformedJson),
        (b"[", MalformedJson),
        (b"]", MalformedJson),
        (b"[1,]", MalformedJson),
        (b"[,1]", MalformedJson),
        (b"[1 2]", MalformedJson),
        (b"[1}", MalformedJson),
        (b"{\"a\"}", MalformedJson),
        (b"{\"a\":}", MalformedJson),
        (b"{a:1}", MalformedJson),
        (b"{\"a\":1,}", MalformedJson),
        (b"{1:1}", MalformedJson),
        (b"{\"a\":1 \"b\":2}", MalformedJson),
        (b"//\"", MalformedJson),
        (b"/**/1", MalformedJson),
        (b"1 2", MalformedJson),
        (b"\xc2\xa01", MalformedJson),
        (b"\xef\xbb\xbf1", MalformedJson),
        (b"[[[[[[[[]]]]]]]]", MalformedJson),
        (b"\"\xff\"", InvalidUtf8),
        (b"\"\xc0\xaf\"", InvalidUtf8),
        (b"\"\xed\xa0\x80\"", InvalidUtf8),
        (b"\"\xf4\x90\x80\x80\"", InvalidUtf8),
        (b"{\"a\":1,\"a\":1}", SchemaViolation),
        (b"[{\"a\":[{\"b\":1,\"\\u0062\":2}]}]", SchemaViolation),
        (b"1,\"extra\":1", SchemaViolation),
    ];
    for (value, class) in values {
        assert_eq!(
            ignored(value),
            Err(class),
            "{}",
            String::from_utf8_lossy(value)
        );
    }
}

#[test]
fn of_several_faults_the_first_in_the_order_is_told() {
    let long = "x".repeat(1100);
    let table: [(Vec<u8>, FaultClass); 8] = [
        (
            format!("{long}\u{fffd}").into_bytes(),
            FaultClass::Oversized,
        ),
        ([long.as_bytes(), b"\xff\n"].concat(), FaultClass::Oversized),
        (b"\xff".to_vec(), FaultClass::Truncated),
        (b"{\"a\xff\n".to_vec(), FaultClass::InvalidUtf8),
        (
            b"{\"schemaVersion\":2,\"a\":1,\"a\":2,\n".to_vec(),
            FaultClass::MalformedJson,
        ),
        (
            b"{\"schemaVersion\":2,\"a\":1,\"a\":2}\n".to_vec(),
            FaultClass::SchemaViolation,
        ),
        (
            b"{\"eventId\":7,\"schemaVersion\":2}\n".to_vec(),
            FaultClass::UnsupportedVersion,
        ),
        (
            b"{\"eventId\":7,\"schemaVersion\":1}\n".to_vec(),
            FaultClass::SchemaViolation,
        ),
    ];
    for (bytes, class) in table {
        match &decode(std::iter::once(&*bytes))[0].decoded {
            Decoded::Fault(diagnostic) => {
                assert_eq!(
                    diagnostic.class(),
                    class,
                    "{}",
                    String::from_utf8_lossy(&bytes)
                );
            }
            other => panic!("{other:?}"),
        }
    }
}
