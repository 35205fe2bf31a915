//! What is wrong with a fleet file, and where.

/// What is wrong with a fleet file, where, and what would be right.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {message}")]
#[non_exhaustive]
pub struct FleetError {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The key that is at fault, if one is.
    pub key: Option<String>,
    /// What is wrong, and what would be right.
    pub message: String,
    /// The line itself.
    pub text: String,
}
