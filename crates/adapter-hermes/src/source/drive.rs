//! What is asked of a gateway, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headcount_contract::{Capability, DiscontinuityCause, Gap, HealthStatus, Signal};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::requests::{INTERRUPT, Requester};
use super::{LinkState, Notice, Shared, lock, now, reconcile};
use crate::frame::RpcError;
use crate::translate::{Ready, replay_is_whole};
use crate::transport::stdio;

/// How long a gateway may take to speak before its silence is told.
const SILENCE: Duration = Duration::from_secs(20);
/// After this many unanswered polls a connection counts as dead.
const UNANSWERED_MAX: u32 = 3;
/// No child bears this id.
const NOBODY: &str = "headcount-probe";

/// Drives one connection; returns when it counts as dead.
pub(super) async fn drive(
    shared: &Arc<Shared>,
    requester: &Requester,
    mut notices: mpsc::UnboundedReceiver<Notice>,
    process: Option<&stdio::Process>,
) {
    shared
        .health
        .set(HealthStatus::Degraded, "waiting for the gateway to speak");
    let mut waiting = Vec::new();
    let ready = loop {
        match tokio::time::timeout(SILENCE, notices.recv()).await {
            Ok(Some(Notice::Ready(ready))) => break ready,
            Ok(Some(notice)) => waiting.push(notice),
            Ok(None) => return std::future::pending().await,
            Err(_) => shared.health.set(
                HealthStatus::Down,
                "the gateway is connected and says nothing",
            ),
        }
    };
    greet(shared, requester, ready).await;
    // Whoever finds a connection finds it healthy.
    shared.health.healthy();
    shared.link.send_replace(LinkState::Up(requester.clone()));
    probe(shared, requester, None).await;
    for notice in waiting {
        notice_of(shared, requester, notice).await;
    }
    let polls = shared.config.polls_every();
    // The first poll is at once: it is the snapshot of the session's opening, or of the reconnect.
    let mut ticks = tokio::time::interval(polls.unwrap_or(Duration::from_hours(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unanswered = 0;
    let mut first = true;
    loop {
        tokio::select! {
            biased;
            notice = notices.recv() => match notice {
                Some(notice) => notice_of(shared, requester, notice).await,
                // The reading has ended; whoever awaits it decides.
                None => return std::future::pending().await,
            },
            _ = ticks.tick(), if first || polls.is_some() => {
                first = false;
                if poll(shared, requester).await {
                    unanswered = 0;
                } else {
                    unanswered += 1;
                }
                if unanswered >= UNANSWERED_MAX {
                    shared.health.set(HealthStatus::Degraded, "the gateway does not answer");
                    // A process that we started is not given up on: it may be busy.
                    if process.is_none() && polls.is_some() {
                        return;
                    }
                }
            }
        }
    }
}

async fn notice_of(shared: &Arc<Shared>, requester: &Requester, notice: Notice) {
    match notice {
        Notice::Ready(ready) => greet(shared, requester, ready).await,
        Notice::NewSession(session) => {
            probe(shared, requester, Some(&session)).await;
            probe_history(shared, requester, &session).await;
        }
    }
}

/// What has to be made good after the gateway has announced itself.
async fn greet(shared: &Arc<Shared>, requester: &Requester, ready: Ready) {
    let polling = match shared.config.polls_every() {
        Some(_) => Capability::Known,
        None => Capability::Unknown,
    };
    shared.with(|translator| translator.polling(polling));
    if ready == Ready::NewLife {
        let unfinished = shared.with(|translator| translator.unfinished());
        reconcile::transcripts(shared, &unfinished).await;
        shared.with(|translator| {
            translator.gateway_gone("gateway_restarted", &Map::new(), now());
        });
    }
    let sessions = to_resume(shared);
    resume(shared, requester, sessions, ready == Ready::SameLife).await;
}

/// The sessions that were resumed or created over this adapter's connections, and those that the
/// configuration names: by their stored ids, with the live ones that they had.
fn to_resume(shared: &Shared) -> Vec<(String, String)> {
    let mut sessions = shared.with(|translator| translator.stored_sessions());
    for stored in &shared.config.resume {
        if sessions.iter().all(|(known, _)| known != stored) {
            sessions.push((stored.clone(), String::new()));
        }
    }
    sessions
}

/// Resumes sessions, by their stored ids and the live ones that they had, and makes good what was
/// missed of them. Their events wait until the replay has been read.
///
/// After a reconnect to the same gateway a gap is ruled out only if every session that was ours has
/// been replayed whole.
async fn resume(
    shared: &Arc<Shared>,
    requester: &Requester,
    sessions: Vec<(String, String)>,
    reconnected: bool,
) {
    let mut replays = Vec::new();
    let mut whole = true;
    for (stored, live) in sessions {
        if !live.is_empty() {
            shared.with(|translator| translator.hold(&live));
        }
        let params = json!({"session_id": stored, "cols": 100});
        let resumed = requester.ask("session.resume", &params).await;
        let now_live = match &resumed {
            Ok(Ok(result)) => result.get("session_id").and_then(Value::as_str),
            _ => None,
        };
        let Some(now_live) = now_live.map(str::to_owned) else {
            shared.health.count("sessions_not_resumed", 1);
            whole = false;
            if !live.is_empty() {
                replays.push((live, 0, None));
            }
            continue;
        };
        if now_live != live {
            whole = false;
            if !live.is_empty() {
                replays.push((live, 0, None));
            }
        }
        let last_seen = shared.with(|translator| {
            translator.hold(&now_live);
            translator.last_seen(&now_live)
        });
        let replay = events_since(shared, requester, &now_live, last_seen).await;
        whole &= replay.as_ref().is_some_and(replay_is_whole);
        replays.push((now_live, last_seen, replay));
    }
    shared.with(|translator| {
        if reconnected {
            let gap = if whole && !replays.is_empty() {
                Gap::RuledOut
            } else {
                Gap::Possible
            };
            translator.discontinuity(DiscontinuityCause::Reconnected, gap);
        }
        for (session, after, replay) in &replays {
            translator.replayed(session, *after, replay.as_ref(), now());
        }
    });
}

/// What a session's events were after a number, if the gateway can tell.
pub(super) async fn events_since(
    shared: &Shared,
    requester: &Requester,
    session: &str,
    last_seen: u64,
) -> Option<Value> {
    const METHOD: &str = "session.events.since";
    if shared.lacks(METHOD) || !lock(&shared.replaying).insert(session.to_owned()) {
        return None;
    }
    let params = json!({"session_id": session, "last_seen": last_seen});
    let answer = requester.ask(METHOD, &params).await.ok()?;
    lock(&shared.replaying).remove(session);
    match answer {
        Ok(replay) => Some(replay),
        Err(error) => {
            if error.code == RpcError::UNKNOWN_METHOD {
                shared.note_lack(METHOD);
            }
            None
        }
    }
}

/// Finds out, by interrupting nobody, whether the children of a session are ours to interrupt.
///
/// Gateways before 0.21.5 ask for no session, so their answer counts for all.
async fn probe(shared: &Arc<Shared>, requester: &Requester, session: Option<&str>) {
    if !shared.config.cancel || shared.lacks(INTERRUPT) {
        return;
    }
    let params = json!({"session_id": session.unwrap_or_default(), "subagent_id": NOBODY});
    let Ok(answer) = requester.ask(INTERRUPT, &params).await else {
        return;
    };
    let cancel = match answer {
        Ok(result) if result.get("found") == Some(&Value::Bool(false)) => Capability::Known,
        Ok(_) => Capability::Unknown,
        Err(error) => {
            if error.code == RpcError::UNKNOWN_METHOD {
                shared.cannot_interrupt();
            }
            Capability::Unknown
        }
    };
    shared.with(|translator| translator.cancel_verified(session, cancel));
}

/// Finds out whether everything of a session can be had from its beginning.
async fn probe_history(shared: &Arc<Shared>, requester: &Requester, session: &str) {
    if let Some(replay) = events_since(shared, requester, session, 0).await {
        shared.with(|translator| translator.replayed(session, 0, Some(&replay), now()));
    }
}

/// Asks which children run, and looks for those that are not named. Whether an answer came.
async fn poll(shared: &Arc<Shared>, requester: &Requester) -> bool {
    match shared.poll().await {
        Ok(polled) => {
            shared.fanout.publish(Signal::Snapshot(polled.snapshot));
            shared
                .health
                .gauge("polls", shared.polls.load(Ordering::Relaxed));
            reconcile::omitted(shared, requester, polled.omitted).await;
            true
        }
        Err(error) => {
            use headcount_contract::AdapterErrorKind::{Protocol, Unsupported};
            if error.kind() == Unsupported {
                shared
                    .health
                    .limit("this gateway cannot list its children: nobody's liveness is known");
            }
            // A refusal is an answer.
            matches!(error.kind(), Unsupported | Protocol)
        }
    }
}
