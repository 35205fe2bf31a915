//! The lock protocol as a model, every interleaving of which is searched.
//!
//! The file system is the lock directory with its entries; each step of a process is one file
//! operation, as `src/lock/directory.rs` does them. A process may crash between any two steps. The
//! age of what the dead leave is taken to be reached at once.
//!
//! Shown for ours alone (two processes with up to two crashes, three with one, starting from a
//! free lock, from one of ours whose owner died holding it or between the two steps of its
//! release, and from what a dead peer leaves): never two owners, and in whatever state all have
//! stopped, a newcomer gets in.
//!
//! Shown of mixing with peers that only know `mkdir` and `owner.json`: the same, as long as they
//! do not reclaim; and with peers that do, as long as nobody dies. When somebody has died, a
//! peer's own reclaiming (look, compare the token, remove) is not safe against anybody, other
//! peers included, and no protocol of ours can make it so.
#![allow(clippy::unwrap_used)] // a test: what fails ends it

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

/// Who is named by an entry. `D` is dead from the beginning.
type Name = u8;
const D: Name = b'D';

/// The lock directory, if it is there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Dir {
    /// The names in `o.*` files.
    owned: BTreeSet<Name>,
    /// Whom `owner.json` names; `None` inside if it is empty.
    #[allow(clippy::option_option)] // not there, there and empty, there and naming somebody
    json: Option<Option<Name>>,
    /// Which directory it is: another one at the same path has another inode.
    inode: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Step {
    /// Ours: rename the prepared directory into place.
    Install,
    /// Ours: list the directory.
    Look,
    /// Ours: rename `o.OLD` to `o.ME`.
    Swap(Name),
    /// Ours: rename the prepared `owner.json` over the one in the lock.
    Tell,
    /// Ours: take the guard, which the kernel frees when its holder dies.
    Guard(Dir),
    /// Ours, with the guard: look again.
    LookAgain(Dir),
    /// Ours, with the guard: rename the prepared `o.ME` into the directory that was looked at.
    MoveIn(u8),
    /// Ours, with the guard: as `Tell`, then free the guard.
    TellAndUnguard,
    /// The lock is held.
    Critical,
    /// Ours: unlink `o.ME`.
    Unlink,
    /// Ours: rename the directory out of its place, and remove it there.
    MoveAside,
    /// A peer: mkdir.
    Mkdir,
    /// A peer: create `owner.json`, still empty.
    CreateJson,
    /// A peer: write `owner.json`.
    WriteJson,
    /// A peer: read `owner.json` of somebody's lock.
    Read,
    /// A peer: read it again and compare, before reclaiming.
    Verify(Name),
    /// A peer: read it before releasing.
    VerifyOwn,
    /// A peer: remove the files, then the directory.
    RemoveFiles,
    RemoveDir,
    Done,
    GaveUp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Ours,
    /// Only `mkdir`; reclaims the locks of the dead.
    Peer,
    /// Only `mkdir`; never reclaims.
    PatientPeer,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Process {
    kind: Kind,
    step: Step,
    tries: u8,
    dead: bool,
    /// Whether a peer is removing for a release and not for a reclaim.
    releasing: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    dir: Option<Dir>,
    guard: Option<Name>,
    processes: BTreeMap<Name, Process>,
    inodes: u8,
    crashes: u8,
}

const TRIES: u8 = 2;

impl State {
    fn is_dead(&self, name: Name) -> bool {
        name == D || self.processes.get(&name).is_some_and(|p| p.dead)
    }

    fn holds(&self, name: Name) -> bool {
        let process = &self.processes[&name];
        // From the moment it may write until the step that lets go.
        !process.dead
            && (matches!(
                process.step,
                Step::Critical | Step::Unlink | Step::VerifyOwn
            ) || process.releasing && process.step == Step::RemoveFiles)
    }

    fn new_dir(&mut self) -> Dir {
        self.inodes += 1;
        Dir {
            inode: self.inodes,
            ..Dir::default()
        }
    }

    /// The next state when `me` does its step; the age of the dead is always reached.
    #[allow(clippy::too_many_lines)] // one arm a step, side by side
    fn advance(&self, me: Name) -> State {
        let mut next = self.clone();
        let process = &self.processes[&me];
        let again = |next: &mut State| {
            let process = next.processes.get_mut(&me).unwrap();
            process.tries += 1;
            process.releasing = false;
            process.step = match (process.tries > TRIES, process.kind) {
                (true, _) => Step::GaveUp,
                (false, Kind::Ours) => Step::Install,
                (false, _) => Step::Mkdir,
            };
            if next.guard == Some(me) {
                next.guard = None;
            }
        };
        let go = |next: &mut State, step: Step| {
            next.processes.get_mut(&me).unwrap().step = step;
        };
        match process.step.clone() {
            Step::Install => {
                if self.dir.is_none() {
                    let mut dir = next.new_dir();
                    dir.owned.insert(me);
                    dir.json = Some(Some(me));
                    next.dir = Some(dir);
                    go(&mut next, Step::Critical);
                } else {
                    go(&mut next, Step::Look);
                }
            }
            Step::Look => match &self.dir {
                None => again(&mut next),
                Some(dir) => match (dir.owned.first(), dir.json) {
                    (Some(&owner), _) if dir.owned.len() == 1 && self.is_dead(owner) => {
                        go(&mut next, Step::Swap(owner));
                    }
                    // Aged and watched: whoever made it and named nobody is taken to be dead, if
                    // it is (a living one is the limit that is stated in the module's text).
                    (None, None | Some(None)) => {
                        let maker_lives = self.processes.iter().any(|(_, p)| {
                            !p.dead && matches!(p.step, Step::CreateJson | Step::WriteJson)
                        });
                        if maker_lives {
                            again(&mut next);
                        } else {
                            go(&mut next, Step::Guard(dir.clone()));
                        }
                    }
                    (None, Some(Some(owner))) if self.is_dead(owner) => {
                        go(&mut next, Step::Guard(dir.clone()));
                    }
                    _ => again(&mut next),
                },
            },
            Step::Swap(old) => {
                if next
                    .dir
                    .as_mut()
                    .is_some_and(|dir| dir.owned.remove(&old) && dir.owned.insert(me))
                {
                    go(&mut next, Step::Tell);
                } else {
                    again(&mut next);
                }
            }
            Step::Tell | Step::TellAndUnguard => {
                if let Some(dir) = next.dir.as_mut() {
                    dir.json = Some(Some(me));
                }
                if next.guard == Some(me) {
                    next.guard = None;
                }
                go(&mut next, Step::Critical);
            }
            Step::Guard(seen) => {
                if self.guard.is_none_or(|holder| self.is_dead(holder)) {
                    next.guard = Some(me);
                    go(&mut next, Step::LookAgain(seen));
                } else {
                    again(&mut next);
                }
            }
            Step::LookAgain(seen) => {
                if self.dir.as_ref() == Some(&seen) {
                    go(&mut next, Step::MoveIn(seen.inode));
                } else {
                    again(&mut next);
                }
            }
            Step::MoveIn(inode) => match next.dir.as_mut() {
                Some(dir) if dir.inode == inode => {
                    dir.owned.insert(me);
                    go(&mut next, Step::TellAndUnguard);
                }
                _ => again(&mut next),
            },
            Step::Critical => {
                let step = match process.kind {
                    Kind::Ours => Step::Unlink,
                    _ => Step::VerifyOwn,
                };
                go(&mut next, step);
            }
            Step::Unlink => {
                if next.dir.as_mut().is_some_and(|dir| dir.owned.remove(&me)) {
                    go(&mut next, Step::MoveAside);
                } else {
                    go(&mut next, Step::Done); // stolen, and told
                }
            }
            Step::MoveAside => {
                next.dir = None;
                go(&mut next, Step::Done);
            }
            Step::Mkdir => {
                if self.dir.is_none() {
                    let dir = next.new_dir();
                    next.dir = Some(dir);
                    go(&mut next, Step::CreateJson);
                } else if process.kind == Kind::Peer {
                    go(&mut next, Step::Read);
                } else {
                    again(&mut next);
                }
            }
            Step::CreateJson => match next.dir.as_mut() {
                Some(dir) => {
                    dir.json = Some(None);
                    go(&mut next, Step::WriteJson);
                }
                None => again(&mut next),
            },
            Step::WriteJson => {
                if let Some(dir) = next.dir.as_mut() {
                    dir.json = Some(Some(me));
                }
                go(&mut next, Step::Critical);
            }
            Step::Read => match self.dir.as_ref().and_then(|dir| dir.json.flatten()) {
                Some(owner) if self.is_dead(owner) => go(&mut next, Step::Verify(owner)),
                _ => again(&mut next),
            },
            Step::Verify(owner) => {
                if self.dir.as_ref().and_then(|dir| dir.json.flatten()) == Some(owner) {
                    go(&mut next, Step::RemoveFiles);
                } else {
                    again(&mut next);
                }
            }
            Step::VerifyOwn => {
                if self.dir.as_ref().and_then(|dir| dir.json.flatten()) == Some(me) {
                    next.processes.get_mut(&me).unwrap().releasing = true;
                    go(&mut next, Step::RemoveFiles);
                } else {
                    go(&mut next, Step::Done);
                }
            }
            Step::RemoveFiles => {
                if let Some(dir) = next.dir.as_mut() {
                    dir.owned.clear();
                    dir.json = None;
                }
                go(&mut next, Step::RemoveDir);
            }
            Step::RemoveDir => {
                if next
                    .dir
                    .as_ref()
                    .is_some_and(|dir| dir.owned.is_empty() && dir.json.is_none())
                {
                    next.dir = None;
                }
                if process.releasing {
                    go(&mut next, Step::Done);
                } else {
                    again(&mut next);
                }
            }
            Step::Done | Step::GaveUp => unreachable!("it has ended"),
        }
        next
    }
}

/// Where a search begins.
#[derive(Debug, Clone, Copy)]
enum Start {
    Free,
    /// One of ours died holding it.
    Held,
    /// A peer died holding it, or one of ours between the two steps of its release.
    PeersHeld,
    /// A peer died between its steps.
    PeersEmpty,
    PeersZeroBytes,
}

const STARTS: [Start; 5] = [
    Start::Free,
    Start::Held,
    Start::PeersHeld,
    Start::PeersEmpty,
    Start::PeersZeroBytes,
];

fn start(start: Start, kinds: &[Kind]) -> State {
    let dir = |owned: &[Name], json| {
        Some(Dir {
            owned: owned.iter().copied().collect(),
            json,
            inode: 0,
        })
    };
    let processes = kinds
        .iter()
        .zip(b'A'..)
        .map(|(kind, name)| (name, newcomer(*kind)))
        .collect();
    State {
        dir: match start {
            Start::Free => None,
            Start::Held => dir(&[D], Some(Some(D))),
            Start::PeersHeld => dir(&[], Some(Some(D))),
            Start::PeersEmpty => dir(&[], None),
            Start::PeersZeroBytes => dir(&[], Some(None)),
        },
        guard: None,
        processes,
        inodes: 0,
        crashes: 0,
    }
}

fn newcomer(kind: Kind) -> Process {
    Process {
        kind,
        step: match kind {
            Kind::Ours => Step::Install,
            _ => Step::Mkdir,
        },
        tries: 0,
        dead: false,
        releasing: false,
    }
}

#[derive(Debug, Default)]
struct Found {
    states: usize,
    /// How two came to hold the lock at once.
    broken: Option<Vec<String>>,
    /// Where all had stopped and nobody could get in any more.
    wedged: Option<Vec<String>>,
}

/// Looks at every state that can be reached with at most so many crashes.
fn search(initial: State, crashes: u8) -> Found {
    let mut found = Found::default();
    let mut from: HashMap<State, Option<(State, String)>> =
        HashMap::from([(initial.clone(), None)]);
    let mut queue = VecDeque::from([initial]);
    while let Some(state) = queue.pop_front() {
        found.states += 1;
        if state
            .processes
            .keys()
            .filter(|name| state.holds(**name))
            .count()
            > 1
        {
            found.broken.get_or_insert_with(|| trace(&from, &state));
            continue;
        }
        let mut quiet = true;
        for (&name, process) in &state.processes {
            if process.dead || matches!(process.step, Step::Done | Step::GaveUp) {
                continue;
            }
            quiet = false;
            let mut nexts = vec![(
                state.advance(name),
                format!("{} {:?}", name as char, process.step),
            )];
            if state.crashes < crashes {
                let mut fallen = state.clone();
                fallen.crashes += 1;
                fallen.processes.get_mut(&name).unwrap().dead = true;
                nexts.push((
                    fallen,
                    format!("{} dies before {:?}", name as char, process.step),
                ));
            }
            for (next, what) in nexts {
                if !from.contains_key(&next) {
                    from.insert(next.clone(), Some((state.clone(), what)));
                    queue.push_back(next);
                }
            }
        }
        if quiet && !lets_in(&state) {
            found.wedged.get_or_insert_with(|| trace(&from, &state));
        }
    }
    found
}

/// Whether one of ours that comes now gets the lock.
fn lets_in(state: &State) -> bool {
    let mut state = state.clone();
    for process in state.processes.values_mut() {
        process.dead = true;
    }
    state.processes.insert(b'Z', newcomer(Kind::Ours));
    for _ in 0..100 {
        match state.processes[&b'Z'].step {
            Step::Critical => return true,
            Step::GaveUp => state.processes.get_mut(&b'Z').unwrap().step = Step::Install,
            _ => (),
        }
        state = state.advance(b'Z');
    }
    false
}

fn trace(from: &HashMap<State, Option<(State, String)>>, end: &State) -> Vec<String> {
    let mut steps = Vec::new();
    let mut state = end;
    while let Some(Some((before, what))) = from.get(state) {
        steps.push(what.clone());
        state = before;
    }
    steps.reverse();
    steps
}

/// Both hold, from every start.
fn holds(kinds: &[Kind], crashes: u8, starts: &[Start]) -> usize {
    let mut states = 0;
    for begin in starts {
        let found = search(start(*begin, kinds), crashes);
        assert_eq!(
            found.broken, None,
            "{kinds:?} {crashes} {begin:?}: two owners"
        );
        assert_eq!(found.wedged, None, "{kinds:?} {crashes} {begin:?}: wedged");
        states += found.states;
    }
    states
}

#[test]
fn two_of_ours_exclude_each_other_and_nobody_is_wedged() {
    for crashes in 0..=2 {
        holds(&[Kind::Ours; 2], crashes, &STARTS);
    }
}

#[test]
fn three_of_ours_exclude_each_other_and_nobody_is_wedged() {
    let states = holds(&[Kind::Ours; 3], 1, &STARTS);
    assert!(
        states > 10_000,
        "{states} states are too few to have searched"
    );
}

#[test]
fn ours_and_peers_that_do_not_reclaim_exclude_each_other() {
    use Kind::{Ours, PatientPeer};
    holds(&[Ours, PatientPeer], 1, &STARTS);
    holds(&[Ours, Ours, PatientPeer], 1, &STARTS);
    holds(&[Ours, PatientPeer, PatientPeer], 0, &STARTS);
}

#[test]
fn ours_and_peers_that_reclaim_exclude_each_other_while_nobody_dies() {
    use Kind::{Ours, Peer};
    holds(&[Ours, Peer], 0, &[Start::Free]);
    holds(&[Ours, Peer, Peer], 0, &[Start::Free]);
    holds(&[Ours, Ours, Peer], 0, &[Start::Free]);
}

/// The limits: if the model did not find these, it would not be looking.
#[test]
fn a_peers_reclaiming_is_safe_against_nobody() {
    use Kind::{Ours, Peer};
    for kinds in [[Peer, Peer], [Ours, Peer]] {
        let found = search(start(Start::PeersHeld, &kinds), 0);
        assert!(found.broken.is_some(), "{kinds:?}");
    }
    let found = search(start(Start::PeersHeld, &[Peer, Peer]), 0);
    insta::assert_snapshot!(found.broken.unwrap_or_default().join("\n"), @r"
    A Mkdir
    A Read
    A Verify(68)
    B Mkdir
    B Read
    B Verify(68)
    A RemoveFiles
    A RemoveDir
    A Mkdir
    A CreateJson
    A WriteJson
    B RemoveFiles
    B RemoveDir
    B Mkdir
    B CreateJson
    B WriteJson
    ");
}
