//! Lines to signals. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use headcount_contract::{Discontinuity, DiscontinuityCause, Gap, Signal};

use crate::decoder::{Decoded, DecodedLine, Decoder, DecoderLimits};
use crate::diagnostic::Diagnostics;
use crate::observed::Observed;

/// Turns the bytes of streams into signals, and keeps what a snapshot and the health need.
#[derive(Debug)]
pub(crate) struct Translator {
    limits: DecoderLimits,
    /// One decoder a stream: lines never run from one into another. Few are open at once.
    decoders: BTreeMap<u64, Decoder>,
    pub(crate) observed: Observed,
    pub(crate) diagnostics: Diagnostics,
    pub(crate) counts: Counts,
}

/// What came in so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) bytes: u64,
    pub(crate) lines: u64,
    pub(crate) events: u64,
    pub(crate) snapshots: u64,
    pub(crate) discontinuities: u64,
}

impl Translator {
    pub(crate) fn new(limits: DecoderLimits, observed: Observed) -> Self {
        Self {
            limits,
            decoders: BTreeMap::new(),
            observed,
            diagnostics: Diagnostics::default(),
            counts: Counts::default(),
        }
    }

    /// A stream begins with line `line` at byte `offset`; lines may be missing before it.
    pub(crate) fn began(
        &mut self,
        stream: u64,
        offset: u64,
        line: u64,
        after: Option<DiscontinuityCause>,
        signals: &mut Vec<Signal>,
    ) {
        self.decoders
            .insert(stream, Decoder::new(self.limits).at(offset, line));
        if let Some(cause) = after {
            self.counts.discontinuities += 1;
            signals.push(Signal::Discontinuity(Discontinuity {
                cause,
                gap: Gap::Possible,
            }));
        }
    }

    /// The next bytes of a stream.
    pub(crate) fn bytes(&mut self, stream: u64, bytes: &[u8], signals: &mut Vec<Signal>) {
        self.counts.bytes += bytes.len() as u64;
        let Some(mut decoder) = self.decoders.remove(&stream) else {
            return;
        };
        decoder.push(bytes, |line| self.line(line, signals));
        self.decoders.insert(stream, decoder);
    }

    /// A stream has ended: a line without an end is truncated.
    pub(crate) fn over(&mut self, stream: u64, signals: &mut Vec<Signal>) {
        if let Some(mut decoder) = self.decoders.remove(&stream) {
            decoder.finish(|line| self.line(line, signals));
        }
    }

    /// A stream was cut: the line that had not ended is void.
    pub(crate) fn broken(&mut self, stream: u64) {
        self.decoders.remove(&stream);
    }

    /// Where the first line starts, and which it is, of the latest stream, that was not handed on.
    pub(crate) fn position(&self) -> Option<(u64, u64)> {
        let (_, decoder) = self.decoders.last_key_value()?;
        Some((decoder.line_start(), decoder.line_number()))
    }

    fn line(&mut self, line: DecodedLine, signals: &mut Vec<Signal>) {
        self.counts.lines += 1;
        match line.decoded {
            Decoded::Event {
                event,
                capabilities_absent,
            } => {
                self.counts.events += 1;
                self.observed.event(&event, capabilities_absent);
                signals.push(Signal::Event(event));
            }
            Decoded::Snapshot(snapshot) => {
                self.counts.snapshots += 1;
                self.observed.snapshot(&snapshot);
                signals.push(Signal::Snapshot(snapshot));
            }
            Decoded::Fault(diagnostic) => self.diagnostics.add(diagnostic),
        }
    }
}
