//! Histories as text: inputs one a line, and what follows from each, in a form people can read.
//!
//! ```text
//! 0 a created #0                      an event: seconds, child, what, sequence
//! 5 a running #1 seen=4 ep=e2 src=t   keys: see `event`
//! 6 a terminal:failed #2
//! 7 snapshot p1 all a=running#3       complete; `of:a,b` covers only those, `partial` none
//! 9 fail a errored                    an attempt to reconcile failed
//! 9 unproven                          events of the source may have been lost
//! 130 advance
//! ```

use std::fmt::Write as _;

use headcount_contract::{
    Activity, AuthoritativeSnapshot, Capabilities, Capability, ChildId, ChildIdentity, ChildState,
    Coverage, Details, EventId, EventKind, LifecycleEvent, Lineage, PartialSnapshot, Sequence,
    Snapshot, SnapshotChild, SnapshotId, SourceEpoch, SourceId, SourceIdentity, Timestamp,
};
use headcount_projector::{AttemptFailure, Effect, Intent, Projector, Record};

/// One input of a projector, at a moment in milliseconds after the histories' beginning.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    pub(crate) at: i64,
    pub(crate) what: What,
}

#[derive(Debug, Clone)]
pub(crate) enum What {
    Event(LifecycleEvent),
    Snapshot(Snapshot),
    Fail(SourceId, ChildId, AttemptFailure),
    Unproven(SourceId),
    Advance,
}

/// That many milliseconds after the histories' beginning.
pub(crate) fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(BEGINNING + millis).unwrap()
}

const BEGINNING: i64 = 1_787_562_000_000; // 2026-08-24T09:00:00Z

impl Input {
    /// Gives the input to a projector; the verdict of an event or snapshot as text.
    pub(crate) fn apply(&self, projector: &mut Projector, effects: &mut Vec<Effect>) -> String {
        let at = time(self.at);
        match &self.what {
            What::Event(event) => projector.apply(event, at, effects).to_string(),
            What::Snapshot(snapshot) => {
                format!("{:?}", projector.apply_snapshot(snapshot, at, effects)).to_lowercase()
            }
            What::Fail(source, child, why) => {
                projector.reconcile_failed(source, child, *why, at, effects);
                String::new()
            }
            What::Unproven(source) => {
                projector.source_unproven(source, at, effects);
                String::new()
            }
            What::Advance => {
                projector.advance(at, effects);
                String::new()
            }
        }
    }
}

/// Runs a history and writes down what follows from each line, and the records at its end.
pub(crate) fn transcript(projector: &mut Projector, history: &str) -> String {
    transcript_of(projector, history.lines().filter_map(input))
}

/// The same of inputs.
pub(crate) fn transcript_of(
    projector: &mut Projector,
    inputs: impl IntoIterator<Item = Input>,
) -> String {
    let mut out = String::new();
    for input in inputs {
        let mut effects = Vec::new();
        let verdict = input.apply(projector, &mut effects);
        let line = show(&input);
        match verdict.as_str() {
            "" => writeln!(out, "{line}").unwrap(),
            verdict => writeln!(out, "{line}  =>  {verdict}").unwrap(),
        }
        for effect in &effects {
            writeln!(out, "    {}", show_effect(effect, projector)).unwrap();
        }
    }
    for record in projector.records() {
        writeln!(out, "= {}", show_record(&record)).unwrap();
    }
    out
}

/// Reads one line; none if it is blank or a comment.
pub(crate) fn input(line: &str) -> Option<Input> {
    let line = line.split("//").next().unwrap_or_default().trim();
    let (at, rest) = line.split_once(' ')?;
    let at = millis(at);
    let words: Vec<_> = rest.split_whitespace().collect();
    let what = match words[..] {
        ["advance"] => What::Advance,
        ["unproven", ref keys @ ..] => What::Unproven(source(keys).source),
        ["fail", child, why, ref keys @ ..] => {
            let why = match why {
                "errored" => AttemptFailure::Errored,
                "inconclusive" => AttemptFailure::Inconclusive,
                other => panic!("no such failure: {other}"),
            };
            What::Fail(source(keys).source, child.parse().unwrap(), why)
        }
        ["snapshot", id, coverage, ref rest @ ..] => snapshot(at, id, coverage, rest),
        [child, kind, ref rest @ ..] => What::Event(event(at, child, kind, rest)),
        _ => panic!("what is {line:?}?"),
    };
    Some(Input { at, what })
}

fn millis(text: &str) -> i64 {
    (text.parse::<f64>().unwrap() * 1000.0).round() as i64
}

fn key<'a>(words: &[&'a str], key: &str) -> Option<&'a str> {
    words
        .iter()
        .find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
}

fn source(words: &[&str]) -> SourceIdentity {
    let epoch = key(words, "ep").unwrap_or("e1");
    let source = key(words, "src").unwrap_or("s");
    SourceIdentity::new(
        SourceId::new(source).unwrap(),
        SourceEpoch::new(epoch).unwrap(),
    )
}

fn observed_at(at: i64, words: &[&str]) -> Timestamp {
    time(key(words, "seen").map_or(at, millis))
}

/// Keys: `id`, `src`, `ep`, `seen` (observedAt), `root`, `attempt`, `parent`, `adopted`,
/// `heartbeat=known`, `text` (activity), `exit` (a detail).
fn event(at: i64, child: &str, kind: &str, words: &[&str]) -> LifecycleEvent {
    let state = |name: &str| {
        name.parse::<ChildState>()
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    let kind = match kind.split_once(':') {
        Some(("terminal", name)) => EventKind::Terminal(state(name).outcome().unwrap()),
        Some(("reconciliation", name)) => EventKind::Reconciliation(Some(state(name))),
        Some(("diagnostic", name)) => EventKind::Diagnostic(Some(state(name))),
        _ => match kind {
            "created" => EventKind::Created,
            "activity" => EventKind::Activity,
            "heartbeat" => EventKind::Heartbeat,
            "reconciliation" => EventKind::Reconciliation(None),
            "diagnostic" => EventKind::Diagnostic(None),
            name => EventKind::StateChanged(state(name)),
        },
    };
    let sequence = words.iter().find_map(|word| word.strip_prefix('#'));
    let id = ChildId::new(child).unwrap();
    let mut lineage = Lineage::new(key(words, "root").unwrap_or(child).parse().unwrap());
    if let Some(attempt) = key(words, "attempt") {
        lineage = lineage.with_attempt(attempt.parse().unwrap());
    }
    if let Some(parent) = key(words, "parent") {
        lineage = lineage.with_parent(parent.parse().unwrap());
    }
    if let Some(adopted) = key(words, "adopted") {
        lineage = lineage.adopted(time(millis(adopted)));
    }
    let mut capabilities = Capabilities::UNKNOWN;
    if key(words, "heartbeat") == Some("known") {
        capabilities.heartbeat = Capability::Known;
    }
    let source = source(words);
    let name = format!(
        "{}-{child}-{}",
        source.epoch,
        sequence.map_or(at.to_string(), String::from)
    );
    let name = key(words, "id").map_or(name, String::from);
    let mut event = LifecycleEvent::new(
        EventId::new(name).unwrap(),
        source,
        ChildIdentity::new(id, lineage).unwrap(),
        kind,
        observed_at(at, words),
        capabilities,
    );
    if let Some(sequence) = sequence {
        event = event.with_sequence(Sequence::new(sequence.parse().unwrap()).unwrap());
    }
    if let Some(text) = key(words, "text") {
        event = event.with_activity(Activity::new(text));
    }
    if let Some(exit) = key(words, "exit") {
        let code: i64 = exit.parse().unwrap();
        event = event.with_details(Details::from_iter([("exitCode", code.into())]));
    }
    event
}

fn snapshot(at: i64, id: &str, coverage: &str, words: &[&str]) -> What {
    let children = words
        .iter()
        .filter(|w| !["src", "ep", "seen"].iter().any(|k| key(&[w], k).is_some()));
    let children = children.map(|word| {
        let (id, told) = word.split_once('=').unwrap();
        let (state, sequence) = told
            .split_once('#')
            .map_or((told, None), |(s, n)| (s, Some(n)));
        let (state, root) = state
            .split_once('/')
            .map_or((state, None), |(s, r)| (s, Some(r)));
        let id = ChildId::new(id).unwrap();
        let state = state.parse().unwrap();
        let child = match root {
            Some(root) => {
                let lineage = Lineage::new(root.parse().unwrap());
                SnapshotChild::with_identity(ChildIdentity::new(id, lineage).unwrap(), state)
            }
            None => SnapshotChild::new(id, state),
        };
        match sequence {
            Some(n) => child.with_sequence(Sequence::new(n.parse().unwrap()).unwrap()),
            None => child,
        }
    });
    let children: Vec<_> = children.collect();
    let (source, id, seen) = (
        source(words),
        SnapshotId::new(id).unwrap(),
        observed_at(at, words),
    );
    What::Snapshot(match coverage {
        "partial" => PartialSnapshot::new(source, id, seen, children)
            .unwrap()
            .into(),
        coverage => {
            let coverage = match coverage.strip_prefix("of:") {
                Some(ids) => {
                    Coverage::Children(ids.split(',').map(|id| id.parse().unwrap()).collect())
                }
                None => Coverage::All,
            };
            AuthoritativeSnapshot::new(source, id, seen, coverage, children)
                .unwrap()
                .into()
        }
    })
}

fn seconds(at: Timestamp) -> String {
    let millis = at.as_millis() - BEGINNING;
    if millis % 1000 == 0 {
        format!("{}", millis / 1000)
    } else {
        format!("{:.3}", millis as f64 / 1000.0)
    }
}

/// An input as one line, as it is read.
pub(crate) fn show(input: &Input) -> String {
    let now = seconds(time(input.at));
    let who = |who: &SourceIdentity| {
        let epoch = if who.epoch.as_str() == "e1" {
            String::new()
        } else {
            format!(" ep={}", who.epoch)
        };
        let source = if who.source.as_str() == "s" {
            String::new()
        } else {
            format!(" src={}", who.source)
        };
        epoch + &source
    };
    let seen = |at: Timestamp| {
        if at == time(input.at) {
            String::new()
        } else {
            format!(" seen={}", seconds(at))
        }
    };
    match &input.what {
        What::Event(event) => {
            let (epoch, child) = (event.source_epoch(), event.child_id());
            let number = event
                .sequence()
                .map_or(input.at.to_string(), |n| n.get().to_string());
            let id = event.event_id().as_str();
            let id = if id == format!("{epoch}-{child}-{number}") {
                String::new()
            } else {
                format!(" id={id}")
            };
            let (who, seen) = (who(event.source_identity()), seen(event.observed_at()));
            format!("{now} {}{id}{who}{seen}", show_event(event))
        }
        What::Snapshot(snapshot) => {
            let coverage = match snapshot {
                Snapshot::Partial(_) => "partial".into(),
                Snapshot::Complete(complete) => match complete.coverage() {
                    Coverage::All => "all".into(),
                    Coverage::Children(ids) => {
                        let ids: Vec<_> = ids.iter().map(ChildId::as_str).collect();
                        format!("of:{}", ids.join(","))
                    }
                },
            };
            let mut line = format!("{now} snapshot {} {coverage}", snapshot.id());
            for child in snapshot.children() {
                write!(line, " {}={}", child.id(), child.state()).unwrap();
                if let Some(lineage) = child.lineage() {
                    write!(line, "/{}", lineage.root()).unwrap();
                }
                if let Some(sequence) = child.sequence() {
                    write!(line, "#{}", sequence.get()).unwrap();
                }
            }
            line + &who(snapshot.source()) + &seen(snapshot.observed_at())
        }
        What::Fail(source, child, why) => format!("{now} fail {child} {why}{}", source_key(source)),
        What::Unproven(source) => format!("{now} unproven{}", source_key(source)),
        What::Advance => format!("{now} advance"),
    }
}

fn source_key(source: &SourceId) -> String {
    if source.as_str() == "s" {
        String::new()
    } else {
        format!(" src={source}")
    }
}

/// The child, what happened, and what is unusual about the event.
fn show_event(event: &LifecycleEvent) -> String {
    let mut line = format!("{} ", event.child_id());
    match event.kind() {
        EventKind::StateChanged(state) => write!(line, "{state}").unwrap(),
        EventKind::Created => line.push_str("created"),
        kind => {
            line.push_str(kind.as_str());
            if let Some(state) = kind.state() {
                write!(line, ":{state}").unwrap();
            }
        }
    }
    if let Some(sequence) = event.sequence() {
        write!(line, " #{}", sequence.get()).unwrap();
    }
    let lineage = event.lineage();
    if lineage.root() != event.child_id() {
        write!(line, " root={}", lineage.root()).unwrap();
    }
    if lineage.attempt() > 0 {
        write!(line, " attempt={}", lineage.attempt()).unwrap();
    }
    if let Some(parent) = lineage.parent() {
        write!(line, " parent={parent}").unwrap();
    }
    if let Some(adopted) = lineage.adopted_at() {
        write!(line, " adopted={}", seconds(adopted)).unwrap();
    }
    if event.capabilities().heartbeat.is_known() {
        line.push_str(" heartbeat=known");
    }
    if let Some(activity) = event.activity() {
        write!(line, " text={}", activity.as_str()).unwrap();
    }
    if !event.details().is_empty() {
        write!(line, " {:?}", event.details()).unwrap();
    }
    line
}

/// An effect as one line.
pub(crate) fn show_effect(effect: &Effect, projector: &Projector) -> String {
    match effect {
        Effect::Changed(change) => match projector.name(change.child) {
            Some((_, child)) => format!("changed {child}: {}", change.what),
            None => format!("changed a record given up since: {}", change.what),
        },
        Effect::Forgotten { child, .. } => format!("forgotten {child}"),
        Effect::SourceChanged { source, change } => format!("source {source}: {change:?}"),
        Effect::Audit(entry) => match &entry.child {
            Some(child) => format!("audit {child}: {entry}"),
            None => format!("audit {}: {entry}", entry.source),
        },
        Effect::Intent(Intent::Snapshot { source, why }) => {
            format!("intent: snapshot of {source}, {why:?}")
        }
        Effect::Intent(Intent::Reconcile { child, attempt, .. }) => {
            format!("intent: reconcile {child}, attempt {attempt}")
        }
        Effect::Intent(Intent::StaleUnknown { child, .. }) => {
            format!("intent: stale-unknown {child}")
        }
        Effect::Derived(event) => {
            format!("derived {} id={}", show_event(event), event.event_id())
        }
        other => format!("{other:?}"),
    }
}

/// A record as one line; what is usual is left out.
pub(crate) fn show_record(record: &Record) -> String {
    let mut line = format!("{} {}", record.child_id, record.state);
    for (mark, set) in [
        ("stale", record.stale),
        ("unproven", record.unproven),
        ("gap", record.gap_detected),
        ("history unknown", !record.history.is_known()),
        ("lineage unknown", record.lineage.is_none()),
    ] {
        if set {
            write!(line, ", {mark}").unwrap();
        }
    }
    if let Some(sequence) = record.last_sequence {
        write!(line, ", last #{}", sequence.get()).unwrap();
    }
    write!(
        line,
        ", since {}, proven {}",
        seconds(record.state_since),
        seconds(record.proven_at)
    )
    .unwrap();
    if let Some(activity) = &record.last_activity {
        write!(line, ", {:?}", activity.as_str()).unwrap();
    }
    write!(line, "; state from {}", record.provenance.state.cause).unwrap();
    line
}
