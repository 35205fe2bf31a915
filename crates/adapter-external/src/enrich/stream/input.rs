//! Where a stream is read from.

use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Bytes that are read at once.
const CHUNK: usize = 64 << 10;

/// A file that grows, or a connection.
pub(super) enum Input {
    File {
        file: std::fs::File,
        at: u64,
    },
    #[cfg(unix)]
    Socket(tokio::net::UnixStream),
}

impl Input {
    pub(super) async fn open(path: &Path, from_start: bool) -> std::io::Result<Self> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::FileTypeExt;
            if std::fs::metadata(path)?.file_type().is_socket() {
                return Ok(Self::Socket(tokio::net::UnixStream::connect(path).await?));
            }
        }
        let mut options = std::fs::OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A pipe without a writer must not hold us up.
            options.custom_flags(libc::O_NONBLOCK);
        }
        let mut file = options.open(path)?;
        let at = if from_start || !file.metadata()?.is_file() {
            0
        } else {
            file.seek(SeekFrom::End(0))?
        };
        Ok(Self::File { file, at })
    }

    /// What there is, or none for now (of a connection: for good).
    pub(super) async fn read(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; CHUNK];
        let length = match self {
            Self::File { file, at } => match file.read(&mut bytes) {
                Ok(length) => {
                    *at += length as u64;
                    length
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted
                    ) =>
                {
                    0
                }
                Err(error) => return Err(error),
            },
            #[cfg(unix)]
            Self::Socket(socket) => tokio::io::AsyncReadExt::read(socket, &mut bytes).await?,
        };
        bytes.truncate(length);
        Ok(Some(bytes).filter(|bytes| !bytes.is_empty()))
    }

    pub(super) fn is_connection(&self) -> bool {
        match self {
            Self::File { .. } => false,
            #[cfg(unix)]
            Self::Socket(_) => true,
        }
    }

    /// Whether the path still leads to this file, and the file was not cut.
    pub(super) fn is_whole(&self, path: &Path) -> Result<(), String> {
        let (file, at) = match self {
            Self::File { file, at } => (file, at),
            #[cfg(unix)]
            Self::Socket(_) => return Ok(()),
        };
        let held = file.metadata().map_err(|error| error.to_string())?;
        if !held.is_file() {
            return Ok(());
        }
        if held.len() < *at {
            return Err("the file was cut".into());
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt;
            match std::fs::metadata(path) {
                Ok(now) if (now.dev(), now.ino()) != (held.dev(), held.ino()) => {
                    return Err("the file was replaced".into());
                }
                // It may be about to be replaced.
                _ => {}
            }
        }
        #[cfg(not(unix))]
        let _ = path;
        Ok(())
    }
}
