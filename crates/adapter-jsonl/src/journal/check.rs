//! Judging a journal's lines one after the other. No I/O.

use std::collections::HashMap;

use headcount_contract::{
    ChildId, FaultClass, LifecycleEvent, Sequence, SequenceScope, SourceIdentity, WireFault,
    WireReader,
};

use super::error::{Blocked, BlockedReason};
use crate::decoder::{self, DecoderLimits};
use crate::framing::FramedLine;

/// The field that a journal adds to each event.
pub const JOURNAL_SEQUENCE: &str = "journalSequence";

/// By what the order of a journal is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Sequencing {
    /// Each line has a `journalSequence`: 1, 2, 3 and so on, without holes.
    #[default]
    Journal,
    /// A plain stream of events: within the scope each event's own sequence is above the one before
    /// it; events without one are not judged.
    Events(SequenceScope),
}

/// One line of a journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// Its `journalSequence`; in a plain stream, its number.
    pub sequence: u64,
    /// The event.
    pub event: LifecycleEvent,
    /// Its line, from 1.
    pub line: u64,
    /// The offset of the line's first byte.
    pub offset: u64,
}

/// What has been seen of a journal so far.
#[derive(Debug, Clone)]
pub(crate) struct Checker {
    limits: DecoderLimits,
    sequencing: Sequencing,
    reader: WireReader,
    entries: u64,
    high: HashMap<(SourceIdentity, Option<ChildId>), Sequence>,
}

impl Checker {
    pub(crate) fn new(limits: DecoderLimits, sequencing: Sequencing) -> Self {
        Self {
            limits,
            sequencing,
            reader: WireReader::new(limits.wire()),
            entries: 0,
            high: HashMap::new(),
        }
    }

    /// How many lines were accepted; the last `journalSequence`.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    /// Counts lines that were written here and need no judgement.
    pub(crate) fn skip(&mut self, lines: u64) {
        self.entries += lines;
    }

    /// Judges the next line.
    pub(crate) fn check(&mut self, line: &FramedLine<'_>) -> Result<JournalEntry, Blocked> {
        let blocked = |reason, what: String| Blocked {
            reason,
            line: line.number,
            offset: line.offset,
            what,
        };
        let fault = |fault: &WireFault| blocked(fault.class().into(), fault.to_string());
        let mut sequence = None;
        let mut extra = |key: &str, value: &str| {
            if key == JOURNAL_SEQUENCE {
                sequence = Some(integer(value));
            }
        };
        let text = decoder::text(line, &self.limits).map_err(|f| fault(&f))?;
        let event = self
            .reader
            .read_event_with(text, &mut extra)
            .map_err(|f| fault(&f))?
            .event;
        let next = self.entries + 1;
        match self.sequencing {
            Sequencing::Journal => match sequence {
                Some(Some(sequence)) if sequence == next => (),
                Some(Some(sequence)) => {
                    return Err(blocked(
                        BlockedReason::NonMonotonic,
                        format!("{JOURNAL_SEQUENCE} {next} is due, {sequence} stands there"),
                    ));
                }
                Some(None) => return Err(fault(&wrong("an integer from 1 to 9007199254740991"))),
                None => return Err(fault(&wrong("this field"))),
            },
            Sequencing::Events(scope) => self.in_order(&event, scope).map_err(|due| {
                blocked(
                    BlockedReason::NonMonotonic,
                    format!("a sequence above {} is due", due.get()),
                )
            })?,
        }
        self.entries = next;
        Ok(JournalEntry {
            sequence: next,
            event,
            line: line.number,
            offset: line.offset,
        })
    }

    /// Fails with the sequence that the event's should be above.
    fn in_order(&mut self, event: &LifecycleEvent, scope: SequenceScope) -> Result<(), Sequence> {
        let Some(sequence) = event.sequence() else {
            return Ok(());
        };
        let child = (scope == SequenceScope::Child).then(|| event.child_id().clone());
        let key = (event.source_identity().clone(), child);
        match self.high.get(&key) {
            Some(high) if sequence <= *high => Err(*high),
            _ => {
                self.high.insert(key, sequence);
                Ok(())
            }
        }
    }
}

fn wrong(expected: &'static str) -> WireFault {
    WireFault::new(FaultClass::SchemaViolation, 0, expected).in_field(JOURNAL_SEQUENCE)
}

/// An integer as the contract writes them (rule W2).
fn integer(text: &str) -> Option<u64> {
    text.bytes()
        .all(|b| b.is_ascii_digit())
        .then(|| text.parse().ok())
        .flatten()
        .and_then(Sequence::new)
        .map(Sequence::get)
}
