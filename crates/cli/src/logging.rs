//! Headcount's own log, to standard error, off unless asked for.

use tracing_subscriber::EnvFilter;

use crate::exit::Failure;

/// The environment variable that sets the level where `--log` does not.
const VARIABLE: &str = "HEADCOUNT_LOG";

/// Begins to log at `level`, or as the environment says.
pub(crate) fn init(level: Option<&str>) -> Result<(), Failure> {
    let from_environment = std::env::var(VARIABLE).ok();
    let Some(directives) = level.map(str::to_owned).or(from_environment) else {
        return Ok(());
    };
    let filter = EnvFilter::builder().parse(&directives).map_err(|error| {
        Failure::usage(format_args!("{directives:?} is no log level: {error}"))
            .help("one of error, warn, info, debug, trace, or per crate as headcount=debug")
    })?;
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    Ok(())
}
