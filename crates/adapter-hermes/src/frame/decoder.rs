//! From bytes to frames.

use serde_json::{Map, Value};

use super::{Decoded, FrameFault, classify};

/// Cuts a stream of bytes into frames.
///
/// # Behavior
///
/// - The result does not depend on where the chunks were cut.
/// - Holds at most one line, and of that at most the limit: the rest of a longer line is skipped.
/// - Blank lines are nothing; a carriage return before the line end is part of it.
///
/// ```
/// use headcount_adapter_hermes::frame::{Frame, FrameDecoder};
/// let mut decoder = FrameDecoder::new(1024);
/// let mut read = Vec::new();
/// decoder.push(br#"{"jsonrpc":"2.0","method":"event","#, &mut read);
/// assert!(read.is_empty());
/// decoder.push(b"\"params\":{\"type\":\"gateway.ready\"}}\n", &mut read);
/// assert!(matches!(&read[..], [Ok(Frame::Event(event))] if event.kind == "gateway.ready"));
/// ```
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    line: Vec<u8>,
    /// The present line is over the limit and is skipped to its end.
    skipping: bool,
}

impl FrameDecoder {
    /// A decoder of frames of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            skipping: false,
        }
    }

    /// Reads the next chunk and appends what it completes.
    pub fn push(&mut self, mut chunk: &[u8], read: &mut Vec<Decoded>) {
        while let Some(end) = memchr::memchr(b'\n', chunk) {
            self.extend(&chunk[..end]);
            self.end_line(read);
            chunk = &chunk[end + 1..];
        }
        self.extend(chunk);
    }

    /// The input has ended: a last line without an end counts if it is whole.
    pub fn finish(&mut self, read: &mut Vec<Decoded>) {
        if !self.skipping && !self.line.trim_ascii().is_empty() {
            let last = decode(&self.line);
            read.extend(last.map(|d| d.map_err(|_| FrameFault::Truncated)));
            self.line.clear();
        } else {
            self.end_line(read);
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.line.len() + bytes.len() > self.limit {
            self.skipping = true;
            self.line = Vec::new();
        } else {
            self.line.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, read: &mut Vec<Decoded>) {
        if std::mem::take(&mut self.skipping) {
            read.push(Err(FrameFault::Oversized));
        } else {
            read.extend(decode(&self.line));
        }
        self.line.clear();
    }
}

/// Reads one line; nothing if it is blank.
///
/// ```
/// use headcount_adapter_hermes::frame::{FrameFault, decode};
/// assert_eq!(decode(b"  \r"), None);
/// assert_eq!(decode(b"Traceback"), Some(Err(FrameFault::MalformedJson)));
/// ```
pub fn decode(line: &[u8]) -> Option<Decoded> {
    decode_object(line).map(|object| object.and_then(classify))
}

/// The JSON object of one line; nothing if it is blank.
pub(crate) fn decode_object(line: &[u8]) -> Option<Result<Map<String, Value>, FrameFault>> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return None;
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Some(Err(FrameFault::InvalidUtf8));
    };
    Some(match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(FrameFault::NotAFrame),
        Err(_) => Err(FrameFault::MalformedJson),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8], limit: usize) -> Vec<Decoded> {
        let (mut decoder, mut read) = (FrameDecoder::new(limit), Vec::new());
        decoder.push(bytes, &mut read);
        decoder.finish(&mut read);
        read
    }

    #[test]
    fn a_last_line_counts_if_it_is_whole() {
        assert!(matches!(read(b"{\"method\":\"ping\"}", 99)[..], [Ok(_)]));
        assert_eq!(read(b"{\"method\":\"pi", 99), [Err(FrameFault::Truncated)]);
        assert_eq!(read(&[b'x'; 100], 99), [Err(FrameFault::Oversized)]);
        assert_eq!(read(b"\xff\n", 99), [Err(FrameFault::InvalidUtf8)]);
    }

    proptest! {
        #[test]
        fn the_cuts_do_not_matter(
            bytes in proptest::collection::vec(prop_oneof![4 => any::<u8>(), 1 => Just(b'\n'), 2 => Just(b'{')], 0..300),
            cuts in proptest::collection::vec(0_usize..300, 0..12),
        ) {
            let whole = read(&bytes, 64);
            let (mut decoder, mut pieces) = (FrameDecoder::new(64), Vec::new());
            let mut cuts: Vec<_> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                decoder.push(&bytes[from..cut], &mut pieces);
                from = cut;
            }
            decoder.finish(&mut pieces);
            prop_assert_eq!(whole, pieces);
        }
    }
}
