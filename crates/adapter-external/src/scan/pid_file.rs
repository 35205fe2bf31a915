//! PID files.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Found, FoundBy, Scan};
use crate::enrich::Enrichment;

/// A file whose first line is the number of a process.
#[derive(Debug)]
pub(super) struct PidFile {
    pub(super) path: PathBuf,
    pub(super) enrichment: Option<Arc<Enrichment>>,
    /// Which version of the file was used last: a file that was not written anew since its process
    /// ended must not lead to whoever has the number next.
    pub(super) used: Option<(i64, Option<SystemTime>)>,
}

impl PidFile {
    pub(super) fn look(&mut self, scan: &mut Scan) {
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
    use crate::config::ExternalConfig;
    use crate::scan::Scanner;
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
