//! Reading many lines of one stream.

use super::fast::{self, Cache};
use super::{ParsedEvent, WireFault, WireLimits, WireLine, parse_event_with, parse_line};

/// Reads line after line of one stream: the same verdicts as [`parse_line`], sooner.
///
/// # Behavior
///
/// - What comes again and again in a stream (its source, its epoch, its children, its capabilities)
///   is made once and shared by the events. At most some thousand identifiers are kept.
///
/// ```
/// use headcount_contract::{WireLimits, WireLine, WireReader};
/// let line = r#"{"schemaVersion":1,"eventId":"evt-7","source":"worker-cli","sourceEpoch":"start-2","childId":"child-42","lineage":{"rootChildId":"child-42","attempt":0,"external":false},"kind":"heartbeat","observedAt":"2026-08-24T09:15:30.000Z","sequence":7}"#;
/// let mut reader = WireReader::new(WireLimits::default());
/// let WireLine::Event(parsed) = reader.read_line(line)? else { panic!("it has an eventId") };
/// assert_eq!(parsed.event.child_id().as_str(), "child-42");
/// # Ok::<(), headcount_contract::WireFault>(())
/// ```
#[derive(Debug, Clone)]
pub struct WireReader {
    limits: WireLimits,
    cache: Cache,
}

impl WireReader {
    /// A reader within these limits.
    pub fn new(limits: WireLimits) -> Self {
        Self {
            limits,
            cache: Cache::default(),
        }
    }

    /// The limits it reads within.
    pub fn limits(&self) -> &WireLimits {
        &self.limits
    }

    /// As [`parse_line`].
    ///
    /// # Errors
    ///
    /// As [`parse_line`].
    pub fn read_line(&mut self, line: &str) -> Result<WireLine, WireFault> {
        match fast::event(line, self.limits, &mut self.cache, &mut |_, _| ()) {
            Some(parsed) => Ok(WireLine::Event(parsed)),
            None => parse_line(line, &self.limits),
        }
    }

    /// As [`parse_event_with`].
    ///
    /// # Errors
    ///
    /// As [`parse_event_with`].
    pub fn read_event_with(
        &mut self,
        line: &str,
        mut extra: impl FnMut(&str, &str),
    ) -> Result<ParsedEvent, WireFault> {
        match fast::event(line, self.limits, &mut self.cache, &mut extra) {
            Some(parsed) => Ok(parsed),
            None => parse_event_with(line, &self.limits, extra),
        }
    }
}
