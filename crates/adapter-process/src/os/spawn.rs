//! Starting a process: the program found first, the true cause where it fails.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::task::{Context, Poll};

use headcount_contract::{StartError, StartErrorKind};
use tokio::net::unix::pipe;

use super::{Leader, SpawnPlan, Spawned, sys};

/// The reading end of an output pipe. Holds no buffer.
#[derive(Debug)]
pub(crate) struct Pipe(pipe::Receiver);

impl Pipe {
    /// Ready when there is something to read, or the end. An error shows at the reading.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.0.poll_read_ready(context).map(drop)
    }

    /// Reads what there is, without waiting.
    pub(crate) fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }

    /// Makes room for more, for a writer that fills it; without effect where the system refuses.
    pub(crate) fn enlarge(&self, bytes: usize) {
        #[cfg(target_os = "linux")]
        let _ = rustix::pipe::fcntl_setpipe_size(&self.0, bytes);
        #[cfg(not(target_os = "linux"))]
        let _ = bytes;
    }

    /// The system's number of the pipe, the same for both of its ends.
    pub(crate) fn number(&self) -> u64 {
        rustix::fs::fstat(&self.0).map_or(0, |stat| stat.st_ino)
    }
}

/// Starts a process as the leader of its own group, with no input.
pub(crate) fn spawn(plan: &SpawnPlan<'_>) -> Result<Spawned, StartError> {
    let mut command = plan.command();
    command.arg0(plan.called).process_group(0);
    let lifecycle = match plan.lifecycle_fd {
        Some(at) => Some(lifecycle_pipe(&mut command, at).map_err(|error| why_not(plan, error))?),
        None => None,
    };
    let child = match plan.end_with_host {
        #[cfg(target_os = "linux")]
        Some(signal) => super::spawner::spawn(command, signal),
        // Elsewhere no system ends children with their host; the adapter's limitations say so.
        _ => command.spawn(),
    };
    let mut child = child.map_err(|error| why_not(plan, error))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    // From here on a failure drops the leader, which kills what was started.
    let leader = Leader::new(child).map_err(|error| cannot_watch(plan, error))?;
    let pipe = |end: Option<OwnedFd>| {
        end.map(|end| {
            let receiver = pipe::Receiver::from_owned_fd(end);
            receiver
                .map(Pipe)
                .map_err(|error| cannot_watch(plan, error))
        })
        .transpose()
    };
    Ok(Spawned {
        stdout: pipe(stdout.map(Into::into))?,
        stderr: pipe(stderr.map(Into::into))?,
        // The writing end of ours is closed here: the end of the stream is the child's.
        lifecycle: pipe(lifecycle.map(|ends| ends.reading))?,
        leader,
    })
}

/// Both ends of a pipe whose writing end the child gets.
struct LifecyclePipe {
    reading: OwnedFd,
    _writing: OwnedFd,
}

fn lifecycle_pipe(command: &mut Command, at: u16) -> io::Result<LifecyclePipe> {
    let (reading, writing) = io::pipe()?;
    // Taken at that very number where it is free: nothing that the spawn opens for itself can then
    // be there in the child.
    let writing = rustix::io::fcntl_dupfd_cloexec(&writing, i32::from(at))?;
    sys::hand_over(command, writing.as_raw_fd(), i32::from(at));
    Ok(LifecyclePipe {
        reading: reading.into(),
        _writing: writing,
    })
}

/// Finds the program: a path as it is, relative to `cwd`; a bare name in the host's own `PATH`.
///
/// # Errors
///
/// [`StartErrorKind::InvalidInput`] for a working directory that cannot be entered, which is looked
/// at first because the system blames the program for it; then
/// [`StartErrorKind::NotFound`] and [`StartErrorKind::NotExecutable`].
pub(crate) fn find_program(command: &str, cwd: &Path) -> Result<PathBuf, StartError> {
    check_directory(cwd)?;
    if command.contains('/') {
        let program = cwd.join(command);
        return match executable(&program) {
            Ok(()) => Ok(program),
            Err(error) => Err(not_runnable(&program, &error)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut refused = None;
    for directory in std::env::split_paths(&path) {
        // An empty entry means the present directory, which is the host's and not the child's.
        if directory.as_os_str().is_empty() {
            continue;
        }
        let candidate = directory.join(command);
        match executable(&candidate) {
            Ok(()) => return Ok(std::path::absolute(&candidate).unwrap_or(candidate)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => refused = refused.or(Some((candidate, error))),
        }
    }
    Err(match refused {
        Some((candidate, error)) => not_runnable(&candidate, &error),
        None => StartError::new(
            StartErrorKind::NotFound,
            "the program is in no directory of the host's PATH",
        )
        .with_context("program", command)
        .with_context("PATH", path.display()),
    })
}

fn check_directory(cwd: &Path) -> Result<(), StartError> {
    let wrong = |message: &'static str| {
        StartError::new(StartErrorKind::InvalidInput, message).with_context("cwd", cwd.display())
    };
    match std::fs::metadata(cwd) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(wrong("the working directory does not exist"))
        }
        Err(error) => Err(wrong("the working directory cannot be looked at").with_source(error)),
        Ok(data) if !data.is_dir() => Err(wrong("the working directory is not a directory")),
        Ok(_) => rustix::fs::access(cwd, rustix::fs::Access::EXEC_OK)
            .map_err(|error| wrong("the working directory cannot be entered").with_source(error)),
    }
}

fn executable(program: &Path) -> io::Result<()> {
    let data = std::fs::metadata(program)?;
    if !data.is_file() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(rustix::fs::access(program, rustix::fs::Access::EXEC_OK)?)
}

fn not_runnable(program: &Path, error: &io::Error) -> StartError {
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            (StartErrorKind::NotFound, "the program does not exist")
        }
        io::ErrorKind::IsADirectory => (
            StartErrorKind::NotExecutable,
            "the program is not a regular file",
        ),
        io::ErrorKind::PermissionDenied => (
            StartErrorKind::NotExecutable,
            "the program may not be executed; its file needs the execute permission",
        ),
        _ => (
            StartErrorKind::NotExecutable,
            "the program cannot be looked at",
        ),
    };
    StartError::new(kind, message)
        .with_context("program", program.display())
        .with_context("system", error)
}

/// What the system's error means, now that directory and program are known to be good.
fn why_not(plan: &SpawnPlan<'_>, error: io::Error) -> StartError {
    let (kind, message) = match error.raw_os_error() {
        Some(libc::ENOENT) => (
            StartErrorKind::NotExecutable,
            "the program's interpreter does not exist; look at the first line of its file",
        ),
        Some(libc::EACCES | libc::EPERM) => (
            StartErrorKind::NotExecutable,
            "the program may not be executed",
        ),
        Some(libc::ENOEXEC) => (
            StartErrorKind::NotExecutable,
            "the program's file has no format that this system executes",
        ),
        Some(libc::ETXTBSY) => (
            StartErrorKind::NotExecutable,
            "the program's file is being written",
        ),
        Some(libc::E2BIG) => (
            StartErrorKind::InvalidInput,
            "the arguments and the environment are too long together",
        ),
        Some(libc::EMFILE | libc::ENFILE) => {
            (StartErrorKind::Exhausted, "no more files can be opened")
        }
        Some(libc::EAGAIN | libc::ENOMEM) => (
            StartErrorKind::Exhausted,
            "no more processes can be started",
        ),
        _ => (
            StartErrorKind::Other,
            "the system did not start the program",
        ),
    };
    let start_error = StartError::new(kind, message)
        .with_context("program", plan.program.display())
        .with_source(error);
    if kind == StartErrorKind::Exhausted {
        start_error.retryable()
    } else {
        start_error
    }
}

fn cannot_watch(plan: &SpawnPlan<'_>, error: io::Error) -> StartError {
    let kind = match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => StartErrorKind::Exhausted,
        _ => StartErrorKind::Other,
    };
    StartError::new(
        kind,
        "the program was started, could not be watched, and was killed",
    )
    .with_context("program", plan.program.display())
    .with_source(error)
}
