//! Owners whose PIDs mean something else here, or may not be asked.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use headcount_adapter_jsonl::Journal;

use crate::writer::{event, options};
use crate::{Outcome, ourselves};

const NAMESPACE: [&str; 4] = ["--pid", "--fork", "--mount-proc", "--kill-child"];
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

fn cannot(program: &str, arguments: &[&str]) -> Option<String> {
    let executable = std::env::current_exe().ok()?;
    let probe = Command::new(program)
        .args(arguments)
        .arg(executable)
        .args(["--list", "--exact", "nothing"])
        .output();
    match probe {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            Some(format!(
                "{program} fails: {}",
                text.lines().next().unwrap_or_default()
            ))
        }
        Err(error) => Some(format!("{program} cannot be started: {error}")),
    }
}

pub(crate) fn no_namespaces() -> Option<String> {
    cannot("unshare", &NAMESPACE)
}

pub(crate) fn no_other_user() -> Option<String> {
    cannot("setpriv", &NOBODY)
}

/// This program in another role, started through another program.
fn through(program: &str, arguments: &[&str], role: &[&str]) -> Command {
    let ours = ourselves(role);
    let mut command = Command::new(program);
    command
        .args(arguments)
        .arg(ours.get_program())
        .args(ours.get_args());
    command
}

fn says(output: &std::process::Output, expected: &str) -> Outcome {
    let text = String::from_utf8_lossy(&output.stdout);
    if text.contains(expected) {
        Ok(())
    } else {
        Err(format!("{text:?} instead of {expected:?}").into())
    }
}

pub(crate) fn namespaces() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("j");
    let name = path.to_str().ok_or("a path of UTF-8")?;

    // The owner is inside: its PID here is another's or nobody's.
    let mut holder = through("unshare", &NAMESPACE, &["hold", name])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    let stdout = holder.stdout.take().ok_or("its output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    if line != "held\n" {
        return Err(format!("the holder says {line:?}").into());
    }
    let output = ourselves(&["append", name]).output()?;
    says(&output, "its owner runs in another PID namespace")?;
    drop(holder.stdin.take());
    holder.wait()?;

    // The owner is outside.
    let mut journal = Journal::open(&path, options(Duration::from_secs(5)))?;
    let held = journal.hold()?;
    let output = through("unshare", &NAMESPACE, &["append", name]).output()?;
    says(&output, "its owner runs in another PID namespace")?;
    held.release()?;
    let output = through("unshare", &NAMESPACE, &["append", name]).output()?;
    says(&output, "appended 1")
}

pub(crate) fn other_user() -> Outcome {
    let folder = tempfile::tempdir()?;
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777))?;
    let path = folder.path().join("j");
    let name = path.to_str().ok_or("a path of UTF-8")?;
    std::fs::File::create(&path)?.write_all(b"")?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666))?;
    let mut journal = Journal::open(&path, options(Duration::from_secs(5)))?;
    let held = journal.hold()?;
    // It may not signal us: EPERM.
    let output = through("setpriv", &NOBODY, &["append", name]).output()?;
    says(
        &output,
        &format!("process {} has held it", std::process::id()),
    )?;
    says(&output, " s and lives")?;
    held.release()?;
    let output = through("setpriv", &NOBODY, &["append", name]).output()?;
    says(&output, "appended 1")?;
    drop(journal);
    let mut journal = Journal::open(&path, options(Duration::from_secs(5)))?;
    match journal.append(&event("y"))? {
        2 => Ok(()),
        other => Err(format!("appended {other}").into()),
    }
}
