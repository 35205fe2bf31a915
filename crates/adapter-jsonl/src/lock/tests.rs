use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn journal(&self) -> PathBuf {
        self.folder.path().join("j")
    }

    fn dir(&self) -> PathBuf {
        self.folder.path().join("j.lock")
    }

    fn lock(&self, stale_after: Duration) -> Lock {
        Lock::new(
            &self.journal(),
            LockOptions {
                timeout: Duration::from_millis(200),
                retry: Duration::from_millis(2),
                stale_after,
            },
        )
    }

    /// A lock directory as one of ours would have left it.
    fn ours(&self, token: &Token) {
        fs::create_dir(self.dir()).unwrap();
        fs::write(self.dir().join(format!("o.{token}")), "").unwrap();
        self.owner_json(&format!(
            r#"{{"pid":{},"token":"{token}","createdAt":{}}}"#,
            token.pid,
            now_ms()
        ));
    }

    /// A lock directory as a peer would have left it that only knows `mkdir`.
    fn plain(&self, owner: Option<&str>) {
        fs::create_dir(self.dir()).unwrap();
        if let Some(owner) = owner {
            self.owner_json(owner);
        }
    }

    fn owner_json(&self, text: &str) {
        fs::write(self.dir().join("owner.json"), text).unwrap();
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn now_ms() -> u128 {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap()
        .as_millis()
}

/// The PID of a process that has ended and was reaped.
fn dead_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    assert_eq!(probe(child.id()), Probe::NotThere);
    child.id()
}

fn dead_token() -> Token {
    Token {
        pid: dead_pid(),
        ..Token::fresh(Here::get())
    }
}

fn refusal(result: Result<Guard, LockError>) -> String {
    match result {
        Err(LockError::TimedOut { holder, .. }) => holder,
        other => panic!("{other:?}"),
    }
}

const NOW: Duration = Duration::ZERO;
const LATER: Duration = Duration::from_mins(5);

#[test]
fn is_there_while_held_and_gone_afterwards() {
    let place = Place::new();
    let guard = place.lock(LATER).acquire().unwrap();
    let text = fs::read_to_string(place.dir().join("owner.json")).unwrap();
    let owner: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(owner["pid"], std::process::id());
    assert!(owner["createdAt"].as_u64().unwrap() > 1_600_000_000_000);
    let token = owner["token"].as_str().unwrap();
    assert!(place.dir().join(format!("o.{token}")).exists());
    assert_eq!(place.names(), ["j.lock"]);
    guard.check().unwrap();
    guard.release().unwrap();
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn excludes_a_second_one_until_it_is_dropped() {
    let place = Place::new();
    let guard = place.lock(NOW).acquire().unwrap();
    let why = refusal(place.lock(NOW).acquire());
    assert_eq!(
        why,
        format!(
            "process {} has held it for 0 s and lives",
            std::process::id()
        )
    );
    assert_eq!(place.names(), ["j.lock"], "what was prepared is removed");
    drop(guard);
    place.lock(NOW).acquire().unwrap();
}

/// Whatever its age: a crash inside the lock holds nobody up.
#[test]
fn is_taken_over_at_once_from_an_owner_that_is_proven_dead() {
    let place = Place::new();
    place.ours(&dead_token());
    let guard = place.lock(LATER).acquire().unwrap();
    let text = fs::read_to_string(place.dir().join("owner.json")).unwrap();
    assert!(
        text.contains(&format!("\"pid\":{}", std::process::id())),
        "{text}"
    );
    guard.release().unwrap();
    assert_eq!(place.names(), [""; 0]);
}

#[test]
fn says_who_is_in_the_way_and_since_when() {
    let place = Place::new();
    let mut token = Token::fresh(Here::get());
    token.made_at_ms -= 12_500;
    place.ours(&token);
    let error = place.lock(LATER).acquire().unwrap_err().to_string();
    let expected = format!(
        "the lock {} was not released in time: process {} has held it for 12 s and lives",
        place.dir().display(),
        std::process::id()
    );
    assert_eq!(error, expected);

    let place = Place::new();
    let pid = dead_pid();
    place.plain(Some(&format!(
        r#"{{"pid":{pid},"token":"x","createdAt":{}}}"#,
        now_ms() - 100_000
    )));
    let why = refusal(place.lock(LATER).acquire());
    assert!(
        why.starts_with(&format!("process {pid} has held it for 100 s and is gone"))
            && why.ends_with("taken over after 300 s"),
        "{why}"
    );
}

#[test]
fn is_not_taken_over_from_an_owner_that_cannot_be_proven_dead() {
    let here = Here::get();
    let alive = Token::fresh(here);
    let table = [
        (alive.clone(), "has held it for 0 s and lives"),
        (
            Token {
                boot_id: Some("another".into()),
                ..dead_token()
            },
            "another boot of this machine, or on another machine",
        ),
        (
            Token {
                pid_namespace: Some(1),
                ..dead_token()
            },
            "another PID namespace",
        ),
        (
            Token {
                boot_id: None,
                ..dead_token()
            },
            "is not known",
        ),
        (
            Token {
                pid_namespace: None,
                ..dead_token()
            },
            "is not known",
        ),
    ];
    for (token, expected) in table {
        let place = Place::new();
        place.ours(&token);
        let why = refusal(place.lock(NOW).acquire());
        assert!(why.contains(expected), "{why}");
        assert!(place.dir().join(format!("o.{token}")).exists());
    }
}

#[test]
fn is_taken_over_when_the_pid_belongs_to_another_process_by_now() {
    let place = Place::new();
    let reused = Token {
        start_ticks: Some(1),
        ..Token::fresh(Here::get())
    };
    place.ours(&reused);
    place.lock(LATER).acquire().unwrap();
}

#[test]
fn is_taken_over_from_a_zombie() {
    let place = Place::new();
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    let deadline = Instant::now() + Duration::from_secs(10);
    while probe(pid) != Probe::Zombie {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    place.ours(&Token {
        pid,
        start_ticks: None,
        ..Token::fresh(Here::get())
    });
    let guard = place.lock(LATER).acquire();
    child.wait().unwrap();
    guard.unwrap();
}

#[test]
fn a_plain_peers_lock_is_kept_while_the_peer_lives_whatever_its_age() {
    let place = Place::new();
    let pid = std::process::id();
    place.plain(Some(&format!(
        r#"{{"pid":{pid},"token":"x","createdAt":1}}"#
    )));
    let why = refusal(place.lock(NOW).acquire());
    assert!(why.ends_with(" s and lives"), "{why}");
}

#[test]
fn a_plain_peers_lock_is_taken_over_when_it_is_dead_and_aged() {
    let pid = dead_pid();
    let table = [
        // (createdAt, stale_after, taken over)
        (now_ms(), LATER, false),
        (now_ms() - 301_000, LATER, true),
        // A clock that was set back: its age is what was watched.
        (now_ms() + 3_600_000, LATER, false),
        (now_ms() + 3_600_000, Duration::from_millis(50), true),
        // A clock that was set forward: too early is still never from a living one.
        (0, LATER, true),
    ];
    for (created_at, stale_after, expected) in table {
        let place = Place::new();
        place.plain(Some(&format!(
            r#"{{"pid":{pid},"token":"x","createdAt":{created_at}}}"#
        )));
        let result = place.lock(stale_after).acquire();
        assert_eq!(
            result.is_ok(),
            expected,
            "{created_at} {stale_after:?}: {result:?}"
        );
        if let Ok(guard) = result {
            guard.release().unwrap();
            assert_eq!(place.names(), [""; 0]);
        }
    }
}

#[test]
fn one_of_ours_that_crashed_in_its_release_is_judged_by_its_whole_token() {
    let place = Place::new();
    let foreign = Token {
        boot_id: Some("another".into()),
        ..dead_token()
    };
    place.plain(Some(&format!(
        r#"{{"pid":{},"token":"{foreign}","createdAt":1}}"#,
        foreign.pid
    )));
    let why = refusal(place.lock(NOW).acquire());
    assert!(why.contains("another boot"), "{why}");

    let place = Place::new();
    let dead = dead_token();
    place.plain(Some(&format!(
        r#"{{"pid":{},"token":"{dead}","createdAt":1}}"#,
        dead.pid
    )));
    place.lock(LATER).acquire().unwrap();
}

#[test]
fn a_directory_without_an_owner_wedges_for_a_time_only() {
    let owners = [
        None,
        Some(""),
        Some("{\"pid\":"),
        Some("[]"),
        Some(r#"{"pid":"x"}"#),
    ];
    for owner in owners {
        let place = Place::new();
        place.plain(owner);
        let why = refusal(place.lock(LATER).acquire());
        assert!(why.contains("names no owner"), "{why}");
        let guard = place.lock(Duration::from_millis(50)).acquire().unwrap();
        guard.release().unwrap();
        assert_eq!(place.names(), [""; 0], "{owner:?}");
    }
}

#[test]
fn what_no_owner_puts_there_is_left_alone() {
    let place = Place::new();
    place.plain(None);
    fs::write(place.dir().join("notes.txt"), "mine").unwrap();
    let why = refusal(place.lock(NOW).acquire());
    assert!(why.contains("a file of another name"), "{why}");
    assert!(place.dir().join("notes.txt").exists());

    let place = Place::new();
    fs::write(place.dir(), "").unwrap();
    let why = refusal(place.lock(NOW).acquire());
    assert!(why.contains("a file in place of the directory"), "{why}");
}

#[test]
fn a_stolen_lock_is_told_of_and_the_thiefs_is_not_touched() {
    let place = Place::new();
    let guard = place.lock(NOW).acquire().unwrap();
    fs::remove_dir_all(place.dir()).unwrap();
    place.plain(Some(r#"{"pid":1,"token":"thief","createdAt":1}"#));
    assert!(matches!(guard.check(), Err(LockError::Stolen { .. })));
    assert!(matches!(guard.release(), Err(LockError::Stolen { .. })));
    assert!(place.dir().join("owner.json").exists());
}

#[test]
fn orphans_of_the_dead_are_removed_and_those_of_the_living_stay() {
    let place = Place::new();
    let lock = place.lock(NOW);
    let living = Token::fresh(Here::get());
    let dead = dead_token();
    let foreign = Token {
        boot_id: Some("another".into()),
        ..dead_token()
    };
    for token in [&living, &dead, &foreign] {
        let path = place.folder.path().join(format!("j.lock.{token}"));
        fs::create_dir(&path).unwrap();
        fs::write(path.join("owner.json"), "").unwrap();
    }
    lock.remove_orphans();
    let mut expected = [format!("j.lock.{living}"), format!("j.lock.{foreign}")];
    expected.sort();
    assert_eq!(place.names(), expected);
}

#[test]
fn a_lock_in_a_folder_that_is_not_there_is_an_error_that_names_it() {
    let mut lock = Lock::new(Path::new("/nonexistent/j"), LockOptions::default());
    let error = lock.acquire().unwrap_err().to_string();
    assert!(error.contains("/nonexistent/j.lock"), "{error}");
}
