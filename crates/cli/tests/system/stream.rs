//! Streams and journals through the program: a script that emits, somebody who follows it live, and
//! what must not be shown of what is read.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use headcount_contract::{WireLimits, parse_event};

use crate::program::{DEADLINE, eventually, headcount, signal, terminal, text};

/// `headcount` with these words, as a line of a shell script.
fn in_shell(words: &str) -> String {
    format!("'{}' {words}", env!("CARGO_BIN_EXE_headcount"))
}

/// Ends a child when a test fails, too.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Its lines as they come.
fn lines_of(from: impl Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

#[test]
fn a_script_that_emits_is_followed_live() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("events.jsonl");
    let journal = journal.to_str().unwrap();
    let mut tail = Ended(
        headcount(&[
            "tail",
            "--follow",
            "--from-start", // whichever of the two comes first
            "--output",
            "json",
            journal,
        ])
        .spawn()
        .unwrap(),
    );
    let seen = lines_of(tail.0.stdout.take().unwrap());

    let emit = in_shell("emit --journal \"$1\" --source script --epoch 1 --child build");
    let script = format!(
        "set -e\n\
         {emit} --kind created; read _\n\
         {emit} --kind state_changed --state running --details '{{\"step\": 1}}'; read _\n\
         {emit} --kind terminal --state completed"
    );
    let mut script = Ended(
        Command::new("sh")
            .args(["-c", &script, "script", journal])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut go_on = script.0.stdin.take().unwrap();
    for expected in ["created", "state_changed", "terminal"] {
        // Each is seen before the script goes on to the next.
        let line = seen.recv_timeout(DEADLINE).expect(expected);
        let event = parse_event(&line, &WireLimits::default()).unwrap().event;
        assert_eq!(event.kind().as_str(), expected);
        assert_eq!(event.child_id().as_str(), "build");
        // At the end the script waits no more.
        let _ = go_on.write_all(b"\n");
    }
    assert!(script.0.wait().unwrap().success());
    // It goes on following until it is told to end.
    assert!(tail.0.try_wait().unwrap().is_none());
    signal(&tail.0, "INT");
    eventually("the end of tail", || tail.0.try_wait().unwrap());
}

#[test]
fn emit_says_whom_it_waits_for_and_then_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let journal = folder.path().join("j");
    let lock = folder.path().join("j.lock");
    // As a peer holds it that only knows `mkdir`: this process.
    std::fs::create_dir(&lock).unwrap();
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let owner = format!(
        r#"{{"pid":{},"token":"t","createdAt":{}}}"#,
        std::process::id(),
        now.as_millis()
    );
    std::fs::write(lock.join("owner.json"), owner).unwrap();
    let args = "emit --source s --epoch e --child c --kind created --journal";
    let mut args: Vec<&str> = args.split(' ').collect();
    args.push(journal.to_str().unwrap());
    let mut emit = Ended(headcount(&args).spawn().unwrap());
    let said = lines_of(emit.0.stderr.take().unwrap());
    let line = said.recv_timeout(DEADLINE).expect("whom it waits for");
    let holder = format!("process {} has held it for", std::process::id());
    assert!(
        line.contains("waiting") && line.contains(&holder) && line.contains("s and lives"),
        "{line}"
    );
    std::fs::remove_dir_all(&lock).unwrap();
    assert!(emit.0.wait().unwrap().success());
    assert_eq!(
        std::fs::read_to_string(&journal).unwrap().lines().count(),
        1
    );
}

const CANARY: &str = "canary-4711";

/// A good line; `{extra}` stands before its end.
fn line(n: u64, extra: &str) -> String {
    format!(
        r#"{{"schemaVersion":1,"eventId":"e-{n}","source":"s","sourceEpoch":"e","childId":"c","lineage":{{"rootChildId":"c","attempt":0,"external":false}},"kind":"activity","observedAt":"2026-08-24T09:15:30.000Z","sequence":{n}{extra}}}"#
    ) + "\n"
}

/// Lines that are refused, of each kind, and one that is accepted whose secret is redacted.
fn stream() -> Vec<u8> {
    let mut stream = Vec::new();
    for refused in [
        format!("{CANARY}\n"),
        format!("{{\"{CANARY}\":1,\"{CANARY}\":2}}\n"),
        line(1, "").replace("activity", CANARY),
        line(1, "").replace("2026-08-24T09:15:30.000Z", CANARY),
        line(1, &format!(",\"details\":\"{CANARY}\"")),
        line(1, &format!(",\"state\":\"{CANARY}\"")),
        line(1, "").replace(
            "\"schemaVersion\":1",
            &format!("\"schemaVersion\":\"{CANARY}\""),
        ),
        format!("{CANARY}{}\n", "x".repeat(70_000)),
    ] {
        stream.extend(refused.into_bytes());
    }
    stream.extend([b"\xff", CANARY.as_bytes(), b"\n"].concat());
    stream.extend(secret(2, "").into_bytes());
    stream.extend(CANARY.bytes()); // without an end
    stream
}

/// A good line with secrets under telling keys.
fn secret(n: u64, extra: &str) -> String {
    let details =
        format!(r#""api_key":"{CANARY}","env":[{{"x-auth-token":"{CANARY}"}}],"shown":"in-clear""#);
    line(n, &format!(r#","details":{{{details}}}{extra}"#))
}

/// Everything that the program says, its log at the finest level included.
fn said(args: &[&str], stdin: &[u8]) -> String {
    let mut command = headcount(args);
    command.args(["--log", "trace"]).stdin(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = {
        let stdin = stdin.to_vec();
        // A command that reads nothing closes it.
        std::thread::spawn(move || input.write_all(&stdin).ok())
    };
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let all = text(&output.stdout) + &text(&output.stderr);
    assert!(!all.contains(CANARY), "{args:?}\n{all}");
    all
}

#[test]
fn no_output_and_no_log_holds_what_was_refused_or_is_secret() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let file = at("stream");
    std::fs::write(&file, stream()).unwrap();
    for output in ["plain", "json"] {
        let kept = at(&format!("kept-{output}"));
        let all = said(&["check", &file, "--output", output], b"");
        assert!(
            all.contains("reject:oversized") && all.contains("reject:truncated"),
            "{all}"
        );
        said(&["check", "-", "--output", output], &stream());
        // Its refused lines are told of in the health, its event goes into a journal.
        let all = said(
            &[
                "tail",
                &file,
                "--output",
                output,
                "--journal",
                &kept,
                "--stats",
            ],
            b"",
        );
        assert!(all.contains("in-clear") || output == "plain", "{all}");
        said(&["tail", "-", "--output", output], &stream());
        for command in ["list", "explain c"] {
            let mut args: Vec<&str> = command.split(' ').collect();
            args.extend(["--journal", &kept, "--output", output]);
            assert!(said(&args, b"").contains('c'));
        }
        let journaled = std::fs::read_to_string(&kept).unwrap();
        assert!(
            journaled.contains("in-clear") && !journaled.contains(CANARY),
            "{journaled}"
        );
    }

    // A journal that somebody else wrote holds the secret itself; it is not passed on.
    let good = secret(1, ",\"journalSequence\":1");
    for (n, damage) in [
        String::new(),
        CANARY.to_owned(),
        format!("{CANARY}\n"),
        line(2, &format!(",\"journalSequence\":\"{CANARY}\"")),
        format!("{CANARY}{}\n", "x".repeat(70_000)),
    ]
    .into_iter()
    .enumerate()
    {
        let path = at(&format!("journal-{n}"));
        std::fs::write(&path, good.clone() + &damage).unwrap();
        for output in ["plain", "json"] {
            said(&["journal", "verify", &path, "--output", output], b"");
            said(&["journal", "cat", &path, "--output", output], b"");
            said(&["list", "--journal", &path, "--output", output], b"");
            said(
                &["explain", "c", "--journal", &path, "--output", output],
                b"",
            );
        }
        let emit = "emit --source s --epoch e --child c --kind created --journal";
        let mut args: Vec<&str> = emit.split(' ').collect();
        args.push(&path);
        said(&args, b"");
        said(&["journal", "repair", &path], b"");
    }
    let kept = at("emitted");
    let emit = "emit --source s --epoch e --child c --kind activity --details";
    for details in [CANARY, &format!("{{\"token\":\"{CANARY}\"}}")] {
        let mut args: Vec<&str> = emit.split(' ').collect();
        args.extend([details, "--journal", &kept]);
        said(&args, b"");
    }
    assert!(!std::fs::read_to_string(&kept).unwrap().contains(CANARY));
}

#[test]
fn the_table_does_not_show_it_either() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stream");
    std::fs::write(&file, stream()).unwrap();
    let shown = shown_in_table(&file);
    assert!(!shown.contains(CANARY), "{shown}");
}

/// What is drawn on a terminal until the child and the refused lines are shown.
fn shown_in_table(file: &Path) -> String {
    let (mut screen, terminal) = terminal(150, 40);
    let end = || Stdio::from(terminal.try_clone().unwrap());
    let mut child = Ended(
        Command::new(env!("CARGO_BIN_EXE_headcount"))
            .args(["tail", "--follow", "--from-start", "--output", "tui"])
            .arg(file)
            .env("TERM", "xterm-256color")
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap(),
    );
    drop(terminal);
    let mut shown = Vec::new();
    let mut buffer = [0; 4096];
    while !text(&shown).contains("refused") {
        let read = screen.read(&mut buffer).unwrap();
        shown.extend(&buffer[..read]);
    }
    screen.write_all(b"q").unwrap();
    // It fails when nobody has the terminal open any more.
    while let Ok(read) = screen.read(&mut buffer) {
        shown.extend(&buffer[..read]);
    }
    let status = eventually("the end of the table", || child.0.try_wait().unwrap());
    assert!(status.success(), "{status}");
    text(&shown)
}
