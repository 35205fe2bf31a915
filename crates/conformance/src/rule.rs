//! The rules that the cases hold, in the words of the contract.

use std::fmt::Write as _;

use crate::cases;

/// Each rule: its id, its sentence, and where it comes from.
pub(crate) const RULES: &[(&str, &str, &str)] = &[
    (
        "subscribe.all",
        "Every signal emitted after subscribe returns arrives.",
        SUBSCRIBE,
    ),
    (
        "subscribe.order",
        "All subscribers see one order.",
        SUBSCRIBE,
    ),
    (
        "subscribe.drop",
        "Dropping the stream unsubscribes, also from within a poll, and harms nobody; nor does a subscriber that panics when it is woken.",
        SUBSCRIBE,
    ),
    (
        "subscribe.slow",
        "Nothing is dropped in silence: a slow subscriber makes the source wait or is told what it missed; the end of a child is never dropped.",
        ADAPTER,
    ),
    (
        "subscribe.end",
        "The stream ends when the adapter is closed or dropped, and then only; a closed adapter refuses subscribers.",
        SUBSCRIBE,
    ),
    (
        "events.legal",
        "Every event and snapshot is legal in schema version 1, and is the same after it was written and read. (The parser that judges it reads nothing that the JSON Schemas refuse: a property of headcount-contract.)",
        "W1 to W7",
    ),
    (
        "events.created",
        "A child's first event is created, and no later one is; joining midway means that its history is unknown.",
        "I5, S1",
    ),
    (
        "events.sequence",
        "Sequences rise by one in the declared scope, unless a discontinuity was told; either all events have one or none.",
        "O1, O4",
    ),
    (
        "events.terminal",
        "A child ends at most once, and nothing of it follows its end.",
        "rule 4, S2",
    ),
    (
        "events.outcome",
        "A child that ended badly is never said to have ended well.",
        "C2, C4",
    ),
    (
        "events.ids",
        "An event id names one event of its source.",
        "rule 2, O2",
    ),
    (
        "events.again",
        "An adapter that comes back to a source, in whichever epoch, gives no id and no position that an earlier one gave to another event.",
        "rule 2, O1, O2",
    ),
    (
        "events.source",
        "An adapter that is one source says so in its events, in the epoch of its identity.",
        "I6",
    ),
    (
        "events.epoch",
        "A source that has restarted has another epoch.",
        "rule 3, O7",
    ),
    (
        "events.capabilities",
        "An event claims no capability that its adapter has not verified, or can at best verify for a child.",
        "C1",
    ),
    (
        "events.clocks",
        "Events are dated when they were observed: not in the future, not before the child, not backwards.",
        "W3, L2",
    ),
    (
        "events.activity",
        "What a child is at work on arrives as the source said it.",
        "rule 5, W6",
    ),
    (
        "events.heartbeat",
        "Where the capability heartbeat is known, live children send heartbeats.",
        "rule 5, L1",
    ),
    (
        "lineage.constant",
        "A child's lineage never changes; only an unknown parent may become known.",
        "I3",
    ),
    (
        "lineage.retry",
        "A retry is a new child with the same root and the next attempt.",
        "rule 1, I2, S3",
    ),
    (
        "lineage.external",
        "A child that somebody else started is external and its earlier history unknown; no other child is external.",
        "External Adoption Limits, I3",
    ),
    (
        "snapshot.complete",
        "Where the capability snapshot is known, complete snapshots are had, and they list every live child that they cover.",
        "rule 8, N1, N5",
    ),
    (
        "snapshot.partial",
        "A snapshot whose completeness is not proven is a partial one.",
        "rule 8, N6",
    ),
    (
        "snapshot.agrees",
        "At rest, a snapshot says of each child what the events said.",
        SNAPSHOT,
    ),
    (
        "snapshot.coverage",
        "The coverage names only children that were looked for, and an ended child is not shown in another state.",
        "N5, N7",
    ),
    (
        "snapshot.hole",
        "No child is lost between subscribe and a snapshot taken after it.",
        SNAPSHOT,
    ),
    (
        "snapshot.reason",
        "The reason of a snapshot never changes the answer.",
        SNAPSHOT,
    ),
    (
        "snapshot.concurrent",
        "Concurrent requests share an answer or all succeed.",
        "N9",
    ),
    (
        "snapshot.ids",
        "A snapshot with another content has another id.",
        "N6",
    ),
    (
        "snapshot.source",
        "A snapshot of an adapter that is one source bears its identity.",
        "I6, N1",
    ),
    (
        "cancel.capability",
        "A request is answered unsupported exactly if the capability cancel is unknown.",
        CANCEL,
    ),
    (
        "cancel.ends",
        "A willing child whose cancellation was accepted ends, as cancelled where the source knows why children end.",
        CANCEL,
    ),
    (
        "cancel.accepted",
        "An accepted request is not an ended child; only its terminal event is.",
        "C5",
    ),
    (
        "cancel.unknown",
        "A request for a child that the source does not know is answered unknown child, and ends nobody.",
        CANCEL,
    ),
    (
        "cancel.ended",
        "A child that has ended is not cancelled again.",
        "S2",
    ),
    ("cancel.twice", "Asking twice does no harm.", CANCEL),
    (
        "cancel.others",
        "Cancelling one child leaves the others alone.",
        CANCEL,
    ),
    (
        "health.begun",
        "An adapter that reports children does not say that it is idle or down.",
        HEALTH,
    ),
    (
        "health.break",
        "When the source cannot be reached, health says so, and why.",
        HEALTH,
    ),
    (
        "health.in_band",
        "Every change of health is also a signal, in order with the events.",
        HEALTH,
    ),
    (
        "health.recovers",
        "When the source can be reached again, health and events come back.",
        HEALTH,
    ),
    (
        "health.gap",
        "What happened while the source could not be reached is told, or a discontinuity says that events may be missing and a snapshot tells it.",
        "rule 7, N8",
    ),
    (
        "health.limitations",
        "What the source can never tell is listed.",
        "Adapter Interface",
    ),
    (
        "capabilities.constant",
        "Capabilities never change during an adapter's life.",
        ADAPTER,
    ),
    (
        "config.example",
        "The example configuration builds.",
        REGISTRATION,
    ),
    (
        "config.schema",
        "The schema describes the configuration: the example fits, an unknown key does not.",
        REGISTRATION,
    ),
    (
        "config.unknown",
        "A configuration that is not understood is refused as such, and what is wrong is named.",
        REGISTRATION,
    ),
    (
        "config.no_io",
        "Building does no I/O; the first subscribe opens the source.",
        ADAPTER,
    ),
    (
        "config.name",
        "The source bears the name that the host gives it.",
        REGISTRATION,
    ),
    (
        "registration.found",
        "The registry finds the adapter under its kind.",
        REGISTRATION,
    ),
    (
        "registration.listed",
        "Adapters are listed sorted by kind, each once.",
        REGISTRATION,
    ),
    (
        "registration.provided_by",
        "A registration names the crate and the version that provide it.",
        REGISTRATION,
    ),
    (
        "registration.describes",
        "A registration has a kind that can be typed and a summary that can be read.",
        REGISTRATION,
    ),
    (
        "registration.promises",
        "An adapter verifies no capability that its registration does not promise.",
        REGISTRATION,
    ),
    (
        "runtime.start",
        "A run starts in starting or ready, and becomes ready where its runtime is observable.",
        RUNTIME,
    ),
    (
        "runtime.status",
        "The status of a handle is what its last status event said.",
        RUNTIME,
    ),
    (
        "runtime.late",
        "The first subscriber misses nothing since the start; a later one first gets the present status; one after the end the last status and the end.",
        RUNTIME,
    ),
    (
        "runtime.logs",
        "Lines arrive whole, and in order within their stream.",
        RUNTIME,
    ),
    (
        "runtime.stop",
        "stop returns when the run is gone, which ends once, as stopped, and leaves nothing.",
        RUNTIME,
    ),
    (
        "runtime.stop_shared",
        "All callers share one stop; stopping a run that has ended changes nothing.",
        RUNTIME,
    ),
    (
        "runtime.abort",
        "A stop signal that fires equals stop, and is forgotten when the run has ended.",
        RUNTIME,
    ),
    (
        "runtime.start_error",
        "A start that fails is an error, and leaves nothing.",
        RUNTIME,
    ),
    (
        "runtime.crash",
        "A run that ended with a fault crashed; one that ended without, or by request, stopped.",
        RUNTIME,
    ),
    (
        "runtime.ids",
        "Runs have names of their own, those that the host gives if it does, and do not affect each other.",
        RUNTIME,
    ),
    (
        "runtime.capabilities",
        "restart works exactly where the runtime says that it does.",
        RUNTIME,
    ),
    (
        "truth.told",
        "What the source did is what a host comes to show.",
        "C1 to C5",
    ),
    (
        "truth.breaks",
        "After a break, a host that follows the rules comes to show what the source did meanwhile.",
        "rules 7 and 8, N8",
    ),
];

const ADAPTER: &str = "ChildLifecycleAdapter";
const SUBSCRIBE: &str = "ChildLifecycleAdapter::subscribe";
const SNAPSHOT: &str = "ChildLifecycleAdapter::snapshot";
const CANCEL: &str = "ChildLifecycleAdapter::cancel";
const HEALTH: &str = "ChildLifecycleAdapter::health";
const REGISTRATION: &str = "AdapterRegistration";
const RUNTIME: &str = "AgentRuntime, RunHandle";

/// A rule's sentence.
pub(crate) fn sentence(id: &str) -> &'static str {
    let found = RULES.iter().find(|(other, ..)| *other == id);
    found.map_or("", |(_, sentence, _)| sentence)
}

/// Every rule with the cases that hold it and what they need, as Markdown.
pub(crate) fn list() -> String {
    let mut text = String::new();
    for (id, sentence, from) in RULES {
        let _ = writeln!(text, "**{id}** {sentence} ({from})\n");
        for case in cases::all().filter(|case| case.rule == *id) {
            let needs: Vec<_> = case.needs.iter().map(|need| need.describe()).collect();
            let _ = writeln!(text, "- `{}`: needs {}", case.name, needs.join(", "));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_rule_is_held_by_a_case_and_every_case_holds_a_rule() {
        let ids: HashSet<_> = RULES.iter().map(|(id, ..)| *id).collect();
        assert_eq!(ids.len(), RULES.len(), "an id is used twice");
        let held: HashSet<_> = cases::all().map(|case| case.rule).collect();
        assert_eq!(
            ids.difference(&held).collect::<Vec<_>>(),
            Vec::<&&str>::new()
        );
        assert_eq!(
            held.difference(&ids).collect::<Vec<_>>(),
            Vec::<&&str>::new()
        );
    }

    #[test]
    fn case_names_are_unique() {
        let names: HashSet<_> = cases::all().map(|case| case.name).collect();
        assert_eq!(names.len(), cases::all().count());
    }
}
