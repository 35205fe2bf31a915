//! Chores of the workspace: `cargo xtask ci` checks everything and writes nothing, `cargo xtask
//! fix` mends what a machine can mend. `cargo xtask help` lists the rest.

// A command-line tool talks on stdout; the lint protects libraries.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod ci;
mod features;
mod fix;
mod fuzz;
mod layers;
mod live;
mod mutants;
mod new_adapter;
mod package;
mod schema;
mod shell;
mod snapshots;
mod soak;
mod targets;
mod third_party;
mod workspace;

use shell::{Done, Outcome};
use workspace::Workspace;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Chores of the Headcount workspace")]
struct Cli {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check everything; writes nothing but build products.
    Ci {
        /// Only these steps, by the names that a run prints.
        #[arg(value_name = "STEP")]
        only: Vec<String>,
    },
    /// Format, apply the compiler's suggestions, and write the generated files anew.
    Fix,
    /// Check who may depend on whom.
    Layers,
    /// Check the host with no adapter, each adapter, and all of them.
    Features,
    /// Write the JSON Schemas of the wire types.
    Schema {
        /// Compare instead of writing.
        #[arg(long)]
        check: bool,
    },
    /// Run one benchmark; without a name, list them.
    Bench {
        /// The benchmark, as its crate names it.
        name: Option<String>,
        /// What the benchmark itself is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Run one long test that is no part of `ci`; without a name, list them.
    Soak {
        /// The soak.
        name: Option<String>,
        /// What the soak itself is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Fuzz the JSONL decoder; needs a nightly compiler and `cargo fuzz`.
    Fuzz {
        /// For how long, in seconds.
        #[arg(default_value_t = 300)]
        seconds: u64,
        /// What libFuzzer itself is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Try an adapter against the real program.
    Live {
        /// The program.
        #[command(subcommand)]
        program: live::Program,
    },
    /// Write the crate of a new adapter, which builds and passes the conformance kit as it is.
    NewAdapter {
        /// The kind: lower-case words joined by hyphens.
        name: String,
        /// The crate's own folder; by default `headcount-adapter-NAME` beside this workspace.
        #[arg(long, value_name = "DIR")]
        path: Option<std::path::PathBuf>,
    },
    /// Change the pure crates in many small ways, and see whether their tests notice.
    Mutants {
        /// What `cargo mutants` itself is told.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
}

fn main() -> ExitCode {
    let chore = Cli::parse().chore;
    match Workspace::load().and_then(|workspace| run(&workspace, chore)) {
        Ok(Done::Well) => ExitCode::SUCCESS,
        Ok(Done::Skipped(why)) => {
            println!("skipped: {why}");
            ExitCode::SUCCESS
        }
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run(workspace: &Workspace, chore: Chore) -> Outcome {
    match chore {
        Chore::Ci { only } => ci::run(workspace, &only),
        Chore::Fix => fix::run(workspace),
        Chore::Layers => layers::run(workspace).and_then(|_| targets::run(workspace)),
        Chore::Features => features::run(workspace),
        Chore::Schema { check: true } => schema::check(workspace),
        Chore::Schema { check: false } => schema::write(workspace),
        Chore::Bench { name, args } => bench::run(workspace, name.as_deref(), &args),
        Chore::Soak { name, args } => soak::run(workspace, name.as_deref(), &args),
        Chore::Fuzz { seconds, args } => fuzz::run(workspace, seconds, &args),
        Chore::Live { program } => live::run(workspace, program),
        Chore::NewAdapter { name, path } => new_adapter::run(workspace, &name, path.as_deref()),
        Chore::Mutants { args } => mutants::run(workspace, &args),
    }
}
