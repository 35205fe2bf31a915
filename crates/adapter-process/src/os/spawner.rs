//! Children that shall not outlive the host.
//!
//! Linux ends them when the *thread* that spawned them ends, so that they are all spawned by one
//! thread that lives as long as the host.

use std::io;
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError, mpsc};

/// Spawns a child to which the system sends `signal` when the host dies.
pub(super) fn spawn(mut command: Command, signal: i32) -> io::Result<Child> {
    // Filled once the thread runs: what kept it from that may pass.
    static SPAWNER: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let gone = || io::Error::other("the thread that starts processes is gone");
    super::sys::end_with_this_thread(&mut command, signal);
    let (answer, answered) = mpsc::sync_channel(1);
    let spawner = {
        let mut present = SPAWNER.lock().unwrap_or_else(PoisonError::into_inner);
        match &*present {
            Some(spawner) => spawner.clone(),
            None => present.insert(start_thread()?).clone(),
        }
    };
    spawner.send(Job { command, answer }).map_err(|_| gone())?;
    // As long as the spawn itself takes.
    answered.recv().map_err(|_| gone())?
}

struct Job {
    command: Command,
    answer: mpsc::SyncSender<io::Result<Child>>,
}

fn start_thread() -> io::Result<mpsc::Sender<Job>> {
    let (jobs, queue) = mpsc::channel::<Job>();
    let spawn_all = move || {
        for Job {
            mut command,
            answer,
        } in queue
        {
            let _ = answer.send(command.spawn());
        }
    };
    let thread = std::thread::Builder::new().name("headcount-spawner".to_owned());
    thread.spawn(spawn_all)?;
    Ok(jobs)
}
