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

use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::exit::Exit;

fn main() -> ExitCode {
    let args = Args::parse();
    let exit = match logging::init(&args.common) {
        Ok(()) => commands::run(args),
        Err(error) => Err(error),
    };
    match exit {
        Ok(code) => code.into(),
        Err(error) => {
            term::complain(&error);
            Exit::from(&error).into()
        }
    }
}
