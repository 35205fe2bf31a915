//! The host is killed at random moments of a busy fleet, ten times over one journal. Nothing that
//! was shown may be missing afterwards, nothing that ended may come back, and the processes that it
//! started must be found again.
//!
//! Without arguments of its own this program is the test; with `HEADCOUNT_VICTIM` set it is the host
//! that is killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // helpers of a test; a victim talks

mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use futures_util::StreamExt;
use headcount::{AdapterInfo, Change, Delivery, Host, HostSettings, JournalSettings};
use headcount_adapter_jsonl::{
    DecoderLimits, JournalOptions, Sequencing, repair_journal, verify_journal,
};
use headcount_contract::{
    AdapterSpec, ChildId, ChildState, EventKind, LifecycleEvent, Outcome, Signal, SourceId,
    Timestamp, Urgency, WireLimits, parse_event,
};
use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::json;
use support::{ALL_KNOWN, Answer, Scripted, source};

const ROUNDS: usize = 10;

fn main() {
    if let Ok(journal) = std::env::var("HEADCOUNT_VICTIM") {
        return victim(&PathBuf::from(journal));
    }
    let name = "nothing_shown_is_lost_when_the_host_is_killed_at_random_moments";
    let trial = if cfg!(target_os = "linux") {
        Trial::test(name, rounds_of_kills)
    } else {
        Trial::test(name, || Err("unreachable".into())).with_ignored_flag(true)
    };
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn journal_settings() -> JournalSettings {
    let mut settings = JournalSettings::default();
    // The victims leave their locks behind, and the next must not wait for five minutes.
    settings.lock_stale_after = Duration::ZERO;
    settings
}

fn settings() -> HostSettings {
    let mut settings = HostSettings::default();
    settings.projector.heartbeat_deadline = Duration::from_secs(3);
    settings.projector.reconcile_backoff = Duration::from_millis(100);
    settings.snapshot_period = Duration::from_secs(1);
    settings
}

fn sleeper() -> AdapterSpec {
    AdapterSpec::new(json!({ "command": "sleep", "args": ["300"], "heartbeat_interval": "500ms" }))
        .named(source("sleepers"))
}

/// A busy host that tells every event that it shows, until it is killed.
fn victim(journal: &Path) {
    runtime().block_on(async {
        let settings = settings();
        let epoch = format!("life-{}", std::process::id());
        let busy = Scripted::alive("busy", &epoch, &settings.clock, ALL_KNOWN, 1_024);
        busy.answers([], Answer::Partial(vec![]));
        let host = Host::builder()
            .settings(settings)
            .journal(journal, journal_settings())
            .adapter("process", sleeper())
            .adapter_value(AdapterInfo::own("busy"), busy.clone())
            .build()
            .unwrap();
        let mut changes = host.changes_with(Delivery::Lossless);
        host.start().await.unwrap();
        tokio::spawn(lives(busy, std::process::id()));
        let mut out = std::io::stdout().lock();
        while let Some(change) = changes.next().await {
            match change {
                Change::Event(event) => {
                    // Written at once: what the reader has was shown.
                    writeln!(out, "{}", event.to_json()).unwrap();
                }
                Change::Journal(health) => writeln!(out, "#{health:?}").unwrap(),
                _ => (),
            }
        }
    });
}

/// Short lives, many at a time, each of its own.
async fn lives(busy: Arc<Scripted>, life: u32) {
    let mut random = fastrand::Rng::with_seed(u64::from(life));
    let outcomes = [Outcome::Completed, Outcome::Failed, Outcome::Cancelled];
    for n in 0_u64.. {
        let id = format!("{life}-{n}");
        let mut steps = vec![
            EventKind::Created,
            EventKind::StateChanged(ChildState::RUNNING),
        ];
        steps.extend((0..random.usize(0..4)).map(|_| EventKind::Heartbeat));
        // Some never end.
        if random.u32(0..10) > 0 {
            steps.push(EventKind::Terminal(outcomes[random.usize(0..3)]));
        }
        for (sequence, kind) in (0..).zip(steps) {
            let event = busy.event(&id, sequence, kind);
            busy.fanout.send(Signal::Event(event)).await;
        }
    }
    busy.finished.store(true, Ordering::SeqCst);
}

/// Kills its process however the test ends.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Everything a victim has shown, child by child: the last state, and whether it was an end.
type Shown = BTreeMap<(SourceId, ChildId), Vec<LifecycleEvent>>;

fn rounds_of_kills() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let journal = folder.path().join("events.jsonl");
    let mut shown = Shown::new();
    let mut sleepers = Sleepers::default();
    for round in 0..ROUNDS {
        let before = shown.len();
        let killed_after = fastrand::usize(20..800);
        run_and_kill(&journal, killed_after, &mut shown, &mut sleepers)?;
        assert!(shown.len() > before, "round {round}: nothing was shown");
        check_journal(&journal, &shown)?;
    }
    check_reopened(&journal, &shown, sleepers)
}

/// Starts a victim, takes so many of its events, and kills it.
fn run_and_kill(
    journal: &Path,
    events: usize,
    shown: &mut Shown,
    sleepers: &mut Sleepers,
) -> Result<(), Failed> {
    let mut victim = Victim(
        Command::new(std::env::current_exe()?)
            .env("HEADCOUNT_VICTIM", journal)
            .stdout(Stdio::piped())
            .spawn()?,
    );
    let lines = BufReader::new(victim.0.stdout.take().ok_or("no pipe")?).lines();
    let mut taken = 0;
    for line in lines {
        // A killed victim may leave half a line.
        let line = line?;
        if let Some(health) = line.strip_prefix('#') {
            if health.contains("Blocked") {
                return Err(format!("the journal is blocked: {health}").into());
            }
            continue;
        }
        let Ok(parsed) = parse_event(&line, &WireLimits::default()) else {
            if taken > events {
                break;
            }
            return Err(format!("the victim wrote {line:?}").into());
        };
        sleepers.note(&parsed.event);
        let key = (
            parsed.event.source().clone(),
            parsed.event.child_id().clone(),
        );
        shown.entry(key).or_default().push(parsed.event);
        taken += 1;
        // Wait for the sleeper of this life, so that there is somebody to find again.
        if taken >= events && sleepers.started_since_last_kill {
            victim.0.kill()?;
            sleepers.started_since_last_kill = false;
        }
    }
    if taken < events {
        return Err(format!("the victim ended by itself after {taken} events").into());
    }
    Ok(())
}

/// The processes that victims started; ended with the test, whatever happens.
#[derive(Default)]
struct Sleepers {
    pids: BTreeMap<ChildId, i32>,
    started_since_last_kill: bool,
}

impl Sleepers {
    fn note(&mut self, event: &LifecycleEvent) {
        let fresh = event.kind() == EventKind::Created;
        let pid = event.details().get("pid").and_then(|pid| pid.as_i64());
        if event.source().as_str() == "sleepers"
            && fresh
            && let Some(pid) = pid
        {
            self.pids
                .insert(event.child_id().clone(), i32::try_from(pid).unwrap());
            self.started_since_last_kill = true;
        }
    }

    fn kill(&mut self) {
        for (_, pid) in std::mem::take(&mut self.pids) {
            if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The journal holds every event that was shown; a torn end is repaired, as a person would.
fn check_journal(journal: &Path, shown: &Shown) -> Result<(), Failed> {
    let limits = DecoderLimits::default();
    let report = verify_journal(journal, limits, Sequencing::Journal)?;
    if !report.ok {
        assert_eq!(
            report
                .blocked
                .map(headcount_adapter_jsonl::BlockedReason::as_str),
            Some("truncated"),
            "{report:?}"
        );
        repair_journal(journal, JournalOptions::default())?;
    }
    let file = std::fs::File::open(journal)?;
    let kept: std::collections::HashSet<_> =
        headcount_adapter_jsonl::JournalReader::new(file, limits, Sequencing::Journal)
            .map(|entry| entry.event)
            .collect();
    for event in shown.values().flatten() {
        assert!(
            kept.contains(event),
            "shown, but not in the journal: {}",
            event.to_json()
        );
    }
    Ok(())
}

/// A host that opens the journal knows all that was shown, and finds the processes again.
fn check_reopened(journal: &Path, shown: &Shown, mut sleepers: Sleepers) -> Result<(), Failed> {
    runtime().block_on(async {
        let host = Host::builder()
            .settings(settings())
            .journal(journal, journal_settings())
            .build()?;
        host.start().await?;
        let view = host.view();
        for ((of, id), events) in shown {
            let record = &view
                .child(of, id)
                .ok_or_else(|| format!("{id} is missing"))?
                .record;
            let ended = events.iter().find_map(|event| match event.kind() {
                EventKind::Terminal(outcome) => Some(outcome),
                _ => None,
            });
            if let Some(outcome) = ended {
                assert_eq!(record.state, outcome.into(), "{id} had ended");
            }
        }
        assert_eq!(
            sleepers.pids.len(),
            ROUNDS,
            "one a life: {:?}",
            sleepers.pids
        );
        let of = source("sleepers");
        for id in sleepers.pids.keys() {
            let sleeper = view
                .child(&of, id)
                .ok_or_else(|| format!("{id} is missing"))?;
            assert!(
                sleeper.readopted,
                "{id} was not found again: {:?}",
                sleeper.record
            );
        }
        // Seen to live after the reopening, which is by nobody's word but the process table's: whoever
        // started them is dead.
        let opened = Timestamp::from(SystemTime::now());
        let all_seen = host.wait_until(|view| {
            sleepers.pids.keys().all(|id| {
                let record = &view.child(&of, id).unwrap().record;
                !record.state.is_terminal()
                    && record
                        .provenance
                        .heartbeat
                        .as_ref()
                        .is_some_and(|by| by.received_at > opened)
            })
        });
        tokio::time::timeout(Duration::from_mins(1), all_seen).await?;
        let ids: Vec<_> = sleepers.pids.keys().cloned().collect();
        sleepers.kill();
        // And their ends are noticed: told by the system, or lost by the rules. So are the children
        // of which nobody can tell any more.
        let all_ended =
            host.wait_until(|view| view.children().all(|child| child.state().is_terminal()));
        let view = tokio::time::timeout(Duration::from_mins(2), all_ended).await?;
        for id in ids {
            let state = view.child(&of, &id).unwrap().state();
            assert!(
                [ChildState::FAILED, ChildState::LOST].contains(&state),
                "{id}: {state}"
            );
        }
        host.shutdown(Urgency::Graceful).await?;
        Ok(())
    })
}
