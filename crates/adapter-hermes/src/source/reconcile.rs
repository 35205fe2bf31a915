//! Finds out how children ended whose end was not seen.

use std::collections::BTreeSet;
use std::sync::Arc;

use headcount_contract::{ChildId, DiscontinuityCause, Gap, HealthStatus};
use serde_json::{Map, Value, json};

use super::requests::Requester;
use super::{Shared, drive, now};
use crate::evidence;
use crate::frame::RpcError;
use crate::record::Remark;
use crate::translate::Unfinished;
use crate::transport::{End, stdio};

/// Children that a complete listing did not name: what was missed of their sessions, what the
/// gateway remembers of them, and what their transcripts say. Nothing is concluded from finding
/// nothing; that is for whoever counts the omissions.
pub(crate) async fn omitted(shared: &Arc<Shared>, requester: &Requester, omitted: Vec<ChildId>) {
    if omitted.is_empty() {
        return;
    }
    shared
        .health
        .count("children_omitted", omitted.len() as u64);
    let left = || {
        let unfinished = shared.with(|translator| translator.unfinished());
        let mut unfinished = unfinished.into_iter();
        unfinished
            .by_ref()
            .filter(|child| omitted.contains(&child.id))
            .collect::<Vec<_>>()
    };
    let sessions: BTreeSet<String> = left()
        .into_iter()
        .filter_map(|child| child.session)
        .collect();
    for session in sessions {
        let last_seen = shared.with(|translator| translator.last_seen(&session));
        let replay = drive::events_since(shared, requester, &session, last_seen).await;
        if let Some(replay) = replay {
            shared.with(|translator| {
                translator.replayed(&session, last_seen, Some(&replay), now());
            });
        }
        if left()
            .iter()
            .any(|child| child.session.as_ref() == Some(&session))
        {
            subagents(shared, requester, &session).await;
        }
    }
    transcripts(shared, &left()).await;
}

/// What the gateway remembers of a session's children.
async fn subagents(shared: &Arc<Shared>, requester: &Requester, session: &str) {
    const METHOD: &str = "subagent.list";
    if shared.lacks(METHOD) {
        return;
    }
    match requester.ask(METHOD, &json!({"session_id": session})).await {
        Ok(Ok(list)) => shared.with(|translator| translator.subagents(session, &list, now())),
        Ok(Err(error)) if error.code == RpcError::UNKNOWN_METHOD => shared.note_lack(METHOD),
        _ => {}
    }
}

/// What the transcripts on this host say, if we may look.
pub(super) async fn transcripts(shared: &Arc<Shared>, children: &[Unfinished]) {
    let Some(home) = shared.home.clone().filter(|_| !children.is_empty()) else {
        return;
    };
    let children = children.to_vec();
    let found = tokio::task::spawn_blocking(move || evidence::look(&home, &children)).await;
    for (child, ending) in found.unwrap_or_default() {
        if let Some(recorder) = shared.recorder.get() {
            let (child, ending) = (child.clone(), ending.clone());
            recorder.remark(&Remark::Found { child, ending }, now());
        }
        shared.with(|translator| translator.conclude(&child, ending, now()));
    }
}

/// The gateway that we started has ended, and its children with it: their transcripts may say how;
/// who left no trace is lost. What it left running is reported, and left alone.
pub(super) async fn gateway_ended(shared: &Arc<Shared>, process: &stdio::Process, end: &End) {
    let End::Exited(exit) = end else { return };
    let unfinished = shared.with(|translator| {
        let unfinished = translator.unfinished();
        if !unfinished.is_empty() {
            translator.discontinuity(DiscontinuityCause::Disconnected, Gap::Possible);
        }
        unfinished
    });
    let mark = process.mark.clone();
    let orphans = tokio::task::spawn_blocking(move || evidence::marked(&mark)).await;
    let orphans = orphans.unwrap_or_default();
    transcripts(shared, &unfinished).await;
    let mut facts: Map<String, Value> = exit.facts();
    if !orphans.is_empty() {
        facts.insert("orphans".to_owned(), json!(orphans));
    }
    if let Some(recorder) = shared.recorder.get() {
        recorder.remark(&Remark::Exited(facts.clone()), now());
    }
    shared.with(|translator| translator.gateway_gone("gateway_exit", &facts, now()));
    let mut message = exit.to_string();
    if !orphans.is_empty() {
        let pids: Vec<_> = orphans.iter().map(ToString::to_string).collect();
        message = format!("{message}; it left processes running: {}", pids.join(", "));
    }
    shared.health.gauge("orphans", orphans.len() as u64);
    shared.health.set(HealthStatus::Down, message);
}
