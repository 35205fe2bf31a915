//! All cases, by group.

mod cancel;
mod config;
mod events;
mod health;
mod identity;
mod lineage;
mod registration;
mod runtime;
mod snapshot;
mod subscribe;
mod truth;

use crate::case::Case;

/// Every case, in the order of the groups.
pub(crate) fn all() -> impl Iterator<Item = &'static Case> {
    [
        subscribe::CASES,
        events::CASES,
        identity::CASES,
        lineage::CASES,
        snapshot::CASES,
        cancel::CASES,
        health::CASES,
        config::CASES,
        registration::CASES,
        runtime::CASES,
        truth::CASES,
    ]
    .into_iter()
    .flatten()
}
