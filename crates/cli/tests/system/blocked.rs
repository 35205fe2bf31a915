//! Nobody reads our output: we can be stopped all the same, and say what was not written.

use std::io::Read;
use std::os::fd::AsFd;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::io::ioctl_fionread;

use crate::program::{eventually, line_of, members, signal, text};

/// `headcount run`, whose standard output is a pipe that is full and that nobody reads.
struct Blocked {
    program: Child,
    group: u32,
    /// Held open, never read.
    pipe: ChildStdout,
    _folder: tempfile::TempDir,
}

impl Blocked {
    /// Starts a script that writes its own pid to `$OUT/pid` and then very much; `redirect` is the
    /// shell's.
    fn start(form: &str, redirect: &str, script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let ours = format!(r#"exec "$0" run --output {form} -- sh -c '{script}' {redirect}"#);
        let mut program = Command::new("sh")
            .args(["-c", &ours, env!("CARGO_BIN_EXE_headcount")])
            .env("OUT", folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = folder.path().join("pid");
        let group = eventually("the script to be set up", || line_of(&pid)?.parse().ok());
        let pipe = program.stdout.take().unwrap();
        eventually("the pipe to be full", || {
            let waiting = ioctl_fionread(pipe.as_fd()).unwrap();
            (waiting >= 60_000).then_some(())
        });
        Self {
            program,
            group,
            pipe,
            _folder: folder,
        }
    }

    /// Its exit code, and what it said to a person.
    fn end(mut self) -> (Option<i32>, String) {
        let status = eventually("the end", || self.program.try_wait().unwrap());
        assert_eq!(members(self.group), Vec::<u32>::new(), "left behind");
        let mut said = Vec::new();
        let stderr = self.program.stderr.take().unwrap();
        { stderr }.read_to_end(&mut said).unwrap();
        (status.code(), text(&said))
    }
}

/// Nothing of a test outlives it, even if it fails.
impl Drop for Blocked {
    fn drop(&mut self) {
        if !members(self.group).is_empty() {
            let group = format!("kill -KILL -{}", self.group);
            let _ = Command::new("sh").args(["-c", &group]).status();
        }
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

const MUCH: &str = r#"echo $$ > "$OUT/pid"; exec yes"#;

/// The child ignores the first, so that its end shows that the second arrived.
#[test]
fn a_second_interrupt_kills_although_nobody_reads() {
    let script = r#"trap "" TERM; echo $$ > "$OUT/pid"; exec yes"#;
    let blocked = Blocked::start("plain", "", script);
    signal(&blocked.program, "INT");
    let mut told = [0; 8];
    let mut blocked = blocked;
    let stderr = blocked.program.stderr.as_mut().unwrap();
    stderr.read_exact(&mut told).unwrap();
    assert_eq!(&told, b"stopping");
    assert!(!members(blocked.group).is_empty(), "it ignores the first");
    signal(&blocked.program, "INT");
    let (code, said) = blocked.end();
    assert_eq!(code, Some(128 + 9), "{said}");
    assert!(said.contains("lines were not written"), "{said}");
}

#[test]
fn one_request_to_terminate_is_enough() {
    let blocked = Blocked::start("plain", "", MUCH);
    signal(&blocked.program, "TERM");
    let (code, said) = blocked.end();
    assert_eq!(code, Some(128 + 15), "{said}");
    assert!(said.contains("lines were not written"), "{said}");
}

/// Nor may our own words keep us, where they go the same way.
#[test]
fn a_standard_error_in_the_same_pipe_holds_up_nothing() {
    let blocked = Blocked::start("plain --stats", "2>&1", MUCH);
    signal(&blocked.program, "INT");
    let (code, _) = blocked.end();
    assert_eq!(code, Some(128 + 15));
}

/// Its end is known, whoever does not read of it.
#[test]
fn a_child_that_has_ended_keeps_its_exit_code() {
    let script = r#"echo $$ > "$OUT/pid"; seq 20000; exit 7"#;
    let blocked = Blocked::start("plain", "", script);
    eventually("the end of the child", || {
        members(blocked.group).is_empty().then_some(())
    });
    signal(&blocked.program, "INT");
    let (code, said) = blocked.end();
    assert_eq!(code, Some(7), "{said}");
    assert!(said.contains("lines were not written"), "{said}");
}

/// A reader that comes late finds everything: without an interrupt nothing is given up.
#[test]
fn a_late_reader_misses_nothing() {
    let script = r#"echo $$ > "$OUT/pid"; seq 20000"#;
    let mut blocked = Blocked::start("plain", "", script);
    eventually("the end of the child", || {
        members(blocked.group).is_empty().then_some(())
    });
    let mut shown = String::new();
    blocked.pipe.read_to_string(&mut shown).unwrap();
    assert_eq!(shown.matches(" out | ").count(), 20_000);
    let (code, said) = blocked.end();
    assert_eq!((code, said.as_str()), (Some(0), ""));
}
