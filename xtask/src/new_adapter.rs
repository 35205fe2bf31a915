//! A new adapter crate: the example outside the workspace, under another name.

use std::path::{Path, PathBuf};

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

macro_rules! example {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_str!(concat!("../../examples/third-party-adapter/", $path)))),*]
    };
}

/// What a new crate begins with: what CI builds and tests as the example, so that it is never out of
/// date.
const FILES: [(&str, &str); 10] = example![
    "Cargo.toml",
    ".gitignore",
    "README.md",
    "src/lib.rs",
    "src/adapter.rs",
    "src/config.rs",
    "src/source.rs",
    "src/translate.rs",
    "tests/conformance.rs",
    "tests/host.rs",
];

/// The kind of the example, and the word that all its names are made of.
const EXAMPLE: &str = "spool";

/// Writes a crate `headcount-adapter-NAME` that builds, registers the kind NAME and passes the
/// conformance kit, into `path` or beside this workspace.
pub(crate) fn run(workspace: &Workspace, name: &str, path: Option<&Path>) -> Outcome {
    let name = Name::new(name)?;
    let folder = if let Some(path) = path {
        absolute(path)?
    } else {
        let beside = workspace.root().parent().unwrap_or(workspace.root());
        beside.join(name.package())
    };
    write(workspace.root(), &name, &folder)?;
    let folder = folder.canonicalize().unwrap_or(folder);
    println!("wrote {}", folder.display());
    println!("    src/config.rs         the keys that a host may set");
    println!("    src/source.rs         all input and output: put yours here");
    println!("    src/translate.rs      pure: what was seen, as lifecycle events and snapshots");
    println!("    src/adapter.rs        the contract's trait, and the task that reads the source");
    println!("    src/lib.rs            the registration: what is verified, and what is not");
    println!("    tests/conformance.rs  the rig: make your source do things here");
    println!("    tests/host.rs         a host that shows one of its children");
    println!("    README.md             and Cargo.toml: say what your source is");
    println!("next: cd {} && cargo test", folder.display());
    println!("then: docs/writing-an-adapter.md");
    Ok(Done::Well)
}

/// Writes a crate into a temporary folder, and runs its tests as its author would.
pub(crate) fn check(workspace: &Workspace) -> Outcome {
    let name = Name::new("written-by-ci")?;
    let folder = workspace
        .target_dir()
        .join("new-adapter")
        .join(name.package());
    if folder.exists() {
        std::fs::remove_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    }
    write(workspace.root(), &name, &folder)?;
    // The same dependencies as the example, which has been built by now.
    let lock = workspace
        .root()
        .join("examples/third-party-adapter/Cargo.lock");
    if let Ok(lock) = std::fs::read_to_string(&lock) {
        put(&folder.join("Cargo.lock"), &name.apply(&lock))?;
    }
    let target = workspace.target_dir().join("third-party");
    let run = |args: &[&str]| {
        Run::cargo(&folder, args.iter().copied())
            .env("CARGO_TARGET_DIR", &target)
            .env("INSTA_UPDATE", "no")
            .run()
    };
    run(&["fmt", "--check"])?;
    run(&["test", "--no-fail-fast"])
}

/// A kind: lower-case words joined by hyphens.
struct Name(String);

impl Name {
    fn new(name: &str) -> Result<Self, String> {
        let word = |word: &str| {
            word.starts_with(|c: char| c.is_ascii_lowercase())
                && word
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
        };
        if name.len() <= 40 && name.split('-').all(word) {
            Ok(Self(name.to_owned()))
        } else {
            Err(format!(
                "{name:?} is no name of an adapter; give lower-case words joined by hyphens, as in \
                 message-queue"
            ))
        }
    }

    fn package(&self) -> String {
        format!("headcount-adapter-{}", self.0)
    }

    /// As the beginning of a type's name.
    fn pascal(&self) -> String {
        self.0
            .split('-')
            .flat_map(|word| {
                let mut letters = word.chars();
                let first = letters.next().map(|letter| letter.to_ascii_uppercase());
                first.into_iter().chain(letters)
            })
            .collect()
    }

    /// A text of the example under this name.
    fn apply(&self, text: &str) -> String {
        let library = format!("headcount_adapter_{EXAMPLE}");
        let ours = format!("headcount_adapter_{}", self.0.replace('-', "_"));
        text.replace(&library, &ours)
            .replace("Spool", &self.pascal())
            .replace(EXAMPLE, &self.0)
    }
}

fn write(root: &Path, name: &Name, folder: &Path) -> Result<(), String> {
    let taken = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    if taken {
        return Err(format!(
            "{} is not empty; give another --path",
            folder.display()
        ));
    }
    for (path, text) in FILES {
        let mut text = name.apply(text);
        if path == "Cargo.toml" {
            text = manifest(root, folder, &text);
        }
        put(&folder.join(path), &text)?;
    }
    if let Err(why) = Run::cargo(folder, ["fmt"]).read() {
        println!("not formatted: {why}");
    }
    Ok(())
}

/// The example's manifest for a crate that stands in `folder`.
fn manifest(root: &Path, folder: &Path, text: &str) -> String {
    let crates = format!("{}/crates", root.display());
    let mut text = text
        .replace("../../crates", &crates)
        .replace("publish = false\n", "")
        .replace(
            "# Not a member of the workspace around it: it stands for a crate that lives elsewhere.\n",
            "# A workspace of its own, wherever it stands.\n",
        )
        .replace(
            "[dependencies]\n",
            "# The paths are for trying things out beside a checkout of Headcount; cargo leaves them out\n\
             # when the crate is packaged, and the versions stay.\n[dependencies]\n",
        );
    if folder.parent() == Some(&root.join("crates")) {
        // The workspace around it takes every crate of this folder as its member.
        text = text.replace(
            "# A workspace of its own, wherever it stands.\n[workspace]\n\n",
            "",
        );
    }
    text
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    std::fs::write(path, text).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|error| at(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["queue", "message-queue", "a2a", "x"] {
            assert!(Name::new(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "Queue",
            "a--b",
            "-a",
            "a-",
            "2a",
            "a_b",
            "ä",
            &"a".repeat(41),
        ] {
            assert!(Name::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn nothing_of_the_examples_name_is_left() {
        let name = Name::new("message-queue").unwrap();
        for (path, text) in FILES {
            let text = name.apply(text);
            assert!(!text.to_lowercase().contains(EXAMPLE), "{path}");
            assert!(!text.contains("TODO"), "{path}");
        }
        assert_eq!(
            name.apply(
                "use headcount_adapter_spool::SpoolAdapter; // headcount-adapter-spool, \"spool\""
            ),
            "use headcount_adapter_message_queue::MessageQueueAdapter; \
             // headcount-adapter-message-queue, \"message-queue\""
        );
    }

    #[test]
    fn a_crate_within_the_workspace_is_no_workspace() {
        let root = Path::new("/src/headcount");
        let text = FILES[0].1;
        let outside = manifest(root, Path::new("/src/mine"), text);
        assert!(outside.contains("\n[workspace]\n"));
        assert!(outside.contains("path = \"/src/headcount/crates/contract\""));
        let inside = manifest(root, Path::new("/src/headcount/crates/mine"), text);
        assert!(!inside.contains("[workspace]"));
    }
}
