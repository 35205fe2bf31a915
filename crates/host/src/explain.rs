//! Every fact that is shown of a child, and where it came from (rule C3).

use std::fmt;

use headcount_contract::{ChildId, SourceId};
use headcount_projector::{Evidence, Record};
use serde_json::{Value, json};

/// Every fact about one child, with the event or snapshot that set it.
///
/// Its text is for people, one fact a line; as JSON it is for programs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Explanation {
    /// Whose child.
    pub source: SourceId,
    /// Which one.
    pub child_id: ChildId,
    /// Its facts, the most important first.
    pub facts: Vec<Fact>,
}

/// One fact, and how it is known.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Fact {
    /// Its name, as in `headcount list`.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// What set it; none if it follows from time or from the absence of something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set_by: Option<SetBy>,
    /// What it rests on, in words, where no event or snapshot set it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<&'static str>,
}

/// The event or snapshot that set a fact.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SetBy {
    /// Which one: `event ID` or `snapshot ID`.
    pub cause: String,
    /// The event's kind, or `snapshot`.
    pub kind: &'static str,
    /// The epoch of the source; left out if it is no longer remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_epoch: Option<String>,
    /// When it was observed, by the source's clock.
    pub observed_at: headcount_contract::Timestamp,
    /// When it reached the host, by the host's clock.
    pub received_at: headcount_contract::Timestamp,
}

impl From<&Evidence> for SetBy {
    fn from(evidence: &Evidence) -> Self {
        Self {
            cause: evidence.cause.to_string(),
            kind: evidence.kind,
            source_epoch: evidence.epoch.as_ref().map(ToString::to_string),
            observed_at: evidence.observed_at,
            received_at: evidence.received_at,
        }
    }
}

impl Explanation {
    /// Explains a record.
    pub fn of(record: &Record) -> Self {
        let mut facts = Facts(Vec::new());
        let by = &record.provenance;
        facts.set("state", json!(record.state), Some(&by.state));
        facts.set("stateSince", json!(record.state_since), Some(&by.state));
        if let Some(terminal) = &record.terminal
            && !terminal.details.is_empty()
        {
            facts.set("terminal", json!(terminal.details), Some(&by.state));
        }
        if record.stale {
            facts.because(
                "stale",
                json!(true),
                "no proof of life came by the deadline",
            );
        }
        if record.unproven {
            let why = "nothing has told its state since the source may have lost events";
            facts.because("unproven", json!(true), why);
        }
        if record.gap_detected {
            facts.because("gapDetected", json!(true), "numbered events are missing");
        }
        match &by.sighting {
            Some(sighting) => facts.set("provenAt", json!(record.proven_at), Some(sighting)),
            None => facts.because(
                "provenAt",
                json!(record.proven_at),
                "the latest heartbeat or state that it or its source told",
            ),
        }
        if let Some(activity) = &record.last_activity {
            facts.set("lastActivity", json!(activity), by.activity.as_ref());
        }
        if let Some(at) = record.last_heartbeat_at {
            facts.set("lastHeartbeatAt", json!(at), by.heartbeat.as_ref());
        }
        match &record.lineage {
            Some(lineage) => facts.set("lineage", json!(lineage), by.lineage.as_ref()),
            None => facts.because(
                "lineage",
                Value::Null,
                "no source has told where it comes from",
            ),
        }
        facts.set(
            "capabilities",
            json!(record.capabilities),
            Some(&by.capabilities),
        );
        if record.history.is_known() {
            facts.set("history", json!(record.history), Some(&by.first));
        } else {
            let why = "the first that was seen of it was not its creation";
            facts.because("history", json!(record.history), why);
        }
        if let Some(sequence) = record.last_sequence {
            let why = "the highest number that an event of it bore in this life of its source";
            facts.because("lastSequence", json!(sequence), why);
        }
        facts.set(
            "firstObservedAt",
            json!(record.first_observed_at),
            Some(&by.first),
        );
        if !record.first_details.is_empty() {
            facts.set("firstDetails", json!(record.first_details), Some(&by.first));
        }
        Self {
            source: record.source.clone(),
            child_id: record.child_id.clone(),
            facts: facts.0,
        }
    }
}

struct Facts(Vec<Fact>);

impl Facts {
    fn set(&mut self, name: &'static str, value: Value, by: Option<&Evidence>) {
        self.0.push(Fact {
            name,
            value,
            set_by: by.map(SetBy::from),
            because: None,
        });
    }

    fn because(&mut self, name: &'static str, value: Value, why: &'static str) {
        self.0.push(Fact {
            name,
            value,
            set_by: None,
            because: Some(why),
        });
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.child_id, self.source)?;
        for fact in &self.facts {
            write!(f, "\n  {}: ", fact.name)?;
            match &fact.value {
                // Text is shown as JSON as well: it may hold escape sequences.
                Value::String(text) if !text.chars().any(char::is_control) => f.write_str(text)?,
                value => write!(f, "{value}")?,
            }
            if let Some(by) = &fact.set_by {
                write!(
                    f,
                    "\n      from {} ({}), observed {}",
                    by.cause, by.kind, by.observed_at
                )?;
                if by.received_at != by.observed_at {
                    write!(f, ", received {}", by.received_at)?;
                }
                if let Some(epoch) = &by.source_epoch {
                    write!(f, ", epoch {epoch}")?;
                }
            }
            if let Some(why) = fact.because {
                write!(f, "\n      {why}")?;
            }
        }
        Ok(())
    }
}
