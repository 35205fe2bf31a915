//! All input and output: what is in the folder now.

use std::io::{self, Read};
use std::path::Path;

/// One file: the worker's name and its word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) worker: String,
    pub(crate) word: String,
}

/// The longest word that is read, in bytes.
const MAX_WORD: u64 = 64;

/// Reads every `*.state` file of the folder. Blocks.
pub(crate) fn list(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for file in std::fs::read_dir(folder)? {
        let path = file?.path();
        let is_state = path
            .extension()
            .is_some_and(|extension| extension == "state");
        let Some(worker) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if !is_state {
            continue;
        }
        match word(&path) {
            Ok(word) => entries.push(Entry {
                worker: worker.to_owned(),
                word,
            }),
            // Removed since it was listed: it is not there.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_by(|a, b| a.worker.cmp(&b.worker));
    Ok(entries)
}

fn word(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_WORD)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}
