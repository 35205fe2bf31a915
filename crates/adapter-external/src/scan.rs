//! Finds processes by PID files and matchers.

mod pid_file;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use sysinfo::{Pid, Process, ProcessRefreshKind, ProcessesToUpdate, System, UpdateKind, Users};

use self::pid_file::PidFile;
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
