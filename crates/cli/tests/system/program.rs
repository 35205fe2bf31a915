//! Running `headcount`, and waiting for conditions.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use headcount_contract::{EventKind, LifecycleEvent, WireLimits, parse_event};

/// Far longer than anything here takes on a machine that is only busy.
pub(crate) const DEADLINE: Duration = Duration::from_mins(1);

/// `headcount` with these arguments, from no terminal, with nothing on its standard input.
pub(crate) fn headcount(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headcount"));
    command
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// What `headcount run OPTIONS -- sh -c SCRIPT` did.
pub(crate) fn run(options: &[&str], script: &str) -> Output {
    run_program(options, &["sh", "-c", script])
}

/// What `headcount run OPTIONS -- PROGRAM` did.
pub(crate) fn run_program(options: &[&str], program: &[&str]) -> Output {
    let mut args = vec!["run"];
    args.extend(options);
    args.push("--");
    args.extend(program);
    headcount(&args).output().unwrap()
}

/// Standard output as lifecycle events: every line must be one.
pub(crate) fn events(output: &Output) -> Vec<LifecycleEvent> {
    text(&output.stdout)
        .lines()
        .map(|line| match parse_event(line, &WireLimits::default()) {
            Ok(parsed) => parsed.event,
            Err(fault) => panic!("no lifecycle event: {fault}\n{line}"),
        })
        .collect()
}

/// The terminal events among them.
pub(crate) fn ends(events: &[LifecycleEvent]) -> Vec<&LifecycleEvent> {
    events
        .iter()
        .filter(|event| matches!(event.kind(), EventKind::Terminal(_)))
        .collect()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until the condition gives a value.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::park_timeout(Duration::from_millis(5));
    }
}

/// Sends a signal to one process, as `kill` does.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", child.id())])
        .status()
        .unwrap();
    assert!(status.success());
}

/// The living members of a process group: zombies are not alive.
pub(crate) fn members(group: u32) -> Vec<u32> {
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            // The name, in parentheses, may hold anything; state, parent and group follow it.
            let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
            let state = rest.next()?;
            let of: u32 = rest.nth(1)?.parse().ok()?;
            (of == group && !matches!(state, "Z" | "X")).then_some(pid)
        });
    stats.collect()
}

/// A file that a child writes, when it holds a whole line.
pub(crate) fn line_of(path: &PathBuf) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.strip_suffix('\n').map(str::to_owned)
}

/// Both ends of a terminal of that size: the person's, and the program's.
pub(crate) fn terminal(columns: u16, rows: u16) -> (File, File) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&person).unwrap();
    unlockpt(&person).unwrap();
    let size = rustix::termios::Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&person, size).unwrap();
    let name = ptsname(&person, Vec::new()).unwrap();
    let program = File::options()
        .read(true)
        .write(true)
        .open(name.to_str().unwrap())
        .unwrap();
    (person.into(), program)
}
