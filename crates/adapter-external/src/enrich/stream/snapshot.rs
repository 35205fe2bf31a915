//! The complete snapshot that a stream needs: what it proves of the child now.

use std::io::Read;
use std::time::Duration;

use headcount_contract::{
    ChildId, ChildState, Sequence, Snapshot, SourceIdentity, Timestamp, WireLimits, parse_snapshot,
};

use super::SnapshotSource;
use crate::enrich::http::get;
use crate::enrich::{Tell, place_of};

/// What a runtime's complete snapshot says of the adopted process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamSnapshot {
    pub(crate) source: SourceIdentity,
    pub(crate) observed_at: Timestamp,
    /// None if it covers the child and does not list it.
    pub(crate) state: Option<ChildState>,
    pub(crate) sequence: Option<Sequence>,
}

impl StreamSnapshot {
    /// Asks for it, and judges whether it proves the present.
    pub(super) async fn ask(
        of: &SnapshotSource,
        child: &ChildId,
        tell: &Tell,
    ) -> Result<Self, String> {
        let bytes = match of {
            SnapshotSource::Url(url) => get(url, tell.pid, None, SNAPSHOT_TIMEOUT)
                .await
                .map_err(|why| format!("its snapshot: {why}"))?,
            SnapshotSource::Path(path) => {
                let path = place_of(path, tell.pid);
                read_file(&path).map_err(|error| format!("its snapshot, {path}: {error}"))?
            }
        };
        judge(&bytes, child, tell.adopted_at)
    }
}

/// The most bytes of a snapshot that are read.
const MAX_SNAPSHOT: u64 = 1 << 20;

/// How long an answer with a snapshot may take.
const SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(5);

fn read_file(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_SNAPSHOT)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a snapshot proves of the child now.
fn judge(bytes: &[u8], child: &ChildId, adopted_at: Timestamp) -> Result<StreamSnapshot, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "its snapshot is not UTF-8".to_owned())?;
    let parsed = parse_snapshot(text, &WireLimits::default())
        .map_err(|fault| format!("its snapshot is none: {fault}"))?;
    let Snapshot::Complete(snapshot) = parsed else {
        return Err(
            "its snapshot is partial: a complete one is needed to tell what is so now".into(),
        );
    };
    if !snapshot.covers(child) {
        return Err(format!("its snapshot does not cover {child}"));
    }
    if snapshot.observed_at() < adopted_at {
        return Err("its snapshot is older than the adoption: it tells of the past".into());
    }
    let listed = snapshot
        .children()
        .iter()
        .find(|listed| listed.id() == child);
    Ok(StreamSnapshot {
        source: snapshot.source().clone(),
        observed_at: snapshot.observed_at(),
        state: listed.map(headcount_contract::SnapshotChild::state),
        sequence: listed.and_then(headcount_contract::SnapshotChild::sequence),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_proves_the_present_only_if_it_is_complete_covers_the_child_and_is_new() {
        let snapshot = |at: &str, complete: bool, coverage: &str, state: &str| {
            let coverage = if complete {
                format!(r#","coverage":{coverage}"#)
            } else {
                String::new()
            };
            format!(
                r#"{{"source":"s","sourceEpoch":"e","snapshotId":"1","observedAt":"{at}","complete":{complete}{coverage},"children":[{state}]}}"#
            )
        };
        let running = r#"{"childId":"main","state":"running","sequence":4}"#;
        let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z");
        let adopted_at = "2026-01-01T00:00:01Z".parse().unwrap();
        let cases = [
            (
                snapshot(new, true, r#""all""#, running),
                Ok(Some(ChildState::RUNNING)),
            ),
            (snapshot(new, true, r#"["main"]"#, ""), Ok(None)),
            (
                snapshot(new, true, r#"["other"]"#, ""),
                Err("its snapshot does not cover main"),
            ),
            (
                snapshot(new, false, "", running),
                Err("its snapshot is partial"),
            ),
            (
                snapshot(old, true, r#""all""#, running),
                Err("its snapshot is older than the adoption"),
            ),
            ("{}".into(), Err("its snapshot is none: ")),
            (String::new(), Err("its snapshot is none: ")),
        ];
        let child = ChildId::new("main").unwrap();
        for (text, expected) in cases {
            let judged = judge(text.as_bytes(), &child, adopted_at).map(|snapshot| snapshot.state);
            match (judged, expected) {
                (Ok(state), Ok(expected)) => assert_eq!(state, expected),
                (Err(why), Err(expected)) => assert!(why.starts_with(expected), "{why}"),
                (judged, expected) => panic!("{text}: {judged:?}, expected {expected:?}"),
            }
        }
        assert!(judge(&[0xff], &child, adopted_at).is_err());
    }
}
