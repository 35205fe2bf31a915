//! The fast lane: reads an event from a line of the usual shape, or leaves it to the parser.
//!
//! It never says what is wrong with a line. Whatever it does not know for certain to be a valid
//! event, such as escapes in identifiers, white space in unusual places, or fields it would have
//! to judge, it leaves to [`parse_event`](crate::parse_event), whose verdict is the only one. So
//! the two differ in speed alone, which a property test holds them to.

use super::json;
use super::{ParsedEvent, WireLimits};
use crate::{
    Activity, Capabilities, Capability, ChildId, ChildIdentity, ChildState, Details, EventId,
    EventKind, LifecycleEvent, Lineage, MAX_ID_BYTES, MAX_INTEGER, Sequence, SourceEpoch, SourceId,
    SourceIdentity, Timestamp,
};

/// Values that come again and again in a stream, and need not be made each time.
#[derive(Debug, Clone, Default)]
pub(super) struct Cache {
    source: Option<SourceIdentity>,
    children: Vec<Option<ChildId>>,
    capabilities: Option<(Box<str>, Capabilities)>,
}

/// How many children are remembered; a power of two.
const CHILDREN: usize = 4096;
/// The longest text of capabilities that is remembered.
const MAX_CAPABILITIES: usize = 256;
/// How many unknown fields the fast lane takes.
const MAX_EXTRA: usize = 4;

/// Reads an event, or nothing if the line is not of the usual shape.
pub(super) fn event(
    line: &str,
    limits: WireLimits,
    cache: &mut Cache,
    extra: &mut dyn FnMut(&str, &str),
) -> Option<ParsedEvent> {
    if limits.max_depth < 2 {
        return None;
    }
    let mut cursor = Cursor {
        text: line,
        bytes: line.as_bytes(),
        at: 0,
    };
    let mut fields = Fields::default();
    cursor.byte(b'{')?;
    loop {
        let key = cursor.string()?.plain()?;
        cursor.byte(b':')?;
        cursor.blank();
        fields.read(key, &mut cursor, limits, cache)?;
        match cursor.next()? {
            b',' => cursor.blank(),
            b'}' => break,
            _ => return None,
        }
    }
    while let Some(b'\r' | b' ') = cursor.peek() {
        cursor.at += 1;
    }
    if cursor.at != line.len() || fields.version.is_none() {
        return None;
    }
    let parsed = fields.build(cache)?;
    for (key, value) in fields.extra.into_iter().flatten() {
        extra(key, value);
    }
    Some(parsed)
}

#[derive(Default)]
struct Fields<'a> {
    version: Option<()>,
    event_id: Option<&'a str>,
    source: Option<&'a str>,
    epoch: Option<&'a str>,
    child: Option<&'a str>,
    lineage: Option<RawLineage<'a>>,
    kind: Option<&'a str>,
    state: Option<ChildState>,
    observed_at: Option<Timestamp>,
    sequence: Option<Sequence>,
    activity: Option<std::borrow::Cow<'a, str>>,
    details: Option<&'a str>,
    capabilities: Option<Capabilities>,
    extra: [Option<(&'a str, &'a str)>; MAX_EXTRA],
}

struct RawLineage<'a> {
    root: &'a str,
    attempt: u64,
    external: bool,
    parent: Option<&'a str>,
    adopted_at: Option<Timestamp>,
}

/// Sets a field that is not set yet: a key that comes twice is the parser's.
fn once<T>(field: &mut Option<T>, value: T) -> Option<()> {
    field.replace(value).is_none().then_some(())
}

impl<'a> Fields<'a> {
    #[inline]
    fn read(
        &mut self,
        key: &'a str,
        cursor: &mut Cursor<'a>,
        limits: WireLimits,
        cache: &mut Cache,
    ) -> Option<()> {
        match key.as_bytes() {
            b"schemaVersion" => (cursor.integer()? == 1).then(|| once(&mut self.version, ()))?,
            b"eventId" => once(&mut self.event_id, cursor.string()?.id()?),
            b"source" => once(&mut self.source, cursor.string()?.id()?),
            b"sourceEpoch" => once(&mut self.epoch, cursor.string()?.id()?),
            b"childId" => once(&mut self.child, cursor.string()?.id()?),
            b"lineage" => once(&mut self.lineage, lineage(cursor)?),
            b"kind" => once(&mut self.kind, cursor.string()?.plain()?),
            b"state" => once(&mut self.state, cursor.string()?.plain()?.parse().ok()?),
            b"observedAt" => once(&mut self.observed_at, cursor.time()?),
            b"sequence" => once(&mut self.sequence, Sequence::new(cursor.integer()?)?),
            b"activity" => once(&mut self.activity, cursor.string()?.unescaped()?),
            b"details" => {
                let end = json::object_end(cursor.text, cursor.at, limits.max_depth)?;
                let text = &cursor.text[cursor.at..end];
                cursor.at = end;
                once(&mut self.details, text)
            }
            b"capabilities" => once(&mut self.capabilities, capabilities(cursor, cache)?),
            _ => self.extra(key, cursor),
        }
    }

    /// A field that is not known, if its value is a plain string or integer.
    fn extra(&mut self, key: &'a str, cursor: &mut Cursor<'a>) -> Option<()> {
        let start = cursor.at;
        match cursor.peek()? {
            b'"' => _ = cursor.string()?.plain()?,
            _ => _ = cursor.integer()?,
        }
        let value = &cursor.text[start..cursor.at];
        for slot in &mut self.extra {
            match slot {
                Some((known, _)) if *known == key => return None,
                Some(_) => (),
                None => {
                    *slot = Some((key, value));
                    return Some(());
                }
            }
        }
        None
    }

    fn build(&mut self, cache: &mut Cache) -> Option<ParsedEvent> {
        let kind = kind(self.kind?, self.state)?;
        let child = cache.child(self.child?)?;
        let raw = self.lineage.as_ref()?;
        let root = if raw.root == child.as_str() {
            child.clone()
        } else {
            cache.child(raw.root)?
        };
        let mut lineage = Lineage::new(root).with_attempt(raw.attempt);
        if let Some(parent) = raw.parent {
            lineage = lineage.with_parent(cache.child(parent)?);
        }
        lineage = match (raw.external, raw.adopted_at) {
            (false, None) => lineage,
            (true, Some(at)) => lineage.adopted(at),
            _ => return None,
        };
        let mut event = LifecycleEvent::new(
            EventId::new(self.event_id?).ok()?,
            cache.source(self.source?, self.epoch?)?,
            ChildIdentity::new(child, lineage).ok()?,
            kind,
            self.observed_at?,
            self.capabilities.unwrap_or_default(),
        );
        if let Some(sequence) = self.sequence {
            event = event.with_sequence(sequence);
        }
        if let Some(activity) = self.activity.take() {
            event = event.with_activity(Activity::new(activity));
        }
        if let Some(details) = self.details {
            event = event.with_details(Details::from_checked(details));
        }
        Some(ParsedEvent {
            event,
            capabilities_absent: self.capabilities.is_none(),
        })
    }
}

/// Kind and state together (rule W1); nothing if they do not fit.
fn kind(name: &str, state: Option<ChildState>) -> Option<EventKind> {
    Some(match (name.as_bytes(), state) {
        (b"created", Some(ChildState::CREATED)) => EventKind::Created,
        (b"state_changed", Some(state)) => EventKind::StateChanged(state),
        (b"activity", None) => EventKind::Activity,
        (b"heartbeat", None) => EventKind::Heartbeat,
        (b"terminal", Some(ChildState::Terminal(outcome))) => EventKind::Terminal(outcome),
        (b"reconciliation", state) => EventKind::Reconciliation(state),
        (b"diagnostic", state) => EventKind::Diagnostic(state),
        _ => return None,
    })
}

fn lineage<'a>(cursor: &mut Cursor<'a>) -> Option<RawLineage<'a>> {
    let (mut root, mut attempt, mut external) = (None, None, None);
    let (mut parent, mut adopted_at) = (None, None);
    cursor.byte(b'{')?;
    loop {
        let key = cursor.string()?.plain()?;
        cursor.byte(b':')?;
        cursor.blank();
        match key.as_bytes() {
            b"rootChildId" => once(&mut root, cursor.string()?.id()?)?,
            b"attempt" => once(&mut attempt, cursor.integer()?)?,
            b"external" => once(&mut external, cursor.boolean()?)?,
            b"parentChildId" => once(&mut parent, cursor.string()?.id()?)?,
            b"adoptedAt" => once(&mut adopted_at, cursor.time()?)?,
            _ => return None,
        }
        match cursor.next()? {
            b',' => cursor.blank(),
            b'}' => break,
            _ => return None,
        }
    }
    Some(RawLineage {
        root: root?,
        attempt: attempt?,
        external: external?,
        parent,
        adopted_at,
    })
}

fn capabilities(cursor: &mut Cursor<'_>, cache: &mut Cache) -> Option<Capabilities> {
    if let Some((text, capabilities)) = &cache.capabilities
        && cursor.bytes[cursor.at..].starts_with(text.as_bytes())
    {
        cursor.at += text.len();
        return Some(*capabilities);
    }
    let start = cursor.at;
    let (mut history, mut heartbeat, mut snapshot) = (None, None, None);
    let (mut cancel, mut terminal_cause) = (None, None);
    cursor.byte(b'{')?;
    loop {
        let key = cursor.string()?.plain()?;
        cursor.byte(b':')?;
        cursor.blank();
        let value = match cursor.string()?.plain()? {
            "known" => Capability::Known,
            "unknown" => Capability::Unknown,
            _ => return None,
        };
        match key.as_bytes() {
            b"history" => once(&mut history, value)?,
            b"heartbeat" => once(&mut heartbeat, value)?,
            b"snapshot" => once(&mut snapshot, value)?,
            b"cancel" => once(&mut cancel, value)?,
            b"terminalCause" => once(&mut terminal_cause, value)?,
            _ => return None,
        }
        match cursor.next()? {
            b',' => cursor.blank(),
            b'}' => break,
            _ => return None,
        }
    }
    let capabilities = Capabilities {
        history: history?,
        heartbeat: heartbeat?,
        snapshot: snapshot?,
        cancel: cancel?,
        terminal_cause: terminal_cause?,
    };
    let text = &cursor.text[start..cursor.at];
    if text.len() <= MAX_CAPABILITIES {
        cache.capabilities = Some((text.into(), capabilities));
    }
    Some(capabilities)
}

impl Cache {
    fn child(&mut self, id: &str) -> Option<ChildId> {
        if self.children.is_empty() {
            self.children.resize(CHILDREN, None);
        }
        let slot = &mut self.children[slot(id.as_bytes())];
        match slot {
            Some(known) if known.as_str() == id => Some(known.clone()),
            _ => {
                let made = ChildId::new(id).ok()?;
                *slot = Some(made.clone());
                Some(made)
            }
        }
    }

    fn source(&mut self, source: &str, epoch: &str) -> Option<SourceIdentity> {
        match &self.source {
            Some(known) if known.source.as_str() == source && known.epoch.as_str() == epoch => {
                Some(known.clone())
            }
            _ => {
                let made =
                    SourceIdentity::new(SourceId::new(source).ok()?, SourceEpoch::new(epoch).ok()?);
                self.source = Some(made.clone());
                Some(made)
            }
        }
    }
}

/// A place in the cache for a text; not a good hash, but the ids of a stream end differently.
fn slot(bytes: &[u8]) -> usize {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = bytes.len() as u64;
    let mut words = bytes.rchunks_exact(8);
    for word in words.by_ref().take(4) {
        hash = (hash ^ load(word)).wrapping_mul(MIX).rotate_left(29);
    }
    for byte in words.remainder() {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(MIX);
    }
    usize::try_from(hash.wrapping_mul(MIX) >> 52).unwrap_or_default() % CHILDREN
}

fn load(bytes: &[u8]) -> u64 {
    bytes
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

struct Cursor<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
}

/// The content of a string, between its quotes.
struct Content<'a> {
    text: &'a str,
    /// With the quotes.
    literal: &'a str,
    /// The byte that ended the first part of it is a backslash.
    escaped: bool,
    /// It holds nothing but printable ASCII.
    printable: bool,
}

impl<'a> Content<'a> {
    /// Without escapes.
    fn plain(self) -> Option<&'a str> {
        (!self.escaped).then_some(self.text)
    }

    /// An identifier without escapes.
    fn id(self) -> Option<&'a str> {
        let valid = !self.escaped
            && !self.text.is_empty()
            && self.text.len() <= MAX_ID_BYTES
            && (self.printable || !self.text.chars().any(char::is_control));
        valid.then_some(self.text)
    }

    fn unescaped(self) -> Option<std::borrow::Cow<'a, str>> {
        if self.escaped {
            return serde_json::from_str::<String>(self.literal)
                .ok()
                .map(Into::into);
        }
        Some(self.text.into())
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The high bit of each byte that is zero, exactly up to the first one.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn byte(&mut self, expected: u8) -> Option<()> {
        (self.next()? == expected).then_some(())
    }

    /// Passes the blank that some writers put behind a colon or comma.
    fn blank(&mut self) {
        self.at += usize::from(self.peek() == Some(b' '));
    }

    /// Passes a string.
    #[inline]
    fn string(&mut self) -> Option<Content<'a>> {
        self.byte(b'"')?;
        let start = self.at;
        let mut odd = 0;
        let mut at = start;
        loop {
            let Some(word) = self.bytes.get(at..).and_then(<[u8]>::first_chunk) else {
                // The last bytes of a line are no place for a string that ends well.
                return self.string_slowly(start);
            };
            let word = u64::from_le_bytes(*word);
            let quote = zeros(word ^ (ONES * u64::from(b'"')));
            let slash = zeros(word ^ (ONES * u64::from(b'\\')));
            let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
            let end = quote | slash | control;
            let more = (word & HIGHS) | zeros(word ^ (ONES * 0x7f));
            if end == 0 {
                odd |= more;
                at += 8;
                continue;
            }
            let passed = end.trailing_zeros() / 8;
            odd |= more & !(u64::MAX << (passed * 8));
            at += passed as usize;
            if self.bytes[at] != b'"' {
                return self.string_slowly(start);
            }
            self.at = at + 1;
            return Some(Content {
                text: &self.text[start..at],
                literal: &self.text[start - 1..=at],
                escaped: false,
                printable: odd == 0,
            });
        }
    }

    /// A string with escapes, or at the very end of the line.
    #[cold]
    fn string_slowly(&mut self, start: usize) -> Option<Content<'a>> {
        let (end, escaped) = json::string_end(self.text, start - 1)?;
        self.at = end;
        Some(Content {
            text: &self.text[start..end - 1],
            literal: &self.text[start - 1..end],
            escaped,
            printable: false,
        })
    }

    /// An integer as rule W2 has it.
    fn integer(&mut self) -> Option<u64> {
        let start = self.at;
        let mut value = 0;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value * 10 + u64::from(digit - b'0');
            self.at += 1;
            if self.at - start > 16 {
                return None;
            }
        }
        let leading_zero = self.at - start > 1 && self.bytes[start] == b'0';
        let number = self.at > start && !leading_zero && value <= MAX_INTEGER;
        // What goes on as another number is the parser's.
        let ends = !matches!(self.peek(), Some(b'.' | b'e' | b'E'));
        (number && ends).then_some(value)
    }

    fn boolean(&mut self) -> Option<bool> {
        let rest = &self.bytes[self.at..];
        let (value, length) = match rest {
            [b't', b'r', b'u', b'e', ..] => (true, 4),
            [b'f', b'a', b'l', b's', b'e', ..] => (false, 5),
            _ => return None,
        };
        self.at += length;
        Some(value)
    }

    fn time(&mut self) -> Option<Timestamp> {
        self.string()?.plain()?.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{WireReader, parse_event_with, parse_line};
    use proptest::prelude::*;

    const LINES: [&str; 8] = [
        r#"{"schemaVersion":1,"eventId":"evt-7","source":"worker-cli","sourceEpoch":"start-2","childId":"child-42","lineage":{"rootChildId":"child-42","attempt":0,"external":false},"kind":"state_changed","state":"running","observedAt":"2026-08-24T09:15:30.000Z","sequence":7}"#,
        r#"{"schemaVersion": 1, "eventId": "e", "source": "s", "sourceEpoch": "é", "childId": "c", "lineage": {"rootChildId": "r", "attempt": 2, "external": true, "parentChildId": "p", "adoptedAt": "2026-08-24T09:15:30Z"}, "kind": "terminal", "state": "failed", "observedAt": "2026-08-24T09:15:30+00:00", "sequence": 9007199254740991, "capabilities": {"history": "known", "heartbeat": "unknown", "snapshot": "known", "cancel": "unknown", "terminalCause": "known"}}"#,
        r#"{"capabilities":{"history":"known","heartbeat":"known","snapshot":"unknown","cancel":"unknown","terminalCause":"known"},"activity":"say \"é\" \ud83d\ude00\n","kind":"activity","childId":"c","eventId":"e","source":"s","sourceEpoch":"x","lineage":{"external":false,"attempt":0,"rootChildId":"c"},"observedAt":"2026-08-24T09:15:30.123456789Z","schemaVersion":1,"journalSequence":12,"note":"x"}"#,
        r#"{"schemaVersion":1,"eventId":"e","source":"s","sourceEpoch":"x","childId":"c","lineage":{"rootChildId":"c","attempt":0,"external":false},"kind":"diagnostic","observedAt":"2024-02-29T23:59:59Z","details":{"pid":1,"api_key":"x","list":[1,{"a":null}," b "]},"sequence":0}"#,
        r#"{"source":"s","sourceEpoch":"e","snapshotId":"1","observedAt":"2026-08-24T09:15:30Z","complete":true,"coverage":"all","children":[{"childId":"a","state":"running"}]}"#,
        r#"{"schemaVersion":1,"eventId":"e","snapshotId":"1","source":"s","sourceEpoch":"x","childId":"c","lineage":{"rootChildId":"c","attempt":0,"external":false},"kind":"created","state":"created","observedAt":"2024-02-29T23:59:59Z"}"#,
        r#"{"schemaVersion":2,"eventId":7}"#,
        r#"[{"schemaVersion":1}]"#,
    ];

    /// Whatever one of the two says of a line, the other says too.
    fn check(line: &str, reader: &mut WireReader) {
        let limits = *reader.limits();
        assert_eq!(reader.read_line(line), parse_line(line, &limits), "{line}");
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let fast = reader.read_event_with(line, |key, value| {
            ours.push((key.to_owned(), value.to_owned()));
        });
        let slow = parse_event_with(line, &limits, |key, value| {
            theirs.push((key.to_owned(), value.to_owned()));
        });
        assert_eq!(fast, slow, "{line}");
        if fast.is_ok() {
            assert_eq!(ours, theirs, "{line}");
        }
    }

    fn takes(line: &str) -> bool {
        let limits = WireLimits::default();
        event(line, limits, &mut Cache::default(), &mut |_, _| ()).is_some()
    }

    #[test]
    fn takes_lines_of_the_usual_shape() {
        for line in &LINES[..4] {
            assert!(takes(line), "{line}");
            assert!(takes(&format!("{line}\r")), "{line}");
        }
    }

    #[test]
    fn agrees_with_the_parser_on_every_beginning_of_a_line() {
        let mut reader = WireReader::new(WireLimits::default());
        for line in LINES {
            for end in (0..=line.len()).filter(|end| line.is_char_boundary(*end)) {
                check(&line[..end], &mut reader);
            }
        }
    }

    #[test]
    fn agrees_with_the_parser_when_a_value_is_replaced() {
        const VALUES: [&str; 24] = [
            "null",
            "true",
            "[]",
            "{}",
            "\"\"",
            "\"x\"",
            "0",
            "1",
            "01",
            "-0",
            "7.0",
            "1e3",
            "-1",
            "9007199254740992",
            "99999999999999999999",
            "\"\\u0063\"",
            "\"a\\u0000\"",
            "\"\u{7f}\"",
            "\"\u{85}\"",
            "\"known\"",
            "\"created\"",
            "\"completed\"",
            "{\"a\":1,\"a\":2}",
            "\"2026-02-29T00:00:00Z\"",
        ];
        let mut reader = WireReader::new(WireLimits::default());
        for line in LINES {
            let colons: Vec<usize> = line.match_indices("\":").map(|(at, _)| at + 2).collect();
            for from in colons {
                let blank = usize::from(line[from..].starts_with(' '));
                let rest = line[from + blank..].find([',', '}']).unwrap();
                for value in VALUES {
                    let to = from + blank + rest;
                    check(
                        &format!("{}{value}{}", &line[..from], &line[to..]),
                        &mut reader,
                    );
                }
            }
        }
    }

    #[test]
    fn agrees_with_the_parser_on_the_length_of_identifiers() {
        let mut reader = WireReader::new(WireLimits::default());
        for length in [1, 7, 8, 9, 511, 512, 513] {
            for filler in ["x", "é"] {
                let id = filler.repeat(length);
                check(&LINES[0].replace("child-42", &id), &mut reader);
                check(&LINES[0].replace("evt-7", &id), &mut reader);
            }
        }
    }

    #[test]
    fn many_children_are_told_apart() {
        let mut reader = WireReader::new(WireLimits::default());
        for n in (0..10_000).chain(0..10_000) {
            check(
                &LINES[0].replace("child-42", &format!("child-{n}")),
                &mut reader,
            );
        }
    }

    fn edit() -> impl Strategy<Value = (usize, usize, String)> {
        let pieces = prop_oneof![
            "[\\[\\]{}:, \"\\\\0-9a-fu\\t\\r\\n.+-]{0,3}",
            Just("\\ud800".to_owned()),
            Just("\u{0}".to_owned()),
            Just("\u{7f}".to_owned()),
            Just("\u{9b}é".to_owned()),
            Just(",\"a\":1".to_owned()),
            Just("\"sequence\":1,".to_owned()),
            Just("\"kind\":\"heartbeat\",".to_owned()),
        ];
        (0_usize..600, 0_usize..6, pieces)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn agrees_with_the_parser_on_damaged_lines(
            line in 0..LINES.len(),
            edits in proptest::collection::vec(edit(), 0..4),
            depth in prop_oneof![Just(64_usize), 0_usize..5],
        ) {
            let mut text: Vec<char> = LINES[line].chars().collect();
            for (at, cut, piece) in edits {
                let from = at.min(text.len());
                let to = (from + cut).min(text.len());
                text.splice(from..to, piece.chars());
            }
            let text: String = text.into_iter().collect();
            let mut reader = WireReader::new(WireLimits::default().with_max_depth(depth));
            // Twice: the second time the cache knows what the first one met.
            check(&text, &mut reader);
            check(LINES[0], &mut reader);
            check(&text, &mut reader);
        }
    }
}
