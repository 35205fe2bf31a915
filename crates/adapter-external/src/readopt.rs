//! After the host itself died: whether a child of a journal still runs (rule: design of re-adoption).

use headcount_contract::{ChildIdentity, Details, LiveState};

use crate::{Look, ProcessIdentity};

/// What has become of a process that a journal tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Readopt {
    /// It still runs: hand it to an adapter as a [`Readoption`].
    SameProcess(ProcessIdentity),
    /// Nobody has its number, it is a zombie, or the machine was restarted.
    Gone,
    /// Its number belongs to another process now: it is gone.
    AnotherProcess,
    /// What the journal tells or the system shows does not decide it.
    Unknown,
}

/// A child of an earlier session whose process still runs.
///
/// Its id, its lineage and the state it was last known in are kept; from here on it is seen as any
/// adopted process is.
///
/// ```
/// use headcount_adapter_external::{ProcessIdentity, Readoption};
/// use headcount_contract::{ChildId, ChildIdentity, LiveState};
/// let child = ChildIdentity::root(ChildId::new("run-1")?);
/// let process = ProcessIdentity::new(4242).started_at_tick(9001).in_boot("b1");
/// let readoption = Readoption::new(child, LiveState::Running, process);
/// assert_eq!(readoption.process.pid, 4242);
/// # Ok::<(), headcount_contract::IdError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Readoption {
    /// The child as the journal knows it.
    pub child: ChildIdentity,
    /// The last state it was known to be in; presence does not change it.
    pub state: LiveState,
    /// The process that was found.
    pub process: ProcessIdentity,
}

impl Readoption {
    /// Joins a child of a journal with the process that was found.
    ///
    /// ```
    /// # use headcount_adapter_external::{ProcessIdentity, Readoption};
    /// # use headcount_contract::{ChildId, ChildIdentity, LiveState};
    /// let child = ChildIdentity::root(ChildId::new("run-1")?);
    /// let readoption = Readoption::new(child, LiveState::Created, ProcessIdentity::new(7));
    /// assert_eq!(readoption.state, LiveState::Created);
    /// # Ok::<(), headcount_contract::IdError>(())
    /// ```
    pub fn new(child: ChildIdentity, state: LiveState, process: ProcessIdentity) -> Self {
        Self {
            child,
            state,
            process,
        }
    }
}

/// Matches what a journal kept of a child's process (`pid`, `startTicks`, `bootId`, and
/// `pidfdInode` where there was one) with what is under its number now.
///
/// # Behavior
///
/// - Pure: `look` is asked once at most, for the number that the journal tells, and not at all if
///   the journal is of another boot than `boot_id`: no process outlives its machine.
/// - Unknown facts are unknown, never a mismatch; a clock on a wall is never compared.
///
/// ```
/// use headcount_adapter_external::{Look, ProcessIdentity, Readopt, match_journal_child};
/// use headcount_contract::Details;
/// let process = ProcessIdentity::new(4242).started_at_tick(9001).in_boot("b1");
/// let kept = Details::from_iter(process.to_details());
///
/// let found = match_journal_child(&kept, Some("b1"), |_| Look::Lives(process.clone()));
/// assert_eq!(found, Readopt::SameProcess(process.clone()));
/// let reused = process.clone().started_at_tick(9777);
/// assert_eq!(match_journal_child(&kept, Some("b1"), |_| Look::Lives(reused)), Readopt::AnotherProcess);
/// assert_eq!(match_journal_child(&kept, Some("b2"), |_| unreachable!()), Readopt::Gone);
/// ```
pub fn match_journal_child(
    details: &Details,
    boot_id: Option<&str>,
    look: impl FnOnce(u32) -> Look,
) -> Readopt {
    let Some(kept) = ProcessIdentity::from_details(details) else {
        return Readopt::Unknown;
    };
    if let (Some(then), Some(now)) = (kept.boot_id.as_deref(), boot_id)
        && then != now
    {
        return Readopt::Gone;
    }
    match look(kept.pid) {
        Look::Nobody => Readopt::Gone,
        Look::CannotTell => Readopt::Unknown,
        Look::Lives(found) => match kept.is_same(&found) {
            Some(true) => Readopt::SameProcess(found),
            Some(false) => Readopt::AnotherProcess,
            None => Readopt::Unknown,
        },
        // A zombie holds its number: either it is the one, which has ended, or another is.
        Look::Ended(found, _) => match kept.is_same(&found) {
            Some(true) => Readopt::Gone,
            Some(false) => Readopt::AnotherProcess,
            None => Readopt::Unknown,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_journal_and_a_look_decide() {
        let kept = json!({"pid": 7, "startTicks": 100, "bootId": "b", "pidfdInode": 5});
        let same = ProcessIdentity::new(7)
            .started_at_tick(100)
            .in_boot("b")
            .with_pidfd_inode(5);
        let cases = [
            (
                kept.clone(),
                Look::Lives(same.clone()),
                Readopt::SameProcess(same.clone()),
            ),
            (kept.clone(), Look::Nobody, Readopt::Gone),
            (kept.clone(), Look::Ended(same.clone(), None), Readopt::Gone),
            (kept.clone(), Look::CannotTell, Readopt::Unknown),
            (
                kept.clone(),
                Look::Lives(same.clone().started_at_tick(101)),
                Readopt::AnotherProcess,
            ),
            (
                kept.clone(),
                Look::Lives(same.clone().with_pidfd_inode(6)),
                Readopt::AnotherProcess,
            ),
            (
                kept.clone(),
                Look::Ended(same.clone().started_at_tick(101), None),
                Readopt::AnotherProcess,
            ),
            // A journal without the start, or without the boot: a living process proves nothing.
            (
                json!({"pid": 7}),
                Look::Lives(same.clone()),
                Readopt::Unknown,
            ),
            (
                json!({"pid": 7, "startTicks": 100}),
                Look::Lives(same.clone()),
                Readopt::Unknown,
            ),
            (
                json!({"pid": 7, "bootId": "b"}),
                Look::Lives(same.clone()),
                Readopt::Unknown,
            ),
            (json!({"pid": 7}), Look::Nobody, Readopt::Gone),
            (json!({}), Look::Lives(same.clone()), Readopt::Unknown),
            (
                json!({"pid": "7"}),
                Look::Lives(same.clone()),
                Readopt::Unknown,
            ),
            (
                json!({"pid": -7}),
                Look::Lives(same.clone()),
                Readopt::Unknown,
            ),
            (
                json!({"pid": 4_294_967_303_u64}),
                Look::Lives(same),
                Readopt::Unknown,
            ),
        ];
        for (kept, look, expected) in cases {
            let details = Details::from(kept.as_object().unwrap().clone());
            assert_eq!(
                match_journal_child(&details, Some("b"), |_| look),
                expected,
                "{kept}"
            );
        }
    }

    #[test]
    fn nobody_is_looked_for_after_a_restart_of_the_machine() {
        let details = Details::from_iter([("pid", json!(7)), ("bootId", json!("a"))]);
        assert_eq!(
            match_journal_child(&details, Some("b"), |_| panic!("looked")),
            Readopt::Gone
        );
    }
}
