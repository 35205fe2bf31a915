//! What must hold of every history, compared with what was true.

use std::collections::{HashMap, HashSet};

use headcount_contract::{ChildId, ChildState, LifecycleEvent, Snapshot, SourceId, SourceIdentity};
use headcount_projector::{AuditKind, Changes, Effect, Intent, Projector, Record};

use crate::simulation::transport::{History, fingerprint, set_scopes};
use crate::simulation::world::{CALM, END, TrueChild};
use crate::support::{Input, What, time};

/// What was violated, of which child, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: &'static str,
    pub(crate) child: String,
    pub(crate) words: String,
}

type Name = (SourceId, ChildId);

/// What was seen of a child while a history is checked.
#[derive(Debug, Default)]
struct Watch {
    ended: Option<ChildState>,
    stale: bool,
    search_failed: bool,
}

struct Check<'a> {
    history: &'a History,
    projector: Projector,
    watched: HashMap<Name, Watch>,
    /// What a journal would hold: what came and what was derived, with the time of each.
    journal: Vec<(i64, LifecycleEvent)>,
    /// Epochs of which the first word was a snapshot, which no journal holds.
    begun_by_snapshot: HashSet<SourceIdentity>,
    /// The epochs of which an event came.
    told: HashSet<SourceIdentity>,
    heard: HashSet<SourceIdentity>,
    /// An event was refused for such an epoch: a journal cannot know why.
    journal_cannot_tell: bool,
}

/// Runs a history's inputs again and compares.
pub(crate) fn check(history: &History, inputs: &[Input]) -> Result<(), Violation> {
    let mut projector = Projector::new(history.settings.clone());
    set_scopes(&mut projector, &history.sources);
    let whole = inputs.len() == history.inputs.len();
    let mut check = Check {
        history,
        projector,
        watched: HashMap::new(),
        journal: Vec::new(),
        begun_by_snapshot: HashSet::new(),
        told: HashSet::new(),
        heard: HashSet::new(),
        journal_cannot_tell: false,
    };
    let mut settled = false;
    for (number, input) in inputs.iter().enumerate() {
        // Once all that was said before the calm has come, and a look after it: two rounds.
        if input.at > CALM + 16_000 && !settled {
            settled = true;
            check.live_children_are_right(inputs[number - 1].at)?;
        }
        let effects = check.give(input)?;
        if whole && fingerprint(&effects) != history.fingerprints[number] {
            return Err(violation(
                "the same inputs give the same effects",
                &"",
                format!("at input {number}"),
            ));
        }
    }
    check.live_children_are_right(END)?;
    check.ended_children_are_ended()?;
    check.journal_says_the_same()
}

fn violation(rule: &'static str, child: &dyn ToString, words: String) -> Violation {
    Violation {
        rule,
        child: child.to_string(),
        words,
    }
}

impl Check<'_> {
    fn give(&mut self, input: &Input) -> Result<Vec<Effect>, Violation> {
        let mut effects = Vec::new();
        let verdict = input.apply(&mut self.projector, &mut effects);
        match &input.what {
            What::Event(event) => {
                let who = event.source_identity();
                self.heard.insert(who.clone());
                self.told.insert(who.clone());
                // A journal holds no snapshots, so not that one began the epoch of this event, or a
                // later one of which no event has come.
                let began = |epoch: &SourceIdentity| {
                    epoch == who || epoch.source == who.source && !self.told.contains(epoch)
                };
                self.journal_cannot_tell |=
                    effects.iter().any(is_of_the_past) && self.begun_by_snapshot.iter().any(began);
                self.journal.push((input.at, event.clone()));
            }
            What::Snapshot(snapshot) => {
                if self.heard.insert(snapshot.source().clone()) {
                    self.begun_by_snapshot.insert(snapshot.source().clone());
                }
                only_complete_snapshots_judge(snapshot, &verdict, &effects)?;
            }
            _ => (),
        }
        for effect in &effects {
            self.watch(input, effect)?;
        }
        Ok(effects)
    }

    fn watch(&mut self, input: &Input, effect: &Effect) -> Result<(), Violation> {
        match effect {
            Effect::Derived(event) => self.journal.push((input.at, (**event).clone())),
            Effect::Audit(entry) => {
                let Some(child) = &entry.child else {
                    return Ok(());
                };
                let watch = self
                    .watched
                    .entry((entry.source.clone(), child.clone()))
                    .or_default();
                match entry.kind {
                    AuditKind::Stale { proven_at } => {
                        let silent = time(input.at).saturating_since(proven_at);
                        if silent < self.history.settings.heartbeat_deadline {
                            let words = format!("after {silent:?}");
                            return Err(violation("stale only past the deadline", child, words));
                        }
                        (watch.stale, watch.search_failed) = (true, false);
                    }
                    AuditKind::ReconcileFailed { .. } => watch.search_failed = watch.stale,
                    AuditKind::Lost if !(watch.stale && watch.search_failed) => {
                        return Err(violation(
                            "lost only after a failed search",
                            child,
                            String::new(),
                        ));
                    }
                    AuditKind::Lost => {
                        watch.ended = Some(ChildState::LOST);
                        let (source, at) = (&entry.source, input.at);
                        let alive = self
                            .truth(source, child)
                            .state(at)
                            .is_some_and(|s| !s.is_terminal());
                        if alive && at > CALM + 20_000 {
                            return Err(violation(
                                "nobody who is seen is lost",
                                child,
                                "in the calm".into(),
                            ));
                        }
                    }
                    _ => (),
                }
            }
            Effect::Changed(change) => {
                // A record that is gone was given up after its end, by this same input.
                let Some((source, child)) = self.projector.name(change.child) else {
                    return Ok(());
                };
                let name = (source.clone(), child.clone());
                let record = self.projector.record(&name.0, &name.1);
                if change.what.intersects(Changes::STATE | Changes::FIRST_SEEN) {
                    self.ends_are_true_and_final(input.at, &name, record)?;
                } else if change.what.contains(Changes::STALE)
                    && record.is_some_and(|record| !record.stale)
                {
                    self.watched.entry(name).or_default().stale = false;
                }
            }
            _ => (),
        }
        Ok(())
    }

    fn truth(&self, source: &SourceId, child: &ChildId) -> &TrueChild {
        let source = self
            .history
            .sources
            .iter()
            .find(|true_one| true_one.id == *source)
            .unwrap();
        source
            .children
            .iter()
            .find(|true_one| true_one.identity.id() == child)
            .unwrap()
    }

    /// An end is one that happened, or a loss; and it is the last word.
    fn ends_are_true_and_final(
        &mut self,
        at: i64,
        name: &Name,
        record: Option<Record>,
    ) -> Result<(), Violation> {
        // A record that is gone was given up after its end, by this same input.
        let Some(state) = record.map(|record| record.state) else {
            return Ok(());
        };
        let truth = self.truth(&name.0, &name.1).state(at);
        let watch = self.watched.entry(name.clone()).or_default();
        if let Some(ended) = watch.ended.filter(|ended| *ended != state) {
            let words = format!("{ended}, then {state}");
            return Err(violation("an end is final", &name.1, words));
        }
        if state.is_terminal() {
            watch.ended = Some(state);
            if state != ChildState::LOST && truth != Some(state) {
                let words = format!("{state}, in truth {truth:?}");
                return Err(violation("no end that did not happen", &name.1, words));
            }
        }
        Ok(())
    }

    /// In the calm, whoever lives is shown as what it is.
    fn live_children_are_right(&self, at: i64) -> Result<(), Violation> {
        for source in &self.history.sources {
            for child in &source.children {
                let (now, just_before) = (child.state(at), child.state(at - 100));
                let Some(truth) = now.filter(|state| !state.is_terminal()) else {
                    continue;
                };
                let id = child.identity.id();
                if just_before.is_none() {
                    continue;
                }
                let shown = self
                    .projector
                    .record(&source.id, id)
                    .map(|record| record.state);
                let lost = self
                    .watched
                    .get(&(source.id.clone(), id.clone()))
                    .and_then(|w| w.ended);
                if lost != Some(ChildState::LOST) && shown != Some(truth) && shown != just_before {
                    let words = format!("{shown:?} at {at}, in truth {truth}");
                    return Err(violation("whoever lives is shown right", id, words));
                }
            }
        }
        Ok(())
    }

    /// At the end, whoever ended long enough ago is shown as ended.
    fn ended_children_are_ended(&self) -> Result<(), Violation> {
        // The longest deadline, and three searches with their pauses, and the period of looks.
        let long_ago = END - 70_000;
        for source in &self.history.sources {
            for child in &source.children {
                let id = child.identity.id();
                let Some(record) = self.projector.record(&source.id, id) else {
                    continue;
                };
                if child.ends().is_some_and(|end| end < long_ago) && !record.state.is_terminal() {
                    let words = format!("{}, ended at {:?}", record.state, child.ends());
                    return Err(violation("whoever ended is shown as ended", id, words));
                }
            }
        }
        Ok(())
    }

    /// A journal of what came and what was derived gives the same ends.
    fn journal_says_the_same(&self) -> Result<(), Violation> {
        if self.journal_cannot_tell {
            return Ok(());
        }
        let mut replayed = Projector::new(self.history.settings.clone());
        set_scopes(&mut replayed, &self.history.sources);
        for (at, event) in &self.journal {
            replayed.apply(event, time(*at), &mut Vec::new());
        }
        for record in self
            .projector
            .records()
            .filter(|record| record.state.is_terminal())
        {
            let again = replayed
                .record(&record.source, &record.child_id)
                .map(|again| again.state);
            if again != Some(record.state) {
                let words = format!("{}, from the journal {again:?}", record.state);
                return Err(violation(
                    "a journal tells the same ends",
                    &record.child_id,
                    words,
                ));
            }
        }
        Ok(())
    }
}

/// Whether an effect says that the input was of a life of the source that is over.
fn is_of_the_past(effect: &Effect) -> bool {
    matches!(effect, Effect::Audit(entry) if entry.kind == AuditKind::SupersededEpoch)
}

/// Partial and superseded snapshots neither correct, nor count misses, nor lose anybody.
fn only_complete_snapshots_judge(
    snapshot: &Snapshot,
    verdict: &str,
    effects: &[Effect],
) -> Result<(), Violation> {
    let may = matches!(snapshot, Snapshot::Complete(_)) && verdict == "applied";
    let judged = effects.iter().find(|effect| match effect {
        Effect::Audit(entry) => matches!(
            entry.kind,
            AuditKind::Correction { .. } | AuditKind::Omission { .. } | AuditKind::Lost
        ),
        Effect::Intent(intent) => matches!(intent, Intent::StaleUnknown { .. }),
        _ => false,
    });
    match judged {
        Some(effect) if !may => {
            let words = format!("{verdict}: {effect:?}");
            Err(violation(
                "only complete snapshots judge",
                snapshot.id(),
                words,
            ))
        }
        _ => Ok(()),
    }
}
