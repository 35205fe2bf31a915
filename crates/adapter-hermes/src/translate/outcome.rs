//! What a gateway's words for a state mean.

use headcount_contract::{ChildState, Outcome};

/// How a child ended, by the status of its end.
///
/// A missing or unknown status means failed: it is better to look at a success than to miss a
/// failure. The second value says whether the word was understood.
pub(super) fn outcome(status: Option<&str>) -> (Outcome, bool) {
    match status.map(str::to_ascii_lowercase).as_deref() {
        Some("completed" | "complete") => (Outcome::Completed, true),
        Some("failed" | "error" | "timeout") => (Outcome::Failed, true),
        Some("interrupted" | "cancelled" | "canceled") => (Outcome::Cancelled, true),
        _ => (Outcome::Failed, false),
    }
}

/// The state that a listing names, with the aliases of the contract's foundation; nothing for a
/// word that is not understood.
pub(super) fn state(status: &str) -> Option<ChildState> {
    Some(match status.to_ascii_lowercase().as_str() {
        "pending" | "queued" | "created" => ChildState::CREATED,
        "starting" => ChildState::STARTING,
        "active" | "running" => ChildState::RUNNING,
        "waiting" => ChildState::WAITING,
        other => match outcome(Some(other)) {
            (outcome, true) => ChildState::Terminal(outcome),
            (_, false) => return None,
        },
    })
}

/// Whether a child that "completed" in truth gave no answer.
///
/// Gateway 0.19 reports failed calls of the model so, with no token used and the error in the place
/// of the summary. All gateways report so a child whose model said nothing, or that was stopped by
/// the limit of its iterations: then the summary is the gateway's own explanation.
pub(super) fn is_suspect(outcome: Outcome, tokens: Option<u64>, summary: Option<&str>) -> bool {
    let Some(summary) = summary else { return false };
    outcome == Outcome::Completed
        && (explains_itself(summary) || (tokens == Some(0) && is_failed_call(summary)))
}

/// The error of a call of the model in the place of an answer.
fn is_failed_call(summary: &str) -> bool {
    let http_error = summary.strip_prefix("HTTP ").is_some_and(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        digits == 3 && rest.starts_with(['4', '5'])
    });
    http_error || summary.starts_with("API call failed")
}

/// The gateway says in the place of an answer why there is none. Newer ones write the names of their
/// texts there, `explainer.no_reply_prefixexplainer.empty_response`.
fn explains_itself(summary: &str) -> bool {
    const NO_ANSWER: [&str; 4] = [
        "⚠️ No reply:",
        "⚠️ **No visible answer was produced.**",
        "explainer.no_reply_prefix",
        "I reached the iteration limit and couldn't generate a summary.",
    ];
    // What the child said before may precede it.
    let mut lines = summary.lines();
    lines.any(|line| NO_ANSWER.iter().any(|text| line.starts_with(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use Outcome::{Completed, Failed};

    #[test]
    fn an_end_that_is_not_understood_is_a_failure() {
        let known = [
            ("completed", Outcome::Completed),
            ("failed", Outcome::Failed),
            ("error", Outcome::Failed),
            ("timeout", Outcome::Failed),
            ("interrupted", Outcome::Cancelled),
            ("cancelled", Outcome::Cancelled),
            ("Completed", Outcome::Completed),
        ];
        for (status, expected) in known {
            assert_eq!(outcome(Some(status)), (expected, true), "{status}");
        }
        for status in [
            None,
            Some(""),
            Some("unknown"),
            Some("done?"),
            Some("running"),
        ] {
            assert_eq!(outcome(status), (Outcome::Failed, false), "{status:?}");
        }
    }

    #[test]
    fn a_listing_may_use_the_foundations_words() {
        let cases = [
            ("pending", Some(ChildState::CREATED)),
            ("queued", Some(ChildState::CREATED)),
            ("starting", Some(ChildState::STARTING)),
            ("active", Some(ChildState::RUNNING)),
            ("running", Some(ChildState::RUNNING)),
            ("waiting", Some(ChildState::WAITING)),
            ("cancelled", Some(ChildState::CANCELLED)),
            ("completed", Some(ChildState::COMPLETED)),
            ("paused", None),
        ];
        for (status, expected) in cases {
            assert_eq!(state(status), expected, "{status}");
        }
    }

    #[test]
    fn a_completed_child_is_suspect_if_its_summary_is_no_answer() {
        let check = |outcome, tokens, summary, expected| {
            assert_eq!(
                is_suspect(outcome, tokens, summary),
                expected,
                "{summary:?}"
            );
        };
        check(Completed, Some(0), Some("HTTP 400: bad request"), true);
        check(Completed, Some(0), Some("HTTP 500"), true);
        check(
            Completed,
            Some(0),
            Some("API call failed after 3 retries: x"),
            true,
        );
        check(
            Completed,
            Some(0),
            Some("HTTP 200 is what the server said"),
            false,
        );
        check(Completed, Some(0), Some("HTTP 4000 requests"), false);
        check(Completed, Some(0), Some("All done."), false);
        check(Completed, Some(0), None, false);
        check(Completed, Some(12), Some("HTTP 400: bad request"), false);
        check(Completed, None, Some("HTTP 400: bad request"), false);
        check(Failed, Some(0), Some("HTTP 400: bad request"), false);
        // The gateway's own words, whatever was used before.
        check(
            Completed,
            Some(548),
            Some("⚠️ No reply: the model returned empty content after retries and any fallback"),
            true,
        );
        check(
            Completed,
            Some(274),
            Some("Short title\n\n⚠️ No reply: the maximum tool-iteration limit was reached"),
            true,
        );
        check(
            Completed,
            Some(548),
            Some("explainer.no_reply_prefixexplainer.empty_response"),
            true,
        );
        check(
            Completed,
            Some(274),
            Some("I reached the iteration limit and couldn't generate a summary."),
            true,
        );
        check(
            Completed,
            Some(9),
            Some("There was ⚠️ No reply: it said"),
            false,
        );
        check(Completed, Some(9), Some("explainer.rs is written"), false);
        check(Failed, Some(0), Some("⚠️ No reply: nothing"), false);
    }
}
