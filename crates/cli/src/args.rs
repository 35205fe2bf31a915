//! The command line. Names are fixed: scripts depend on them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use headcount::duration;
use headcount_contract::{ChildState, EventKind};

use crate::exit;
use crate::value::{self, HttpTarget};

/// See what your child agents are doing, and how we know.
#[derive(Debug, Parser)]
#[command(
    name = "headcount",
    version,
    arg_required_else_help = true,
    after_help = exit::HELP,
    disable_help_subcommand = true
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) common: Common,
}

/// Options of every command.
#[derive(Debug, ClapArgs)]
pub(crate) struct Common {
    /// How to show what happens: `tui` on a terminal, else `plain`; `json` for programs
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORM")]
    pub(crate) output: Output,
    /// Append every event that is accepted to this journal; for list, wait, explain, emit: the journal
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) journal: Option<PathBuf>,
    /// Headcount's own log, to standard error: error, warn, info, debug, trace; without it, as the
    /// environment variable `HEADCOUNT_LOG` says
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(crate) log: Option<String>,
    /// Print the host's own counts to standard error at the end
    #[arg(long, global = true)]
    pub(crate) stats: bool,
}

/// A form of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Output {
    /// `tui` on a terminal, else `plain`
    #[default]
    Auto,
    /// A live table
    Tui,
    /// A line for each thing that happens
    Plain,
    /// Lifecycle events, one JSON object a line, and nothing else
    Json,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start one child, show it live, end with its exit code
    Run(Box<Run>),
    /// Show everything a fleet file names: children to start, streams, processes, Hermes
    Watch(Watch),
    /// Follow a JSONL lifecycle stream
    Tail(Tail),
    /// Judge a JSONL lifecycle stream line by line
    Check(Check),
    /// Observe running processes that somebody else started
    Adopt(Adopt),
    /// Attach to a Hermes gateway, or start one
    Hermes(Hermes),
    /// What each child is, from a journal
    List(List),
    /// Wait until a child of a journal reaches a state
    Wait(Wait),
    /// Every fact shown about a child, and where it came from
    Explain(Explain),
    /// Append one event to a journal
    Emit(Box<Emit>),
    /// Verify, print or repair a journal
    Journal(Journal),
    /// The kinds of adapter linked into this program
    Adapters,
    /// Print a JSON Schema
    Schema(Schema),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

#[derive(Debug, ClapArgs)]
#[command(override_usage = "headcount run [OPTIONS] -- <CMD>...")]
pub(crate) struct Run {
    /// The child's name; the program's by default
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The child's working directory; this one by default
    #[arg(long, value_name = "DIR")]
    pub(crate) cwd: Option<PathBuf>,
    /// Set a variable of the child's environment; may be given many times
    #[arg(long, value_name = "K=V", value_parser = value::assignment)]
    pub(crate) env: Vec<(String, String)>,
    /// Begin with an empty environment instead of this shell's
    #[arg(long)]
    pub(crate) clean_env: bool,
    /// With --clean-env: pass on this variable all the same; may be given many times
    #[arg(long, value_name = "K", requires = "clean_env")]
    pub(crate) inherit: Vec<String>,
    /// The child is running once this local HTTP address answers 2xx
    #[arg(long, value_name = "PORT[/PATH]", value_parser = value::http_target)]
    pub(crate) ready_http: Option<HttpTarget>,
    /// How long it may take to become ready
    #[arg(long, value_name = "TIME", value_parser = duration::parse, requires = "ready_http")]
    pub(crate) ready_timeout: Option<Duration>,
    /// What to do with a child that did not become ready
    #[arg(long, value_enum, value_name = "WHAT", requires = "ready_http")]
    pub(crate) on_ready_timeout: Option<OnReadyTimeout>,
    /// The signal that asks the child to stop; SIGTERM by default
    #[arg(long, value_name = "SIGNAL")]
    pub(crate) stop_signal: Option<String>,
    /// How long a child that was asked to stop may take before it is killed
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,
    /// When to start the next attempt; one that ends within a second counts as failed, whatever
    /// its exit code
    #[arg(long, value_enum, value_name = "WHEN")]
    pub(crate) restart: Option<Restart>,
    /// The child writes its own lifecycle JSONL, for its sub-children, to this descriptor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(3..=255))]
    pub(crate) lifecycle_fd: Option<u16>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum OnReadyTimeout {
    /// Stop it; it failed
    Fail,
    /// Keep it as starting, and say so
    Keep,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Restart {
    Never,
    OnFailure,
    Always,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Watch {
    /// The fleet file
    #[arg(value_name = "FLEET.toml")]
    pub(crate) fleet: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scope {
    /// Each child has its own counter
    Child,
    /// One counter for all children of a source epoch
    Epoch,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Tail {
    /// The stream, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Go on at the end of the file
    #[arg(long)]
    pub(crate) follow: bool,
    /// With --follow: begin at the start of the file instead of its end
    #[arg(long)]
    pub(crate) from_start: bool,
    /// The process that writes the stream: its exit is watched, since the end of a file proves nothing
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Over which events the writer counts its sequence
    #[arg(long, value_enum, default_value = "child")]
    pub(crate) scope: Scope,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Check {
    /// The stream, or - for standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) limits: Limits,
}

/// How lines are judged.
#[derive(Debug, ClapArgs)]
pub(crate) struct Limits {
    /// Over which events the writer counts its sequence
    #[arg(long, value_enum, default_value = "child")]
    pub(crate) scope: Scope,
    /// The longest line, without its end
    #[arg(long, value_name = "BYTES", default_value_t = 65_536, value_parser = at_least_one)]
    pub(crate) max_line: usize,
    /// The deepest nesting, at most 512
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = at_least_one)]
    pub(crate) max_depth: usize,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|n| *n > 0)
        .ok_or_else(|| "write a whole number from 1".into())
}

#[derive(Debug, ClapArgs)]
#[group(required = true, multiple = true)]
pub(crate) struct Adopt {
    /// The processes
    #[arg(value_name = "PID", allow_negative_numbers = true)]
    pub(crate) pids: Vec<i64>,
    /// Adopt every process of this executable name, also those that start later
    #[arg(long = "match", value_name = "NAME")]
    pub(crate) matches: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Hermes {
    /// Attach to the gateway at this address instead of starting one
    #[arg(long, value_name = "URL", conflicts_with_all = ["replay", "command"])]
    pub(crate) ws: Option<String>,
    /// The environment variable that holds the gateway's token
    #[arg(long, value_name = "NAME", requires = "ws")]
    pub(crate) token_env: Option<String>,
    /// Trust the certificates in this file, too, for a gateway at a wss:// address
    #[arg(long, value_name = "FILE", requires = "ws")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Write the frames about children to this file, which must not be there yet
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    pub(crate) record: Option<PathBuf>,
    /// Read frames from this file instead of a gateway, and end with it
    #[arg(long, value_name = "FILE")]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: write what each child is in the end to this file, as `list --output json` does
    #[arg(long = "final", value_name = "FILE", requires = "replay")]
    pub(crate) final_list: Option<PathBuf>,
    /// The gateway to start; `python3 -m tui_gateway.entry` by default
    #[arg(last = true, value_name = "CMD", conflicts_with = "replay")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct List {
    /// Only children in this state; may be given many times
    #[arg(long, value_name = "S", value_delimiter = ',')]
    pub(crate) state: Vec<ChildState>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Wait {
    /// The child, or SOURCE/CHILD where several sources have it
    pub(crate) child: String,
    /// The states to wait for
    #[arg(long, required = true, value_name = "S[,S…]", value_delimiter = ',')]
    pub(crate) state: Vec<ChildState>,
    /// How long at most
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Explain {
    /// The child, or SOURCE/CHILD where several sources have it
    pub(crate) child: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Emit {
    /// Who says so
    #[arg(long)]
    pub(crate) source: String,
    /// In which of its lives
    #[arg(long)]
    pub(crate) epoch: String,
    /// Of which child
    #[arg(long)]
    pub(crate) child: String,
    /// What happened
    #[arg(long, value_parser = EventKind::NAMES)]
    pub(crate) kind: String,
    /// The child's state
    #[arg(long)]
    pub(crate) state: Option<ChildState>,
    /// What the child is at work on; --kind activity needs it, or --details
    #[arg(long, value_name = "TEXT")]
    pub(crate) activity: Option<String>,
    /// Additional facts, as a JSON object
    #[arg(long, value_name = "JSON")]
    pub(crate) details: Option<String>,
    /// The child that started it
    #[arg(long, value_name = "CHILD")]
    pub(crate) parent: Option<String>,
    /// The first run of its chain; the child itself by default
    #[arg(long, value_name = "CHILD")]
    pub(crate) root: Option<String>,
    /// Which try of its chain it is
    #[arg(long, default_value_t = 0)]
    pub(crate) attempt: u64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Journal {
    #[command(subcommand)]
    pub(crate) action: JournalAction,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalAction {
    /// Say whether the journal may be appended to, and if not, why and where
    Verify {
        /// The journal
        file: PathBuf,
        /// Judge a plain stream of events by their own sequences
        #[arg(long)]
        no_journal_sequence: bool,
        #[command(flatten)]
        limits: Limits,
    },
    /// Print the events of a journal, without its own fields
    Cat {
        /// The journal
        file: PathBuf,
    },
    /// Cut a torn tail, keeping the original aside; never touches the middle
    Repair {
        /// The journal
        file: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Schema {
    /// Of what
    #[arg(value_enum)]
    pub(crate) of: SchemaOf,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaOf {
    /// One line of a lifecycle stream
    Event,
    /// One snapshot
    Snapshot,
    /// A fleet file
    Fleet,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Args::command().debug_assert();
    }
}
