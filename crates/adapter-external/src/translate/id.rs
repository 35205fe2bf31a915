//! The names of children and snapshots.

use headcount_contract::{ChildId, SnapshotId, SourceIdentity};

use crate::process::ProcessIdentity;

/// The id of an adopted process: the same in every session of one boot of the machine.
///
/// Where a number was given out again within one tick, the later process of a session has an id
/// with more in it.
///
/// ```
/// use headcount_adapter_external::{ProcessIdentity, child_id};
/// let process = ProcessIdentity::new(4242).started_at_tick(9001).in_boot("3f9a01bc-7d52");
/// assert_eq!(child_id(&process).as_str(), "pid-4242-9001-3f9a01bc");
/// ```
pub fn child_id(process: &ProcessIdentity) -> ChildId {
    id_of(process, None)
}

/// `pid-<pid>-<start ticks>-<the boot's first eight digits>`: ticks count from the machine's start,
/// so after a restart the same number can start at the same tick.
pub(super) fn id_of(process: &ProcessIdentity, apart: Option<u64>) -> ChildId {
    use std::fmt::Write as _;
    let mut text = format!("pid-{}", process.pid);
    // Writing to a string cannot fail.
    if let Some(ticks) = process.start_ticks {
        let _ = write!(text, "-{ticks}");
    }
    if let Some(boot) = &process.boot_id {
        let short: String = boot
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(8)
            .collect();
        let _ = write!(text, "-{short}");
    }
    if let Some(apart) = apart.or(process
        .pidfd_inode
        .filter(|_| process.start_ticks.is_none()))
    {
        let _ = write!(text, "-i{apart}");
    }
    #[allow(clippy::expect_used)] // letters, digits and dashes, well below the longest
    ChildId::new(text).expect("a legal identifier")
}

pub(super) fn snapshot_id(source: &SourceIdentity, number: u64) -> SnapshotId {
    let long = format!("{}-snapshot-{number}", source.epoch);
    let short = || SnapshotId::new(format!("snapshot-{number}"));
    #[allow(clippy::expect_used)] // letters, digits and dashes
    SnapshotId::new(long)
        .or_else(|_| short())
        .expect("a legal identifier")
}
