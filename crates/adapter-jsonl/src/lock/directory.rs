//! The steps of the lock protocol, each of them one file operation.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, Mode, RenameFlags, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::LockError;
use super::owner::Token;

const OWNER_FILE: &str = "owner.json";
/// What the name of the file that makes one the owner begins with.
const OWNED: &str = "o.";
/// Larger than any owner file; a larger one is not read.
const MAX_OWNER_FILE: u64 = 16 * 1024;

/// The lock directory of one journal.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Where it is, and where directories are prepared.
    parent: PathBuf,
}

/// What `owner.json` says, ours and a peer's alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PlainOwner {
    pub(super) pid: u32,
    pub(super) token: Option<String>,
    #[serde(rename = "createdAt")]
    pub(super) created_at_ms: u64,
}

/// What is in the lock's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    /// Nothing: it is free.
    Absent,
    /// One of ours, held by this token's owner.
    Owned(Token),
    /// A peer's, or one of ours half released: only `owner.json`.
    Plain(PlainOwner),
    /// No owner is named: a peer crashed before it wrote its owner file, or while it did.
    Ownerless { inode: u64, changed_at: SystemTime },
    /// Something that no owner puts there.
    Strange(&'static str),
}

impl Directory {
    pub(super) fn of(journal: &Path) -> Self {
        let parent = match journal.parent() {
            Some(parent) if parent != Path::new("") => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Self {
            path: suffixed(journal, ".lock"),
            parent,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn exists(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok()
    }

    /// Makes a lock that is not yet in its place.
    pub(super) fn prepare(&self, token: &Token) -> Result<Prepared, LockError> {
        let name = token.to_string();
        let path = suffixed(&self.path, &format!(".{name}"));
        let doing = "cannot prepare the lock directory";
        rustix::fs::mkdir(&path, Mode::from_raw_mode(0o777))
            .map_err(|error| LockError::io(doing, &path)(error.into()))?;
        let prepared = Prepared {
            lock: self.path.clone(),
            path,
            owned: format!("{OWNED}{name}").into(),
            installed: false.into(),
        };
        let owner = PlainOwner {
            pid: token.pid,
            token: Some(name),
            created_at_ms: SystemTime::now()
                .duration_since(SystemTime::UNIX_EPOCH)
                .map_or(0, |d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)),
        };
        File::create_new(prepared.path.join(&prepared.owned))
            .and_then(|_| {
                let text = serde_json::to_vec(&owner)?;
                fs::write(prepared.path.join(OWNER_FILE), text)
            })
            .map_err(LockError::io(doing, &prepared.path))?;
        Ok(prepared)
    }

    /// Looks at what is there.
    pub(super) fn look(&self) -> Result<Contents, LockError> {
        match self.look_once() {
            Ok(contents) => Ok(contents),
            // It went away while it was looked at.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Contents::Absent),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                Ok(Contents::Strange("a file in place of the directory"))
            }
            Err(error) => Err(LockError::io("cannot look at the lock", &self.path)(error)),
        }
    }

    fn look_once(&self) -> io::Result<Contents> {
        let mut owned: Option<OsString> = None;
        let mut plain = false;
        for entry in fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            if name == OWNER_FILE {
                plain = true;
            } else if name.as_encoded_bytes().starts_with(OWNED.as_bytes()) {
                if owned.replace(name).is_some() {
                    return Ok(Contents::Strange("two owners"));
                }
            } else {
                return Ok(Contents::Strange("a file of another name"));
            }
        }
        if let Some(name) = owned {
            return Ok(match token_of(&name) {
                Some(token) => Contents::Owned(token),
                None => Contents::Strange("an owner that cannot be read"),
            });
        }
        let about = fs::metadata(&self.path)?;
        if !plain {
            return Ok(ownerless(&about));
        }
        let file = self.path.join(OWNER_FILE);
        let about = fs::symlink_metadata(&file)?;
        if !about.is_file() || about.len() > MAX_OWNER_FILE {
            return Ok(ownerless(&about));
        }
        let text = fs::read(&file)?;
        Ok(serde_json::from_slice(&text).map_or_else(|_| ownerless(&about), Contents::Plain))
    }

    /// The directory that is there now, whatever is put in its place later.
    pub(super) fn open(&self) -> Result<Option<File>, LockError> {
        match File::open(&self.path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(LockError::io("cannot open the lock", &self.path)(error)),
        }
    }

    /// Whether it is this one that is still there.
    pub(super) fn is_still(&self, directory: &File) -> bool {
        let identity = |about: fs::Metadata| (about.dev(), about.ino());
        let there = fs::symlink_metadata(&self.path).map(identity).ok();
        there.is_some() && there == directory.metadata().map(identity).ok()
    }

    /// Excludes others of ours that take over a lock which names its owner in no file name. The
    /// kernel lets go of it when this process ends. None if somebody else has it.
    pub(super) fn guard_reclaim(&self) -> Result<Option<File>, LockError> {
        let doing = "cannot lock the directory of the journal";
        let file = File::open(&self.parent).map_err(LockError::io(doing, &self.parent))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(file)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(LockError::io(doing, &self.parent)(error.into())),
        }
    }

    /// Removes directories that were prepared by owners of which `is_dead` is true. What cannot be
    /// read or removed stays: it is in nobody's way.
    pub(super) fn remove_orphans(&self, is_dead: impl Fn(&Token) -> bool) {
        let Some(name) = self.path.file_name() else {
            return;
        };
        let prefix = [name.as_encoded_bytes(), b"."].concat();
        for entry in fs::read_dir(&self.parent).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let token = name
                .as_encoded_bytes()
                .strip_prefix(&*prefix)
                .and_then(|rest| std::str::from_utf8(rest).ok())
                .and_then(Token::parse);
            if token.is_some_and(|token| is_dead(&token)) {
                let path = entry.path();
                for file in fs::read_dir(&path).into_iter().flatten().flatten() {
                    let _ = fs::remove_file(file.path());
                }
                let _ = fs::remove_dir(&path);
            }
        }
    }
}

fn ownerless(about: &fs::Metadata) -> Contents {
    let seconds = u64::try_from(about.ctime()).unwrap_or_default();
    let nanos = u32::try_from(about.ctime_nsec()).unwrap_or_default();
    Contents::Ownerless {
        inode: about.ino(),
        changed_at: SystemTime::UNIX_EPOCH + Duration::new(seconds, nanos),
    }
}

fn token_of(name: &OsStr) -> Option<Token> {
    Token::parse(name.to_str()?.strip_prefix(OWNED)?)
}

fn suffixed(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A lock directory that waits to be put in place. Dropping it removes what is left of it.
#[derive(Debug)]
pub(super) struct Prepared {
    lock: PathBuf,
    path: PathBuf,
    owned: OsString,
    /// The directory itself became the lock, so that nothing is left.
    installed: std::cell::Cell<bool>,
}

impl Prepared {
    /// Puts it in place, if nothing is there.
    pub(super) fn install(&self) -> Result<bool, LockError> {
        match rename(&self.path, &self.lock, RenameFlags::NOREPLACE) {
            Ok(()) => {
                self.installed.set(true);
                Ok(true)
            }
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => Ok(false),
            Err(Errno::INVAL | Errno::NOSYS) => {
                Err(LockError::io(
                    "this file system cannot rename without replacing, which the lock needs:",
                    &self.lock,
                )(io::ErrorKind::Unsupported.into()))
            }
            Err(error) => Err(LockError::io("cannot take the lock", &self.lock)(
                error.into(),
            )),
        }
    }

    /// Becomes the owner in place of `old`, if that one still is.
    pub(super) fn swap(&self, old: &Token) -> Result<bool, LockError> {
        let old = self.lock.join(format!("{OWNED}{old}"));
        match fs::rename(&old, self.lock.join(&self.owned)) {
            Ok(()) => self.tell_peers().map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(LockError::io("cannot take over the lock", &old)(error)),
        }
    }

    /// Becomes the owner of this directory, which names none in a file name, if it is still there:
    /// into one that was removed nothing can be moved.
    pub(super) fn move_in(&self, directory: &File) -> Result<bool, LockError> {
        let from = self.path.join(&self.owned);
        match rustix::fs::renameat(rustix::fs::CWD, &from, directory, &self.owned) {
            Ok(()) => self.tell_peers().map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(LockError::io("cannot take over the lock", &self.lock)(
                error.into(),
            )),
        }
    }

    /// Says in `owner.json` who owns the lock now; if that cannot be said, lets go of it again.
    fn tell_peers(&self) -> Result<(), LockError> {
        let doing = "cannot write the owner of the lock";
        fs::rename(self.path.join(OWNER_FILE), self.lock.join(OWNER_FILE)).map_err(|error| {
            let _ = self.owned().release();
            LockError::io(doing, &self.lock)(error)
        })
    }

    /// What is needed to keep and release the lock.
    pub(super) fn owned(&self) -> Owned {
        Owned {
            lock: self.lock.clone(),
            file: self.lock.join(&self.owned),
            aside: self.path.clone(),
        }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if !self.installed.get() {
            let _ = fs::remove_file(self.path.join(&self.owned));
            let _ = fs::remove_file(self.path.join(OWNER_FILE));
            let _ = fs::remove_dir(&self.path);
        }
    }
}

/// A lock that is held by the token in the name of `file`.
#[derive(Debug)]
pub(super) struct Owned {
    lock: PathBuf,
    file: PathBuf,
    /// Where the directory goes when it is released.
    aside: PathBuf,
}

impl Owned {
    pub(super) fn check(&self) -> Result<(), LockError> {
        match fs::symlink_metadata(&self.file) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.stolen()),
            Err(error) => Err(LockError::io("cannot look at the lock", &self.file)(error)),
        }
    }

    pub(super) fn release(self) -> Result<(), LockError> {
        match fs::remove_file(&self.file) {
            Ok(()) => (),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.stolen()),
            Err(error) => return Err(LockError::io("cannot release the lock", &self.file)(error)),
        }
        // Nobody takes it over from here on either, since `owner.json` names a process that lives.
        // It is moved away as a whole: to remove it where it stands could hit the directory that a
        // peer has made in its place.
        match rename(&self.lock, &self.aside, RenameFlags::NOREPLACE) {
            Ok(()) => (),
            Err(Errno::NOENT) => return Err(self.stolen()),
            Err(error) => {
                return Err(LockError::io("cannot release the lock", &self.lock)(
                    error.into(),
                ));
            }
        }
        let _ = fs::remove_file(self.aside.join(OWNER_FILE));
        let _ = fs::remove_dir(&self.aside);
        Ok(())
    }

    fn stolen(&self) -> LockError {
        LockError::Stolen {
            path: self.lock.clone(),
        }
    }
}

fn rename(from: &Path, to: &Path, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(rustix::fs::CWD, from, rustix::fs::CWD, to, flags)
}
