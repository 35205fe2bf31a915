//! Deliberate faults in the rules, each of which a test must catch:
//! `cargo run -p headcount-projector --example projector_mutants [NAME…]`.
//!
//! Each fault is made in a copy of the crate, under the target directory, and the test that is named
//! beside it must then fail. `--all` runs all tests against each fault and says which targets fail.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a program for the terminal

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// One fault: in which file, what stands there, and what it is replaced with.
struct Mutant {
    name: &'static str,
    file: &'static str,
    from: &'static str,
    to: &'static str,
    /// The test that catches it, and the target that it is in.
    caught_by: (&'static str, &'static str),
}

/// Where most are caught: the transcripts.
const DECISIONS: &str = "decisions";

#[rustfmt::skip] // as a table
const MUTANTS: [Mutant; 26] = [
    Mutant { name: "dedupe key without the child", file: "window.rs", from: "    hasher.write(event.child_id().as_str().as_bytes());\n", to: "", caught_by: (DECISIONS, "o1_a_repeated_key_is_a_duplicate_or_a_conflict") },
    Mutant { name: "a number used by any child is a duplicate", file: "order.rs", from: "Step::Seen if shared && own_high", to: "Step::Seen if false && own_high", caught_by: (DECISIONS, "o4_another_child_with_a_used_number_is_no_duplicate_in_scope_epoch") },
    Mutant { name: "a conflict by id is dropped", file: "order.rs", from: "self.report.audit_event(event, AuditKind::Conflict);\n                Order::new(Verdict::Accepted)", to: "self.report.audit_event(event, AuditKind::Conflict);\n                Order::new(Verdict::Conflict)", caught_by: (DECISIONS, "o2_unsequenced_events_are_known_by_id_and_bytes") },
    Mutant { name: "a late state is applied", file: "event.rs", from: "number > place || from_snapshot && to.is_terminal()", to: "number > place || true || from_snapshot", caught_by: (DECISIONS, "o5_a_late_state_yields_to_a_later_one") },
    Mutant { name: "a late end is not applied", file: "event.rs", from: "        if !is_news(child, facts, event, seen, to, late) {", to: "        if late || !is_news(child, facts, event, seen, to, late) {", caught_by: (DECISIONS, "o5_a_late_terminal_ends_the_child") },
    Mutant { name: "late activity always counts", file: "event.rs", from: "        !late\n            || facts", to: "        true\n            || facts", caught_by: (DECISIONS, "o5_late_activity_counts_if_it_is_newer") },
    Mutant { name: "the first number opens a gap", file: "sequence.rs", from: "return (Step::First, None);", to: "return self.jump(0, number.max(1) - 1, ranges);", caught_by: (DECISIONS, "o6_the_first_number_is_a_baseline") },
    Mutant { name: "epochs in the order of their names", file: "event.rs", from: "        if known.is_none() {", to: "        if known.is_none() && self.source.current_epoch().is_none_or(|known| known < epoch) {", caught_by: (DECISIONS, "o7_epochs_are_ordered_by_appearance_not_by_name") },
    Mutant { name: "a new epoch leaves everybody proven", file: "fold.rs", from: "self.source.generation = self.source.generation.wrapping_add(1);", to: "", caught_by: (DECISIONS, "n8_after_a_possible_gap_no_live_child_is_proven") },
    Mutant { name: "a superseded end is dropped", file: "event.rs", from: ".filter(|state| state.is_terminal()) else", to: ".filter(|_| false) else", caught_by: (DECISIONS, "o7_a_superseded_terminal_ends_a_child_of_which_nothing_newer_is_known") },
    Mutant { name: "an open gap is not looked at", file: "order.rs", from: "self.timer(if shared { SOURCE_ITSELF } else { slot }, due);", to: "", caught_by: (DECISIONS, "o8_an_open_gap_asks_for_a_snapshot_once") },
    Mutant { name: "an end can be undone by an event", file: "event.rs", from: "let ended = !child.is_live();", to: "let ended = false;", caught_by: (DECISIONS, "s2_terminal_is_final") },
    Mutant { name: "an end is forgotten with its record", file: "source.rs", from: "if self.outcomes.is_empty() {", to: "if true {", caught_by: (DECISIONS, "ended_children_shrink_to_tombstones_oldest_first") },
    Mutant { name: "a diagnostic moves the state", file: "event.rs", from: "EventKind::Diagnostic(_) => None,", to: "", caught_by: (DECISIONS, "c5_only_the_terminal_event_ends_a_child") },
    Mutant { name: "a lineage conflict is applied", file: "event.rs", from: "if tells_lineage(event)\n            && let", to: "if false\n            && let", caught_by: (DECISIONS, "i3_lineage_never_changes_but_a_parent_may_become_known") },
    Mutant { name: "a partial snapshot corrects", file: "snapshot.rs", from: "if look.complete && known != claimed {\n            what", to: "if known != claimed {\n            what", caught_by: (DECISIONS, "n6_a_partial_snapshot_neither_corrects_nor_counts_misses") },
    Mutant { name: "an older snapshot corrects", file: "snapshot.rs", from: "told.get() < known,", to: "told.get() < known && false,", caught_by: (DECISIONS, "n2_an_older_snapshot_corrects_nothing") },
    Mutant { name: "misses are not reset", file: "snapshot.rs", from: "child.extra_mut().misses = 0;", to: "", caught_by: (DECISIONS, "n4_a_child_in_a_snapshot_is_fresh_as_of_its_time") },
    Mutant { name: "a miss more than the grace", file: "snapshot.rs", from: "if misses == self.settings.miss_grace.max(1) {", to: "if misses == self.settings.miss_grace.max(1) + 1 {", caught_by: (DECISIONS, "n5_misses_in_a_row_raise_stale_unknown_and_no_end") },
    Mutant { name: "coverage is ignored", file: "snapshot.rs", from: "match snapshot.coverage() {", to: "match &Coverage::All {", caught_by: (DECISIONS, "n5_misses_in_a_row_raise_stale_unknown_and_no_end") },
    Mutant { name: "a snapshot is applied twice", file: "snapshot.rs", from: "Some(number) if self.source.has_taken", to: "Some(number) if false && self.source.has_taken", caught_by: (DECISIONS, "n6_a_partial_snapshot_neither_corrects_nor_counts_misses") },
    Mutant { name: "activity proves life beside heartbeats", file: "event.rs", from: "EventKind::Activity => !child.capabilities().heartbeat.is_known(),", to: "EventKind::Activity => true,", caught_by: (DECISIONS, "l1_heartbeats_count_where_they_are_verified") },
    Mutant { name: "a clock ahead extends life", file: "liveness.rs", from: "let at = observed.min(now);", to: "let at = observed;", caught_by: (DECISIONS, "l2_a_clock_ahead_is_reported_and_extends_nothing") },
    Mutant { name: "lost without a search", file: "liveness.rs", from: "self.attempt(slot, self.report.now, 1);", to: "self.attempt(slot, self.report.now, 1);\n        self.lose(slot);", caught_by: (DECISIONS, "l3_stale_comes_at_the_deadline_and_once") },
    Mutant { name: "an omission from before the mark is a search", file: "snapshot.rs", from: "search.since <= looked_at", to: "search.since <= looked_at || true", caught_by: (DECISIONS, "l4_an_omission_after_the_mark_is_a_failed_attempt") },
    Mutant { name: "an old proof ends staleness", file: "liveness.rs", from: "let fresh = child.proven.saturating_add(patience) > now;", to: "let fresh = true;", caught_by: (DECISIONS, "n4_an_old_look_does_not_end_staleness") },
];

fn main() -> ExitCode {
    let (flags, names): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|a| a.starts_with("--"));
    match run(&names, flags.iter().any(|flag| flag == "--all")) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(survivors) => {
            eprintln!("{survivors} survived");
            ExitCode::FAILURE
        }
        Err(message) => {
            eprintln!("mutants: {message}");
            ExitCode::from(2)
        }
    }
}

/// Tries the mutants of these names, or all; how many survived.
fn run(names: &[String], all_targets: bool) -> Result<usize, String> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = ours
        .ancestors()
        .nth(2)
        .ok_or("the crate is not in its workspace")?;
    let copy = root.join("target/projector-mutants");
    copy_workspace(root, &copy)
        .map_err(|error| format!("copying to {}: {error}", copy.display()))?;
    let mut survivors = 0;
    for mutant in MUTANTS
        .iter()
        .filter(|m| names.is_empty() || names.iter().any(|n| n == m.name))
    {
        let path = copy.join("crates/projector/src").join(mutant.file);
        let right = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        if right.matches(mutant.from).count() != 1 {
            return Err(format!(
                "{}: {:?} is not in {} once",
                mutant.name, mutant.from, mutant.file
            ));
        }
        write(&path, &right.replacen(mutant.from, mutant.to, 1))?;
        let outcome = judge(&copy, mutant, all_targets);
        write(&path, &right)?;
        let (caught, words) = outcome?;
        survivors += usize::from(!caught);
        println!(
            "{}  {:<46} {words}",
            if caught { "caught  " } else { "SURVIVED" },
            mutant.name
        );
    }
    Ok(survivors)
}

/// Whether the named test fails on the fault, and what else does.
fn judge(copy: &Path, mutant: &Mutant, all_targets: bool) -> Result<(bool, String), String> {
    let (target, test) = mutant.caught_by;
    let caught = fails(copy, &["--test", target, "--", "--exact", test])?;
    if !all_targets {
        return Ok((caught, test.into()));
    }
    let mut words = vec![test.to_string()];
    for target in ["corpus", "properties", "simulate"] {
        if fails(copy, &["--test", target])? {
            words.push(target.into());
        }
    }
    Ok((caught, words.join(", ")))
}

/// Whether tests of the copy fail. That they do not even build is an error of the table.
fn fails(copy: &Path, arguments: &[&str]) -> Result<bool, String> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args([
            "test",
            "--offline",
            "--quiet",
            "--package",
            "headcount-projector",
        ])
        .args(arguments)
        .current_dir(copy)
        .env("INSTA_UPDATE", "no")
        .env("RUSTFLAGS", "-Awarnings")
        .env("CARGO_TARGET_DIR", copy.join("target"))
        .output()
        .map_err(|error| format!("starting cargo: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if text.contains("running 0 tests") {
        return Err(format!("no such test: {arguments:?}"));
    }
    if !output.status.success() && !text.contains("FAILED") && !text.contains("panicked") {
        return Err(format!(
            "a mutant does not build:\n{}",
            String::from_utf8_lossy(&output.stderr)
        ));
    }
    Ok(!output.status.success())
}

/// Copies what the crate needs to be tested alone.
fn copy_workspace(root: &Path, copy: &Path) -> std::io::Result<()> {
    for directory in ["crates/contract", "crates/projector"] {
        let to = copy.join(directory);
        if to.exists() {
            std::fs::remove_dir_all(&to)?;
        }
        copy_directory(&root.join(directory), &to)?;
    }
    std::fs::copy(root.join("Cargo.lock"), copy.join("Cargo.lock"))?;
    let manifest = std::fs::read_to_string(root.join("Cargo.toml"))?;
    let lines = manifest.lines().map(|line| match line.split(' ').next() {
        Some("members") => "members = [\"crates/contract\", \"crates/projector\"]",
        Some("default-members" | "exclude") => "",
        _ => line,
    });
    std::fs::write(
        copy.join("Cargo.toml"),
        lines.collect::<Vec<_>>().join("\n"),
    )
}

fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let (path, name): (PathBuf, _) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy_directory(&path, &to.join(name))?;
        } else {
            std::fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
