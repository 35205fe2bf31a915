//! Whole-system tests, the conformance kit against each adapter, and the benchmarks.

pub mod rigs;
