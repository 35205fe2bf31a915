//! Threads and threads of the kernel, which are no processes, and exact ends.

use std::time::Duration;

use headcount_adapter_external::AdoptError;
use headcount_contract::EventKind;
use libtest_mimic::Trial;
use serde_json::json;

use crate::probe::{exit_status, needs, runs, trial};
use crate::support::{self, Foster, Observed, until};

pub(crate) fn trials() -> Vec<Trial> {
    let kernel_thread = std::fs::read_to_string("/proc/2/comm").unwrap_or_default();
    let kernel_thread = needs(
        kernel_thread.trim() == "kthreadd",
        "process 2 is no kernel thread here, this is a container",
    );
    let python = || runs(&["python3", "--version"]);
    vec![
        trial(
            "every_end_of_anothers_child_is_told_exactly",
            exit_status(),
            every_end_of_anothers_child_is_told_exactly,
        ),
        trial(
            "kernel_threads_are_refused",
            kernel_thread,
            kernel_threads_are_refused,
        ),
        trial(
            "a_thread_is_refused_and_its_process_named",
            python(),
            a_thread_is_refused_and_its_process_named,
        ),
        trial(
            "a_process_whose_first_thread_has_ended_lives_on",
            python(),
            a_process_whose_first_thread_has_ended_lives_on,
        ),
    ]
}

/// Twenty of each kind, each under a parent that collects it at once.
async fn every_end_of_anothers_child_is_told_exactly() {
    let cases = [
        (None, "exitCode", 0),
        (None, "exitCode", 3),
        (None, "exitCode", 255),
        (Some("KILL"), "signal", 9),
        (Some("TERM"), "signal", 15),
    ];
    for (signal, fact, number) in cases {
        for _ in 0..20 {
            let mut process = match signal {
                None => Foster::run(&format!("read x <&3; exit {number}")),
                Some(_) => Foster::sleeping(),
            };
            let mut observed = Observed::open(json!({"pids": [process.pid]}));
            let child = observed.created(process.pid).await.child_id().clone();
            match signal {
                Some(signal) => process.kill(signal),
                None => process.tell("go"),
            }
            let end = observed.end(&child).await;
            assert!(matches!(end.kind(), EventKind::Terminal(_)), "{end:?}");
            assert_eq!(end.details().get(fact), Some(json!(number)));
        }
    }
}

async fn kernel_threads_are_refused() {
    let observed = Observed::open(json!({}));
    assert_eq!(
        observed.adapter.adopt(2).await,
        Err(AdoptError::KernelThread("kthreadd".into()))
    );
}

async fn a_thread_is_refused_and_its_process_named() {
    let python = Threaded::start("exit 0");
    let observed = Observed::open(json!({}));
    let refused = observed
        .adapter
        .adopt(i64::from(python.thread))
        .await
        .unwrap_err();
    assert_eq!(
        refused,
        AdoptError::Thread {
            of: python.process.pid
        }
    );
}

async fn a_process_whose_first_thread_has_ended_lives_on() {
    let mut python = Threaded::start("exit first");
    let pid = python.process.pid;
    until("the first thread has ended", || {
        std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") Z "))
    })
    .await;
    let mut observed = Observed::open(json!({"pids": [pid], "heartbeat_interval": "100ms"}));
    let child = observed.created(pid).await.child_id().clone();
    observed
        .event("heartbeat", |event| event.kind() == EventKind::Heartbeat)
        .await;
    python.process.tell("go");
    let end = observed.end(&child).await;
    assert_eq!(end.details().get("exitCode"), Some(json!(5)), "{end:?}");
}

/// A process with two threads, that exits with 5 when it is told to.
struct Threaded {
    process: Foster,
    thread: u32,
}

impl Threaded {
    /// With the word `first`, the first thread ends at once and the process lives on.
    fn start(mode: &str) -> Self {
        let code = "import ctypes,os,sys,threading\ndef run():\n os.read(3,1); os._exit(5)\nt=threading.Thread(target=run); t.start()\nctypes.CDLL(None).syscall(60,0) if \"first\" in sys.argv else t.join()";
        let process = Foster::run(&format!("exec python3 -c '{code}' {mode}"));
        let folder = format!("/proc/{}/task", process.pid);
        let deadline = std::time::Instant::now() + support::DEADLINE;
        loop {
            let threads = std::fs::read_dir(&folder)
                .unwrap()
                .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
            if let Some(thread) = threads
                .into_iter()
                .find(|&thread: &u32| thread != process.pid)
            {
                return Self { process, thread };
            }
            assert!(
                std::time::Instant::now() < deadline,
                "python started no thread"
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
