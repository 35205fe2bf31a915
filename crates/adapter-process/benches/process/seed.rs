//! The seed's runtime, unpacked for the time of the benchmark.

use std::path::{Path, PathBuf};

/// A directory with the seed's module and our driver.
pub(crate) struct Seed {
    directory: tempfile::TempDir,
}

impl Seed {
    /// Unpacks the seed, or says why not.
    pub(crate) fn find() -> Result<Self, String> {
        let node = std::process::Command::new("node").arg("--version").output();
        if !node.is_ok_and(|output| output.status.success()) {
            return Err("there is no node here".to_owned());
        }
        let seeds = directory().ok_or("neither HEADCOUNT_SEEDS nor shared/seeds is there")?;
        let module = std::fs::read_dir(&seeds)
            .map_err(|error| format!("{}: {error}", seeds.display()))?
            .flatten()
            .filter_map(|entry| std::fs::read_to_string(entry.path()).ok())
            .find_map(|text| unpack(&text, "package/dist/process.js"))
            .ok_or_else(|| format!("{} holds no process.js", seeds.display()))?;
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let write = |name: &str, text: &str| {
            std::fs::write(directory.path().join(name), text).map_err(|error| error.to_string())
        };
        write("process.mjs", &module)?;
        write("driver.mjs", include_str!("driver.mjs"))?;
        Ok(Self { directory })
    }

    pub(crate) fn driver(&self) -> PathBuf {
        self.directory.path().join("driver.mjs")
    }
}

fn directory() -> Option<PathBuf> {
    if let Some(given) = std::env::var_os("HEADCOUNT_SEEDS") {
        return Some(given.into());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors()
        .map(|parent| parent.join("shared/seeds"))
        .find(|path| Path::is_dir(path))
}

/// A file of the seed: its path on a line, a hunk header, and its lines behind plus signs.
fn unpack(text: &str, path: &str) -> Option<String> {
    let (_, after) = text.split_once(&format!("\n{path}\n"))?;
    let lines = after
        .lines()
        .skip_while(|line| !line.starts_with("@@"))
        .skip(1);
    let lines = lines.map_while(|line| line.strip_prefix('+'));
    Some(lines.collect::<Vec<_>>().join("\n"))
}
