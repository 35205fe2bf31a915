//! A strict JSON scanner: checks a whole text in one pass without building a tree.
//!
//! Stricter than RFC 8259 where two readers of one line could disagree: duplicate keys are found
//! at every depth, lone surrogates are refused, and nesting is capped (rule W5).

use std::borrow::Cow;
use std::collections::HashSet;

use crate::details::{REDACTED, is_secret_key, is_token_count};

/// The deepest nesting that can be asked for; the scanner recurses once a level.
pub(crate) const MAX_DEPTH: usize = 512;

/// Where and why a text is not acceptable JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SyntaxError {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

/// What a value is, by its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

/// One value in the text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
    pub(crate) kind: Kind,
    /// For a string: whether it holds an escape.
    escaped: bool,
}

impl<'a> Raw<'a> {
    /// The content of a string value, or `None` for another kind.
    pub(crate) fn string(&self) -> Option<Cow<'a, str>> {
        (self.kind == Kind::String).then(|| unquote(self.text, self.escaped))
    }
}

/// The first duplicate key of a text, if any.
#[derive(Debug, Default)]
pub(crate) struct Duplicates {
    pub(crate) first: Option<(usize, String)>,
}

/// Reads the text of one value, with white space around it, calling `member` for each member if
/// the value is an object.
///
/// Returns the value; an error means that the text is not JSON in the strict sense above.
pub(crate) fn scan<'a>(
    text: &'a str,
    max_depth: usize,
    duplicates: &mut Duplicates,
    member: &mut dyn FnMut(Cow<'a, str>, Raw<'a>),
) -> Result<Raw<'a>, SyntaxError> {
    let mut scanner = Scanner {
        text,
        at: 0,
        max_depth: max_depth.min(MAX_DEPTH),
        duplicates,
    };
    scanner.space();
    let start = scanner.at;
    let value = if scanner.peek() == Some(b'{') {
        scanner.object(1, member)?;
        scanner.raw(start, Kind::Object, false)
    } else {
        scanner.value(0)?
    };
    scanner.space();
    if scanner.at < text.len() {
        return Err(scanner.error("the end of the line"));
    }
    Ok(value)
}

/// Where the object that starts at `at` ends, as a member of the line's object; nothing if it is not
/// acceptable, or no object.
pub(crate) fn object_end(text: &str, at: usize, max_depth: usize) -> Option<usize> {
    let mut duplicates = Duplicates::default();
    let mut scanner = Scanner {
        text,
        at,
        max_depth: max_depth.min(MAX_DEPTH),
        duplicates: &mut duplicates,
    };
    if scanner.peek() != Some(b'{') {
        return None;
    }
    scanner.object(2, &mut |_, _| ()).ok()?;
    let end = scanner.at;
    duplicates.first.is_none().then_some(end)
}

/// Where the string that starts at `at` ends, and whether it holds an escape; nothing if it is not
/// acceptable.
pub(crate) fn string_end(text: &str, at: usize) -> Option<(usize, bool)> {
    let mut scanner = Scanner {
        text,
        at,
        max_depth: MAX_DEPTH,
        duplicates: &mut Duplicates::default(),
    };
    let escaped = scanner.string().ok()?;
    Some((scanner.at, escaped))
}

struct Scanner<'a, 'd> {
    text: &'a str,
    at: usize,
    max_depth: usize,
    duplicates: &'d mut Duplicates,
}

impl<'a> Scanner<'a, '_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn error(&self, expected: &'static str) -> SyntaxError {
        SyntaxError {
            at: self.at,
            expected,
        }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn raw(&self, start: usize, kind: Kind, escaped: bool) -> Raw<'a> {
        Raw {
            text: &self.text[start..self.at],
            at: start,
            kind,
            escaped,
        }
    }

    fn value(&mut self, depth: usize) -> Result<Raw<'a>, SyntaxError> {
        let start = self.at;
        let (kind, escaped) = match self.peek() {
            Some(b'"') => (Kind::String, self.string()?),
            Some(b'{') => {
                self.object(depth + 1, &mut |_, _| ())?;
                (Kind::Object, false)
            }
            Some(b'[') => {
                self.array(depth + 1)?;
                (Kind::Array, false)
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                (Kind::Number, false)
            }
            Some(b't') => (self.word("true", Kind::Bool)?, false),
            Some(b'f') => (self.word("false", Kind::Bool)?, false),
            Some(b'n') => (self.word("null", Kind::Null)?, false),
            _ => return Err(self.error("a JSON value")),
        };
        Ok(self.raw(start, kind, escaped))
    }

    fn word(&mut self, word: &'static str, kind: Kind) -> Result<Kind, SyntaxError> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(self.error("a JSON value"));
        }
        self.at += word.len();
        Ok(kind)
    }

    fn object(
        &mut self,
        depth: usize,
        member: &mut dyn FnMut(Cow<'a, str>, Raw<'a>),
    ) -> Result<(), SyntaxError> {
        self.enter(depth)?;
        let mut keys = Keys::default();
        if self.close(b'}') {
            return Ok(());
        }
        loop {
            self.space();
            let start = self.at;
            if self.peek() != Some(b'"') {
                return Err(self.error("a key in double quotes"));
            }
            let escaped = self.string()?;
            let key = unquote(&self.text[start..self.at], escaped);
            if self.duplicates.first.is_none() && !keys.insert(key.clone()) {
                self.duplicates.first = Some((start, key.clone().into_owned()));
            }
            self.space();
            if self.peek() != Some(b':') {
                return Err(self.error("a colon"));
            }
            self.at += 1;
            self.space();
            let value = self.value(depth)?;
            member(key, value);
            if self.next(b'}', "a comma or the end of the object")? {
                return Ok(());
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), SyntaxError> {
        self.enter(depth)?;
        if self.close(b']') {
            return Ok(());
        }
        loop {
            self.space();
            self.value(depth)?;
            if self.next(b']', "a comma or the end of the array")? {
                return Ok(());
            }
        }
    }

    fn enter(&mut self, depth: usize) -> Result<(), SyntaxError> {
        if depth > self.max_depth {
            return Err(self.error("less nesting"));
        }
        self.at += 1;
        Ok(())
    }

    /// Whether the bracket closes right here.
    fn close(&mut self, bracket: u8) -> bool {
        self.space();
        let closes = self.peek() == Some(bracket);
        self.at += usize::from(closes);
        closes
    }

    /// Passes a comma (`false`) or the closing bracket (`true`).
    fn next(&mut self, bracket: u8, expected: &'static str) -> Result<bool, SyntaxError> {
        self.space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(b) if b == bracket => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.error(expected)),
        }
    }

    /// Passes a string; whether it holds an escape.
    fn string(&mut self) -> Result<bool, SyntaxError> {
        let bytes = self.text.as_bytes();
        let mut escaped = false;
        self.at += 1;
        loop {
            match bytes.get(self.at) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(0x20..) => self.at += 1,
                Some(_) => return Err(self.error("no raw control character in a string")),
                None => return Err(self.error("the end of the string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), SyntaxError> {
        match self.text.as_bytes().get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => match self.unit()? {
                0xd800..=0xdbff => {
                    if !self.text.as_bytes()[self.at..].starts_with(b"\\u") {
                        return Err(self.error("the second half of a surrogate pair"));
                    }
                    let at = self.at;
                    if !(0xdc00..=0xdfff).contains(&self.unit()?) {
                        return Err(SyntaxError {
                            at,
                            expected: "the second half of a surrogate pair",
                        });
                    }
                }
                0xdc00..=0xdfff => return Err(self.error("no lone surrogate")),
                _ => (),
            },
            _ => return Err(self.error("a JSON escape")),
        }
        Ok(())
    }

    /// Passes `\uXXXX` and returns its code unit.
    fn unit(&mut self) -> Result<u32, SyntaxError> {
        let digits = self.text.as_bytes().get(self.at + 2..self.at + 6);
        let unit = digits
            .filter(|d| d.iter().all(u8::is_ascii_hexdigit))
            .and_then(|d| std::str::from_utf8(d).ok())
            .and_then(|d| u32::from_str_radix(d, 16).ok())
            .ok_or_else(|| self.error("four hexadecimal digits"))?;
        self.at += 6;
        Ok(unit)
    }

    fn number(&mut self) -> Result<(), SyntaxError> {
        self.at += usize::from(self.peek() == Some(b'-'));
        match self.peek() {
            Some(b'0') => self.at += 1,
            Some(b'1'..=b'9') => self.digits(),
            _ => return Err(self.error("a digit")),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.some_digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) {
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Result<(), SyntaxError> {
        let start = self.at;
        self.digits();
        if self.at == start {
            Err(self.error("a digit"))
        } else {
            Ok(())
        }
    }
}

/// The keys of one object. Few are compared one by one, without an allocation; many go to a set,
/// so that a hostile line costs linear time.
struct Keys<'a> {
    few: [Cow<'a, str>; FEW],
    count: usize,
    many: Option<HashSet<Cow<'a, str>>>,
}

const FEW: usize = 16;

impl Default for Keys<'_> {
    fn default() -> Self {
        Self {
            few: [const { Cow::Borrowed("") }; FEW],
            count: 0,
            many: None,
        }
    }
}

impl<'a> Keys<'a> {
    /// Whether the key is new.
    fn insert(&mut self, key: Cow<'a, str>) -> bool {
        if let Some(many) = &mut self.many {
            return many.insert(key);
        }
        if self.few[..self.count].contains(&key) {
            return false;
        }
        if self.count < FEW {
            self.few[self.count] = key;
            self.count += 1;
        } else {
            let mut many: HashSet<_> = std::mem::take(&mut self.few).into_iter().collect();
            many.insert(key);
            self.many = Some(many);
        }
        true
    }
}

/// The content of a checked string literal.
fn unquote(literal: &str, escaped: bool) -> Cow<'_, str> {
    if !escaped {
        return Cow::Borrowed(&literal[1..literal.len() - 1]);
    }
    // The scanner has passed it, so it decodes; a fault here would only keep the raw text.
    serde_json::from_str::<String>(literal).map_or(Cow::Borrowed(literal), Cow::Owned)
}

/// The elements of a checked array, placed as the array is.
pub(crate) fn elements(array: Raw<'_>) -> Vec<Raw<'_>> {
    let mut duplicates = Duplicates::default();
    let mut scanner = Scanner {
        text: array.text,
        at: 0,
        max_depth: MAX_DEPTH,
        duplicates: &mut duplicates,
    };
    let mut elements = Vec::new();
    // The text was scanned before, so no step fails; one that did would end the list.
    let mut read = || -> Result<(), SyntaxError> {
        scanner.enter(0)?;
        if scanner.close(b']') {
            return Ok(());
        }
        loop {
            scanner.space();
            let mut element = scanner.value(0)?;
            element.at += array.at;
            elements.push(element);
            if scanner.next(b']', "the end of the array")? {
                return Ok(());
            }
        }
    };
    let _ = read();
    elements
}

/// The raw value of `key` in the text of a checked object.
pub(crate) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let mut found = None;
    let mut note = |name: Cow<'a, str>, value: Raw<'a>| {
        if name == key {
            found = Some(value.text);
        }
    };
    scan(object, MAX_DEPTH, &mut Duplicates::default(), &mut note).ok()?;
    found
}

/// A checked text without white space between its tokens and without secrets.
pub(crate) fn compact(text: &str) -> Cow<'_, str> {
    if !needs_rewriting(text) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    rewrite(text, &mut out);
    Cow::Owned(out)
}

/// Walks the tokens of a checked text; calls `token` with each string, white-space run or other.
fn tokens<'a>(text: &'a str, mut token: impl FnMut(&'a str) -> bool) {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at += 1,
            b' ' | b'\t' | b'\r' | b'\n' => {
                while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
                    at += 1;
                }
            }
            _ => {
                while let Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'E') =
                    bytes.get(at)
                {
                    at += 1;
                }
            }
        }
        if !token(&text[start..at]) {
            return;
        }
    }
}

fn needs_rewriting(text: &str) -> bool {
    let (mut needs, mut last) = (false, "");
    tokens(text, |token| {
        needs = match token.as_bytes()[0] {
            b' ' | b'\t' | b'\r' | b'\n' => true,
            b':' => is_secret_key(&unquote(last, last.contains('\\'))),
            _ => false,
        };
        last = token;
        !needs
    });
    needs
}

fn rewrite(text: &str, out: &mut String) {
    // While a secret value is passed over: its key and how many of its brackets are open.
    let mut secret: Option<(String, usize)> = None;
    let mut last = "";
    tokens(text, |token| {
        let first = token.as_bytes()[0];
        if matches!(first, b' ' | b'\t' | b'\r' | b'\n') {
            return true;
        }
        if let Some((key, open)) = &mut secret {
            match first {
                b'{' | b'[' => *open += 1,
                b'}' | b']' => *open -= 1,
                _ => (),
            }
            if *open == 0 {
                if is_token_count(key, token) {
                    out.push_str(token);
                } else {
                    out.push('"');
                    out.push_str(REDACTED);
                    out.push('"');
                }
                secret = None;
            }
            return true;
        }
        out.push_str(token);
        if first == b':' {
            let key = unquote(last, last.contains('\\'));
            if is_secret_key(&key) {
                secret = Some((key.into_owned(), 0));
            }
        }
        last = token;
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn accepts(text: &str) -> Result<(), SyntaxError> {
        scan(text, 64, &mut Duplicates::default(), &mut |_, _| ()).map(|_| ())
    }

    fn duplicate(text: &str) -> Option<String> {
        let mut duplicates = Duplicates::default();
        scan(text, 64, &mut duplicates, &mut |_, _| ()).unwrap();
        duplicates.first.map(|(_, key)| key)
    }

    #[test]
    fn accepts_json() {
        for text in [
            "{}",
            "[]",
            "null",
            " \t\r\n0 ",
            "-0",
            "1.5e+10",
            "1E-2",
            r#""\u00e9\ud83d\ude00\/""#,
            r#"{"a":[1,{"b":null}],"c":"\\"}"#,
            "1e400",
            "[[],[[]],{}]",
            "\"\u{7f}\"",
        ] {
            assert_eq!(accepts(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn refuses_what_is_not_json() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "]",
            "{]",
            "[}",
            "[1,]",
            "{\"a\":1,}",
            "{,}",
            "[,]",
            "{a:1}",
            "{'a':1}",
            "01",
            "+1",
            "1.",
            ".5",
            "1e",
            "1e+",
            "-",
            "--1",
            "0x1",
            "NaN",
            "Infinity",
            "True",
            "nul",
            "nulll",
            "tru",
            "\"",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12G4\"",
            "\"\\u+123\"",
            "\"\\ud800\"",
            "\"\\ud800x\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"a\tb\"",
            "\"a\nb\"",
            "\"\0\"",
            "1 2",
            "{}{}",
            "{} x",
            "\u{feff}{}",
            "\u{a0}1",
            "\u{b}1",
            "/**/1",
            "{\"a\" 1}",
            "{\"a\":}",
            "{\"a\"}",
            "[1 2]",
            "{1:2}",
            "{null:1}",
        ] {
            assert!(accepts(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn says_where_the_fault_is() {
        assert_eq!(
            accepts("{\"a\": tru}"),
            Err(SyntaxError {
                at: 6,
                expected: "a JSON value"
            })
        );
    }

    #[test]
    fn caps_nesting() {
        assert_eq!(accepts(&("[".repeat(64) + &"]".repeat(64))), Ok(()));
        assert!(accepts(&("[".repeat(65) + &"]".repeat(65))).is_err());
        assert!(accepts(&"[".repeat(1_000_000)).is_err());
    }

    #[test]
    fn finds_duplicate_keys_at_every_depth() {
        assert_eq!(duplicate(r#"{"a":1,"b":2}"#), None);
        assert_eq!(duplicate(r#"{"a":1,"\u0061":2}"#), Some("a".into()));
        assert_eq!(duplicate(r#"{"x":[{"b":1,"b":1}]}"#), Some("b".into()));
        assert_eq!(duplicate(r#"{"a":{"k":1},"b":{"k":1}}"#), None);
        let many = (0..1000)
            .map(|i| format!("\"k{i}\":0"))
            .collect::<Vec<_>>()
            .join(",");
        assert_eq!(duplicate(&format!("{{{many}}}")), None);
        assert_eq!(
            duplicate(&format!("{{{many},\"k7\":0}}")),
            Some("k7".into())
        );
    }

    #[test]
    fn compacts_and_redacts() {
        let text =
            "{ \"a\" : [ 1 , \" x \" ] , \"pass\\u0077ord\" : { \"b\" : [ 1 ] } , \"z\": null }";
        assert_eq!(
            compact(text),
            r#"{"a":[1," x "],"pass\u0077ord":"[redacted]","z":null}"#
        );
        assert!(matches!(compact(r#"{"a":1}"#), Cow::Borrowed(_)));
    }

    #[test]
    fn finds_a_member() {
        let text = r#"{"a":{"b":1},"\u0062":[2]}"#;
        assert_eq!(member(text, "a"), Some(r#"{"b":1}"#));
        assert_eq!(member(text, "b"), Some("[2]"));
        assert_eq!(member(text, "c"), None);
    }

    proptest! {
        /// Whatever the scanner says of JSON-like text, serde_json says too, but for the points
        /// where ours is stricter or takes numbers that no f64 holds.
        #[test]
        fn agrees_with_serde_json(text in r#"[\[\]{}:, "a0e1.\-tfn\\u\t]{0,24}"#) {
            let theirs = serde_json::from_str::<serde_json::Value>(&text);
            match (accepts(&text), theirs) {
                (Ok(()), Err(error)) => prop_assert!(error.to_string().contains("out of range"), "{error}"),
                (Err(error), Ok(_)) => prop_assert_eq!(error.expected, "less nesting"),
                _ => (),
            }
        }
    }
}
