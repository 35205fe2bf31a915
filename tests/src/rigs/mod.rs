//! Rigs of the conformance kit, one for each adapter.

pub mod stub;
