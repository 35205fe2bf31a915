//! The rules every Headcount adapter is held to, as a test suite, and an in-memory runtime to test
//! hosts with.

pub mod stub;
