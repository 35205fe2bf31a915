//! One journal shared by real processes: killed inside the lock, of two kinds, in other PID
//! namespaces, under other users.
//!
//! The long version of the killing is `cargo xtask soak journal-kills [KILLS]`.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // a test: what fails ends it

mod boundaries;
mod kills;
mod node;
mod writer;

use writer::Doom;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["writer", path, name, appends] => {
            return writer::run(path, name, appends.parse().unwrap(), Doom::Never);
        }
        ["doomed-writer", path, name] => return writer::run(path, name, u64::MAX, Doom::Random),
        ["hold", path] => return writer::hold(path),
        ["append", path] => return writer::append(path),
        ["soak"] => return kills::run(600).unwrap(),
        ["soak", kills] => return kills::run(kills.parse().unwrap()).unwrap(),
        _ => (),
    }
    let trials = vec![
        Trial::test(
            "nothing_is_lost_or_torn_when_writers_are_killed_inside_the_lock",
            || kills::run(25),
        ),
        probed(
            "node_writers_that_follow_the_reference_share_the_journal",
            node::missing(),
            node::run,
        ),
        probed(
            "an_owner_in_another_pid_namespace_is_not_taken_for_dead",
            boundaries::no_namespaces(),
            boundaries::namespaces,
        ),
        probed(
            "an_owner_of_another_user_is_not_taken_for_dead",
            boundaries::no_other_user(),
            boundaries::other_user,
        ),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

type Outcome = Result<(), libtest_mimic::Failed>;

/// A test that needs something of the machine; listed as ignored with the reason if that is not
/// there.
fn probed(name: &str, missing: Option<String>, run: fn() -> Outcome) -> Trial {
    match missing {
        None => Trial::test(name, run),
        Some(why) => Trial::test(format!("{name} (skipped: {why})"), run).with_ignored_flag(true),
    }
}

/// This program in another role.
fn ourselves(role: &[&str]) -> std::process::Command {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(role);
    command
}
