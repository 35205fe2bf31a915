//! How a child ended whose end was not seen.

use headcount_contract::{ChildId, Outcome, Timestamp};
use serde_json::{Map, Value, json};

use super::Translator;
use super::child::{cut, string};
use super::outcome::outcome;

/// Where an end was found: in a child's own transcript.
pub(crate) const TRANSCRIPT: &str = "transcript";
/// Where an end was found: in its delegation's manifest.
pub(crate) const MANIFEST: &str = "manifest";

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
        // Stopped by the limit of its iterations, it gave no answer.
        let exit = details.get("exitReason").and_then(Value::as_str);
        if exit == Some("max_iterations") && outcome == Outcome::Completed {
            details.insert("outcomeSuspect".to_owned(), json!(true));
        }
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
                    details.insert("error".to_owned(), json!(cut(error)));
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

/// How a live transcript ends, if its last lines say so: `… final | status=interrupted
/// duration=1.93s`, and after that `… final | end status=interrupted exit_reason=interrupted`.
pub(crate) fn transcript_ending(text: &str) -> Option<Ending> {
    let lines = text.lines().rev().filter(|line| !line.trim().is_empty());
    let finals: Vec<&str> = lines.map_while(final_line).take(2).collect();
    let word = |key: &str| {
        let mut words = finals.iter().flat_map(|line| line.split_whitespace());
        words.find_map(|word| word.strip_prefix(key))
    };
    let mut details = Map::new();
    if let Some(seconds) = word("duration=")
        .and_then(|d| d.strip_suffix('s').and_then(|s| s.parse::<f64>().ok()))
        .filter(|seconds| seconds.is_finite())
    {
        details.insert("durationSeconds".to_owned(), json!(seconds));
    }
    if let Some(reason) = word("exit_reason=") {
        details.insert("exitReason".to_owned(), json!(reason));
    }
    Some(Ending {
        status: word("status=")?.to_owned(),
        basis: TRANSCRIPT,
        details,
    })
}

/// What a line says of an end, without what the child itself said.
fn final_line(line: &str) -> Option<&str> {
    let (head, tail) = line.split_once('|')?;
    (head.split_whitespace().last()? == "final").then_some(())?;
    let said = ["summary:", "error:"];
    let end = said.iter().filter_map(|key| tail.find(key)).min();
    Some(&tail[..end.unwrap_or(tail.len())])
}

/// How a task of a delegation ended, by the manifest that lies beside the transcripts and is
/// completed with the whole batch.
pub(crate) fn manifest_ending(text: &str, task: u64) -> Option<Ending> {
    let manifest: Value = serde_json::from_str(text).ok()?;
    let mut tasks = manifest.get("tasks")?.as_array()?.iter();
    let task = tasks.find(|entry| entry.get("index").and_then(Value::as_u64) == Some(task))?;
    let task = task.as_object()?;
    let reason = string(task, "exit_reason").map(cut);
    let details = reason.map(|reason| ("exitReason".to_owned(), json!(reason)));
    Some(Ending {
        status: string(task, "status")?.to_owned(),
        basis: MANIFEST,
        details: details.into_iter().collect(),
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
        check("final | duration=1s summary: status=completed", None);
        check(
            "1 final | status=completed duration=2s\n1 final | end status=error error: status=completed",
            Some("error"),
        );
        check("", None);
    }

    #[test]
    fn a_transcript_tells_the_duration_and_the_reason() {
        let check = |text: &str, expected: Value| {
            let ending = transcript_ending(text).unwrap();
            assert_eq!(Value::Object(ending.details), expected, "{text}");
        };
        check(
            "1 final | status=timeout duration=30.01s",
            json!({"durationSeconds": 30.01}),
        );
        check("1 final | status=timeout duration=infs", json!({}));
        check(
            "1 final | status=completed duration=2.5s summary: exit_reason=mine\n\
             1 final | end status=completed exit_reason=max_iterations (iteration budget exhausted)",
            json!({"durationSeconds": 2.5, "exitReason": "max_iterations"}),
        );
    }

    #[test]
    fn a_manifest_says_how_each_task_ended() {
        let manifest = json!({"delegation_id": "deleg_a", "tasks": [
            {"index": 1, "status": "failed", "exit_reason": "error"},
            {"index": 0, "status": "running"},
            {"index": 2},
        ]});
        let check = |task: u64, expected: Option<(&str, Value)>| {
            let ending = manifest_ending(&manifest.to_string(), task);
            let told = ending.map(|ending| (ending.status, Value::Object(ending.details)));
            let expected = expected.map(|(status, details)| (status.to_owned(), details));
            assert_eq!(told, expected, "{task}");
        };
        check(1, Some(("failed", json!({"exitReason": "error"}))));
        check(0, Some(("running", json!({}))));
        check(2, None);
        check(3, None);
        assert_eq!(manifest_ending("{", 0), None);
        assert_eq!(manifest_ending("[]", 0), None);
    }
}
