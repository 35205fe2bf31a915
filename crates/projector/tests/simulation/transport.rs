//! What reaches the host, and what it does about it: drops, duplicates, delays, disorder, broken
//! connections, late answers, lagging looks, a host that sleeps.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;
use headcount_contract::{ChildId, SequenceScope, SourceId};
use headcount_projector::{AttemptFailure, Effect, Intent, Projector, Settings};

use crate::simulation::world::{CALM, Counting, Cover, END, Said, TrueSource};
use crate::support::{Input, What, time};

/// One history: what was true, and what a projector was given.
pub(crate) struct History {
    pub(crate) settings: Settings,
    pub(crate) sources: Vec<TrueSource>,
    pub(crate) inputs: Vec<Input>,
    /// The effects of each input, as a number.
    pub(crate) fingerprints: Vec<u64>,
}

/// Something that will happen at the host.
#[derive(Debug, Clone)]
enum Coming {
    Input(What),
    /// The host asks a source for a snapshot, perhaps to find a child.
    Ask(usize, Option<ChildId>),
    /// The attempt to find a child ends here, with whatever has been found.
    Close(SourceId, ChildId),
}

struct Host {
    rng: Rng,
    sources: Vec<TrueSource>,
    said: Vec<Vec<Said>>,
    projector: Projector,
    queue: BinaryHeap<Reverse<(i64, usize)>>,
    coming: Vec<Option<Coming>>,
    history: Vec<Input>,
    fingerprints: Vec<u64>,
    snapshots: usize,
    /// When each source cannot be reached.
    broken: Vec<(i64, i64)>,
    /// Of which lives of each source something has been heard.
    heard: Vec<Vec<usize>>,
}

/// Lives one history.
pub(crate) fn history(seed: u64) -> History {
    let mut rng = Rng::with_seed(seed);
    let names = ["s", "t"];
    let sources: Vec<_> = names[..rng.usize(1..3)]
        .iter()
        .map(|name| TrueSource::random(&mut rng, name))
        .collect();
    let settings = settings(&mut rng);
    let mut projector = Projector::new(settings.clone());
    set_scopes(&mut projector, &sources);
    let said = sources.iter().map(|source| source.says(&mut rng)).collect();
    let broken = sources.iter().map(|_| {
        let from = rng.i64(0..2 * CALM); // half of the sources never break in time
        (from.min(CALM), (from + rng.i64(0..20_000)).min(CALM))
    });
    let mut host = Host {
        broken: broken.collect(),
        heard: vec![Vec::new(); sources.len()],
        rng,
        sources,
        said,
        projector,
        queue: BinaryHeap::new(),
        coming: Vec::new(),
        history: Vec::new(),
        fingerprints: Vec::new(),
        snapshots: 0,
    };
    host.send_events();
    host.ask_periodically();
    host.run();
    History {
        settings,
        sources: host.sources,
        inputs: host.history,
        fingerprints: host.fingerprints,
    }
}

/// Tells a projector in which scopes the sources count.
pub(crate) fn set_scopes(projector: &mut Projector, sources: &[TrueSource]) {
    for source in sources {
        if let Counting::By(scope @ SequenceScope::Epoch) = source.counting {
            projector.set_scope(&source.id, scope);
        }
    }
}

fn settings(rng: &mut Rng) -> Settings {
    let seconds = std::time::Duration::from_secs;
    let mut settings = Settings::default();
    settings.heartbeat_deadline = seconds(15);
    settings.activity_deadline = seconds(30);
    settings.gap_grace = seconds(2);
    settings.reconcile_deadline = seconds(5);
    settings.reconcile_backoff = seconds(1);
    settings.reconcile_attempts = rng.u32(1..4);
    settings.gap_ranges = if rng.bool() { 2 } else { 64 };
    settings.ended_children = if rng.bool() { 1 } else { 100 };
    settings.conflict_window = if rng.bool() { 4 } else { 4_096 };
    settings
}

impl Host {
    /// Puts all that is ever said on its way.
    fn send_events(&mut self) {
        let style = (self.rng.f64() * 0.4, self.rng.f64() * 0.3, self.rng.bool());
        let (drops, repeats, disorder) = style;
        for source in 0..self.sources.len() {
            let mut arrival = 0;
            for said in self.said[source].clone() {
                let (from, to) = self.broken[source];
                let calm = said.at >= CALM;
                if !calm && (self.rng.f64() < drops || (from..to).contains(&said.at)) {
                    continue;
                }
                let copies = if !calm && self.rng.f64() < repeats {
                    2
                } else {
                    1
                };
                for _ in 0..copies {
                    let delay = match (calm, disorder) {
                        (true, _) => 5,
                        (false, true) => self.rng.i64(0..5_000),
                        (false, false) => self.rng.i64(0..100),
                    };
                    let mut at = said.at + delay;
                    if calm || !disorder {
                        at = at.max(arrival);
                        arrival = at;
                    }
                    self.schedule(at, Coming::Input(What::Event(said.event.clone())));
                }
            }
            let (from, to) = self.broken[source];
            if from < to {
                let source = self.sources[source].id.clone();
                self.schedule(to, Coming::Input(What::Unproven(source)));
            }
        }
    }

    fn ask_periodically(&mut self) {
        for source in 0..self.sources.len() {
            let mut at = 0;
            while at < CALM {
                self.schedule(at, Coming::Ask(source, None));
                at += self.rng.i64(5_000..30_000);
            }
            // By then, all that was said before the calm has arrived.
            let mut at = CALM + 6_000;
            while at < END {
                self.schedule(at, Coming::Ask(source, None));
                at += 8_000;
            }
        }
    }

    fn schedule(&mut self, at: i64, coming: Coming) {
        self.queue.push(Reverse((at, self.coming.len())));
        self.coming.push(Some(coming));
    }

    fn run(&mut self) {
        let mut asleep_until = 0;
        while let Some(Reverse((at, number))) = self.queue.pop() {
            if at >= END {
                break;
            }
            if at < CALM && self.rng.u8(..40) == 0 {
                asleep_until = at + self.rng.i64(0..20_000);
            }
            if at >= asleep_until.min(CALM) && self.advance(at) {
                // What follows from it may come before what was next.
                self.queue.push(Reverse((at, number)));
                continue;
            }
            match self.coming[number].take() {
                Some(Coming::Input(what)) => self.give(at, what),
                Some(Coming::Ask(source, child)) => self.ask(at, source, child),
                Some(Coming::Close(source, child)) => {
                    // What was found has been applied; whoever it showed needs no answer.
                    self.give(at, What::Fail(source, child, AttemptFailure::Inconclusive));
                }
                None => (),
            }
        }
        while self.advance(END) {}
    }

    /// Does what is due by then, at the next moment at which something is; whether anything was.
    fn advance(&mut self, at: i64) -> bool {
        let Some(deadline) = self.projector.deadline() else {
            return false;
        };
        let due = (deadline.as_millis() - time(0).as_millis()).max(0);
        let due = self.history.last().map_or(due, |last| due.max(last.at));
        // A fraction of a millisecond is rounded up: never too early.
        let due = due + i64::from(deadline.subsec_nanos() % 1_000_000 != 0);
        if due > at {
            return false;
        }
        self.give(due, What::Advance);
        true
    }

    /// Whether a source's life is heard of for the first time after a later one. Lives are ordered by
    /// first appearance (rule O7), so this is what a transport must not do.
    fn overtaken(&mut self, what: &What) -> bool {
        let identity = match what {
            What::Event(event) => event.source_identity(),
            What::Snapshot(snapshot) => snapshot.source(),
            _ => return false,
        };
        let source = self
            .sources
            .iter()
            .position(|source| source.id == identity.source)
            .unwrap();
        let life = TrueSource::life_of(&identity.epoch);
        let heard = &mut self.heard[source];
        if heard.iter().any(|other| *other > life) && !heard.contains(&life) {
            return true;
        }
        heard.push(life);
        false
    }

    fn give(&mut self, at: i64, what: What) {
        if self.overtaken(&what) {
            return;
        }
        let input = Input { at, what };
        let mut effects = Vec::new();
        input.apply(&mut self.projector, &mut effects);
        self.fingerprints.push(fingerprint(&effects));
        self.history.push(input);
        for effect in effects {
            let Effect::Intent(intent) = effect else {
                continue;
            };
            let number = |id: &SourceId| self.sources.iter().position(|source| source.id == *id);
            match intent {
                Intent::Snapshot { source, .. } => {
                    let source = number(&source).unwrap();
                    self.schedule(at + 10, Coming::Ask(source, None));
                }
                Intent::Reconcile { source, child, .. } => {
                    let source = number(&source).unwrap();
                    self.schedule(at + 10, Coming::Ask(source, Some(child)));
                }
                _ => (),
            }
        }
    }

    /// Asks a source for a snapshot. Before the calm, it may fail, be late, lag or be partial.
    fn ask(&mut self, at: i64, source: usize, child: Option<ChildId>) {
        let calm = at >= CALM;
        let id = self.sources[source].id.clone();
        let (from, to) = self.broken[source];
        let unreachable = (from..to).contains(&at) || self.rng.u8(..5) == 0;
        if !calm && unreachable {
            if let Some(child) = child
                && self.rng.bool()
            {
                let what = What::Fail(id, child, AttemptFailure::Errored);
                self.schedule(at + 20, Coming::Input(what));
            }
            return; // Or no answer at all.
        }
        let looked = at + if calm { 1 } else { self.rng.i64(0..1_000) };
        let lag = if calm || self.rng.bool() {
            0
        } else {
            self.rng.i64(0..10_000)
        };
        let arrives = looked + if calm { 10 } else { self.rng.i64(0..4_000) };
        let cover = self.cover(source, calm);
        let name = format!("p{}", self.snapshots);
        self.snapshots += 1;
        let true_source = &self.sources[source];
        let snapshot = true_source.look(looked, looked - lag, &name, &self.said[source], &cover);
        let copies = if !calm && self.rng.u8(..10) == 0 {
            2
        } else {
            1
        };
        for copy in 0..copies {
            self.schedule(
                arrives + copy * 500,
                Coming::Input(What::Snapshot(snapshot.clone())),
            );
        }
        if let Some(child) = child {
            self.schedule(arrives + 1, Coming::Close(id, child));
        }
    }

    fn cover(&mut self, source: usize, calm: bool) -> Cover {
        if calm || self.rng.bool() {
            return Cover::All;
        }
        let children = &self.sources[source].children;
        let some = children.iter().filter(|_| self.rng.bool());
        let some = some.map(|child| child.identity.id().clone()).collect();
        if self.rng.bool() {
            Cover::Those(some)
        } else {
            Cover::Partial(some)
        }
    }
}

/// Effects as a number, to compare two runs.
pub(crate) fn fingerprint(effects: &[Effect]) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    for effect in effects {
        match effect {
            Effect::Changed(change) => (&change.child, change.what).hash(&mut hasher),
            Effect::Derived(event) => event.hash(&mut hasher),
            Effect::Audit(entry) => {
                (entry.kind.name(), &entry.child, &entry.cause).hash(&mut hasher);
            }
            other => std::mem::discriminant(other).hash(&mut hasher),
        }
    }
    hasher.finish()
}
