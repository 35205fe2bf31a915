use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use headcount_contract::{
    Activity, Capabilities, ChildId, ChildIdentity, Details, EventId, EventKind, LifecycleEvent,
    Sequence, SourceEpoch, SourceId, SourceIdentity, Timestamp,
};
use tempfile::TempDir;

use super::file::{Files, JournalFile, Stat, SystemFiles};
use super::*;

pub(crate) fn event(n: u64) -> LifecycleEvent {
    let source = SourceIdentity::new(
        SourceId::new("worker").unwrap(),
        SourceEpoch::new("start-1").unwrap(),
    );
    LifecycleEvent::new(
        EventId::new(format!("evt-{n}")).unwrap(),
        source,
        ChildIdentity::root(ChildId::new("child-1").unwrap()),
        EventKind::Heartbeat,
        Timestamp::UNIX_EPOCH,
        Capabilities::UNKNOWN,
    )
    .with_sequence(Sequence::new(n).unwrap())
}

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn open(path: &Path) -> Journal {
    Journal::open(path, JournalOptions::default()).unwrap()
}

/// Sequence and event id of each entry, and the fault at the end if there is one.
fn transcript(path: &Path) -> Vec<String> {
    let mut reader = open(path).replay().unwrap();
    let mut lines: Vec<String> = reader
        .by_ref()
        .map(|entry| format!("{} {}", entry.sequence, entry.event.event_id()))
        .collect();
    lines.extend(reader.blocked().map(ToString::to_string));
    lines
}

#[test]
fn an_appended_line_is_the_event_with_one_field_more() {
    let folder = folder();
    let path = folder.path().join("j");
    open(&path).append(&event(7)).unwrap();
    insta::assert_snapshot!(fs::read_to_string(&path).unwrap(), @r#"{"schemaVersion":1,"eventId":"evt-7","source":"worker","sourceEpoch":"start-1","childId":"child-1","lineage":{"rootChildId":"child-1","attempt":0,"external":false},"kind":"heartbeat","observedAt":"1970-01-01T00:00:00.000Z","sequence":7,"capabilities":{"history":"unknown","heartbeat":"unknown","snapshot":"unknown","cancel":"unknown","terminalCause":"unknown"},"journalSequence":1}"#);
    assert!(!folder.path().join("j.lock").exists());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn several_journals_on_one_file_count_on_without_holes() {
    let folder = folder();
    let path = folder.path().join("j");
    let (mut a, mut b) = (open(&path), open(&path));
    assert_eq!(a.append(&event(1)).unwrap(), 1);
    assert_eq!(b.append_batch(&[event(2), event(3)]).unwrap(), 2..4);
    assert_eq!(b.append_batch(&[]).unwrap(), 4..4);
    let mut held = a.hold().unwrap();
    assert_eq!(held.last_sequence(), 3);
    assert_eq!(held.append(&event(4)).unwrap(), 4);
    assert_eq!(held.append(&event(5)).unwrap(), 5);
    held.release().unwrap();
    assert_eq!(b.append(&event(6)).unwrap(), 6);
    assert_eq!(
        transcript(&path),
        [
            "1 evt-1", "2 evt-2", "3 evt-3", "4 evt-4", "5 evt-5", "6 evt-6"
        ]
    );
}

#[test]
fn a_replayed_event_is_the_one_that_was_appended() {
    let folder = folder();
    let path = folder.path().join("j");
    let details = Details::from_iter([
        ("pid", serde_json::json!(4)),
        ("note", serde_json::json!("é\n")),
    ]);
    let event = event(1)
        .with_activity(Activity::new("reading \"x\"\u{2028}"))
        .with_details(details);
    let mut journal = open(&path);
    journal.append(&event).unwrap();
    let entries: Vec<_> = journal.replay().unwrap().collect();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].event, event);
}

#[test]
fn every_durability_writes_the_same() {
    let folder = folder();
    let mut files = Vec::new();
    for durability in [Durability::None, Durability::Batch, Durability::Append] {
        let path = folder.path().join(format!("{durability:?}"));
        let options = JournalOptions {
            durability,
            ..JournalOptions::default()
        };
        let mut journal = Journal::open(&path, options).unwrap();
        assert_eq!(
            journal
                .append_batch(&[event(1), event(2), event(3)])
                .unwrap(),
            1..4
        );
        files.push(fs::read(path).unwrap());
    }
    assert_eq!(files[0], files[1]);
    assert_eq!(files[0], files[2]);
}

#[test]
fn a_blocked_journal_says_why_and_where_and_is_not_touched() {
    let line = |n: u64, sequence: &str| {
        let json = event(n).to_json();
        format!(
            "{},\"journalSequence\":{sequence}}}\n",
            &json[..json.len() - 1]
        )
    };
    let good = line(1, "1");
    let table = [
        ("not json\n".to_owned(), "malformed", "malformed-json"),
        (
            format!("{}\n", event(2).to_json()),
            "malformed",
            "journalSequence",
        ),
        (line(2, "2.0"), "malformed", "journalSequence"),
        (line(2, "\"2\""), "malformed", "journalSequence"),
        (line(2, "3"), "non-monotonic", "2 is due, 3 stands there"),
        (line(2, "1"), "non-monotonic", "2 is due, 1 stands there"),
        (
            line(2, "2").trim_end().to_owned(),
            "truncated",
            "a line end",
        ),
        ("{\"a".to_owned(), "truncated", "a line end"),
        ("\0".repeat(512), "truncated", "a line end"),
        ("x".repeat(70_000), "oversized", "65536"),
        (format!("{}\n", "x".repeat(70_000)), "oversized", "65536"),
        ("\n".to_owned(), "malformed", "a JSON value"),
        (
            "\u{fffd}".repeat(3).replace('\u{fffd}', "\u{85}") + "\n",
            "malformed",
            "malformed-json",
        ),
    ];
    for (bad, reason, what) in table {
        let folder = folder();
        let path = folder.path().join("j");
        let content = format!("{good}{bad}");
        fs::write(&path, &content).unwrap();
        let mut journal = open(&path);
        for _ in 0..2 {
            let error = journal.append(&event(9)).unwrap_err();
            let blocked = error.blocked().unwrap_or_else(|| panic!("{error}"));
            assert_eq!(blocked.reason.as_str(), reason, "{blocked}");
            assert_eq!(
                (blocked.line, blocked.offset),
                (2, good.len() as u64),
                "{blocked}"
            );
            assert!(blocked.what.contains(what), "{blocked}");
        }
        let report = journal.verify().unwrap();
        assert_eq!(report.blocked.map(BlockedReason::as_str), Some(reason));
        assert_eq!((report.line, report.entries), (Some(2), 1));
        assert_eq!(fs::read_to_string(&path).unwrap(), content);
    }
}

#[test]
fn what_another_program_does_to_the_file_between_two_appends_is_seen() {
    let folder = folder();
    let path = folder.path().join("j");
    let mut journal = open(&path);
    journal.append_batch(&[event(1), event(2)]).unwrap();
    let two = fs::read_to_string(&path).unwrap();
    let one = two.split_inclusive('\n').next().unwrap().to_owned();

    // Cut back to one whole line: counted from there.
    fs::write(&path, &one).unwrap();
    assert_eq!(journal.append(&event(3)).unwrap(), 2);
    // Replaced by another file.
    fs::remove_file(&path).unwrap();
    fs::write(&path, &two).unwrap();
    assert_eq!(journal.append(&event(4)).unwrap(), 3);
    // Removed.
    fs::remove_file(&path).unwrap();
    assert_eq!(journal.append(&event(5)).unwrap(), 1);
    // Rewritten in place, longer than before, with a fault at its start.
    fs::write(&path, format!("{{}}\n{two}")).unwrap();
    let error = journal.append(&event(6)).unwrap_err();
    assert_eq!(error.blocked().map(|b| b.line), Some(1), "{error}");
    // And put right again, in place.
    fs::write(&path, &two).unwrap();
    assert_eq!(journal.append(&event(7)).unwrap(), 3);
    assert_eq!(transcript(&path), ["1 evt-1", "2 evt-2", "3 evt-7"]);
}

#[test]
fn an_event_that_no_reader_would_accept_is_refused_and_writes_nothing() {
    let folder = folder();
    let path = folder.path().join("j");
    let mut deep = serde_json::json!(1);
    for _ in 0..10 {
        deep = serde_json::json!([deep]);
    }
    let too_deep = event(1).with_details(Details::from_iter([("a", deep)]));
    let long = serde_json::json!("x".repeat(70_000));
    let too_long = event(1).with_details(Details::from_iter([("a", long)]));
    let options = JournalOptions {
        limits: DecoderLimits::default().with_max_depth(8),
        ..JournalOptions::default()
    };
    let mut journal = Journal::open(&path, options).unwrap();
    for refused in [too_deep, too_long] {
        let error = journal.append_batch([&event(1), &refused]).unwrap_err();
        assert!(matches!(error, JournalError::Unwritable { .. }), "{error}");
    }
    assert_eq!(fs::read(&path).unwrap(), b"");
    assert_eq!(journal.append(&event(1)).unwrap(), 1);
}

#[test]
fn repair_cuts_a_torn_last_line_and_keeps_the_original() {
    for torn in ["{\"a", "\0\0\0", &"x".repeat(200_000)] {
        let folder = folder();
        let path = folder.path().join("j");
        let mut journal = open(&path);
        journal.append_batch(&[event(1), event(2)]).unwrap();
        let good = fs::read(&path).unwrap();
        let damaged = [&good, torn.as_bytes()].concat();
        fs::write(&path, &damaged).unwrap();
        assert!(journal.append(&event(3)).is_err());
        let repair = journal.repair().unwrap();
        let Repair::Cut {
            entries,
            bytes,
            original,
        } = repair
        else {
            panic!("{repair:?}");
        };
        assert_eq!((entries, bytes), (2, torn.len() as u64));
        assert_eq!(fs::read(original).unwrap(), damaged);
        assert_eq!(fs::read(&path).unwrap(), good);
        assert_eq!(journal.append(&event(3)).unwrap(), 3);
        assert_eq!(journal.repair().unwrap(), Repair::Sound { entries: 3 });
    }
}

#[test]
fn repair_never_cuts_the_middle() {
    for bad in ["x\n", "{}\n{\"torn", &format!("{}\n", "x".repeat(70_000))] {
        let folder = folder();
        let path = folder.path().join("j");
        open(&path).append(&event(1)).unwrap();
        let damaged = [&fs::read(&path).unwrap(), bad.as_bytes()].concat();
        fs::write(&path, &damaged).unwrap();
        let error = open(&path).repair().unwrap_err();
        assert!(
            matches!(error, JournalError::NotRepairable { .. }),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), damaged);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_second_repair_does_not_overwrite_the_first_copy() {
    let folder = folder();
    let path = folder.path().join("j");
    for torn in ["one", "two"] {
        fs::write(&path, torn).unwrap();
        open(&path).repair().unwrap();
    }
    let read = |n| fs::read_to_string(folder.path().join(format!("j.before-repair-{n}"))).unwrap();
    assert_eq!((read(1), read(2)), ("one".to_owned(), "two".to_owned()));
}

/// What the next file operation shall do instead of succeeding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Write(i32),
    ShortWrite(usize),
    Sync(i32),
    Cut(i32),
    Read(i32),
}

#[derive(Debug, Default, Clone)]
struct Faults(Arc<Mutex<VecDeque<Fault>>>);

impl Faults {
    fn script(&self, faults: impl IntoIterator<Item = Fault>) {
        *self.0.lock().unwrap() = faults.into_iter().collect();
    }

    /// The next fault, if it is for this operation.
    fn take(&self, of: impl Fn(Fault) -> bool) -> Option<Fault> {
        let mut faults = self.0.lock().unwrap();
        faults.front().copied().filter(|fault| of(*fault))?;
        faults.pop_front()
    }

    fn failed(&self, of: impl Fn(Fault) -> Option<i32>) -> io::Result<()> {
        match self.take(|fault| of(fault).is_some()).and_then(of) {
            Some(code) => Err(io::Error::from_raw_os_error(code)),
            None => Ok(()),
        }
    }
}

impl Files for Faults {
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        SystemFiles.stat(path)
    }
    fn open(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        Ok(Box::new(FaultyFile(SystemFiles.open(path)?, self.clone())))
    }
    fn sync_parent(&self, path: &Path) -> io::Result<()> {
        SystemFiles.sync_parent(path)
    }
}

#[derive(Debug)]
struct FaultyFile(Box<dyn JournalFile>, Faults);

impl JournalFile for FaultyFile {
    fn stat(&self) -> io::Result<Stat> {
        self.0.stat()
    }
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.1.failed(|f| match f {
            Fault::Read(code) => Some(code),
            _ => None,
        })?;
        self.0.read_at(buffer, offset)
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.1.failed(|f| match f {
            Fault::Write(code) => Some(code),
            _ => None,
        })?;
        match self.1.take(|fault| matches!(fault, Fault::ShortWrite(_))) {
            Some(Fault::ShortWrite(n)) => self.0.append(&bytes[..n.min(bytes.len())]),
            _ => self.0.append(bytes),
        }
    }
    fn sync_data(&self) -> io::Result<()> {
        self.1.failed(|f| match f {
            Fault::Sync(code) => Some(code),
            _ => None,
        })?;
        self.0.sync_data()
    }
    fn cut(&self, length: u64) -> io::Result<()> {
        self.1.failed(|f| match f {
            Fault::Cut(code) => Some(code),
            _ => None,
        })?;
        self.0.cut(length)
    }
}

const EINTR: i32 = 4;
const EIO: i32 = 5;
const ENOSPC: i32 = 28;

#[test]
fn a_failed_append_leaves_the_journal_as_it_was() {
    let table: [(&[Fault], bool); 9] = [
        (&[Fault::Write(ENOSPC)], false),
        (&[Fault::ShortWrite(10), Fault::Write(ENOSPC)], false),
        (
            &[
                Fault::ShortWrite(400),
                Fault::Write(ENOSPC),
                Fault::Cut(EINTR),
            ],
            false,
        ),
        (&[Fault::ShortWrite(10), Fault::ShortWrite(10)], false),
        (&[Fault::Sync(EIO)], false),
        (&[Fault::Write(EINTR)], true),
        (&[Fault::ShortWrite(10), Fault::Write(EINTR)], true),
        (&[Fault::Sync(EINTR)], true),
        (
            &[Fault::Read(EINTR), Fault::Write(EINTR), Fault::Sync(EINTR)],
            true,
        ),
    ];
    for (script, succeeds) in table {
        let folder = folder();
        let path = folder.path().join("j");
        let faults = Faults::default();
        let files = Arc::new(faults.clone());
        let mut journal =
            Journal::open_with(path.clone(), JournalOptions::default(), files).unwrap();
        journal.append(&event(1)).unwrap();
        let before = fs::read(&path).unwrap();
        faults.script(script.iter().copied());
        let result = journal.append_batch(&[event(2), event(3)]);
        assert!(
            faults.0.lock().unwrap().is_empty(),
            "{script:?}: not all was met"
        );
        assert_eq!(result.is_ok(), succeeds, "{script:?}: {result:?}");
        if !succeeds {
            assert!(
                matches!(result, Err(JournalError::Io { .. })),
                "{script:?}: {result:?}"
            );
            assert_eq!(fs::read(&path).unwrap(), before, "{script:?}");
            assert_eq!(journal.append_batch(&[event(2), event(3)]).unwrap(), 2..4);
        }
        assert_eq!(
            transcript(&path),
            ["1 evt-1", "2 evt-2", "3 evt-3"],
            "{script:?}"
        );
        assert!(!folder.path().join("j.lock").exists());
    }
}

#[test]
fn a_failed_append_that_cannot_be_undone_blocks_the_journal() {
    let folder = folder();
    let path = folder.path().join("j");
    let faults = Faults::default();
    let mut journal = Journal::open_with(
        path.clone(),
        JournalOptions::default(),
        Arc::new(faults.clone()),
    )
    .unwrap();
    journal.append(&event(1)).unwrap();
    faults.script([Fault::ShortWrite(10), Fault::Write(ENOSPC), Fault::Cut(EIO)]);
    let error = journal.append(&event(2)).unwrap_err();
    assert!(matches!(error, JournalError::Torn { .. }), "{error}");
    let error = journal.append(&event(2)).unwrap_err();
    assert_eq!(
        error.blocked().map(|b| b.reason),
        Some(BlockedReason::Truncated),
        "{error}"
    );
    journal.repair().unwrap();
    assert_eq!(journal.append(&event(2)).unwrap(), 2);
    assert_eq!(transcript(&path), ["1 evt-1", "2 evt-2"]);
}

#[test]
fn reading_ahead_and_catching_up_agree() {
    let folder = folder();
    let path = folder.path().join("j");
    let mut writer = open(&path);
    let mut reader = open(&path);
    reader.append(&event(0)).unwrap();
    // More than is read under the lock alone.
    let events: Vec<_> = (1..2000).map(event).collect();
    writer.append_batch(&events).unwrap();
    assert!(fs::metadata(&path).unwrap().len() > 4 * 64 * 1024);
    assert_eq!(reader.append(&event(2000)).unwrap(), 2001);
    assert!(open(&path).verify().unwrap().ok);
    // A torn line behind a long way is found as well.
    let torn = [&fs::read(&path).unwrap()[..], b"torn"].concat();
    fs::write(&path, torn).unwrap();
    let error = open(&path).append(&event(1)).unwrap_err();
    assert_eq!(error.blocked().map(|b| b.line), Some(2002), "{error}");
}

#[test]
fn a_folder_is_no_journal() {
    let folder = folder();
    let error = Journal::open(folder.path(), JournalOptions::default()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_journal_without_a_folder_is_refused_when_it_is_opened() {
    let folder = folder();
    let path = folder.path().join("nowhere").join("events.jsonl");
    let error = Journal::open(&path, JournalOptions::default()).unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
}
