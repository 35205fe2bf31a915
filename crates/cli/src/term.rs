//! Standard error for people, standard output for data; a broken pipe is a quiet end.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::exit::Failure;
use crate::text::visible_lines;

/// Whether a standard error that nobody reads may hold us up no longer.
static HURRY: AtomicBool = AtomicBool::new(false);

/// From now on words to standard error are given up rather than waited for: somebody has asked us
/// to end.
pub(crate) fn hurry() {
    HURRY.store(true, Ordering::Relaxed);
}

/// Writes a line for a person to standard error, or several. Whatever a terminal would act on is
/// made visible.
pub(crate) fn note(line: impl std::fmt::Display) {
    raw(&visible_lines(&line.to_string()));
}

/// Writes text that holds nothing foreign.
fn raw(text: &str) {
    /// What a pipe that has room at all has room for.
    const ROOM: usize = 4096;
    let line = format!("{text}\n");
    for part in line.as_bytes().chunks(ROOM) {
        // Nobody is left to be told of a standard error that is gone.
        if HURRY.load(Ordering::Relaxed) && !has_room() || io::stderr().write_all(part).is_err() {
            return;
        }
    }
}

/// Whether standard error can be written to within a moment.
fn has_room() -> bool {
    let patience = Timespec {
        tv_sec: 0,
        tv_nsec: 500_000_000,
    };
    let stderr = io::stderr();
    let mut waiting = [PollFd::new(&stderr, PollFlags::OUT)];
    poll(&mut waiting, Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// Tells a person why the command was not carried out, and what would be right.
pub(crate) fn complain(failure: &Failure) {
    if failure.to_string().is_empty() {
        return;
    }
    let [red, cyan, off] = colours();
    let message = visible_lines(&failure.to_string()).into_owned();
    raw(&format!("{red}error{off}: {message}"));
    if let Some(help) = failure.help_line() {
        raw(&format!("{cyan} help{off}: {}", visible_lines(help)));
    }
}

/// Tells a person what is wrong with the command line, in clap's words: they repeat what was
/// typed, or what a script was given.
pub(crate) fn complain_of_usage(error: &clap::Error) {
    let [red, _, off] = colours();
    let text = error.render().to_string();
    let text = visible_lines(text.trim_end());
    match text.strip_prefix("error:") {
        Some(rest) => raw(&format!("{red}error{off}:{rest}")),
        None => raw(&text),
    }
}

/// Red, cyan, and the end of both.
fn colours() -> [&'static str; 3] {
    if is_coloured() {
        ["\x1b[1;31m", "\x1b[1;36m", "\x1b[0m"]
    } else {
        [""; 3]
    }
}

/// Whether standard error is to be coloured.
pub(crate) fn is_coloured() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Writes lines to standard output and flushes them.
pub(crate) fn lines(lines: impl IntoIterator<Item = impl AsRef<str>>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in lines {
        out.write_all(line.as_ref().as_bytes())?;
        out.write_all(b"\n")?;
    }
    out.flush()
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::reader_gone();
        }
        Self::ours(format_args!("the output cannot be written: {error}"))
    }
}
