//! Headcount's own log, to standard error, off unless asked for.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

use crate::args::Common;
use crate::exit::Failure;
use crate::output::Form;
use crate::term;

/// The environment variable that sets the level where `--log` does not.
const VARIABLE: &str = "HEADCOUNT_LOG";

/// Begins to log as `--log` says, or else as the environment says.
pub(crate) fn init(common: &Common) -> Result<(), Failure> {
    let asked = common.log.clone();
    // A variable that is set for good must not write over the table.
    let over_table = Form::of(common.output) == Form::Tui && std::io::stderr().is_terminal();
    let from_environment = || std::env::var(VARIABLE).ok().filter(|_| !over_table);
    let Some(directives) = asked.or_else(from_environment) else {
        return Ok(());
    };
    let filter = EnvFilter::builder().parse(&directives).map_err(|error| {
        Failure::usage(format_args!("{directives:?} is no log level: {error}"))
            .help("one of error, warn, info, debug, trace, or per crate as headcount=debug")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(term::is_coloured())
        .init();
    Ok(())
}
