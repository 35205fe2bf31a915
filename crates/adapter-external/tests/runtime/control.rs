//! Authority to cancel.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use headcount_adapter_external::{
    CancelAuthority, ExternalAdapter, ExternalConfig, ProcessIdentity,
};
use headcount_contract::{
    AdapterError, CancelOutcome, ChildId, ChildLifecycleAdapter, EventKind, async_trait,
};
use serde_json::json;

use crate::server::Server;
use crate::support::{Foster, Observed, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_verified_control_api_offers_cancellation_within_its_documented_scope() {
    let server = Server::start();
    let (ours, others) = (Foster::sleeping(), Foster::sleeping());
    let verify = format!("GET /may/{}", ours.pid);
    let cancel = format!("POST /cancel/{}", ours.pid);
    server.answer(&verify, 200, json!({"ok": false, "pid": ours.pid}));
    let mut observed = Observed::open(json!({
        "pids": [others.pid],
        "heartbeat_interval": "100ms",
        "process": [{"pid": ours.pid, "control": {
            "url": server.url("/cancel/{pid}"), "scope": "stops its own runs",
            "verify": {"url": server.url("/may/{pid}"), "allowed": "/ok", "pid": "/pid"},
        }}],
    }));
    assert!(observed.adapter.capabilities().cancel.is_known());
    // One of them, then the other: their order is that of the configuration.
    let other = observed.created(others.pid).await.child_id().clone();
    let child = observed.created(ours.pid).await.child_id().clone();
    until("asked", || !server.seen(&verify).is_empty()).await;
    let denied = observed.adapter.cancel(&child, None).await.unwrap();
    assert!(
        matches!(denied, CancelOutcome::Denied { .. }),
        "not verified yet: {denied:?}"
    );

    server.answer(&verify, 200, json!({"ok": true, "pid": ours.pid}));
    let verified = observed
        .event("verified", |event| event.capabilities().cancel.is_known())
        .await;
    assert_eq!(
        (verified.child_id(), verified.details().get("scope")),
        (&child, Some(json!("stops its own runs")))
    );
    for (status, expected) in [
        (202, CancelOutcome::Accepted),
        (409, CancelOutcome::AlreadyEnded),
        (404, CancelOutcome::UnknownChild),
        (
            403,
            CancelOutcome::Denied {
                reason: "the runtime answered 403 Forbidden".into(),
            },
        ),
    ] {
        server.answer(&cancel, status, "{}");
        assert_eq!(
            observed
                .adapter
                .cancel(&child, Some("no longer needed"))
                .await
                .unwrap(),
            expected
        );
    }
    server.answer(&cancel, 500, "{}");
    assert!(observed.adapter.cancel(&child, None).await.is_err());
    assert_eq!(
        server.seen(&cancel)[0],
        format!(
            r#"{cancel} {{"pid":{},"reason":"no longer needed"}}"#,
            ours.pid
        )
    );
    assert!(ours.lives(), "accepted is not cancelled");

    let outside = observed.adapter.cancel(&other, None).await.unwrap();
    assert!(
        matches!(outside, CancelOutcome::Denied { .. }),
        "{outside:?}"
    );
    let stranger = ChildId::new("stranger").unwrap();
    assert_eq!(
        observed.adapter.cancel(&stranger, None).await.unwrap(),
        CancelOutcome::UnknownChild
    );
    // One that has ended is not asked for, even before its end was told: its number may be another's.
    let asked = server.seen(&cancel).len();
    ours.kill("KILL");
    until("ended", || !ours.lives()).await;
    assert_eq!(
        observed.adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::AlreadyEnded
    );
    assert_eq!(server.seen(&cancel).len(), asked);
}

#[tokio::test]
async fn nobody_is_cancelled_without_an_authority() {
    let process = Foster::sleeping();
    let mut observed = Observed::open(json!({"pids": [process.pid]}));
    let child = observed.created(process.pid).await.child_id().clone();
    assert!(!observed.adapter.capabilities().cancel.is_known());
    assert_eq!(
        observed.adapter.cancel(&child, None).await.unwrap(),
        CancelOutcome::Unsupported
    );
    assert!(process.lives());
}

/// Covers one process only, and remembers whom it was asked to cancel.
#[derive(Debug)]
struct Authority {
    covered: u32,
    asked: Mutex<Vec<u32>>,
}

#[async_trait]
impl CancelAuthority for Authority {
    fn scope(&self) -> String {
        "one process".into()
    }

    async fn covers(&self, process: &ProcessIdentity) -> Result<bool, AdapterError> {
        Ok(process.pid == self.covered)
    }

    async fn cancel(
        &self,
        process: &ProcessIdentity,
        _: Option<&str>,
    ) -> Result<CancelOutcome, AdapterError> {
        self.asked.lock().unwrap().push(process.pid);
        Ok(CancelOutcome::Accepted)
    }
}

#[tokio::test]
async fn a_hosts_own_authority_is_asked_for_what_it_covers() {
    let (covered, other) = (Foster::sleeping(), Foster::sleeping());
    let authority = Arc::new(Authority {
        covered: covered.pid,
        asked: Mutex::default(),
    });
    let config: ExternalConfig =
        serde_json::from_value(json!({"pids": [covered.pid, other.pid]})).unwrap();
    let adapter = ExternalAdapter::builder()
        .config(config)
        .authority(authority.clone())
        .build()
        .unwrap();
    let mut observed = Observed::of(adapter);
    let (mut children, mut verified) = (HashMap::new(), None);
    while children.len() < 2 || verified.is_none() {
        let event = observed
            .event("two starts and a verification", |_| true)
            .await;
        if event.kind() == EventKind::Created {
            let pid = event.details().get("pid").and_then(|pid| pid.as_u64());
            children.insert(pid.unwrap(), event.child_id().clone());
        } else if event.capabilities().cancel.is_known() {
            verified = Some(event.child_id().clone());
        }
    }
    let ours = children[&u64::from(covered.pid)].clone();
    let theirs = children[&u64::from(other.pid)].clone();
    assert_eq!(verified, Some(ours.clone()));
    assert_eq!(
        observed.adapter.cancel(&ours, None).await.unwrap(),
        CancelOutcome::Accepted
    );
    let denied = observed.adapter.cancel(&theirs, None).await.unwrap();
    assert!(matches!(denied, CancelOutcome::Denied { .. }));
    assert_eq!(*authority.asked.lock().unwrap(), [covered.pid]);
}
