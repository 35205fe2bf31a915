//! What one process of a contestant does, and the figures that it prints.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures_util::StreamExt;
use futures_util::future::join_all;
use headcount_adapter_process::{ProcessOptions, ProcessRuntime};
use headcount_contract::{AgentRuntime, RunEvent, RunHandle, RunStatus, StartInput};
use rustix::process::{Resource, getrlimit, setrlimit};

/// What was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Figures {
    /// CPU s of the contestant itself.
    pub(crate) cpu: f64,
    /// CPU s of the children that it has waited for.
    pub(crate) children: f64,
    /// Seconds.
    pub(crate) wall: f64,
    pub(crate) peak_kib: u64,
    pub(crate) kib_each: f64,
}

impl Figures {
    /// Reads `cpu children wall peak_kib kib_each` from the last line.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let fields: Vec<f64> = text
            .lines()
            .last()?
            .split_whitespace()
            .map_while(|field| field.parse().ok())
            .collect();
        let [cpu, children, wall, peak, kib_each] = fields[..] else {
            return None;
        };
        Some(Self {
            cpu,
            children,
            wall,
            peak_kib: peak as u64,
            kib_each,
        })
    }

    fn print(self) {
        let Self {
            cpu,
            children,
            wall,
            peak_kib,
            kib_each,
        } = self;
        println!("{cpu} {children} {wall} {peak_kib} {kib_each}");
    }

    pub(crate) fn median(of: &[Self]) -> Self {
        let middle = |of_each: fn(&Self) -> f64| {
            let mut values: Vec<f64> = of.iter().map(of_each).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
        };
        Self {
            cpu: middle(|figures| figures.cpu),
            children: middle(|figures| figures.children),
            wall: middle(|figures| figures.wall),
            peak_kib: middle(|figures| figures.peak_kib as f64) as u64,
            kib_each: middle(|figures| figures.kib_each),
        }
    }
}

/// The clocks at one moment.
struct Clocks {
    own: f64,
    children: f64,
    wall: Instant,
}

impl Clocks {
    fn now() -> Self {
        let (own, children) = cpu_times();
        Self {
            own,
            children,
            wall: Instant::now(),
        }
    }

    fn since(&self) -> Figures {
        let now = Self::now();
        Figures {
            cpu: now.own - self.own,
            children: now.children - self.children,
            wall: (now.wall - self.wall).as_secs_f64(),
            peak_kib: memory("VmHWM:"),
            kib_each: 0.0,
        }
    }
}

fn memory(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(of))
        .unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// A shell command: all CPU that it and its children took, the mean of many because the system
/// counts it in hundredths of a second.
pub(crate) fn shell(script: &str) -> Option<Figures> {
    const TIMES: u8 = 20;
    let before = Clocks::now();
    for _ in 0..TIMES {
        let status = Command::new("sh").args(["-c", script]).status().ok()?;
        status.success().then_some(())?;
    }
    let figures = before.since();
    let cpu = figures.children / f64::from(TIMES);
    Some(Figures {
        cpu,
        children: 0.0,
        ..figures
    })
}

/// Plays one contestant and prints its figures.
pub(crate) fn play(args: &[String]) {
    let (what, of) = (args[0].as_str(), args[1].as_str());
    raise_file_limit();
    if what == "bare" {
        return bare(of.parse().unwrap()).print();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let figures = match what {
        // On a worker, as a host's tasks are: from the main thread, each event would have to be
        // handed to another one.
        "lines" => runtime.block_on(async { tokio::spawn(lines(of.to_owned())).await.unwrap() }),
        "short" => {
            let children = of.parse().unwrap();
            runtime.block_on(async { tokio::spawn(short(children)).await.unwrap() })
        }
        "idle" => runtime.block_on(idle(of.parse().unwrap())),
        other => panic!("no contestant {other}"),
    };
    figures.print();
}

fn raise_file_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

async fn start(options: ProcessOptions) -> Arc<dyn RunHandle> {
    let runtime = ProcessRuntime::new(options).unwrap();
    runtime.start(StartInput::new("")).await.unwrap()
}

async fn lines(file: String) -> Figures {
    let mut options = ProcessOptions::new("cat");
    options.args = vec![file];
    let before = Clocks::now();
    let handle = start(options).await;
    let mut events = handle.subscribe();
    let (mut lines, mut bytes) = (0_usize, 0_usize);
    while let Some(event) = events.next().await {
        match event {
            RunEvent::Log(batch) => {
                for line in batch.lines() {
                    lines += 1;
                    bytes += line.text.len();
                }
            }
            RunEvent::LogMissed(missed) => panic!("{missed} lines were missed"),
            _ => {}
        }
    }
    assert!(lines > 0 && bytes > 0);
    before.since()
}

async fn short(children: usize) -> Figures {
    let before = Clocks::now();
    for _ in 0..children {
        let handle = start(ProcessOptions::new("true")).await;
        let mut events = handle.subscribe();
        while events.next().await.is_some() {}
        assert_eq!(handle.status(), RunStatus::Stopped);
    }
    before.since()
}

fn bare(children: usize) -> Figures {
    let before = Clocks::now();
    for _ in 0..children {
        let mut command = Command::new("/bin/true");
        command
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        assert!(command.status().unwrap().success());
    }
    before.since()
}

async fn idle(children: usize) -> Figures {
    let mut options = ProcessOptions::new("sleep");
    options.args = vec!["600".into()];
    let runtime = ProcessRuntime::new(options).unwrap();
    let begin = async || {
        let handle = runtime.start(StartInput::new("")).await.unwrap();
        let mut events = handle.subscribe();
        while handle.status() == RunStatus::Starting || events.next().await.is_none() {}
        // A subscriber that waits, as every run has one.
        let waiting = tokio::spawn(async move { while events.next().await.is_some() {} });
        (handle, waiting)
    };
    let warm = begin().await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let before = memory("VmRSS:");
    let mut runs = Vec::with_capacity(children);
    for _ in 0..children {
        runs.push(begin().await);
    }
    // Long enough for one sampling of all.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    let kib_each = (memory("VmRSS:") - before) as f64 / children as f64;
    let clocks = Clocks::now();
    for stopped in join_all(runs.iter().map(|(handle, _)| handle.stop())).await {
        stopped.unwrap();
    }
    let figures = Figures {
        kib_each,
        ..clocks.since()
    };
    warm.0.stop().await.unwrap();
    figures
}

/// CPU s of this process, exact, and of the children that it has waited for, in hundredths.
fn cpu_times() -> (f64, f64) {
    let own = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    let ticks = |at: usize| fields[at].parse::<f64>().unwrap() / 100.0;
    // Fields 16 and 17; the first after the name is field 3.
    (
        own.tv_sec as f64 + own.tv_nsec as f64 / 1e9,
        ticks(13) + ticks(14),
    )
}
