//! Live, truthful visibility of a host's child agents.
//!
//! A [`Host`] runs adapters, projects what they tell into one record a child, keeps every event in a
//! journal if it is given one, and shows it: as a consistent [`View`], and as a stream of
//! [`Change`]s. Cargo features select the adapters: `process`, `jsonl`, `external`, `hermes`.

mod builder;
mod change;
mod clock;
mod engine;
mod error;
mod explain;
mod fault;
mod fleet;
#[cfg(feature = "jsonl")]
mod history;
mod host;
mod info;
mod journal;
mod readopt;
mod registry;
mod session;
mod settings;
mod stats;
mod view;

pub use builder::HostBuilder;
pub use change::{Change, ChangeStream, Delivery};
pub use clock::Clock;
pub use error::{HostError, RequestError, ShutdownError};
pub use explain::{Explanation, Fact, SetBy};
pub use fleet::{Fleet, FleetAdapter, FleetError};
#[cfg(feature = "hermes")]
pub use headcount_adapter_hermes as hermes;
#[cfg(feature = "jsonl")]
pub use headcount_adapter_jsonl as jsonl;
pub use headcount_adapter_kit::duration;
pub use headcount_contract as contract;
pub use headcount_projector as projector;
pub use headcount_registry::{Registry, RegistryError};
#[cfg(feature = "jsonl")]
pub use history::{History, HistoryError};
pub use host::Host;
pub use info::AdapterInfo;
pub use journal::{
    JournalDurability, JournalFault, JournalFaultKind, JournalSettings, JournalStore,
};
pub use registry::registry;
pub use settings::{HostSettings, Journaling};
pub use stats::{Histogram, Stats};
pub use view::{AdapterView, ChildView, JournalHealth, JournalStatus, OutputLine, View};

/// The tour for host authors, whose code is compiled and run as a test.
#[cfg(all(doctest, feature = "process", feature = "jsonl"))]
#[doc = include_str!("../../../docs/for-hosts.md")]
pub struct ForHosts;
