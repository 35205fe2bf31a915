//! Bytes in, events, snapshots or located faults out. No I/O.

use headcount_contract::{
    FaultClass, LifecycleEvent, Snapshot, WireFault, WireLimits, WireLine, WireReader,
};

use crate::diagnostic::Diagnostic;
use crate::framing::{DEFAULT_MAX_LINE, Framed, FramedLine, LineSplitter};

/// How much of a stream is held and read before it is refused.
///
/// ```
/// use headcount_adapter_jsonl::DecoderLimits;
/// let limits = DecoderLimits::default().with_max_line(4096).with_max_depth(16);
/// assert_eq!((limits.max_line(), limits.max_depth()), (4096, 16));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderLimits {
    max_line: usize,
    wire: WireLimits,
}

impl DecoderLimits {
    /// The same with another cap on a line, in bytes before its LF.
    pub fn with_max_line(self, bytes: usize) -> Self {
        Self {
            max_line: bytes,
            ..self
        }
    }

    /// The same with another cap on nesting, at most 512.
    pub fn with_max_depth(self, depth: usize) -> Self {
        Self {
            wire: self.wire.with_max_depth(depth),
            ..self
        }
    }

    /// The longest line that is read, in bytes before its LF.
    pub fn max_line(&self) -> usize {
        self.max_line
    }

    /// The deepest nesting that is read.
    pub fn max_depth(&self) -> usize {
        self.wire.max_depth()
    }

    /// What the parser is given.
    pub(crate) fn wire(&self) -> WireLimits {
        self.wire
    }
}

impl Default for DecoderLimits {
    /// 64 KiB a line, 64 levels deep.
    fn default() -> Self {
        Self {
            max_line: DEFAULT_MAX_LINE,
            wire: WireLimits::default(),
        }
    }
}

/// Reads a stream of JSON lines.
///
/// # Behavior
///
/// - Every line gives exactly one [`DecodedLine`], in order: an event, a snapshot (an object with a
///   `snapshotId` and no `eventId`), or a diagnostic that says where it is and what is wrong.
/// - The verdict on a line does not depend on how its bytes were cut into chunks, and one bad line
///   does not touch its neighbours.
/// - Of several faults the first in the order of [`FaultClass`] is told: oversized before truncated
///   before invalid UTF-8 before malformed JSON, and so on.
/// - Memory: at most one line.
///
/// ```
/// use headcount_adapter_jsonl::{Decoded, Decoder, DecoderLimits};
/// let mut decoder = Decoder::new(DecoderLimits::default());
/// let mut faults = Vec::new();
/// decoder.push(b"not json\n", |line| {
///     if let Decoded::Fault(diagnostic) = line.decoded {
///         faults.push(diagnostic.to_string());
///     }
/// });
/// assert_eq!(faults, ["line 1 (byte 0): malformed-json at byte 0: expected a JSON value"]);
/// ```
#[derive(Debug, Clone)]
pub struct Decoder {
    limits: DecoderLimits,
    splitter: LineSplitter,
    reader: WireReader,
}

/// What one line of the stream is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodedLine {
    /// Its number in the stream, from 1.
    pub number: u64,
    /// The offset of its first byte in the stream.
    pub offset: u64,
    /// What it holds.
    pub decoded: Decoded,
}

/// An event, a snapshot, or why neither.
///
/// Exhaustive: a line of a lifecycle stream is nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decoded {
    /// One event.
    Event {
        /// The event.
        event: LifecycleEvent,
        /// The line had no `capabilities`; read as all unknown (rule W4).
        capabilities_absent: bool,
    },
    /// What the producer says of its children at one moment.
    Snapshot(Snapshot),
    /// The line is refused.
    Fault(Diagnostic),
}

impl Decoder {
    /// A decoder at the start of a stream.
    pub fn new(limits: DecoderLimits) -> Self {
        Self {
            splitter: LineSplitter::new(limits.max_line),
            reader: WireReader::new(limits.wire),
            limits,
        }
    }

    /// The same at the start of line `number`, which begins at byte `offset` of the stream.
    pub fn at(mut self, offset: u64, number: u64) -> Self {
        self.splitter.restart(offset, number);
        self
    }

    /// Takes the next bytes of the stream and hands what each line holds to `sink`.
    pub fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(DecodedLine)) {
        let Self {
            limits,
            splitter,
            reader,
        } = self;
        splitter.push(bytes, |line| sink(decode(line, limits, reader)));
    }

    /// Says that the stream has ended: an unterminated last line is truncated, even if it parses.
    pub fn finish(&mut self, mut sink: impl FnMut(DecodedLine)) {
        let Self {
            limits,
            splitter,
            reader,
        } = self;
        splitter.finish(|line| sink(decode(line, limits, reader)));
    }

    /// Forgets the line that has not ended, and goes on at the start of line `number` at byte
    /// `offset`: the bytes that would have completed it are gone.
    pub fn restart(&mut self, offset: u64, number: u64) {
        self.splitter.restart(offset, number);
    }

    /// Where the line starts whose end has not been seen; everything before it was handed out.
    pub fn line_start(&self) -> u64 {
        self.splitter.line_start()
    }

    /// Where the next byte of the stream stands.
    pub fn position(&self) -> u64 {
        self.splitter.position()
    }

    /// The number of the line whose end has not been seen.
    pub fn line_number(&self) -> u64 {
        self.splitter.line_number()
    }
}

fn decode(line: FramedLine<'_>, limits: &DecoderLimits, reader: &mut WireReader) -> DecodedLine {
    let decoded = match text(&line, limits) {
        Ok(text) => match reader.read_line(text) {
            Ok(WireLine::Event(parsed)) => Decoded::Event {
                event: parsed.event,
                capabilities_absent: parsed.capabilities_absent,
            },
            Ok(WireLine::Snapshot(snapshot)) => Decoded::Snapshot(snapshot),
            Err(fault) => Decoded::Fault(Diagnostic::new(&line, fault)),
        },
        Err(fault) => Decoded::Fault(Diagnostic::new(&line, fault)),
    };
    DecodedLine {
        number: line.number,
        offset: line.offset,
        decoded,
    }
}

/// The text of a line, or the fault that comes before any look at its content.
pub(crate) fn text<'a>(
    line: &FramedLine<'a>,
    limits: &DecoderLimits,
) -> Result<&'a str, WireFault> {
    match line.framed {
        Framed::Line(bytes) => std::str::from_utf8(bytes)
            .map_err(|error| WireFault::new(FaultClass::InvalidUtf8, error.valid_up_to(), "UTF-8")),
        Framed::Oversized => Err(WireFault::new(
            FaultClass::Oversized,
            limits.max_line,
            format!("a line end after at most {} bytes", limits.max_line),
        )),
        Framed::Truncated(bytes) => Err(WireFault::new(
            FaultClass::Truncated,
            bytes.len(),
            "a line end (LF) before the end of the stream",
        )),
    }
}
