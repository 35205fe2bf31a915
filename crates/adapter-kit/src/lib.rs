//! What every adapter author would write again.
//!
//! [`Fanout`] hands one stream of signals to many subscribers, [`EventMint`] allocates ids and
//! sequences, [`HealthCell`] tells of every change of health, [`Coalescer`] lets snapshot requests
//! share one answer, and [`RuntimeAdapter`] makes a lifecycle adapter of any agent runtime.

mod bridge;
mod coalesce;
mod config;
pub mod duration;
mod fanout;
mod health;
mod mint;
#[cfg(test)]
mod testing;

pub use bridge::{
    Announce, EndedRun, NextRun, RunPlan, RuntimeAdapter, RuntimeAdapterBuilder, Told,
};
pub use coalesce::Coalescer;
pub use config::config_object;
pub use fanout::Fanout;
pub use health::HealthCell;
pub use mint::{EventMint, first_sequence, new_epoch};
