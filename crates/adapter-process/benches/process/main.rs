//! What supervising costs, against the seed's `process.js`, `cat | wc -l` and a bare spawn, in one
//! run: `cargo bench -p headcount-adapter-process --bench process`.
//!
//! Each figure is the median of several processes of their own, so that one contestant's memory and
//! caches are not another's. The seed is unpacked at run time from `HEADCOUNT_SEEDS`, or from
//! `shared/seeds` beside a parent directory; without it or without node its column is empty.
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::unwrap_used)] // a program for people
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss
)] // small figures, for show

mod contestants;
mod seed;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use self::contestants::{Figures, play};
use self::seed::Seed;

const ROUNDS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    if args.first().is_some_and(|arg| arg == "play") {
        return play(&args[1..]);
    }
    let seed = Seed::find();
    if let Err(why) = &seed {
        println!("process.js: skipped, because {why}");
    }
    let bench = Bench {
        seed: seed.ok(),
        directory: tempfile::tempdir().unwrap(),
    };
    bench.lines();
    bench.short_children();
    bench.endless_line();
    bench.idle_children();
}

struct Bench {
    seed: Option<Seed>,
    directory: tempfile::TempDir,
}

/// A contestant by name, and how one process of it is run.
type Contestant<'a> = (&'a str, Box<dyn Fn() -> Option<Figures> + 'a>);

impl Bench {
    fn ours(args: &[&str]) -> Option<Figures> {
        let own = std::env::current_exe().unwrap();
        figures(Command::new(own).arg("play").args(args))
    }

    fn node(&self, args: &[&str]) -> Option<Figures> {
        let seed = self.seed.as_ref()?;
        figures(Command::new("node").arg(seed.driver()).args(args))
    }

    fn lines(&self) {
        let file = self.directory.path().join("lines");
        write_lines(&file, 1_000_000);
        let file = file.to_str().unwrap();
        let piped = format!("cat '{file}' | wc -l >/dev/null");
        let table = measure(&[
            ("headcount", Box::new(|| Self::ours(&["lines", file]))),
            ("process.js", Box::new(|| self.node(&["lines", file]))),
            ("cat | wc -l", Box::new(|| contestants::shell(&piped))),
        ]);
        println!(
            "\n1e6 lines of 100 bytes to a subscriber: CPU s of the supervisor (with the writer)"
        );
        for (name, figures) in &table {
            println!(
                "  {name:<14} {:>8.3}   ({:.3})",
                figures.cpu,
                figures.cpu + figures.children
            );
        }
        ratio(
            "headcount / process.js",
            cpu(&table, 0),
            cpu(&table, 1),
            0.2,
        );
        // The pipeline has the writer within.
        ratio(
            "headcount / cat | wc -l",
            all(&table, 0),
            cpu(&table, 2),
            2.0,
        );
    }

    fn short_children(&self) {
        let table = measure(&[
            ("headcount", Box::new(|| Self::ours(&["short", "500"]))),
            ("process.js", Box::new(|| self.node(&["short", "500"]))),
            ("bare spawn", Box::new(|| Self::ours(&["bare", "500"]))),
        ]);
        println!(
            "\n500 times `true` to a terminal event: CPU ms a child of the supervisor (with the child)"
        );
        let each = |seconds: f64| seconds * 1e3 / 500.0;
        for (name, figures) in &table {
            println!(
                "  {name:<14} {:>8.3}   ({:.3})",
                each(figures.cpu),
                each(figures.cpu + figures.children)
            );
        }
        ratio(
            "headcount / process.js",
            cpu(&table, 0),
            cpu(&table, 1),
            1.0 / 3.0,
        );
        // Nobody can take less than a spawn and the child.
        for (what, at) in [("headcount", 0), ("bare spawn", 2)] {
            ratio(
                &format!("with the child, {what} / process.js"),
                all(&table, at),
                all(&table, 1),
                f64::INFINITY,
            );
        }
    }

    fn endless_line(&self) {
        let sizes = [("1", 1_u64 << 20), ("16", 16 << 20), ("64", 64 << 20)];
        let files: Vec<_> = sizes
            .iter()
            .map(|(name, bytes)| {
                let path = self.directory.path().join(format!("endless-{name}"));
                write_endless(&path, *bytes);
                path.to_str().unwrap().to_owned()
            })
            .collect();
        let table = measure(&[
            ("1 MiB", Box::new(|| Self::ours(&["lines", &files[0]]))),
            ("16 MiB", Box::new(|| Self::ours(&["lines", &files[1]]))),
            ("64 MiB", Box::new(|| Self::ours(&["lines", &files[2]]))),
        ]);
        println!("\none line without an end: CPU s of the supervisor, peak memory in KiB");
        for (name, figures) in &table {
            println!("  {name:<14} {:>8.4} {:>8}", figures.cpu, figures.peak_kib);
        }
        // How often reader and writer wait for each other makes a factor of two from run to run.
        ratio(
            "64 MiB / 16 MiB, CPU (linear is 4, quadratic 16)",
            cpu(&table, 2),
            cpu(&table, 1),
            8.0,
        );
        let growth = |at: usize| table[at].1.peak_kib as f64;
        let grown = (growth(2) - growth(0)).max(0.0);
        println!(
            "  growth from 1 to 64 MiB: {grown} KiB, target below 1024 KiB: {}",
            met(grown < 1024.0)
        );
    }

    fn idle_children(&self) {
        let table = measure(&[
            ("headcount", Box::new(|| Self::ours(&["idle", "1000"]))),
            ("process.js", Box::new(|| self.node(&["idle", "1000"]))),
        ]);
        println!(
            "\n1,000 idle children: KiB of memory a child; then the s until all are stopped, and its CPU s"
        );
        for (name, figures) in &table {
            println!(
                "  {name:<14} {:>8.1} {:>8.3} {:>8.3}",
                figures.kib_each, figures.wall, figures.cpu
            );
        }
        if let Some((_, ours)) = table.first() {
            let each = ours.kib_each;
            println!(
                "  headcount {each:.1} KiB each, target at most 5 KiB: {}",
                met(each <= 5.0)
            );
        }
        let wall = |at: usize| table.get(at).map(|(_, figures)| figures.wall);
        ratio("stopping, headcount / process.js", wall(0), wall(1), 1.0);
    }
}

fn cpu(table: &[(&str, Figures)], at: usize) -> Option<f64> {
    table.get(at).map(|(_, figures)| figures.cpu)
}

fn all(table: &[(&str, Figures)], at: usize) -> Option<f64> {
    table
        .get(at)
        .map(|(_, figures)| figures.cpu + figures.children)
}

fn met(is: bool) -> &'static str {
    if is { "met" } else { "NOT MET" }
}

fn ratio(of: &str, ours: Option<f64>, theirs: Option<f64>, target: f64) {
    let (Some(ours), Some(theirs)) = (ours, theirs) else {
        return println!("  {of}: not measured");
    };
    let ratio = ours / theirs;
    if target.is_finite() {
        println!(
            "  {of}: {ratio:.2}, target at most {target:.2}: {}",
            met(ratio <= target)
        );
    } else {
        println!("  {of}: {ratio:.2}");
    }
}

/// The medians of each contestant, who take turns so that a busy machine is busy for all. One that
/// cannot take part gives figures that are not numbers.
fn measure<'a>(contestants: &[Contestant<'a>]) -> Vec<(&'a str, Figures)> {
    let mut seen: Vec<Vec<Figures>> = vec![Vec::new(); contestants.len()];
    for _ in 0..ROUNDS {
        for (at, (_, run)) in contestants.iter().enumerate() {
            seen[at].extend(run());
        }
    }
    let medians = seen.iter().map(|figures| Figures::median(figures));
    contestants
        .iter()
        .map(|(name, _)| *name)
        .zip(medians)
        .collect()
}

/// Runs one process of a contestant, which prints its figures.
fn figures(command: &mut Command) -> Option<Figures> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .ok()?;
    if !output.status.success() {
        eprintln!("a contestant failed: {command:?}");
        return None;
    }
    Figures::read(&String::from_utf8_lossy(&output.stdout))
}

fn write_lines(path: &Path, lines: usize) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for at in 0..lines {
        writeln!(file, "{at:>9} {}", "x".repeat(89)).unwrap();
    }
    file.flush().unwrap();
}

fn write_endless(path: &Path, bytes: u64) {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).unwrap());
    for _ in 0..bytes / 1024 {
        file.write_all(&[b'x'; 1024]).unwrap();
    }
    file.flush().unwrap();
}
