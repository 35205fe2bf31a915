//! What was wrong with a stream: located, counted, bounded, and without a word of its content.

use std::collections::VecDeque;
use std::fmt;

use headcount_contract::{FaultClass, WireFault};

use crate::framing::{Framed, FramedLine};

/// How many diagnostics are kept unless a setting says otherwise.
pub const DEFAULT_KEPT: usize = 32;

/// A line that was refused: where it stands, and what is wrong.
///
/// It holds nothing of the line's content: no excerpt, no key, no value. What it names are fields
/// of the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    line: u64,
    offset: u64,
    length: Option<u64>,
    fault: WireFault,
}

impl Diagnostic {
    pub(crate) fn new(line: &FramedLine<'_>, fault: WireFault) -> Self {
        Self {
            line: line.number,
            offset: line.offset,
            length: match line.framed {
                Framed::Line(bytes) | Framed::Truncated(bytes) => Some(bytes.len() as u64),
                Framed::Oversized => None,
            },
            fault,
        }
    }

    /// The line's number in the stream, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// The offset of the line's first byte in the stream.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The line's length in bytes, without its LF; none for an over-long line, which is told of
    /// before its end is known.
    pub fn length(&self) -> Option<u64> {
        self.length
    }

    /// The class of the fault.
    pub fn class(&self) -> FaultClass {
        self.fault.class()
    }

    /// The fault, with its place in the line.
    pub fn fault(&self) -> &WireFault {
        &self.fault
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {} (byte {}): {}",
            self.line, self.offset, self.fault
        )
    }
}

/// The latest diagnostics of a stream, and how many there were of each class.
///
/// ```
/// use headcount_adapter_jsonl::{Decoded, Decoder, DecoderLimits, Diagnostics};
/// use headcount_contract::FaultClass;
/// let mut diagnostics = Diagnostics::new(2);
/// let mut decoder = Decoder::new(DecoderLimits::default());
/// decoder.push(b"{}\n[]\nx\n", |line| {
///     if let Decoded::Fault(diagnostic) = line.decoded {
///         diagnostics.add(diagnostic);
///     }
/// });
/// assert_eq!(diagnostics.count(FaultClass::SchemaViolation), 2);
/// assert_eq!(diagnostics.total(), 3);
/// assert_eq!(diagnostics.kept().count(), 2);
/// ```
#[derive(Debug, Clone)]
pub struct Diagnostics {
    keep: usize,
    kept: VecDeque<Diagnostic>,
    counts: [u64; FaultClass::ALL.len()],
}

impl Diagnostics {
    /// Keeps the latest `keep`, and counts all.
    pub fn new(keep: usize) -> Self {
        Self {
            keep,
            kept: VecDeque::new(),
            counts: [0; FaultClass::ALL.len()],
        }
    }

    /// Takes one more.
    pub fn add(&mut self, diagnostic: Diagnostic) {
        if let Some(at) = FaultClass::ALL
            .iter()
            .position(|class| *class == diagnostic.class())
        {
            self.counts[at] += 1;
        }
        if self.keep == 0 {
            return;
        }
        if self.kept.len() == self.keep {
            self.kept.pop_front();
        }
        self.kept.push_back(diagnostic);
    }

    /// The latest ones, oldest first.
    pub fn kept(&self) -> impl Iterator<Item = &Diagnostic> {
        self.kept.iter()
    }

    /// How many there were of a class.
    pub fn count(&self, class: FaultClass) -> u64 {
        self.counts()
            .find(|(of, _)| *of == class)
            .map_or(0, |(_, n)| n)
    }

    /// How many there were of each class.
    pub fn counts(&self) -> impl Iterator<Item = (FaultClass, u64)> {
        FaultClass::ALL.into_iter().zip(self.counts)
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }
}

impl Default for Diagnostics {
    fn default() -> Self {
        Self::new(DEFAULT_KEPT)
    }
}
