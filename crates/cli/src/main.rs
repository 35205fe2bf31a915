//! `headcount`: see what your child agents are doing, and how we know.
//!
//! The reference host: it uses only what a user of the `headcount` library can use.

mod args;
mod commands;
mod exit;
mod logging;
mod output;
mod term;
mod text;
mod tui;
mod value;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::Args;
use crate::exit::{Exit, Failure};

fn main() -> ExitCode {
    let exit = match Args::try_parse() {
        Ok(args) => logging::init(&args.common).and_then(|()| commands::run(args)),
        Err(error) => not_parsed(&error),
    };
    match exit {
        Ok(code) => code.into(),
        Err(error) => {
            term::complain(&error);
            Exit::from(&error).into()
        }
    }
}

/// Prints the help that was asked for, or says what is wrong with the command line.
fn not_parsed(error: &clap::Error) -> Result<Exit, Failure> {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            error.print()?;
            std::io::stdout().flush()?;
            Ok(Exit::OK)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print()?;
            Ok(Exit::USAGE)
        }
        _ => {
            term::complain_of_usage(error);
            Ok(Exit::USAGE)
        }
    }
}
