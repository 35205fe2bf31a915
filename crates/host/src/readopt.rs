//! After the host itself died: children of the journal whose processes still run are observed on.

use headcount_projector::Projector;

use crate::builder::Member;

/// One adapter for each source of which the journal has children whose processes still run.
///
/// Each goes on under the children's own source: in the epoch of the adapter that has that source
/// now, or in a new one if none has. An adapter of kind `external` finds its processes by itself.
#[cfg(feature = "external")]
pub(crate) fn adapters(
    projector: &Projector,
    members: &[Member],
    now: headcount_contract::Timestamp,
) -> Vec<Member> {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use headcount_adapter_external::{
        ExternalAdapter, Readopt, Readoption, boot_id, look, match_journal_child,
    };
    use headcount_contract::{ChildIdentity, ChildLifecycleAdapter, ChildState, SourceIdentity};

    let boot_id = boot_id();
    let mut found: BTreeMap<_, Vec<Readoption>> = BTreeMap::new();
    for record in projector.records() {
        let ChildState::Live(state) = record.state else {
            continue;
        };
        let owner = members.iter().find(|member| member.source == record.source);
        if owner.is_some_and(|owner| &*owner.info.kind == "external") {
            continue;
        }
        let process = match_journal_child(&record.first_details, boot_id.as_deref(), look);
        let Readopt::SameProcess(process) = process else {
            continue;
        };
        let identity = match record.lineage {
            Some(lineage) => ChildIdentity::new(record.child_id.clone(), lineage).ok(),
            None => None,
        };
        let child = identity.unwrap_or_else(|| ChildIdentity::root(record.child_id));
        tracing::info!(source = %record.source, child = %child.id(), pid = process.pid, "found again");
        found
            .entry(record.source)
            .or_default()
            .push(Readoption::new(child, state, process));
    }
    let member = |(source, children): (_, Vec<Readoption>)| {
        let owner = members.iter().find(|member| member.source == source);
        let epoch = owner.map_or_else(
            || headcount_adapter_kit::new_epoch(now),
            |owner| owner.epoch.clone(),
        );
        let ids = children
            .iter()
            .map(|found| found.child.id().clone())
            .collect();
        let adapter = ExternalAdapter::builder()
            .identity(SourceIdentity::new(source.clone(), epoch.clone()))
            .readopt(children)
            .build()
            .inspect_err(|error| tracing::error!("children cannot be observed on: {error}"))
            .ok()?;
        let mut info = crate::AdapterInfo::from(&headcount_adapter_external::REGISTRATION);
        info.only_sources = Some(vec![source.clone()]);
        let capabilities = adapter.capabilities();
        Some(Member {
            source,
            epoch,
            info,
            capabilities,
            adapter: Arc::new(adapter),
            readopts: Some(ids),
        })
    };
    found.into_iter().filter_map(member).collect()
}

/// Without the feature `external` nobody can look at processes.
#[cfg(not(feature = "external"))]
pub(crate) fn adapters(
    _: &Projector,
    _: &[Member],
    _: headcount_contract::Timestamp,
) -> Vec<Member> {
    Vec::new()
}
