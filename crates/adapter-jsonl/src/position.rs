//! A place in a file that can be saved and found again, or found to be gone.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many bytes before the place are remembered.
const FINGERPRINT: u64 = 256;

/// The start of a line in one file: everything before it has been read.
///
/// It names the file by device and inode, and what stands before the place by a fingerprint: an
/// inode alone is reused by the next file, and a length alone does not tell a file that was
/// truncated and has grown again. The fingerprint is a hash: nothing can be read out of it.
///
/// ```
/// use headcount_adapter_jsonl::StreamPosition;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("events.jsonl");
/// std::fs::write(&path, "one\ntwo\n")?;
/// let place = StreamPosition::in_file(&std::fs::File::open(&path)?, 4, 2)?;
/// assert!(place.is_in(&std::fs::File::open(&path)?)?);
/// std::fs::write(&path, "1\n2\n3\n4\n")?;
/// assert!(!place.is_in(&std::fs::File::open(&path)?)?);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StreamPosition {
    device: u64,
    inode: u64,
    offset: u64,
    line: u64,
    fingerprint: String,
}

impl StreamPosition {
    /// The place at byte `offset` of the file, where line `line` (from 1) starts.
    ///
    /// # Errors
    ///
    /// What reading the bytes before it failed with.
    pub fn in_file(file: &File, offset: u64, line: u64) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self {
            device: about.dev(),
            inode: about.ino(),
            offset,
            line,
            fingerprint: fingerprint(file, offset)?.unwrap_or_default(),
        })
    }

    /// Whether it is a place in this file, and what stands before it is what was read.
    ///
    /// # Errors
    ///
    /// What reading the file failed with.
    pub fn is_in(&self, file: &File) -> io::Result<bool> {
        let about = file.metadata()?;
        if (about.dev(), about.ino()) != (self.device, self.inode) || about.len() < self.offset {
            return Ok(false);
        }
        Ok(fingerprint(file, self.offset)?.is_some_and(|now| now == self.fingerprint))
    }

    /// Its byte offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The line that starts there, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// Of the bytes before `offset`; none if they are not all there.
fn fingerprint(file: &File, offset: u64) -> io::Result<Option<String>> {
    let from = offset.saturating_sub(FINGERPRINT);
    let mut bytes = vec![0; usize::try_from(offset - from).unwrap_or_default()];
    match file.read_exact_at(&mut bytes, from) {
        Ok(()) => Ok(Some(format!("{:016x}", fnv1a(&bytes)))),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// FNV-1a, 64 bits: the same in every version of this crate, since positions are saved.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn nothing_of_the_content_is_in_a_saved_position() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        std::fs::write(&path, "canary-4711\n").unwrap();
        let place = StreamPosition::in_file(&File::open(&path).unwrap(), 12, 2).unwrap();
        let text = serde_json::to_string(&place).unwrap();
        assert!(!text.contains("canary"), "{text}");
        assert_eq!(
            serde_json::from_str::<StreamPosition>(&text).unwrap(),
            place
        );
    }

    #[test]
    fn a_truncated_file_that_has_grown_again_is_another_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        std::fs::write(&path, "one\ntwo\n").unwrap();
        let place = StreamPosition::in_file(&File::open(&path).unwrap(), 8, 3).unwrap();
        let check = |content: &str, expected: bool| {
            std::fs::write(&path, content).unwrap();
            assert_eq!(
                place.is_in(&File::open(&path).unwrap()).unwrap(),
                expected,
                "{content:?}"
            );
        };
        check("one\ntwo\nthree\n", true);
        check("one\n", false);
        check("ONE\nTWO\nTHREE\n", false);
        check("one\ntwo\n", true);
    }
}
