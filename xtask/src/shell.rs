//! Running programs, and how a chore ends.

use std::fmt::Display;
use std::path::Path;
use std::process::{Command, Stdio};

/// A chore ends well, is skipped for a stated reason, or fails with a message for a person.
pub(crate) type Outcome = Result<Done, String>;

/// How a chore ended that did not fail.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Well,
    Skipped(String),
}

/// A program in a folder, its output passed through.
pub(crate) struct Run(Command);

impl Run {
    /// `cargo` with these arguments. Every path of a `cargo` chore is relative to `folder`.
    pub(crate) fn cargo<'a>(folder: &Path, args: impl IntoIterator<Item = &'a str>) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.current_dir(folder).args(args);
        // Set by the `cargo run` that started this program; they name this package, not the one
        // that the chore is about.
        for (key, _) in std::env::vars_os() {
            let name = key.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(key);
            }
        }
        Self(command)
    }

    /// Any other program.
    pub(crate) fn program<'a>(
        folder: &Path,
        name: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let mut command = Command::new(name);
        command.current_dir(folder).args(args);
        Self(command)
    }

    /// The same with one more argument.
    pub(crate) fn arg(mut self, arg: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.arg(arg);
        self
    }

    /// The same with more arguments.
    pub(crate) fn args<S: AsRef<std::ffi::OsStr>>(
        mut self,
        args: impl IntoIterator<Item = S>,
    ) -> Self {
        self.0.args(args);
        self
    }

    /// The same with a variable in its environment.
    pub(crate) fn env(mut self, key: &str, value: impl AsRef<std::ffi::OsStr>) -> Self {
        self.0.env(key, value);
        self
    }

    /// Runs it with its output passed through.
    pub(crate) fn run(mut self) -> Outcome {
        let name = self.to_string();
        println!("$ {name}");
        let status = self.0.stdin(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(Done::Well),
            Ok(status) => Err(format!("`{name}` ended with {status}")),
            Err(error) => Err(format!("`{name}` cannot be started: {error}")),
        }
    }

    /// Runs it and returns what it printed.
    pub(crate) fn read(mut self) -> Result<String, String> {
        let name = self.to_string();
        let output = self
            .0
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output();
        match output {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => Err(format!("`{name}` ended with {}", output.status)),
            Err(error) => Err(format!("`{name}` cannot be started: {error}")),
        }
    }
}

impl Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Path::new(self.0.get_program()).file_name();
        f.write_str(&name.unwrap_or_default().to_string_lossy())?;
        for arg in self.0.get_args() {
            write!(f, " {}", arg.to_string_lossy())?;
        }
        Ok(())
    }
}

/// Whether cargo has this subcommand installed, such as `mutants`.
pub(crate) fn has_subcommand(name: &str) -> bool {
    let program = format!("cargo-{name}");
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&program).is_file()))
}
