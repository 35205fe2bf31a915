//! What the trees of all runs use of the machine, sampled by one thread: one reading of the table
//! of processes and one refresh of our own pids serve every run.

use std::collections::BTreeSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant, SystemTime};

use headcount_contract::{Details, RunEvent, Usage};
use serde_json::json;
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use super::Hub;
use crate::os::{ProcessIdentity, Processes, Tree};
use crate::translate::named;

/// A run that is sampled for as long as this is kept.
#[derive(Debug)]
pub(super) struct Sampling(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    hub: Weak<Hub>,
    leader: u32,
    interval: Duration,
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    due: Instant,
    /// Processes that were told to have left the group.
    escaped: BTreeSet<u32>,
}

/// The runs that are sampled, and whether a thread does it.
#[derive(Debug, Default)]
struct Samplers {
    slots: Vec<Weak<Slot>>,
    running: bool,
}

static SAMPLERS: Mutex<Samplers> = Mutex::new(Samplers {
    slots: Vec::new(),
    running: false,
});
static CHANGED: Condvar = Condvar::new();

fn samplers() -> MutexGuard<'static, Samplers> {
    SAMPLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sampling {
    /// Samples a run from now on.
    pub(super) fn begin(hub: &Arc<Hub>, leader: &ProcessIdentity, interval: Duration) -> Self {
        let slot = Arc::new(Slot {
            hub: Arc::downgrade(hub),
            leader: leader.pid,
            interval,
            state: Mutex::new(SlotState {
                due: Instant::now(),
                escaped: BTreeSet::new(),
            }),
        });
        let mut samplers = samplers();
        samplers.slots.push(Arc::downgrade(&slot));
        if !samplers.running {
            let thread = std::thread::Builder::new().name("headcount-sampler".to_owned());
            samplers.running = thread.spawn(sample_until_idle).is_ok();
        }
        drop(samplers);
        CHANGED.notify_one();
        Self(slot)
    }

    /// Tells of processes that have left the group, each once.
    pub(super) fn tell_escaped(&self, escaped: &[u32]) {
        if let Some(hub) = self.0.hub.upgrade() {
            self.0.tell_escaped(&hub, escaped);
        }
    }
}

impl Slot {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_escaped(&self, hub: &Hub, escaped: &[u32]) {
        let new: Vec<u32> = {
            let mut state = self.state();
            let new = escaped.iter().filter(|pid| !state.escaped.contains(pid));
            let new: Vec<u32> = new.copied().collect();
            // Only those that live are remembered, so that the set stays as small as the tree.
            state.escaped = escaped.iter().copied().collect();
            new
        };
        if new.is_empty() {
            return;
        }
        hub.push(&escaped_event(&new));
    }
}

/// Says that processes have left the group.
pub(super) fn escaped_event(escaped: &[u32]) -> RunEvent {
    RunEvent::Error {
        message: format!(
            "{} of this run left its group; a stop does not reach what left it",
            named(escaped)
        ),
        timestamp: SystemTime::now().into(),
        details: Details::from_iter([("escaped", json!(escaped))]),
    }
}

/// Samples what is due until no run is left.
fn sample_until_idle() {
    // A system that sysinfo does not know has nothing to tell.
    let Ok(mut system) = System::new() else {
        return;
    };
    loop {
        let due = {
            let mut samplers = samplers();
            let mut slots: Vec<Arc<Slot>> = Vec::new();
            samplers.slots.retain(|slot| match slot.upgrade() {
                Some(slot) => {
                    slots.push(slot);
                    true
                }
                None => false,
            });
            if slots.is_empty() {
                samplers.running = false;
                return;
            }
            let now = Instant::now();
            let next = slots
                .iter()
                .map(|slot| slot.state().due)
                .min()
                .unwrap_or(now);
            if let Some(wait) = next
                .checked_duration_since(now)
                .filter(|wait| !wait.is_zero())
            {
                drop(slots);
                let _ = CHANGED.wait_timeout(samplers, wait);
                continue;
            }
            slots.retain(|slot| slot.state().due <= now);
            slots
        };
        sample(&mut system, &due);
    }
}

fn sample(system: &mut System, slots: &[Arc<Slot>]) {
    let table = Processes::read(Instant::now());
    let trees: Vec<Tree> = slots.iter().map(|slot| table.tree(slot.leader)).collect();
    let pids: Vec<Pid> = trees
        .iter()
        .flat_map(|tree| &tree.pids)
        .map(|pid| Pid::from_u32(*pid))
        .collect();
    let what = ProcessRefreshKind::nothing()
        .with_cpu()
        .with_memory()
        .without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&pids), true, what);
    let now = Instant::now();
    for (slot, tree) in slots.iter().zip(&trees) {
        slot.state().due = now + slot.interval;
        // A run that has just ended has nobody to sample.
        let Some(hub) = slot.hub.upgrade().filter(|_| !tree.pids.is_empty()) else {
            continue;
        };
        let processes = tree
            .pids
            .iter()
            .filter_map(|pid| system.process(Pid::from_u32(*pid)));
        let mut usage = Usage::new(0.0, 0, u32::try_from(tree.pids.len()).unwrap_or(u32::MAX));
        for process in processes {
            usage.cpu_percent += process.cpu_usage();
            usage.memory_bytes += process.memory();
        }
        hub.push(&RunEvent::Usage(usage));
        slot.tell_escaped(&hub, &tree.escaped);
    }
    forget_the_dead(system, &table);
}

/// Only pids that are refreshed are removed when they are dead; those of ended runs are not.
fn forget_the_dead(system: &mut System, table: &Processes) {
    let dead: Vec<Pid> = system
        .processes()
        .keys()
        .filter(|pid| !table.lives(pid.as_u32()))
        .copied()
        .collect();
    if !dead.is_empty() {
        let nothing = ProcessRefreshKind::nothing().without_tasks();
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&dead), true, nothing);
    }
}
