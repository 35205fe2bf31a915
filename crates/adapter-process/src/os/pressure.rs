//! How near the host is to what the system gives it: open files, and processes with their threads.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::Share;
use super::leader::unreaped;

/// What may soon keep a child from being started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pressure {
    pub(crate) files: Share,
    /// Processes and threads: the whole system's, or those of the control group where it gives less.
    pub(crate) processes: Share,
    /// Children that were killed and not reaped yet.
    pub(crate) unreaped: usize,
}

impl Pressure {
    pub(crate) fn now() -> Self {
        let files = file_limit();
        Self {
            files: Share {
                used: lowest_free_descriptor().unwrap_or(files),
                limit: files,
            },
            processes: tightest(whole_system(), control_groups()),
            unreaped: unreaped(),
        }
    }
}

/// Descriptors are given lowest first, so that the next one tells how many are open without
/// counting them. None where there is no more to give.
fn lowest_free_descriptor() -> Option<u64> {
    use std::os::fd::AsRawFd;
    let next = fs::File::open("/dev/null").ok()?;
    Some(next.as_raw_fd().unsigned_abs().into())
}

fn file_limit() -> u64 {
    use rustix::process::{Resource, getrlimit};
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// All threads of the system and how many it allows; nothing used of no limit where it does not say.
fn whole_system() -> Share {
    static LIMIT: OnceLock<u64> = OnceLock::new();
    let limit = *LIMIT.get_or_init(|| {
        let limits = ["pid_max", "threads-max"];
        let limits = limits.map(|name| number_in(Path::new("/proc/sys/kernel").join(name)));
        limits.into_iter().flatten().min().unwrap_or(u64::MAX)
    });
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Share {
        used: threads_in(&load).unwrap_or(0),
        limit,
    }
}

/// Reads `… … … running/threads last`.
fn threads_in(load: &str) -> Option<u64> {
    let (_, threads) = load.split_ascii_whitespace().nth(3)?.split_once('/')?;
    threads.parse().ok()
}

/// What each of our control groups gives, as containers and services limit it.
fn control_groups() -> impl Iterator<Item = Share> {
    static DIRECTORIES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let directories = DIRECTORIES.get_or_init(|| {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        directories_of(&groups, Path::new("/sys/fs/cgroup"))
    });
    directories
        .iter()
        .filter_map(|directory| share_of(directory))
}

/// Reads `number:controllers:path`, no controllers for the unified hierarchy. A limit holds for all
/// groups below, so each group above is looked at too.
fn directories_of(groups: &str, mounted_at: &Path) -> Vec<PathBuf> {
    let paths = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let mounted_at = match controllers {
            "" => mounted_at.to_owned(),
            _ if controllers.split(',').any(|name| name == "pids") => mounted_at.join("pids"),
            _ => return None,
        };
        Some((mounted_at, Path::new(path.trim_start_matches('/'))))
    });
    paths
        .flat_map(|(mounted_at, path)| path.ancestors().map(move |path| mounted_at.join(path)))
        .filter(|directory| directory.join("pids.max").exists())
        .collect()
}

/// None where there is no limit.
fn share_of(directory: &Path) -> Option<Share> {
    Some(Share {
        limit: number_in(directory.join("pids.max"))?,
        used: number_in(directory.join("pids.current"))?,
    })
}

fn number_in(file: PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// The share of which the least is left.
fn tightest(first: Share, others: impl Iterator<Item = Share>) -> Share {
    let is_tighter = |one: &Share, than: &Share| {
        u128::from(one.used) * u128::from(than.limit)
            > u128::from(than.used) * u128::from(one.limit)
    };
    others.fold(first, |tightest, other| {
        if is_tighter(&other, &tightest) {
            other
        } else {
            tightest
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted() {
        assert_eq!(threads_in("0.20 0.18 0.12 1/80 11206\n"), Some(80));
        for garbage in ["", "0.20", "0.20 0.18 0.12 80 11206", "a b c 1/x 2"] {
            assert_eq!(threads_in(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn the_tightest_limit_of_the_control_groups_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, max: &str, current: u64| {
            let directory = root.path().join(path);
            fs::create_dir_all(&directory).unwrap();
            fs::write(directory.join("pids.max"), format!("{max}\n")).unwrap();
            fs::write(directory.join("pids.current"), format!("{current}\n")).unwrap();
        };
        group("service", "max", 7);
        group("service/job", "100", 90);
        group("pids", "1000", 10);
        let system = Share {
            used: 500,
            limit: 1000,
        };
        let seen = |groups: &str| {
            let directories = directories_of(groups, root.path());
            let shares: Vec<_> = directories.iter().filter_map(|d| share_of(d)).collect();
            (directories.len(), tightest(system, shares.into_iter()))
        };
        let job = Share {
            used: 90,
            limit: 100,
        };
        assert_eq!(seen("0::/service/job\n"), (2, job));
        assert_eq!(seen("0::/service\n"), (1, system), "no limit");
        assert_eq!(seen("8:cpu,pids:/\n7:cpu:/x\n0::/service/job\n"), (3, job));
        assert_eq!(seen("8:pids:/\n"), (1, system), "more room than the system");
        for nothing in ["", "garbage", "0::/elsewhere\n", "7:cpu:/\n"] {
            assert_eq!(seen(nothing), (0, system), "{nothing:?}");
        }
    }
}
