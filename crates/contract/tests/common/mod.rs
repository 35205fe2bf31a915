//! What the tests of the wire build on.

// Each test file uses its own part of this one.
#![allow(dead_code, unreachable_pub)]

pub mod any;

use headcount_contract::*;

pub fn source() -> SourceIdentity {
    SourceIdentity::new(
        SourceId::new("worker-cli").unwrap(),
        SourceEpoch::new("start-2").unwrap(),
    )
}

pub fn child(id: &str) -> ChildId {
    ChildId::new(id).unwrap()
}

pub fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

pub fn now() -> Timestamp {
    at("2026-08-24T09:15:30.250Z")
}

pub fn event_of(child: ChildIdentity, kind: EventKind) -> LifecycleEvent {
    let id = EventId::new("evt-7").unwrap();
    LifecycleEvent::new(id, source(), child, kind, now(), Capabilities::UNKNOWN)
}

pub fn event(kind: EventKind) -> LifecycleEvent {
    event_of(ChildIdentity::root(child("child-42")), kind)
}

/// An event line as a table may change it: the members of one object, in order.
#[derive(Clone)]
pub struct Line(Vec<(String, String)>);

impl Line {
    /// The shortest legal event: `{"schemaVersion":1,…}` with a heartbeat.
    pub fn heartbeat() -> Self {
        Self::of(&[
            ("schemaVersion", "1"),
            ("eventId", r#""evt-7""#),
            ("source", r#""worker-cli""#),
            ("sourceEpoch", r#""start-2""#),
            ("childId", r#""child-42""#),
            (
                "lineage",
                r#"{"rootChildId":"child-42","attempt":0,"external":false}"#,
            ),
            ("kind", r#""heartbeat""#),
            ("observedAt", r#""2026-08-24T09:15:30.000Z""#),
        ])
    }

    /// The shortest legal complete snapshot.
    pub fn snapshot() -> Self {
        Self::of(&[
            ("source", r#""worker-cli""#),
            ("sourceEpoch", r#""start-2""#),
            ("snapshotId", r#""snap-1""#),
            ("observedAt", r#""2026-08-24T09:15:30.000Z""#),
            ("complete", "true"),
            ("coverage", r#""all""#),
            ("children", "[]"),
        ])
    }

    pub fn of(members: &[(&str, &str)]) -> Self {
        let member = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Self(members.iter().map(member).collect())
    }

    /// With a member of this JSON text, in its old place or at the end.
    pub fn with(mut self, key: &str, json: &str) -> Self {
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, value)) => json.clone_into(value),
            None => self.0.push((key.to_owned(), json.to_owned())),
        }
        self
    }

    pub fn without(mut self, key: &str) -> Self {
        self.0.retain(|(name, _)| name != key);
        self
    }

    pub fn reversed(mut self) -> Self {
        self.0.reverse();
        self
    }

    pub fn text(&self) -> String {
        let members = self
            .0
            .iter()
            .map(|(key, value)| format!("\"{key}\":{value}"));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }
}
