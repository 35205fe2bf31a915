//! The scripted gateway as a process, on its standard input and output.

use std::io::{BufRead, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Gateway, Output, Step, Version};

/// The environment variable that holds the steps, as JSON.
pub const STEPS: &str = "HEADCOUNT_SCRIPTED_GATEWAY";

/// Behaves as the gateway that the environment describes, and never returns. After the last step it
/// goes on until its input ends.
pub fn run_process() -> ! {
    let steps = std::env::var(STEPS).unwrap_or_default();
    let Ok((version, steps)) = serde_json::from_str::<(Version, Vec<Step>)>(&steps) else {
        std::process::exit(2);
    };
    let gateway = Gateway::new(version);
    let steps = gateway.begin(steps);
    let (answers, mut outputs) = gateway.client();
    let greeting = gateway.greeting();
    let writing = Arc::new(AtomicBool::new(true));
    let written = writing.clone();
    let pace = gateway.clone();
    let out = std::thread::spawn(move || {
        let mut stdout = std::io::stdout().lock();
        let mut put = |bytes: &[u8]| {
            let at_once = if pace.trickles() {
                1
            } else {
                bytes.len().max(1)
            };
            bytes
                .chunks(at_once)
                .all(|part| stdout.write_all(part).and_then(|()| stdout.flush()).is_ok())
        };
        let mut well = put(format!("{greeting}\n").as_bytes());
        while let (true, Some(output)) = (well, outputs.blocking_recv()) {
            well = match output {
                Output::Line(line) => put(format!("{line}\n").as_bytes()),
                Output::Bytes(bytes) => put(&bytes),
                Output::Cut => false,
                Output::CutWithin(line) => {
                    put(&line.as_bytes()[..line.len() / 2]);
                    false
                }
            };
        }
        written.store(false, Ordering::Release);
    });
    let asking = gateway.clone();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            asking.answer(&line, &answers);
        }
        // A real one ends when its input does, and says nothing.
        std::process::exit(0);
    });
    let flush = || {
        gateway.hang_up();
        while writing.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
    };
    for step in steps {
        match step {
            Step::Complain(line) => {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            Step::LeaveBehind => leave_behind(),
            Step::Exit(code) => {
                flush();
                std::process::exit(code);
            }
            Step::Kill => {
                flush();
                kill_self();
            }
            step => gateway.perform(step, || false),
        }
    }
    let _ = out.join();
    loop {
        std::thread::park();
    }
}

/// A process in a group of its own, as the shells of agents are.
fn leave_behind() {
    let mut sleeper = Command::new("sleep");
    sleeper
        .arg("600")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut sleeper, 0);
    if sleeper.spawn().is_err() {
        std::process::exit(4);
    }
}

#[cfg(unix)]
fn kill_self() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[cfg(not(unix))]
fn kill_self() {
    std::process::abort();
}
