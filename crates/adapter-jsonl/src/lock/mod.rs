//! The lock directory of a journal: mutual exclusion between processes that survives their crashes.
//!
//! The directory `<journal>.lock` holds `o.<token>`, whose *name* says who owns it, and
//! `owner.json`, which says the same to peers that only know `mkdir`.
//!
//! - **Acquire**: rename a prepared directory into place, refusing to replace anything.
//! - **Reclaim** from an owner that is proven dead: `rename(lock/o.OLD, lock/o.ME)`. It succeeds for
//!   one process and only while OLD still owns the lock: a compare-and-swap. It is done at once: a
//!   crash inside the lock holds nobody up.
//! - **Release**: unlink `o.ME` (if it is gone, the lock was stolen, and nothing else is touched),
//!   then rename the directory out of its place, and remove it there.
//! - **Reclaim from a peer**, or after a crash between the two steps of a release: only `owner.json`
//!   names the owner, so ours take turns by a kernel lock on the folder, and move `o.ME` into the
//!   very directory that was looked at.
//!
//! `tests/lock_model.rs` searches every interleaving of these steps, with crashes.

mod directory;
mod owner;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use directory::{Contents, Directory};
use owner::{Here, Liveness, Token, judge};
pub(crate) use owner::{Probe, probe};

/// How long a lock is waited for, and when a dead owner's lock may be taken over.
///
/// ```
/// use headcount_adapter_jsonl::LockOptions;
/// use std::time::Duration;
/// let options = LockOptions::default();
/// assert_eq!(options.timeout, Duration::from_secs(5));
/// assert_eq!(options.stale_after, Duration::from_secs(300));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockOptions {
    /// How long to try.
    pub timeout: Duration,
    /// How long to wait between two tries; each wait is varied by up to half.
    pub retry: Duration,
    /// The age from which a lock is taken over whose owner is dead as far as its PID alone can
    /// tell, which is all that a peer says of itself. Age alone never suffices: clocks jump. An
    /// owner of ours says enough to be *proven* dead (boot, PID namespace, start time), and is then
    /// waited for no longer.
    pub stale_after: Duration,
}

impl Default for LockOptions {
    /// The reference's: 5 s, 10 ms, 300 s.
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            retry: Duration::from_millis(10),
            stale_after: Duration::from_mins(5),
        }
    }
}

/// Why a lock was not had or not kept.
#[derive(Debug)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody holds it, and did not let go in time.
    TimedOut {
        /// The lock directory.
        path: PathBuf,
        /// Who holds it, and why it was not taken over.
        holder: String,
    },
    /// Somebody took it away while it was held here: what was done since may not have been alone.
    Stolen {
        /// The lock directory.
        path: PathBuf,
    },
    /// A file operation failed.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl LockError {
    fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { path, holder } => {
                write!(
                    f,
                    "the lock {} was not released in time: {holder}",
                    path.display()
                )
            }
            Self::Stolen { path } => write!(
                f,
                "the lock {} was taken away while it was held; some other program does not follow \
                 its protocol",
                path.display()
            ),
            Self::Io {
                doing,
                path,
                source,
            } => write!(f, "{doing} {}: {source}", path.display()),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// The lock of one journal, as one of its users sees it.
#[derive(Debug)]
pub(crate) struct Lock {
    directory: Directory,
    options: LockOptions,
    /// What was found in the way, and since when it has been there unchanged, by a clock that
    /// nobody sets.
    watched: Option<(Contents, Instant)>,
}

/// For how long something that names no owner must be seen unchanged, besides its age.
const OWNERLESS_WATCH: Duration = Duration::from_secs(2);

impl Lock {
    /// The lock of the journal at `journal`.
    pub(crate) fn new(journal: &Path, options: LockOptions) -> Self {
        Self {
            directory: Directory::of(journal),
            options,
            watched: None,
        }
    }

    /// Whether somebody holds it, or left it behind.
    pub(crate) fn is_present(&self) -> bool {
        self.directory.exists()
    }

    /// Removes what processes that are proven dead had prepared and not used.
    pub(crate) fn remove_orphans(&self) {
        self.directory
            .remove_orphans(|token| judge(token, Here::get(), probe) == Liveness::Dead);
    }

    /// Waits for the lock.
    pub(crate) fn acquire(&mut self) -> Result<Guard, LockError> {
        let deadline = Instant::now() + self.options.timeout;
        let token = Token::fresh(Here::get());
        let prepared = self.directory.prepare(&token)?;
        loop {
            if prepared.install()? {
                return Ok(Guard::new(prepared.owned()));
            }
            let contents = self.directory.look()?;
            let holder = match self.take_over(&contents, &prepared)? {
                Step::Taken => return Ok(Guard::new(prepared.owned())),
                Step::Changed => None,
                Step::Held(holder) => Some(holder),
            };
            if Instant::now() >= deadline {
                return Err(LockError::TimedOut {
                    path: self.directory.path().to_owned(),
                    holder: holder.unwrap_or_else(|| "others were faster each time".to_owned()),
                });
            }
            if holder.is_some() {
                std::thread::sleep(self.options.retry.mul_f64(0.5 + fastrand::f64()));
            }
        }
    }

    /// Deals with what is in the way, if that may be done.
    fn take_over(
        &mut self,
        contents: &Contents,
        prepared: &directory::Prepared,
    ) -> Result<Step, LockError> {
        let watched = self.watch(contents);
        match contents {
            Contents::Absent => Ok(Step::Changed),
            Contents::Owned(token) => {
                let liveness = judge(token, Here::get(), probe);
                if liveness == Liveness::Dead {
                    return prepared.swap(token).map(Step::taken_if);
                }
                Ok(Step::Held(describe(token.pid, token.age(), &liveness)))
            }
            Contents::Plain(owner) => {
                if let Some(token) = owner.token.as_deref().and_then(Token::parse) {
                    // One of ours that crashed in its release.
                    let liveness = judge(&token, Here::get(), probe);
                    if liveness == Liveness::Dead {
                        return self.replace(contents, prepared);
                    }
                    return Ok(Step::Held(describe(owner.pid, token.age(), &liveness)));
                }
                // A peer that tells its PID alone: its namespace and boot cannot be checked.
                let age = wall_age(owner.created_at_ms).max(watched);
                match probe(owner.pid) {
                    Probe::There { .. } => {
                        Ok(Step::Held(describe(owner.pid, age, &Liveness::Alive)))
                    }
                    Probe::NotThere | Probe::Zombie if age >= self.options.stale_after => {
                        self.replace(contents, prepared)
                    }
                    Probe::NotThere | Probe::Zombie => Ok(Step::Held(format!(
                        "process {} has held it for {} s and is gone; it tells nothing but its \
                         PID, so it is taken over after {} s",
                        owner.pid,
                        age.as_secs(),
                        self.options.stale_after.as_secs()
                    ))),
                }
            }
            Contents::Ownerless { changed_at, .. } => {
                let age = SystemTime::now()
                    .duration_since(*changed_at)
                    .unwrap_or_default()
                    .max(watched);
                if age >= self.options.stale_after
                    && watched >= OWNERLESS_WATCH.min(self.options.stale_after)
                {
                    return self.replace(contents, prepared);
                }
                Ok(Step::Held(format!(
                    "it names no owner; it is taken over when it is {} s old and nothing in it changes",
                    self.options.stale_after.as_secs()
                )))
            }
            Contents::Strange(what) => Ok(Step::Held(format!(
                "it holds {what}, which no owner puts there; if no program uses the journal, \
                 remove it"
            ))),
        }
    }

    /// Takes over a lock whose owner is not named in a file name. Between looking and acting
    /// nothing may change, so all of ours do it one at a time.
    fn replace(
        &self,
        contents: &Contents,
        prepared: &directory::Prepared,
    ) -> Result<Step, LockError> {
        let Some(_alone) = self.directory.guard_reclaim()? else {
            return Ok(Step::Held("another process is taking it over".to_owned()));
        };
        let Some(directory) = self.directory.open()? else {
            return Ok(Step::Changed);
        };
        if self.directory.look()? != *contents || !self.directory.is_still(&directory) {
            return Ok(Step::Changed);
        }
        prepared.move_in(&directory).map(Step::taken_if)
    }

    /// For how long exactly this has been seen in the way.
    fn watch(&mut self, contents: &Contents) -> Duration {
        match &self.watched {
            Some((seen, since)) if seen == contents => since.elapsed(),
            _ => {
                self.watched = Some((contents.clone(), Instant::now()));
                Duration::ZERO
            }
        }
    }
}

/// What became of one try.
enum Step {
    Taken,
    /// Try again at once.
    Changed,
    /// Somebody has it, who is described.
    Held(String),
}

impl Step {
    fn taken_if(taken: bool) -> Self {
        if taken { Self::Taken } else { Self::Changed }
    }
}

/// Who is in the way, since when, and why that is not changed.
fn describe(pid: u32, age: Duration, liveness: &Liveness) -> String {
    let held = format!("process {pid} has held it for {} s", age.as_secs());
    match liveness {
        Liveness::Alive => format!("{held} and lives"),
        Liveness::Dead => format!("{held} and is dead"),
        // Its time may be counted by another clock than ours.
        Liveness::Unprovable(why) => format!(
            "process {pid} holds it, and cannot be proven dead from here: {why}; if it is gone, \
             remove the lock"
        ),
    }
}

fn wall_age(created_at_ms: u64) -> Duration {
    SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH + Duration::from_millis(created_at_ms))
        .unwrap_or_default()
}

/// A lock that is held. Dropping it releases it.
#[derive(Debug)]
pub(crate) struct Guard {
    owned: Option<directory::Owned>,
}

impl Guard {
    fn new(owned: directory::Owned) -> Self {
        Self { owned: Some(owned) }
    }

    /// Fails if somebody took it away.
    pub(crate) fn check(&self) -> Result<(), LockError> {
        match &self.owned {
            Some(owned) => owned.check(),
            None => Ok(()),
        }
    }

    /// Lets go.
    pub(crate) fn release(mut self) -> Result<(), LockError> {
        match self.owned.take() {
            Some(owned) => owned.release(),
            None => Ok(()),
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(owned) = self.owned.take()
            && let Err(error) = owned.release()
        {
            tracing::warn!(%error, "the journal's lock was not released cleanly");
        }
    }
}

#[cfg(test)]
mod tests;
