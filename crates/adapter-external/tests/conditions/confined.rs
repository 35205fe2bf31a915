//! An adapter that may not see or do everything: in another PID namespace, as another user, where
//! `/proc` hides the processes of others, with few file descriptors.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use libtest_mimic::Trial;

use crate::probe::{needs, root, runs, trial};
use crate::support::Foster;

/// As a user who owns nothing here.
const NOBODY: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];
const IN_A_NAMESPACE: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];
/// A mount of its own: mounting the present one anew would hide processes from the whole machine.
const WITH_HIDEPID: [&str; 5] = [
    "unshare",
    "--mount",
    "sh",
    "-c",
    "mount -t proc -o hidepid=2 proc /proc && exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\"",
];

pub(crate) fn trials() -> Vec<Trial> {
    let program = std::env::current_exe().unwrap();
    let program = program.to_str().unwrap();
    let as_nobody =
        root().and_then(|()| runs(&[NOBODY.as_slice(), &["test", "-x", program]].concat()));
    let in_a_namespace =
        root().and_then(|()| runs(&[IN_A_NAMESPACE.as_slice(), &["true"]].concat()));
    let with_hidepid = as_nobody
        .clone()
        .and_then(|()| runs(&[WITH_HIDEPID.as_slice(), &["true"]].concat()));
    let kernel_threads = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    let kernel_threads = needs(
        kernel_threads.trim() == "kthreadd",
        "no kernel thread is seen",
    );
    vec![
        trial(
            "a_process_that_may_not_be_signalled_is_alive",
            as_nobody.clone(),
            || async { again("other_user", &NOBODY, &Outside::Sleeper) },
        ),
        trial(
            "without_root_a_zombie_tells_its_exact_status_too",
            as_nobody.clone(),
            || async { again("own_zombies", &NOBODY, &Outside::Nobody) },
        ),
        trial(
            "the_status_of_anothers_zombie_is_unknown_until_it_is_collected",
            as_nobody,
            || async { again("anothers_zombie", &NOBODY, &Outside::Zombie) },
        ),
        trial(
            "another_pid_namespace_shows_its_own_processes_only_and_says_so",
            in_a_namespace,
            || async { again("namespace", &IN_A_NAMESPACE, &Outside::Sleeper) },
        ),
        trial(
            "a_process_that_proc_hides_is_held_by_its_handle_and_said_to_be_hidden",
            with_hidepid.clone(),
            || async { again("hidden", &WITH_HIDEPID, &Outside::Sleeper) },
        ),
        trial(
            "a_kernel_thread_that_proc_hides_is_refused",
            with_hidepid.and(kernel_threads),
            || async { again("hidden_kernel_thread", &WITH_HIDEPID, &Outside::Nobody) },
        ),
        trial(
            "few_descriptors_are_left_to_the_host_and_that_is_said",
            Ok(()),
            || async { again("few_descriptors", &[], &Outside::Nobody) },
        ),
    ]
}

enum Outside {
    Sleeper,
    /// A sleeper that will not be collected.
    Zombie,
    Nobody,
}

/// Runs this program in a role. A sleeping process that it says to have adopted is then killed.
fn again(role: &str, under: &[&str], outside: &Outside) {
    let sleeper = match outside {
        Outside::Sleeper => Some(Foster::sleeping()),
        Outside::Zombie => Some(Foster::run_uncollected("exec sleep 1000")),
        Outside::Nobody => None,
    };
    let mut run = Again::start(
        role,
        under,
        sleeper.as_ref().map_or(0, |process| process.pid),
    );
    let mut said = Vec::new();
    for line in run.lines.by_ref() {
        let line = line.unwrap();
        if line == "adopted" {
            sleeper.as_ref().unwrap().kill("KILL");
        }
        said.push(line);
    }
    assert!(run.process.wait().unwrap().success(), "{role}: {said:?}");
    assert_eq!(said.last().map(String::as_str), Some("seen"), "{said:?}");
}

struct Again {
    process: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Again {
    fn start(role: &str, under: &[&str], pid: u32) -> Self {
        let program = std::env::current_exe().unwrap();
        let mut words: Vec<&std::ffi::OsStr> = under.iter().map(AsRef::as_ref).collect();
        words.push(program.as_os_str());
        let mut process = Command::new(words[0])
            .args(&words[1..])
            .env("HEADCOUNT_ROLE", role)
            .env("HEADCOUNT_PID", pid.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
