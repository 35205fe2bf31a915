//! Whole-system tests, the conformance kit against each adapter, and the benchmarks.

pub mod rigs;

/// The pages of `docs/` whose code is compiled and run as doc tests.
#[doc = include_str!("../../docs/writing-an-adapter.md")]
pub mod writing_an_adapter {}
