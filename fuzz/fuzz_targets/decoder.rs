//! Any bytes, cut anywhere: the decoder neither panics nor contradicts itself.
#![no_main]

use headcount_adapter_jsonl::{
    Decoded, DecodedLine, Decoder, DecoderLimits, JournalReader, Sequencing,
};
use headcount_contract::{
    FaultClass, SequenceScope, WireLimits, WireReader, parse_event, parse_line,
};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let whole = decode(std::iter::once(bytes));
    for size in [1, 2 + bytes.len() % 71] {
        let cut = decode(bytes.chunks(size));
        assert_eq!(whole, cut, "the verdict depends on the chunks");
    }
    let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
    assert_eq!(whole.len(), lines, "each line has one verdict");

    for line in &whole {
        if let Decoded::Event { event, .. } = &line.decoded {
            let written = event.to_json();
            let again = parse_event(&written, &WireLimits::default()).map(|parsed| parsed.event);
            assert_eq!(again.as_ref(), Ok(event), "written and read again");
        }
    }

    // The fast lane and the parser agree.
    let limits = WireLimits::default();
    let mut reader = WireReader::new(limits);
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(text) = std::str::from_utf8(line) {
            assert_eq!(reader.read_line(text), parse_line(text, &limits));
            assert_eq!(reader.read_line(text), parse_line(text, &limits));
        }
    }

    judge_json(bytes);

    for sequencing in [
        Sequencing::Journal,
        Sequencing::Events(SequenceScope::Child),
        Sequencing::Events(SequenceScope::Epoch),
    ] {
        let report = JournalReader::new(bytes, DecoderLimits::default(), sequencing)
            .verify()
            .expect("bytes in memory can be read");
        assert!(report.entries <= lines as u64);
        assert_eq!(report.ok, report.blocked.is_none());
    }
});

fn decode<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<DecodedLine> {
    // Small, so that over-long and deep lines are found.
    let limits = DecoderLimits::default().with_max_line(1024).with_max_depth(8);
    let mut decoder = Decoder::new(limits);
    let mut lines = Vec::new();
    for chunk in chunks {
        decoder.push(chunk, |line| lines.push(line));
    }
    decoder.finish(|line| lines.push(line));
    lines
}

/// What is JSON and what is not is no matter of opinion.
fn judge_json(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let Ok(text) = std::str::from_utf8(line) else {
            continue;
        };
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let class = parse_line(text, &WireLimits::default())
            .err()
            .map(|fault| fault.class());
        if class == Some(FaultClass::MalformedJson) {
            assert!(!is_json || is_stricter(text), "refused, and it is JSON");
        } else {
            assert!(is_json, "not refused as malformed ({class:?}), and it is no JSON");
        }
    }
}

/// Where the rules ask for more than JSON: no lone surrogates, no deep nesting.
fn is_stricter(text: &str) -> bool {
    let brackets = text.bytes().filter(|byte| b"[{".contains(byte)).count();
    serde_json::from_str::<serde_json::Value>(text).is_err()
        || brackets > WireLimits::default().max_depth()
}
