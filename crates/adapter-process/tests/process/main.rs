//! The subprocess adapter against real processes.

#![allow(clippy::unwrap_used, clippy::expect_used)] // helpers of tests, outside of any test

mod adapter;
mod faults;
mod health;
mod random;
mod readiness;
mod runtime;
mod server;
mod stress;
mod supervision;
mod support;
