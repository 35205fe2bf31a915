use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::Write;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::framing::{Framed, LineSplitter};

/// A follower with what a reader of lines does with it.
struct Reader {
    follower: FileFollower,
    splitters: HashMap<u64, LineSplitter>,
    lines: Vec<String>,
    log: Vec<String>,
}

impl Reader {
    fn new(path: &Path, start: StartAt) -> Self {
        Self {
            follower: FileFollower::new(path, start),
            splitters: HashMap::new(),
            lines: Vec::new(),
            log: Vec::new(),
        }
    }

    /// Polls until there is nothing new.
    fn drain(&mut self) {
        loop {
            let lines = &mut self.lines;
            match self.follower.poll().unwrap() {
                Followed::Idle => return,
                Followed::Bytes { generation, bytes } => {
                    self.splitters
                        .get_mut(&generation)
                        .unwrap()
                        .push(bytes, |line| {
                            if let Framed::Line(bytes) = line.framed {
                                lines.push(String::from_utf8(bytes.to_vec()).unwrap());
                            }
                        });
                }
                Followed::Opened {
                    generation,
                    offset,
                    line,
                    found,
                } => {
                    self.log.push(format!("{found:?} at {offset}"));
                    let splitter = LineSplitter::new(4096).at(offset, line);
                    assert!(self.splitters.insert(generation, splitter).is_none());
                }
                Followed::Ended { generation, why } => {
                    self.log.push(format!("{why:?}"));
                    assert!(self.splitters.remove(&generation).is_some());
                }
            }
            assert!(self.splitters.len() <= 3);
        }
    }
}

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new()
        .append(true)
        .create(true)
        .open(path)
        .unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    (folder, path)
}

/// Does `change` to a file that holds "one" and "two" and was read; what is read then?
fn after(change: impl FnOnce(&Path)) -> (Vec<String>, Vec<String>) {
    let (_folder, path) = place();
    append(&path, "one\ntwo\n");
    let mut reader = Reader::new(&path, StartAt::Beginning);
    reader.drain();
    assert_eq!(reader.lines, ["one", "two"]);
    reader.lines.clear();
    reader.log.clear();
    change(&path);
    reader.drain();
    (reader.lines, reader.log)
}

#[test]
fn reads_what_is_appended() {
    let (lines, log) = after(|path| append(path, "three\n"));
    assert_eq!(lines, ["three"]);
    assert!(log.is_empty());
}

#[test]
fn waits_for_a_file_that_is_not_there_yet() {
    let (_folder, path) = place();
    let mut reader = Reader::new(&path, StartAt::Beginning);
    reader.drain();
    append(&path, "one\n");
    reader.drain();
    assert_eq!(
        (reader.lines, reader.log),
        (vec!["one".into()], vec!["First at 0".into()])
    );
}

#[test]
fn a_renamed_file_is_read_to_its_end_and_then_its_successor() {
    let (lines, log) = after(|path| {
        append(path, "three\n");
        fs::rename(path, path.with_extension("1")).unwrap();
        append(path, "four\n");
    });
    assert_eq!(lines, ["three", "four"]);
    assert_eq!(log, ["Successor at 0"]);
}

#[test]
fn a_writer_that_has_not_noticed_the_renaming_is_still_heard() {
    let (_folder, path) = place();
    append(&path, "one\n");
    let mut reader = Reader::new(&path, StartAt::Beginning);
    reader.drain();
    let moved = path.with_extension("1");
    fs::rename(&path, &moved).unwrap();
    append(&path, "new\n");
    reader.drain();
    append(&moved, "late\n");
    append(&path, "newer\n");
    reader.drain();
    assert_eq!(reader.lines, ["one", "new", "late", "newer"]);
    assert!(reader.follower.has_former());
    assert_eq!(reader.follower.release(), Some(1));
}

#[test]
fn lines_do_not_run_from_one_generation_into_the_next() {
    let (lines, _) = after(|path| {
        append(path, "hal");
        fs::rename(path, path.with_extension("1")).unwrap();
        append(path, "f\nfour\n");
    });
    assert_eq!(lines, ["f", "four"]);
}

#[test]
fn a_deleted_file_is_followed_by_the_one_made_after_it_even_with_its_inode() {
    let (lines, log) = after(|path| {
        fs::remove_file(path).unwrap();
        append(path, "three\n");
    });
    assert_eq!(lines, ["three"]);
    assert_eq!(log, ["Successor at 0"]);
}

#[test]
fn a_truncated_file_is_read_from_its_start() {
    let (lines, log) = after(|path| {
        fs::write(path, "3\n").unwrap();
    });
    assert_eq!(lines, ["3"]);
    assert_eq!(log, ["Truncated", "Successor at 0"]);
}

#[test]
fn a_truncated_file_that_has_grown_past_the_old_offset_is_read_from_its_start() {
    let (lines, log) = after(|path| {
        fs::write(path, "three\nfour\nfive\n").unwrap();
    });
    assert_eq!(lines, ["three", "four", "five"]);
    assert_eq!(log, ["Truncated", "Successor at 0"]);
}

#[test]
fn a_truncated_file_that_has_grown_to_the_very_same_length_is_read_from_its_start() {
    let (lines, _) = after(|path| fs::write(path, "ONE\nTWO\n").unwrap());
    assert_eq!(lines, ["ONE", "TWO"]);
}

#[test]
fn a_copied_and_truncated_file_is_read_from_its_start() {
    let (lines, log) = after(|path| {
        fs::copy(path, path.with_extension("1")).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_len(0)
            .unwrap();
        append(path, "three\n");
    });
    assert_eq!(lines, ["three"]);
    assert_eq!(log, ["Truncated", "Successor at 0"]);
}

#[test]
fn the_partial_line_before_a_truncation_is_forgotten() {
    let (_folder, path) = place();
    append(&path, "one\nhal");
    let mut reader = Reader::new(&path, StartAt::Beginning);
    reader.drain();
    fs::write(&path, "f\n").unwrap();
    reader.drain();
    assert_eq!(reader.lines, ["one", "f"]);
}

#[test]
fn starts_at_the_end_behind_the_last_line() {
    let long = "x".repeat(200_000);
    for (content, expected) in [
        ("one\ntwo\n", vec!["three"]),
        ("one\ntw", vec!["twthree"]),
        ("", vec!["three"]),
        (&*format!("one\n{long}\n"), vec!["three"]),
    ] {
        let (_folder, path) = place();
        append(&path, content);
        let mut reader = Reader::new(&path, StartAt::End);
        reader.drain();
        append(&path, "three\n");
        reader.drain();
        assert_eq!(reader.lines, expected);
    }
}

#[test]
fn a_file_that_was_not_there_at_the_start_is_read_whole_even_from_the_end() {
    let (_folder, path) = place();
    let mut reader = Reader::new(&path, StartAt::End);
    reader.drain();
    append(&path, "one\n");
    reader.drain();
    assert_eq!(reader.lines, ["one"]);
}

#[test]
fn a_file_that_came_after_the_start_is_read_whole_even_from_the_end() {
    let (_folder, path) = place();
    append(&path, "one\n");
    let mut reader = Reader::new(&path, StartAt::End);
    reader.drain();
    fs::rename(&path, path.with_extension("1")).unwrap();
    append(&path, "two\n");
    reader.drain();
    assert_eq!(reader.lines, ["two"]);
}

/// What is done to the file, what is read then, and how the file was found.
type Case<'a> = (fn(&Path), &'a [&'a str], &'a str);

#[test]
fn goes_on_at_a_saved_position_and_notices_when_it_is_gone() {
    let save = |path: &Path| {
        append(path, "one\ntwo\nthr");
        let mut reader = Reader::new(path, StartAt::Beginning);
        reader.drain();
        reader.follower.position(8, 3).unwrap()
    };
    let table: [Case; 4] = [
        (|path| append(path, "ee\n"), &["three"], "Resumed at 8"),
        (
            |path| fs::write(path, "new\n").unwrap(),
            &["new"],
            "PositionLost at 0",
        ),
        (
            |path| fs::write(path, "a new and longer one\nmore\n").unwrap(),
            &["a new and longer one", "more"],
            "PositionLost at 0",
        ),
        (
            // The inode is often that of the file that was removed.
            |path| {
                fs::remove_file(path).unwrap();
                append(path, "an other one\nx\n");
            },
            &["an other one", "x"],
            "PositionLost at 0",
        ),
    ];
    for (change, lines, found) in table {
        let (_folder, path) = place();
        let position = save(&path);
        change(&path);
        let mut reader = Reader::new(&path, StartAt::Position(position));
        reader.drain();
        assert_eq!(reader.lines, lines);
        assert_eq!(reader.log, [found]);
    }
}

#[test]
fn something_other_than_a_file_is_an_error_and_is_tried_again() {
    let (_folder, path) = place();
    fs::create_dir(&path).unwrap();
    let mut reader = Reader::new(&path, StartAt::Beginning);
    assert!(reader.follower.poll().is_err());
    fs::remove_dir(&path).unwrap();
    append(&path, "one\n");
    reader.drain();
    assert_eq!(reader.lines, ["one"]);
}

/// What is done to the file.
#[derive(Debug, Clone, Copy)]
enum Action {
    Line,
    Partial,
    RotateAndReopen,
    /// The file is renamed and another begun, while the writer of the old one goes on for a line.
    RotateLingering,
    DeleteAndRecreate,
    DeleteOnly,
    Truncate,
    CopyTruncate,
    TruncateAndRegrow,
    Poll,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        6 => Just(Action::Line),
        3 => Just(Action::Partial),
        1 => Just(Action::RotateAndReopen),
        1 => Just(Action::RotateLingering),
        1 => Just(Action::DeleteAndRecreate),
        1 => Just(Action::DeleteOnly),
        1 => Just(Action::Truncate),
        1 => Just(Action::CopyTruncate),
        1 => Just(Action::TruncateAndRegrow),
        4 => Just(Action::Poll),
    ]
}

/// Carries the actions out and knows which lines a follower must see, and which it may miss.
struct Interpreter {
    path: PathBuf,
    moved: u32,
    lines: u32,
    /// Whether the follower holds the file that stands at the path.
    held: bool,
    /// What was written of a line that has not ended.
    partial: String,
    written: BTreeSet<String>,
    required: BTreeSet<String>,
    /// Lines of the present file that were not read yet: lost if it is truncated.
    unread: Vec<String>,
}

impl Interpreter {
    fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            moved: 0,
            lines: 0,
            held: false,
            partial: String::new(),
            written: BTreeSet::new(),
            required: BTreeSet::new(),
            unread: Vec::new(),
        }
    }

    fn fresh(&mut self) -> String {
        self.lines += 1;
        format!("line-{:06}", self.lines)
    }

    fn line(&mut self) {
        let rest = self.fresh();
        append(&self.path, &format!("{rest}\n"));
        let line = std::mem::take(&mut self.partial) + &rest;
        self.written.insert(line.clone());
        self.unread.push(line);
    }

    /// The file is no longer at the path; a follower that holds it reads it to its end.
    fn replaced(&mut self) {
        self.partial.clear();
        let unread = std::mem::take(&mut self.unread);
        if self.held {
            self.required.extend(unread);
        }
        self.held = false;
    }

    fn cut(&mut self) {
        self.partial.clear();
        self.unread.clear();
        if let Ok(file) = File::options().write(true).open(&self.path) {
            file.set_len(0).unwrap();
        }
    }

    fn apply(&mut self, action: Action, reader: &mut Reader) {
        match action {
            Action::Line => self.line(),
            Action::Partial => {
                let part = self.fresh() + "+";
                append(&self.path, &part);
                self.partial += &part;
            }
            Action::RotateAndReopen | Action::RotateLingering => {
                self.moved += 1;
                let moved = self.path.with_extension(self.moved.to_string());
                if fs::rename(&self.path, &moved).is_ok() {
                    let held = self.held;
                    let partial = self.partial.clone();
                    self.replaced();
                    if matches!(action, Action::RotateLingering) {
                        let rest = self.fresh();
                        append(&moved, &format!("{rest}\n"));
                        let line = partial + &rest;
                        self.written.insert(line.clone());
                        if held {
                            self.required.insert(line);
                        }
                    }
                }
                self.line();
            }
            Action::DeleteAndRecreate | Action::DeleteOnly => {
                if fs::remove_file(&self.path).is_ok() {
                    self.replaced();
                }
                if matches!(action, Action::DeleteAndRecreate) {
                    self.line();
                }
            }
            Action::Truncate => self.cut(),
            Action::CopyTruncate => {
                self.moved += 1;
                let _ = fs::copy(&self.path, self.path.with_extension(self.moved.to_string()));
                self.cut();
            }
            Action::TruncateAndRegrow => {
                let before = fs::metadata(&self.path).map_or(0, |about| about.len());
                self.cut();
                while fs::metadata(&self.path).map_or(0, |about| about.len()) <= before {
                    self.line();
                }
            }
            Action::Poll => {
                reader.drain();
                self.required.extend(self.unread.drain(..));
                self.held = self.path.exists();
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Nothing is read twice, nothing that was not written, in the order of each generation, and
    /// everything that could be read.
    #[test]
    fn whatever_is_done_to_the_file_lines_are_read_once_and_whole(
        actions in proptest::collection::vec(action(), 1..60),
    ) {
        let (_folder, path) = place();
        let mut reader = Reader::new(&path, StartAt::Beginning);
        let mut interpreter = Interpreter::new(&path);
        for action in actions {
            interpreter.apply(action, &mut reader);
        }
        interpreter.apply(Action::Poll, &mut reader);

        let mut seen = BTreeMap::new();
        for line in &reader.lines {
            *seen.entry(line.clone()).or_insert(0) += 1;
        }
        prop_assert!(seen.values().all(|n| *n == 1), "read twice: {seen:?}");
        let seen: BTreeSet<String> = seen.into_keys().collect();
        let invented: Vec<_> = seen.difference(&interpreter.written).collect();
        prop_assert!(invented.is_empty(), "never written: {invented:?}");
        let missed: Vec<_> = interpreter.required.difference(&seen).collect();
        prop_assert!(missed.is_empty(), "missed: {missed:?}; {:?}", reader.log);
    }
}
