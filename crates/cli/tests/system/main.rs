//! The program as a person or a script meets it: real children, real signals, real exit codes.

// Helpers of tests may panic; clippy knows only the test functions themselves.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocked;
mod ends;
mod json;
mod plain;
mod program;
mod schemas;
mod stop;
mod stream;
mod table;
mod volume;
mod words;
