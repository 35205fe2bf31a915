//! One module a command; here what they share.

mod adapters;
mod check;
mod emit;
mod history;
mod interrupt;
mod journal;
pub(crate) mod live;
mod run;
mod watch;

use std::path::Path;

use headcount::jsonl::JournalError;

use crate::args::{Args, Command, Common};
use crate::exit::{Exit, Failure};

/// Carries out the command line.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let Args { command, common } = args;
    match command {
        Command::Run(args) => run::run(&common, &args),
        Command::Watch(args) => watch::watch(&common, &args),
        Command::Tail(args) => watch::tail(&common, &args),
        Command::Check(args) => check::run(&common, &args),
        Command::Adopt(args) => watch::adopt(&common, &args),
        Command::Hermes(args) => watch::hermes(&common, &args),
        Command::List(args) => history::list(&common, &args),
        Command::Wait(args) => history::wait(&common, &args),
        Command::Explain(args) => history::explain(&common, &args),
        Command::Emit(args) => emit::run(&common, *args),
        Command::Journal(args) => journal::run(&common, args.action),
        Command::Adapters => adapters::adapters(&common),
        Command::Schema(args) => adapters::print_schema(args.of),
        Command::Completions { shell } => adapters::completions(shell),
    }
}

/// The journal that `--journal` names.
fn journal_path(common: &Common) -> Result<&Path, Failure> {
    common.journal.as_deref().ok_or_else(|| {
        Failure::usage("this command reads a journal, and none was named").help("--journal FILE")
    })
}

/// A fault of a journal: its content is an answer, everything else a wrong file.
fn journal_failure(error: &JournalError) -> Failure {
    if error.blocked().is_some() {
        Failure::negative(error)
    } else {
        Failure::usage(error)
    }
}
