//! Tests that run for minutes, each with its own entry point: of `ci`, only the host's is a part, and
//! shortened.

use crate::shell::{Done, Outcome, Run};
use crate::workspace::Workspace;

/// One soak: its name, what it shows, and how cargo starts it. What a person adds to the command
/// line follows.
struct Soak {
    name: &'static str,
    shows: &'static str,
    cargo: &'static [&'static str],
}

/// All soaks. Whoever writes one adds a row.
const SOAKS: &[Soak] = &[
    Soak {
        name: "projector",
        shows: "a million seeded histories with faults, each compared with the truth",
        cargo: &[
            "run",
            "--locked",
            "--release",
            "--package",
            "headcount-projector",
            "--example",
            "projector_soak",
            "--",
        ],
    },
    Soak {
        name: "host",
        shows: "10,000 live children over four adapters at 5,000 events/s: memory, time to the view",
        cargo: &[
            "run",
            "--locked",
            "--release",
            "--package",
            "headcount",
            "--example",
            "soak_host",
            "--",
        ],
    },
    Soak {
        name: "process",
        shows: "2,000 subprocesses of mixed behaviour, ten times: nothing lost, wrong, left or leaked",
        cargo: &[
            "run",
            "--locked",
            "--release",
            "--package",
            "headcount-adapter-process",
            "--example",
            "soak",
            "--",
        ],
    },
    Soak {
        name: "journal-kills",
        shows: "8 writers of one journal, 600 of them killed inside the lock: nothing lost",
        cargo: &[
            "test",
            "--locked",
            "--package",
            "headcount-adapter-jsonl",
            "--test",
            "shared_journal",
            "--",
            "soak",
        ],
    },
];

/// Seconds, children and events a second of the host's soak as a step of `ci`.
const SHORT: [&str; 3] = ["6", "1000", "1000"];

/// The host's soak for some seconds and unoptimised: that it works, and that nothing is lost.
pub(crate) fn shortened(workspace: &Workspace) -> Outcome {
    let args = [
        "run",
        "--locked",
        "--package",
        "headcount",
        "--all-features",
        "--example",
        "soak_host",
        "--",
    ];
    Run::cargo(workspace.root(), args.into_iter().chain(SHORT)).run()
}

/// Runs the soak of that name, or lists them all.
pub(crate) fn run(workspace: &Workspace, name: Option<&str>, args: &[String]) -> Outcome {
    let Some(name) = name else {
        for soak in SOAKS {
            println!("{:<24} {}", soak.name, soak.shows);
        }
        return Ok(Done::Well);
    };
    let Some(soak) = SOAKS.iter().find(|soak| soak.name == name) else {
        let names: Vec<_> = SOAKS.iter().map(|soak| soak.name).collect();
        return Err(format!("no soak {name}; there are: {}", names.join(", ")));
    };
    Run::cargo(workspace.root(), soak.cargo.iter().copied())
        .args(args)
        .run()
}
