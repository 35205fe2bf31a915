//! A host that links this crate by one line finds the adapter, and shows its workers.

use std::time::Duration;

use headcount::Host;
use headcount_adapter_spool as _; // links the adapter; nothing else names it here
use headcount_contract::{AdapterSpec, ChildState, Urgency};
use serde_json::json;

#[test]
fn a_host_lists_the_adapter() {
    let registry = headcount::registry().unwrap();
    let listed: Vec<_> = registry.iter().map(|adapter| adapter.kind).collect();
    assert_eq!(listed, ["spool"]);
    let provided_by = registry.get("spool").unwrap().provided_by;
    assert!(provided_by.starts_with("headcount-adapter-spool "));
}

#[tokio::test]
async fn a_host_shows_the_workers() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("build-7.state"), "done").unwrap();
    let spec = AdapterSpec::new(json!({ "folder": folder.path(), "interval_ms": 10 }));
    let host = Host::builder().adapter("spool", spec).build().unwrap();
    host.start().await.unwrap();
    let ended = host.wait_until(|view| {
        let mut children = view.children();
        children.any(|child| {
            child.record.child_id.as_str() == "build-7"
                && child.record.state == ChildState::COMPLETED
        })
    });
    let ended = tokio::time::timeout(Duration::from_secs(20), ended).await;
    ended.expect("the host shows that build-7 is completed");
    host.shutdown(Urgency::Graceful).await.unwrap();
}
