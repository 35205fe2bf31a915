//! Finds processes by PID files and matchers.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind, Users};

use crate::config::{Descendants, ExternalConfig, Matcher};
use crate::enrich::Enrichment;
use crate::process::{self, Candidate};

/// A process to adopt, and what led to it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    pub(crate) number: i64,
    pub(crate) by: FoundBy,
    /// What the host knows of it beyond presence.
    pub(crate) enrichment: Option<Arc<Enrichment>>,
}

impl Found {
    pub(crate) fn by_number(number: i64) -> Self {
        Self {
            number,
            by: FoundBy::Number,
            enrichment: None,
        }
    }

    /// The processes that the host names by number.
    pub(crate) fn named(config: &ExternalConfig) -> impl Iterator<Item = Self> {
        let more = config.targets.iter().filter_map(|target| {
            Some(Self {
                enrichment: target.enrichment(),
                ..Self::by_number(target.pid?)
            })
        });
        config
            .pids
            .iter()
            .map(|&number| Self::by_number(number))
            .chain(more)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundBy {
    Number,
    File(PathBuf, Option<SystemTime>),
    Matcher(String),
    /// An earlier session's.
    Journal,
}

impl std::fmt::Display for FoundBy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number => f.write_str("pid"),
            Self::File(path, _) => write!(f, "pid file {}", path.display()),
            Self::Matcher(what) => write!(f, "match {what}"),
            Self::Journal => f.write_str("journal"),
        }
    }
}

/// What one scan brought.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    pub(crate) found: Vec<Found>,
    /// What keeps files from being used, for a person. As it is now, not as it changed.
    pub(crate) trouble: Vec<String>,
}

/// Looks at PID files and at the table of processes, and brings each thing once.
#[derive(Debug)]
pub(crate) struct Scanner {
    files: Vec<PidFile>,
    matchers: Vec<(Matcher, Option<Arc<Enrichment>>)>,
    /// The processes that the matchers have judged.
    judged: HashMap<u32, Judged>,
}

#[derive(Debug)]
struct PidFile {
    path: PathBuf,
    enrichment: Option<Arc<Enrichment>>,
    /// Which version of the file was used last: a file that was not written anew since its process
    /// ended must not lead to whoever has the number next.
    used: Option<(i64, Option<SystemTime>)>,
}

#[derive(Debug)]
struct Judged {
    start: u64,
    comm: String,
    looks: u8,
    fits: bool,
}

impl Scanner {
    pub(crate) fn new(config: &ExternalConfig) -> Self {
        let files = config.pid_files.iter().map(|path| (path, None));
        let more = config
            .targets
            .iter()
            .filter_map(|target| Some((target.pid_file.as_ref()?, target.enrichment())));
        let files = files.chain(more).map(|(path, enrichment)| PidFile {
            path: path.clone(),
            enrichment,
            used: None,
        });
        let matchers = config
            .matchers
            .iter()
            .map(|matcher| (matcher.clone(), None));
        let more = config
            .targets
            .iter()
            .filter_map(|target| Some((target.matcher.clone()?, target.enrichment())));
        // The first that fits counts: those of which more is known go before.
        Self {
            files: files.collect(),
            matchers: more.chain(matchers).collect(),
            judged: HashMap::new(),
        }
    }

    pub(crate) fn has_work(&self) -> bool {
        !(self.files.is_empty() && self.matchers.is_empty())
    }

    /// Judges these anew, because there was no room for them before.
    pub(crate) fn reconsider(&mut self, pids: impl IntoIterator<Item = u32>) {
        for pid in pids {
            self.judged.remove(&pid);
        }
    }

    /// Looks once. Blocks for as long as the table of processes is long.
    pub(crate) fn scan(&mut self) -> Scan {
        let mut scan = Scan::default();
        for file in &mut self.files {
            file.look(&mut scan);
        }
        if !self.matchers.is_empty() {
            self.judge(process::candidates(), &mut scan.found);
        }
        scan
    }

    fn judge(&mut self, candidates: Vec<Candidate>, found: &mut Vec<Found>) {
        let mut before = std::mem::take(&mut self.judged);
        let mut fresh = Vec::new();
        for Candidate { pid, start, comm } in candidates {
            match before.remove(&pid) {
                // A young process is looked at twice: it may not yet have become its program. One
                // that becomes another program gets another name.
                Some(judged)
                    if judged.start == start
                        && (judged.fits || judged.comm == comm && judged.looks >= 2) =>
                {
                    self.judged.insert(pid, judged);
                }
                old => {
                    let looks = old
                        .filter(|old| old.start == start && old.comm == comm)
                        .map_or(0, |old| old.looks);
                    self.judged.insert(
                        pid,
                        Judged {
                            start,
                            comm,
                            looks: looks + 1,
                            fits: false,
                        },
                    );
                    fresh.push(Pid::from_u32(pid));
                }
            }
        }
        let Some((system, users)) = read(&fresh) else {
            return;
        };
        for pid in fresh {
            let (Some(process), Some(judged)) =
                (system.process(pid), self.judged.get_mut(&pid.as_u32()))
            else {
                continue;
            };
            let fitting = self
                .matchers
                .iter()
                .find(|(matcher, _)| fits(matcher, &judged.comm, process, &users));
            if let Some((matcher, enrichment)) = fitting {
                judged.fits = true;
                found.push(Found {
                    number: i64::from(pid.as_u32()),
                    by: FoundBy::Matcher(describe(matcher)),
                    enrichment: enrichment.clone(),
                });
            }
        }
    }
}

fn read(pids: &[Pid]) -> Option<(System, Users)> {
    let mut system = System::new().ok()?;
    let what = ProcessRefreshKind::nothing()
        .with_cmd(UpdateKind::Always)
        .with_exe(UpdateKind::Always)
        .with_user(UpdateKind::Always)
        .without_tasks();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(pids), true, what);
    Some((system, Users::new_with_refreshed_list().ok()?))
}

fn fits(matcher: &Matcher, comm: &str, process: &Process, users: &Users) -> bool {
    let name_fits = |name: &String| {
        let file_name = |path: &Path| path.file_name().is_some_and(|file| file == name.as_str());
        comm == name
            || process.exe().is_some_and(file_name)
            || process
                .cmd()
                .first()
                .is_some_and(|first| file_name(Path::new(first)))
    };
    let command_fits = |part: &String| {
        let words: Vec<_> = process
            .cmd()
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        words.join(" ").contains(part.as_str())
    };
    let user_fits = |user: &String| {
        let id = process.effective_user_id().or_else(|| process.user_id());
        id.is_some_and(|id| {
            *id.to_string() == **user
                || users
                    .get_user_by_id(id)
                    .is_some_and(|known| known.name() == user)
        })
    };
    matcher.name.as_ref().is_none_or(name_fits)
        && matcher.command_contains.as_ref().is_none_or(command_fits)
        && matcher.user.as_ref().is_none_or(user_fits)
        && (matcher.own_descendants == Descendants::Adopt
            || !process::is_own_descendant(process.pid().as_u32()))
}

/// The matcher in words; its command part may itself be a secret, so it is not shown.
fn describe(matcher: &Matcher) -> String {
    let parts = [
        matcher.name.as_ref().map(|name| format!("name {name}")),
        matcher
            .command_contains
            .as_ref()
            .map(|_| "command".to_owned()),
        matcher.user.as_ref().map(|user| format!("user {user}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl PidFile {
    fn look(&mut self, scan: &mut Scan) {
        match read_pid_file(&self.path) {
            Ok(version) if self.used == Some(version) => {}
            Ok(version) => {
                self.used = Some(version);
                let by = FoundBy::File(self.path.clone(), version.1);
                scan.found.push(Found {
                    number: version.0,
                    by,
                    enrichment: self.enrichment.clone(),
                });
            }
            Err(why) => {
                // A file that was away is another version when it is back.
                self.used = None;
                scan.trouble.push(format!("{}: {why}", self.path.display()));
            }
        }
    }
}

/// The number in a PID file's first line, and when the file was written.
fn read_pid_file(path: &Path) -> Result<(i64, Option<SystemTime>), String> {
    let mut file = open_plain(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "there is no such file yet".to_owned(),
        _ => error.to_string(),
    })?;
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no regular file".into());
    }
    // A number and a line end; more is read only to see that the line ends.
    let mut bytes = [0; 64];
    let mut length = 0;
    while length < bytes.len() {
        match file.read(&mut bytes[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.to_string()),
        }
    }
    let first = bytes[..length]
        .split(|&b| b == b'\n')
        .next()
        .unwrap_or_default();
    let number = std::str::from_utf8(first)
        .ok()
        .and_then(|text| text.trim().parse().ok());
    match number {
        Some(number) => Ok((number, about.modified().ok())),
        None if length == 0 => Err("it is empty".into()),
        None => Err("its first line is no process number".into()),
    }
}

/// Opens a file without following a link in its place, and without waiting for a pipe's writer.
fn open_plain(path: &Path) -> io::Result<std::fs::File> {
    let mut options = std::fs::OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    options
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            #[cfg(unix)]
            Some(libc::ELOOP) => io::Error::other("it is a symbolic link; name the file itself"),
            _ => error,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn reads_the_first_line_of_any_pid_file() {
        let folder = tempfile::tempdir().unwrap();
        let huge = [b"12".as_slice(), &vec![b'3'; 10 << 20]].concat();
        let cases: [(&[u8], Result<i64, &str>); 11] = [
            (b"4242\n", Ok(4242)),
            (b"4242", Ok(4242)),
            (b"  4242 \r\n/var/lib/postgresql\n5432\n", Ok(4242)),
            (b"-1\n", Ok(-1)),
            (b"", Err("it is empty")),
            (b"\n4242\n", Err("its first line is no process number")),
            (b"pid=4242\n", Err("its first line is no process number")),
            (
                b"\xff\xfe4\x002\x00",
                Err("its first line is no process number"),
            ),
            (b"4242\0\0\0", Err("its first line is no process number")),
            (
                b"99999999999999999999\n",
                Err("its first line is no process number"),
            ),
            (&huge, Err("its first line is no process number")),
        ];
        for (content, expected) in cases {
            let path = folder.path().join("pid");
            fs::write(&path, content).unwrap();
            let read = read_pid_file(&path).map(|(number, _)| number);
            assert_eq!(
                read.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|e| *e)
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn refuses_links_pipes_and_folders_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("pid"), "4242").unwrap();
        std::os::unix::fs::symlink(at("pid"), at("link")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(at("pipe"))
            .status()
            .unwrap();
        assert!(made.success());
        let cases = [
            ("link", "it is a symbolic link; name the file itself"),
            ("pipe", "it is no regular file"),
            (".", "it is no regular file"),
            ("absent", "there is no such file yet"),
        ];
        for (name, expected) in cases {
            assert_eq!(read_pid_file(&at(name)).unwrap_err(), expected);
        }
    }

    #[test]
    fn a_version_of_a_file_is_used_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pid");
        let config = ExternalConfig {
            pid_files: vec![path.clone()],
            ..ExternalConfig::default()
        };
        let mut scanner = Scanner::new(&config);
        assert_eq!(scanner.scan().trouble.len(), 1);
        fs::write(&path, "4242\n").unwrap();
        assert_eq!(scanner.scan().found.len(), 1);
        assert_eq!(scanner.scan().found.len(), 0);
        fs::write(&path, "4243\n").unwrap();
        assert_eq!(scanner.scan().found[0].number, 4243);
        fs::remove_file(&path).unwrap();
        assert_eq!(scanner.scan().trouble.len(), 1);
    }
}
