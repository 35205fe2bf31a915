//! What adopting costs: `cargo xtask bench external [end|thousand|ten-thousand …]`, each section of
//! two minutes at most. Linux only.
//!
//! The adopted processes do nothing. Each contestant is a process of its own. What counts is its
//! processor time: with sampling and without wait for the same minute, polling (`polling.py`, with
//! psutil if `python3` or `HEADCOUNT_PYTHON` has it) alone for the next.
#![allow(clippy::print_stdout, clippy::unwrap_used)] // a program for people
#![allow(clippy::cast_precision_loss)] // small figures, for show

#[cfg(target_os = "linux")]
mod contestants;
#[cfg(target_os = "linux")]
mod forest;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("skipped, because the figures are read from Linux's own clocks and /proc");
}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{BufRead, BufReader, Write};
    use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
    use std::time::Duration;

    use super::contestants::{self, IdleFigures};
    use super::forest::Forest;

    /// How long nothing happens.
    const IDLE: Duration = Duration::from_mins(1);
    const ENDS: usize = 300;

    pub(crate) fn main() {
        let args: Vec<String> = std::env::args()
            .skip(1)
            .filter(|arg| arg != "--bench")
            .collect();
        if args.first().is_some_and(|arg| arg == "play") {
            return contestants::play(&args[1..]);
        }
        let wanted = |section: &str| args.is_empty() || args.iter().any(|arg| arg == section);
        if wanted("end") {
            ends();
        }
        if wanted("thousand") {
            idle(1_000, &Polling::Measured);
        }
        if wanted("ten-thousand") {
            idle(10_000, &Polling::LeftOut);
        }
    }

    /// From the signal that ends a process to its terminal event at a subscriber, its parent's
    /// collecting it within.
    fn ends() {
        let mut delays = contestants::ends(1_000, ENDS);
        delays.sort();
        let at = |share: usize| delays[(delays.len() - 1) * share / 100].as_secs_f64() * 1e3;
        println!("\nfrom the end of a process to its event, ms ({ENDS} ends, 1,000 adopted)");
        println!(
            "  median {:.3}, 90th of 100 {:.3}, 99th {:.3}",
            at(50),
            at(90),
            at(99)
        );
        verdict("median", at(50), 5.0, "ms");
    }

    enum Polling {
        Measured,
        LeftOut,
    }

    fn idle(count: usize, polling: &Polling) {
        let forest = Forest::grow(count);
        let contestants =
            ["default", "unsampled"].map(|sampling| Contestant::ours(&forest, sampling));
        let ours = wait(contestants).map(|(name, line)| (name, IdleFigures::read(&line)));
        println!("\n{count} adopted processes in which nothing happens, a minute");
        println!(
            "  {:<24} {:>10} {:>12} {:>10} {:>12} {:>10} {:>10}",
            "", "CPU ms", "of one CPU", "µs a pid", "heartbeats", "samples", "KiB a pid"
        );
        let minutes = IDLE.as_secs_f64() / 60.0;
        for (name, figures) in &ours {
            println!(
                "  {name:<24} {:>10.1} {:>11.3}% {:>10.2} {:>12.0} {:>10.0} {:>10.2}",
                figures.cpu * 1e3 / minutes,
                figures.cpu / IDLE.as_secs_f64() * 100.0,
                figures.cpu * 1e6 / minutes / count as f64,
                figures.heartbeats / minutes,
                figures.samples / minutes,
                figures.kib / count as f64,
            );
        }
        let figures = &ours[0].1;
        println!(
            "  adopting them: {:.0} ms of CPU, once",
            figures.adopting * 1e3
        );
        verdict(
            "of one CPU",
            figures.cpu / IDLE.as_secs_f64() * 100.0,
            0.5,
            "%",
        );
        if let Polling::Measured = polling {
            match Contestant::polling() {
                Err(why) => println!("  polling all: skipped, because {why}"),
                Ok(contestant) => {
                    let [(name, line)] = wait([contestant]);
                    let cpu: f64 = line.split_whitespace().next().unwrap().parse().unwrap();
                    println!(
                        "  polling all each second ({name}): {:.0} ms of CPU",
                        cpu * 1e3 / minutes
                    );
                    verdict("headcount / polling", figures.cpu / cpu, 0.05, "");
                }
            }
        }
    }

    /// Lets the same time pass for all of them, and gives their names and last lines.
    fn wait<const N: usize>(mut contestants: [Contestant; N]) -> [(String, String); N] {
        contestants.iter_mut().for_each(Contestant::go);
        contestants.map(|contestant| (contestant.name.clone(), contestant.last_line()))
    }

    fn verdict(of: &str, seen: f64, target: f64, unit: &str) {
        let met = if seen <= target { "met" } else { "NOT MET" };
        println!("  {of}: {seen:.4} {unit}, target at most {target} {unit}: {met}");
    }

    /// A process that says that it is ready, waits for a line, and prints its figures last.
    struct Contestant {
        name: String,
        process: Child,
        stdin: ChildStdin,
        stdout: BufReader<ChildStdout>,
    }

    impl Contestant {
        fn ours(forest: &Forest, sampling: &str) -> Self {
            let own = std::env::current_exe().unwrap();
            let mut command = Command::new(own);
            command.args(["play", sampling, &IDLE.as_secs().to_string()]);
            let pids: Vec<_> = forest.pids.iter().map(u32::to_string).collect();
            let mut contestant = Self::start(&mut command, &pids.join(" ")).unwrap();
            contestant.name = match sampling {
                "default" => "headcount".into(),
                other => format!("headcount, {other}"),
            };
            contestant
        }

        fn polling() -> Result<Self, String> {
            let python = std::env::var("HEADCOUNT_PYTHON").unwrap_or_else(|_| "python3".into());
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/external/polling.py");
            let mut command = Command::new(&python);
            command.arg(script).arg(IDLE.as_secs().to_string());
            Self::start(&mut command, "").map_err(|why| format!("{python} does not run: {why}"))
        }

        /// Returns once it is ready.
        fn start(command: &mut Command, told: &str) -> Result<Self, String> {
            let mut process = command
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .map_err(|error| error.to_string())?;
            let mut stdin = process.stdin.take().unwrap();
            if !told.is_empty() {
                writeln!(stdin, "{told}").map_err(|error| error.to_string())?;
            }
            let mut stdout = BufReader::new(process.stdout.take().unwrap());
            let mut line = String::new();
            stdout.read_line(&mut line).unwrap();
            let name = line
                .trim_end()
                .strip_prefix("ready")
                .ok_or("it ended without a word")?;
            Ok(Self {
                name: name.trim().to_owned(),
                process,
                stdin,
                stdout,
            })
        }

        fn go(&mut self) {
            writeln!(self.stdin, "go").unwrap();
        }

        fn last_line(mut self) -> String {
            let line = self.stdout.by_ref().lines().last().unwrap().unwrap();
            assert!(self.process.wait().unwrap().success());
            line
        }
    }

    use std::io::Read as _;
}
