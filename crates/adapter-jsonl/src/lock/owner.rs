//! Who holds a lock, and whether that process can be proven dead.

use std::fmt;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use rustix::time::{ClockId, clock_gettime};

/// One acquisition of a lock: everything that is needed to judge later whether its owner still
/// lives. It travels in a file *name*, so that reading it and comparing it is one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) pid: u32,
    /// When the process started, in clock ticks since boot.
    pub(crate) start_ticks: Option<u64>,
    /// The PID namespace in which `pid` means something.
    pub(crate) pid_namespace: Option<u64>,
    pub(crate) boot_id: Option<String>,
    /// When the token was made, in milliseconds since boot: no clock adjustment touches it.
    pub(crate) made_at_ms: u64,
    pub(crate) nonce: u64,
}

const VERSION: &str = "v1";

impl Token {
    /// A token that nobody had before, for this process.
    pub(crate) fn fresh(here: &Here) -> Self {
        static COUNTER: AtomicU64 = AtomicU64::new(0);
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        Self {
            pid: std::process::id(),
            start_ticks: here.start_ticks,
            pid_namespace: here.pid_namespace,
            boot_id: here.boot_id.clone(),
            made_at_ms: since_boot_ms(),
            nonce: fastrand::u64(..) ^ count.rotate_left(32),
        }
    }

    /// Reads what [`fmt::Display`] wrote; none if somebody else wrote it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next();
        if next()? != VERSION {
            return None;
        }
        let known = |text: &str| (text != "-").then(|| text.to_owned());
        let token = Self {
            pid: next()?.parse().ok()?,
            start_ticks: known(next()?).map(|n| n.parse()).transpose().ok()?,
            pid_namespace: known(next()?).map(|n| n.parse()).transpose().ok()?,
            boot_id: known(next()?),
            made_at_ms: next()?.parse().ok()?,
            nonce: u64::from_str_radix(next()?, 16).ok()?,
        };
        parts.next().is_none().then_some(token)
    }

    /// For how long the lock has been held, if it was taken under this boot.
    pub(crate) fn age(&self) -> Duration {
        Duration::from_millis(since_boot_ms().saturating_sub(self.made_at_ms))
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), |n| n.to_string());
        write!(
            f,
            "{VERSION}.{}.{}.{}.{}.{}.{:016x}",
            self.pid,
            number(self.start_ticks),
            number(self.pid_namespace),
            self.boot_id.as_deref().unwrap_or("-"),
            self.made_at_ms,
            self.nonce,
        )
    }
}

/// Where this process runs: what a PID means depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) boot_id: Option<String>,
    pub(crate) pid_namespace: Option<u64>,
    pub(crate) start_ticks: Option<u64>,
}

impl Here {
    /// Of the running process; read once.
    pub(crate) fn get() -> &'static Self {
        static HERE: OnceLock<Here> = OnceLock::new();
        HERE.get_or_init(Self::read)
    }

    fn read() -> Self {
        // A /proc that was mounted for another PID namespace would tell of other processes.
        let proc_is_ours = std::fs::read_link("/proc/self")
            .is_ok_and(|link| link == Path::new(&std::process::id().to_string()));
        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .ok()
            .map(|id| id.trim().to_owned())
            .filter(|id| !id.is_empty() && id.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-'));
        let pid_namespace = proc_is_ours
            .then(|| std::fs::read_link("/proc/self/ns/pid").ok())
            .flatten()
            .and_then(|link| {
                let text = link.to_string_lossy();
                text.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
            });
        let start_ticks = proc_is_ours
            .then(|| stat(std::process::id()).ok())
            .flatten()
            .map(|(_, ticks)| ticks);
        Self {
            boot_id,
            pid_namespace,
            start_ticks,
        }
    }
}

/// What can be said of a lock's owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Liveness {
    /// It lives, or something with its PID does and cannot be told apart from it.
    Alive,
    /// It is proven dead.
    Dead,
    /// Neither can be proven from here; why.
    Unprovable(&'static str),
}

/// Judges the owner that a token names.
pub(crate) fn judge(token: &Token, here: &Here, probe: impl Fn(u32) -> Probe) -> Liveness {
    match (&token.boot_id, &here.boot_id) {
        (Some(theirs), Some(ours)) if theirs == ours => (),
        (Some(_), Some(_)) => {
            return Liveness::Unprovable(
                "it was taken under another boot of this machine, or on another machine",
            );
        }
        _ => return Liveness::Unprovable("the boot under which it was taken is not known"),
    }
    match (token.pid_namespace, here.pid_namespace) {
        (Some(theirs), Some(ours)) if theirs == ours => (),
        (Some(_), Some(_)) => {
            return Liveness::Unprovable("its owner runs in another PID namespace (a container)");
        }
        _ => return Liveness::Unprovable("the PID namespace of its owner is not known"),
    }
    match probe(token.pid) {
        Probe::NotThere | Probe::Zombie => Liveness::Dead,
        Probe::There { start_ticks } => match (start_ticks, token.start_ticks) {
            (Some(now), Some(then)) if now != then => Liveness::Dead,
            _ => Liveness::Alive,
        },
    }
}

/// What there is under a PID now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Probe {
    NotThere,
    /// Ended and not yet reaped: none of its threads runs any more.
    Zombie,
    There {
        start_ticks: Option<u64>,
    },
}

/// Looks at a PID in this namespace.
pub(crate) fn probe(pid: u32) -> Probe {
    let Some(target) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Probe::NotThere;
    };
    // EPERM means that it is there and belongs to somebody else.
    if test_kill_process(target) == Err(rustix::io::Errno::SRCH) {
        return Probe::NotThere;
    }
    match stat(pid) {
        Ok((state, _)) if matches!(state, 'Z' | 'X' | 'x') && only_leader(pid) => Probe::Zombie,
        Ok((_, ticks)) => Probe::There {
            start_ticks: Some(ticks),
        },
        // It may have gone between the two looks; or /proc hides other users' processes.
        Err(_) if test_kill_process(target) == Err(rustix::io::Errno::SRCH) => Probe::NotThere,
        Err(_) => Probe::There { start_ticks: None },
    }
}

/// A leader whose main thread ended is a zombie while its other threads still run.
fn only_leader(pid: u32) -> bool {
    std::fs::read_dir(format!("/proc/{pid}/task")).map_or(true, |tasks| tasks.count() <= 1)
}

/// State and start time of a process.
fn stat(pid: u32) -> std::io::Result<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name stands in parentheses and may hold anything, parentheses included.
    let mut fields = text
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_ascii_whitespace())
        .ok_or(std::io::ErrorKind::InvalidData)?;
    let state = fields.next().and_then(|field| field.chars().next());
    let ticks = fields.nth(18).and_then(|field| field.parse().ok());
    state
        .zip(ticks)
        .ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}

fn since_boot_ms() -> u64 {
    // The clock that goes on while the machine sleeps; elsewhere that one is called monotonic.
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let now = clock_gettime(CLOCK);
    let seconds = u64::try_from(now.tv_sec).unwrap_or_default();
    let millis = u64::try_from(now.tv_nsec / 1_000_000).unwrap_or_default();
    seconds * 1000 + millis
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Here {
        Here {
            boot_id: Some("b-1".into()),
            pid_namespace: Some(7),
            start_ticks: Some(50),
        }
    }

    fn token() -> Token {
        Token {
            pid: 42,
            start_ticks: Some(100),
            pid_namespace: Some(7),
            boot_id: Some("b-1".into()),
            made_at_ms: 5,
            nonce: 0xab,
        }
    }

    #[test]
    fn a_token_reads_back_as_it_was_written() {
        let unknown = Token {
            start_ticks: None,
            pid_namespace: None,
            boot_id: None,
            ..token()
        };
        for token in [token(), unknown, Token::fresh(Here::get())] {
            assert_eq!(Token::parse(&token.to_string()), Some(token));
        }
    }

    #[test]
    fn what_others_wrote_is_no_token() {
        for text in [
            "",
            "v1",
            "v2.1.2.3.b.5.6",
            "v1.1.2.3.b.5.6.7",
            "v1.x.2.3.b.5.6",
            "abc",
        ] {
            assert_eq!(Token::parse(text), None, "{text}");
        }
    }

    #[test]
    fn liveness_is_judged_as_the_rules_say() {
        let there = |ticks| Probe::There { start_ticks: ticks };
        let foreign_boot = Token {
            boot_id: Some("b-2".into()),
            ..token()
        };
        let no_boot = Token {
            boot_id: None,
            ..token()
        };
        let foreign_namespace = Token {
            pid_namespace: Some(8),
            ..token()
        };
        let no_namespace = Token {
            pid_namespace: None,
            ..token()
        };
        let no_start = Token {
            start_ticks: None,
            ..token()
        };
        // The unsafe direction: from another namespace or boot, a live owner is not there.
        let table = [
            (token(), Probe::NotThere, "dead"),
            (token(), Probe::Zombie, "dead"),
            (token(), there(Some(100)), "alive"),
            (token(), there(Some(101)), "dead"),
            (token(), there(None), "alive"),
            (no_start.clone(), there(Some(100)), "alive"),
            (no_start, Probe::NotThere, "dead"),
            (foreign_boot.clone(), Probe::NotThere, "unprovable"),
            (foreign_boot, there(Some(100)), "unprovable"),
            (no_boot, Probe::NotThere, "unprovable"),
            (foreign_namespace, Probe::NotThere, "unprovable"),
            (no_namespace, Probe::NotThere, "unprovable"),
        ];
        for (token, probe, expected) in table {
            let judged = match judge(&token, &here(), |_| probe) {
                Liveness::Alive => "alive",
                Liveness::Dead => "dead",
                Liveness::Unprovable(_) => "unprovable",
            };
            assert_eq!(judged, expected, "{token} {probe:?}");
        }
    }

    #[test]
    fn sees_itself_and_a_zombie_and_a_reaped_child() {
        assert_eq!(
            probe(std::process::id()),
            Probe::There {
                start_ticks: Here::get().start_ticks
            }
        );
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let deadline = std::time::Instant::now() + Duration::from_secs(10);
        while probe(pid) != Probe::Zombie {
            assert!(
                std::time::Instant::now() < deadline,
                "never became a zombie"
            );
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(probe(pid), Probe::NotThere);
    }
}
