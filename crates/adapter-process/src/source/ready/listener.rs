//! Who listens on a port of this machine, where the system tells.

use std::collections::HashSet;
use std::time::Instant;

use crate::os::{Processes, listening_sockets, sockets_of};

/// Whose the listener is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// A process of the run.
    Own,
    /// Another one; its pid if it could be found.
    Strange(Option<u32>),
    /// The system does not tell.
    Unknown,
}

/// Looks whether the tree of `leader` holds a socket that listens on the port.
pub(super) fn of(port: u16, leader: u32) -> Verdict {
    let listening: HashSet<u64> = listening_sockets(port);
    // None at all: another network namespace, or a system without `/proc/net`.
    if listening.is_empty() {
        return Verdict::Unknown;
    }
    let table = Processes::read(Instant::now());
    let tree = table.tree(leader);
    let mut all_seen = !tree.pids.is_empty();
    for pid in &tree.pids {
        match sockets_of(*pid) {
            Some(sockets) if sockets.iter().any(|socket| listening.contains(socket)) => {
                return Verdict::Own;
            }
            Some(_) => {}
            None => all_seen &= !table.lives(*pid),
        }
    }
    if !all_seen {
        return Verdict::Unknown;
    }
    let holds = |pid: &u32| {
        sockets_of(*pid).is_some_and(|sockets| sockets.iter().any(|s| listening.contains(s)))
    };
    Verdict::Strange(table.pids().find(holds))
}
