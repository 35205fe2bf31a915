//! How a child ended whose end was not seen.

use headcount_contract::{ChildId, Timestamp};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::string;
use super::outcome::outcome;

/// A child of which no end is known.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Unfinished {
    pub(crate) id: ChildId,
    pub(crate) session: Option<String>,
    pub(crate) delegation: Option<String>,
    pub(crate) task_index: Option<u64>,
    pub(crate) goal: Option<String>,
}

/// What some record says of a child's end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    /// The gateway's word for it.
    pub(crate) status: String,
    /// Which record it was.
    pub(crate) basis: &'static str,
    /// What else it says.
    pub(crate) details: Map<String, Value>,
}

impl Translator {
    /// The children of which no end is known.
    pub(crate) fn unfinished(&self) -> Vec<Unfinished> {
        let live = self.live.iter().filter_map(|id| self.children.get(id));
        live.map(|child| Unfinished {
            id: child.id().clone(),
            session: child.session.clone(),
            delegation: child.facts.delegation.clone(),
            task_index: child.facts.task_index,
            goal: child.facts.goal.clone(),
        })
        .collect()
    }

    /// Ends a child as a record says; whether it did. A record that says nothing clear proves
    /// nothing.
    pub(crate) fn conclude(&mut self, id: &ChildId, ending: Ending, at: Timestamp) -> bool {
        let (outcome, true) = outcome(Some(&ending.status)) else {
            return false;
        };
        if !self.live.contains(id) {
            return false;
        }
        let mut details = ending.details;
        details.insert("basis".to_owned(), json!(ending.basis));
        details.insert("rawStatus".to_owned(), json!(ending.status));
        self.end(id, outcome, details, at);
        true
    }

    /// Reads what `subagent.list` answered for a session: which of its children run, and how recent
    /// ones ended that did not complete.
    pub(crate) fn subagents(&mut self, session: &str, result: &Value, at: Timestamp) {
        let list = |key: &str| {
            let list = result.get(key).and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_object)
        };
        for entry in list("subagents") {
            let Some(id) =
                string(entry, "subagent_id").and_then(|raw| self.resolve(raw, Some(session)))
            else {
                continue;
            };
            if self.live.contains(&id) {
                self.lives(&id, at);
            }
        }
        for entry in list("delegations") {
            let (Some(delegation), Some(status)) =
                (string(entry, "delegation_id"), string(entry, "status"))
            else {
                continue;
            };
            let index = entry.get("task_index").and_then(Value::as_u64);
            let child = self.unfinished().into_iter().find(|child| {
                child.session.as_deref() == Some(session)
                    && child.delegation.as_deref() == Some(delegation)
                    && child.task_index == index
            });
            if let Some(child) = child {
                let mut details = Map::new();
                if let Some(error) = string(entry, "error") {
                    details.insert("error".to_owned(), json!(super::child::cut(error)));
                }
                let ending = Ending {
                    status: status.to_owned(),
                    basis: "subagent_list",
                    details,
                };
                self.conclude(&child.id, ending, at);
            }
        }
    }
}

/// How a live transcript ends, if its last line says so: `… final | status=interrupted
/// duration=1.93s`.
pub(crate) fn transcript_ending(text: &str) -> Option<Ending> {
    let last = text.lines().rev().find(|line| !line.trim().is_empty())?;
    let (head, tail) = last.split_once('|')?;
    if head.split_whitespace().last()? != "final" {
        return None;
    }
    let word = |key: &str| {
        let mut words = tail.split_whitespace();
        words
            .find_map(|word| word.strip_prefix(key))
            .map(str::to_owned)
    };
    let mut details = Map::new();
    if let Some(seconds) = word("duration=")
        .and_then(|d| d.strip_suffix('s').and_then(|s| s.parse::<f64>().ok()))
        .filter(|seconds| seconds.is_finite())
    {
        details.insert("durationSeconds".to_owned(), json!(seconds));
    }
    Some(Ending {
        status: word("status=")?,
        basis: "transcript",
        details,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_says_how_it_ended_only_in_its_last_line() {
        let check = |text: &str, expected: Option<&str>| {
            let status = transcript_ending(text).map(|ending| ending.status);
            assert_eq!(status.as_deref(), expected, "{text:?}");
        };
        check(
            "16:57:58 start | x\n16:58:01 final    | status=interrupted duration=1.93s\n\n",
            Some("interrupted"),
        );
        check("final | status=completed", Some("completed"));
        check(
            "16:58:01 final | status=failed\n16:58:02 tool | -> terminal",
            None,
        );
        check("16:58:01 tool | final | status=completed", None);
        check("final | duration=1s", None);
        check("final status=completed", None);
        check("", None);
    }

    #[test]
    fn a_transcript_tells_the_duration() {
        let ending = transcript_ending("1 final | status=timeout duration=30.01s").unwrap();
        assert_eq!(
            Value::Object(ending.details),
            json!({"durationSeconds": 30.01})
        );
        assert!(
            transcript_ending("1 final | status=timeout duration=infs")
                .unwrap()
                .details
                .is_empty()
        );
    }
}
