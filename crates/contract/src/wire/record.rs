//! Reading the known fields out of one JSON object.

use std::borrow::Cow;
use std::sync::Arc;

use super::json::{self, Duplicates, Kind, Raw};
use super::{FaultClass, WireFault, WireLimits};
use crate::lineage::MAX_INTEGER;
use crate::{ChildState, IdError, Timestamp};

/// The known fields of an object, picked up in one scan.
pub(super) struct Record<'a, const N: usize> {
    names: [&'static str; N],
    slots: [Option<Raw<'a>>; N],
    prefix: &'static str,
    /// Where the object stands in the line.
    base: usize,
    end: usize,
}

/// Reads a whole line that must be one object, refusing duplicate keys at any depth.
pub(super) fn read_line<'a, const N: usize>(
    line: &'a str,
    limits: WireLimits,
    names: [&'static str; N],
    extra: &mut dyn FnMut(&str, &'a str),
) -> Result<Record<'a, N>, WireFault> {
    let mut duplicates = Duplicates::default();
    let mut slots = [None; N];
    let mut member =
        |key: Cow<'a, str>, value: Raw<'a>| match names.iter().position(|name| *name == key) {
            Some(at) => slots[at] = Some(value),
            None => extra(&key, value.text),
        };
    let root = json::scan(line, limits.max_depth, &mut duplicates, &mut member)
        .map_err(|e| WireFault::new(FaultClass::MalformedJson, e.at, e.expected))?;
    if root.kind != Kind::Object {
        return Err(WireFault::new(
            FaultClass::SchemaViolation,
            root.at,
            "one JSON object",
        ));
    }
    if let Some((at, _)) = duplicates.first {
        return Err(WireFault::new(
            FaultClass::SchemaViolation,
            at,
            "each key once",
        ));
    }
    Ok(Record {
        names,
        slots,
        prefix: "",
        base: 0,
        end: root.at + root.text.len() - 1,
    })
}

/// Reads an object inside a line that was already scanned.
pub(super) fn read_object<'a, const N: usize>(
    object: Raw<'a>,
    base: usize,
    prefix: &'static str,
    names: [&'static str; N],
) -> Record<'a, N> {
    let mut slots = [None; N];
    let mut member = |key: Cow<'a, str>, value: Raw<'a>| {
        if let Some(at) = names.iter().position(|name| *name == key) {
            slots[at] = Some(value);
        }
    };
    // The text is part of a line that was scanned: it cannot fail, and if it did, its fields
    // would be missing and the record refused.
    let _ = json::scan(
        object.text,
        json::MAX_DEPTH,
        &mut Duplicates::default(),
        &mut member,
    );
    Record {
        names,
        slots,
        prefix,
        base: base + object.at,
        end: object.text.len() - 1,
    }
}

impl<'a, const N: usize> Record<'a, N> {
    pub(super) fn get(&self, at: usize) -> Option<Raw<'a>> {
        self.slots[at]
    }

    /// Where the object stands in the line, for records inside of it.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    fn require(&self, at: usize, expected: &'static str) -> Result<Raw<'a>, WireFault> {
        self.slots[at].ok_or_else(|| {
            WireFault::new(
                FaultClass::SchemaViolation,
                self.base + self.end,
                format!("this field, {expected}"),
            )
            .in_field(self.name(at))
        })
    }

    pub(super) fn name(&self, at: usize) -> Cow<'static, str> {
        if self.prefix.is_empty() {
            Cow::Borrowed(self.names[at])
        } else {
            Cow::Owned(format!("{}.{}", self.prefix, self.names[at]))
        }
    }

    /// A schema violation in the field, at its value.
    pub(super) fn fault(&self, at: usize, expected: impl Into<Cow<'static, str>>) -> WireFault {
        let offset = self.base + self.slots[at].map_or(self.end, |value| value.at);
        WireFault::new(FaultClass::SchemaViolation, offset, expected).in_field(self.name(at))
    }

    /// An optional field through its reader.
    pub(super) fn optional<T>(
        &self,
        at: usize,
        read: impl FnOnce(&Self, usize) -> Result<T, WireFault>,
    ) -> Result<Option<T>, WireFault> {
        self.slots[at].map(|_| read(self, at)).transpose()
    }

    pub(super) fn string(&self, at: usize) -> Result<Cow<'a, str>, WireFault> {
        let value = self.require(at, "a string")?;
        value.string().ok_or_else(|| self.fault(at, "a string"))
    }

    pub(super) fn id<T>(
        &self,
        at: usize,
        make: fn(Arc<str>) -> Result<T, IdError>,
    ) -> Result<T, WireFault> {
        make(self.string(at)?.as_ref().into()).map_err(|error| {
            self.fault(
                at,
                format!("1 to 512 bytes without control characters ({error})"),
            )
        })
    }

    /// An integer written as one, from 0 to 2^53 - 1 (rule W2).
    pub(super) fn integer(&self, at: usize) -> Result<u64, WireFault> {
        const EXPECTED: &str =
            "an integer from 0 to 9007199254740991, written without point, exponent or sign";
        let text = self.require(at, "an integer")?.text;
        text.bytes()
            .all(|b| b.is_ascii_digit())
            .then(|| text.parse().ok())
            .flatten()
            .filter(|value| *value <= MAX_INTEGER)
            .ok_or_else(|| self.fault(at, EXPECTED))
    }

    pub(super) fn boolean(&self, at: usize) -> Result<bool, WireFault> {
        match self.require(at, "true or false")?.text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(self.fault(at, "true or false")),
        }
    }

    pub(super) fn time(&self, at: usize) -> Result<Timestamp, WireFault> {
        self.string(at)?
            .parse()
            .map_err(|error| self.fault(at, format!("a time ({error})")))
    }

    pub(super) fn state(&self, at: usize) -> Result<ChildState, WireFault> {
        self.string(at)?
            .parse()
            .map_err(|error| self.fault(at, format!("a state ({error})")))
    }

    pub(super) fn object(&self, at: usize) -> Result<Raw<'a>, WireFault> {
        let value = self.require(at, "an object")?;
        if value.kind == Kind::Object {
            Ok(value)
        } else {
            Err(self.fault(at, "an object"))
        }
    }

    /// The schema version, which is looked at before the shape.
    pub(super) fn version(&self, at: usize) -> Result<(), WireFault> {
        let value = self.require(at, "1")?;
        let integer = value.kind == Kind::Number && value.text.bytes().all(|b| b.is_ascii_digit());
        match value.text {
            "1" => Ok(()),
            _ if integer => Err(
                WireFault::new(FaultClass::UnsupportedVersion, value.at, "1")
                    .in_field(self.name(at)),
            ),
            _ => Err(self.fault(at, "1")),
        }
    }
}
