//! Any bytes, cut anywhere: the decoder neither panics nor contradicts itself.
#![no_main]

use headcount_adapter_jsonl::{
    Decoded, DecodedLine, Decoder, DecoderLimits, JournalReader, Sequencing,
};
use headcount_contract::{SequenceScope, WireLimits, WireReader, parse_event, parse_line};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    // The first byte says how the others are cut.
    let Some((size, bytes)) = input.split_first() else {
        return;
    };
    let whole = decode(std::iter::once(bytes));
    let cut = decode(bytes.chunks(usize::from(*size).max(1)));
    assert_eq!(whole, cut, "the verdict depends on the chunks");
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
