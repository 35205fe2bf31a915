//! What a source answers to a request to cancel a child.

/// The answer to a cancel request. None of them ends the child: only its terminal event does
/// (rule C5).
///
/// ```
/// use headcount_contract::CancelOutcome;
/// let json = serde_json::to_string(&CancelOutcome::Denied { reason: "not our session".into() })?;
/// assert_eq!(json, r#"{"outcome":"denied","reason":"not our session"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
#[non_exhaustive]
pub enum CancelOutcome {
    /// The source took the request; the child may still run.
    Accepted,
    /// The child had ended before.
    AlreadyEnded,
    /// The source does not know the child.
    UnknownChild,
    /// The source refused.
    Denied {
        /// Why, for a person.
        reason: String,
    },
    /// The source cannot cancel; its capabilities say so.
    Unsupported,
}
