//! A journal that this user may not write.
#![cfg(target_os = "linux")] // where one thread can be another user's
#![allow(clippy::unwrap_used, clippy::panic)] // as in any test

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use headcount_adapter_jsonl::{Journal, JournalOptions};

/// Nothing is refused to the superuser, so that the thread becomes another user first.
fn as_a_plain_user<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if rustix::process::geteuid().is_root() {
                let nobody = rustix::process::Uid::from_raw(65534);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
            }
            test()
        });
        thread.join().unwrap()
    })
}

#[test]
fn a_journal_that_may_not_be_written_is_refused_when_it_is_opened() {
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    std::fs::write(&path, "").unwrap();
    for (folder_mode, file_mode, said) in [
        (0o777, 0o666, None),
        (0o777, 0o444, Some("cannot write the journal")),
        (
            0o555,
            0o666,
            Some("cannot make the journal's lock in its folder"),
        ),
    ] {
        set(folder.path(), folder_mode);
        set(&path, file_mode);
        let opened = as_a_plain_user(|| Journal::open(&path, JournalOptions::default()).map(drop));
        match (opened, said) {
            (Ok(()), None) => {}
            (Err(error), Some(said)) => {
                assert!(error.to_string().contains(said), "{error}");
                assert!(
                    format!("{error:?}").contains("PermissionDenied"),
                    "{error:?}"
                );
            }
            (opened, said) => panic!("{opened:?} where {said:?} was expected"),
        }
    }
    set(folder.path(), 0o777);
}
