//! Cutting a torn last line, and nothing else.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use super::error::{Blocked, JournalError};
use super::file::{Files, SystemFiles};
use super::reader::{self, CHUNK};
use super::{JournalOptions, Sequencing};
use crate::lock::Lock;

/// What a repair did.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// There was nothing to repair; the file was not touched.
    Sound {
        /// How many entries it has.
        entries: u64,
    },
    /// The torn last line was cut.
    Cut {
        /// How many entries are left: all of them.
        entries: u64,
        /// How many bytes were cut.
        bytes: u64,
        /// The copy of the file as it was.
        original: PathBuf,
    },
}

/// Repairs the journal at `path` if its only fault is a last line without an end.
///
/// # Behavior
///
/// - Works under the journal's lock.
/// - First the file is copied aside, to `<path>.before-repair-1` (or -2 and so on), and the copy is
///   made durable; then what follows the last line end is cut, and that is made durable.
/// - Anything else that is wrong is left to a person.
///
/// # Errors
///
/// [`JournalError::NotRepairable`] if the fault is not a torn last line, and others as
/// [`Journal::append`](super::Journal::append).
///
/// ```
/// use headcount_adapter_jsonl::{JournalOptions, Repair, repair_journal};
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, "{\"torn")?;
/// let Repair::Cut { bytes, original, .. } = repair_journal(&path, JournalOptions::default())? else {
///     panic!("it is torn");
/// };
/// assert_eq!((bytes, std::fs::read(&original)?), (6, b"{\"torn".to_vec()));
/// assert_eq!(std::fs::read(&path)?, b"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn repair_journal(path: &Path, options: JournalOptions) -> Result<Repair, JournalError> {
    if !path.exists() {
        return Err(JournalError::io("cannot repair", path)(
            io::ErrorKind::NotFound.into(),
        ));
    }
    let guard = Lock::new(path, options.lock).acquire()?;
    let mut reader = reader::open(path, options.limits, Sequencing::Journal)?;
    let entries = reader.by_ref().count() as u64;
    if let Some(source) = reader.failed() {
        let source = io::Error::new(source.kind(), source.to_string());
        return Err(JournalError::io("cannot read the journal", path)(source));
    }
    let Some(blocked) = reader.blocked().cloned() else {
        guard.release()?;
        return Ok(Repair::Sound { entries });
    };
    let error = |doing| JournalError::io(doing, path);
    let mut file = File::options()
        .read(true)
        .write(true)
        .open(path)
        .map_err(error("cannot open the journal"))?;
    let length = file
        .metadata()
        .map_err(error("cannot look at the journal"))?
        .len();
    if !is_torn_tail(&file, &blocked, length).map_err(error("cannot read the journal"))? {
        return Err(JournalError::NotRepairable {
            path: path.to_owned(),
            blocked,
        });
    }
    let original = copy_aside(&mut file, path)?;
    guard.check()?;
    file.set_len(blocked.offset)
        .and_then(|()| file.sync_all())
        .map_err(error("cannot cut"))?;
    guard.release()?;
    Ok(Repair::Cut {
        entries,
        bytes: length - blocked.offset,
        original,
    })
}

/// Whether no line ends in or behind the fault: an over-long line may be torn as well.
fn is_torn_tail(file: &File, blocked: &Blocked, length: u64) -> io::Result<bool> {
    use std::os::unix::fs::FileExt;
    let mut buffer = vec![0; CHUNK];
    let mut at = blocked.offset;
    while at < length {
        let read = file.read_at(&mut buffer, at)?;
        if read == 0 {
            break;
        }
        if memchr::memchr(b'\n', &buffer[..read]).is_some() {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

fn copy_aside(file: &mut File, path: &Path) -> Result<PathBuf, JournalError> {
    let mut number = 1;
    loop {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".before-repair-{number}"));
        let copy = PathBuf::from(name);
        let result = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&copy)
            .and_then(|mut to| {
                to.set_permissions(file.metadata()?.permissions())?;
                io::copy(file, &mut to)?;
                to.sync_all()?;
                SystemFiles.sync_parent(path)
            });
        match result {
            Ok(()) => return Ok(copy),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => {
                let _ = fs::remove_file(&copy);
                return Err(JournalError::io("cannot copy the journal to", &copy)(error));
            }
        }
    }
}
