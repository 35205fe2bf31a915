//! Processes that do nothing, and whose parents are not this program.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};

/// How many one shell starts: it looks through all of them whenever one ends.
const EACH: usize = 1_000;

/// Idle processes, each the fork of a shell that waits to read from a pipe. They end when this is
/// dropped, or when this program dies, because then the pipe does.
pub(crate) struct Forest {
    parents: Vec<(Child, Option<ChildStdin>)>,
    pub(crate) pids: Vec<u32>,
}

impl Forest {
    pub(crate) fn grow(count: usize) -> Self {
        let mut forest = Self {
            parents: Vec::new(),
            pids: Vec::with_capacity(count),
        };
        while forest.pids.len() < count {
            forest.add((count - forest.pids.len()).min(EACH));
        }
        forest
    }

    fn add(&mut self, count: usize) {
        let script = format!(
            "exec 3<&0; i=0; while [ $i -lt {count} ]; do (read x <&3) >&- & echo $!; i=$((i+1)); done; wait"
        );
        let mut parent = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = parent.stdin.take();
        let lines = BufReader::new(parent.stdout.take().unwrap()).lines();
        let pids = lines.take(count).map(|line| line.unwrap().parse().unwrap());
        self.pids.extend::<Vec<u32>>(pids.collect());
        self.parents.push((parent, stdin));
    }
}

impl Drop for Forest {
    fn drop(&mut self) {
        for (parent, stdin) in &mut self.parents {
            drop(stdin.take());
            let _ = parent.wait();
        }
    }
}
