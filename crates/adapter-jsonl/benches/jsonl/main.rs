//! What reading a stream and appending to a journal cost, compared within one run over the same
//! bytes: `cargo xtask bench jsonl [LINES [reading|journal]]`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::cast_precision_loss)] // a measurement

mod journal;
mod reading;
mod stream;

/// The middle one of several measurements.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench");
    let lines = arguments.next().map_or(1_000_000, |n| n.parse().unwrap());
    let part = arguments.next();
    let wants = |name: &str| part.as_deref().is_none_or(|part| part == name);
    let folder = tempfile::tempdir().unwrap();
    if wants("reading") {
        reading::run(folder.path(), lines);
    }
    if wants("journal") {
        journal::run(folder.path());
    }
}
