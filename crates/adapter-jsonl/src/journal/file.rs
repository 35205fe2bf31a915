//! The file operations of a journal, behind a seam so that tests can make each of them fail.

use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Which file, and how long it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) length: u64,
}

impl Stat {
    fn of(about: &fs::Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
            length: about.len(),
        }
    }

    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

/// Opens journals.
pub(crate) trait Files: Debug + Send + Sync {
    /// What stands at the path now, if anything.
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>>;
    /// Opens the file for reading and appending, and makes it if there is none.
    fn open(&self, path: &Path) -> io::Result<Box<dyn JournalFile>>;
    /// Makes the existence of a new file durable.
    fn sync_parent(&self, path: &Path) -> io::Result<()>;
}

/// One open journal.
pub(crate) trait JournalFile: Debug + Send + Sync {
    fn stat(&self) -> io::Result<Stat>;
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// One `write` at the end of the file.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;
    fn sync_data(&self) -> io::Result<()>;
    fn cut(&self, length: u64) -> io::Result<()>;
}

/// The operating system's.
#[derive(Debug)]
pub(crate) struct SystemFiles;

impl Files for SystemFiles {
    fn stat(&self, path: &Path) -> io::Result<Option<Stat>> {
        match fs::metadata(path) {
            Ok(about) => Ok(Some(Stat::of(&about))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn JournalFile>> {
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("a journal is a regular file"));
        }
        Ok(Box::new(SystemFile(file)))
    }

    fn sync_parent(&self, path: &Path) -> io::Result<()> {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        File::open(parent)?.sync_all()
    }
}

#[derive(Debug)]
pub(crate) struct SystemFile(File);

impl SystemFile {
    /// A file that is there, to be read alone.
    pub(crate) fn open_to_read(path: &Path) -> io::Result<Self> {
        File::open(path).map(Self)
    }
}

impl JournalFile for SystemFile {
    fn stat(&self) -> io::Result<Stat> {
        Ok(Stat::of(&self.0.metadata()?))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, buffer, offset)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::Write::write(&mut self.0, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn cut(&self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }
}

/// Reads until the buffer is full or the file ends.
pub(crate) fn read_whole(
    file: &dyn JournalFile,
    buffer: &mut [u8],
    offset: u64,
) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match uninterrupted(|| file.read_at(&mut buffer[filled..], offset + filled as u64))? {
            0 => break,
            read => filled += read,
        }
    }
    Ok(filled)
}

/// Calls again what a signal interrupted.
pub(crate) fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
            result => return result,
        }
    }
}
