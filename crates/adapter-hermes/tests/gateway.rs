//! The adapter on a scripted gateway, over real pipes and real `WebSocket`s, with every fault.
//!
//! Started with the variable `HEADCOUNT_SCRIPTED_GATEWAY`, this program is that gateway.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a helper of tests may panic as tests may

#[path = "gateway/attached.rs"]
mod attached;
#[path = "gateway/cancel.rs"]
mod cancel;
#[path = "gateway/faults.rs"]
mod faults;
#[path = "gateway/feed.rs"]
mod feed;
#[path = "gateway/listing.rs"]
mod listing;
#[path = "gateway/started.rs"]
mod started;
mod support;
#[path = "gateway/tls.rs"]
mod tls;

use headcount_adapter_hermes::scripted::{STEPS, run_process};

fn main() {
    if std::env::var_os(STEPS).is_some() {
        run_process();
    }
    let arguments = libtest_mimic::Arguments::from_args();
    let trials = [
        started::trials(),
        attached::trials(),
        cancel::trials(),
        faults::trials(),
        feed::trials(),
        listing::trials(),
        tls::trials(),
    ];
    libtest_mimic::run(&arguments, trials.into_iter().flatten().collect()).exit();
}
