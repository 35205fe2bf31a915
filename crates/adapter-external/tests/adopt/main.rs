//! Real processes of other parents: what is said of them.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)] // in a test, failing is how it is said

mod found;
mod many;
mod presence;
mod session;
#[path = "../support/mod.rs"]
mod support;
