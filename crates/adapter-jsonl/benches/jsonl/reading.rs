//! Bytes to lines, to verdicts, to events, to records.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use headcount_adapter_jsonl::{Decoded, Decoder, DecoderLimits};
use headcount_contract::SequenceScope;
use headcount_projector::{Projector, Settings};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{median, stream};

const ROUNDS: usize = 5;
const CHUNK: usize = 64 * 1024;

type Measure = fn(&[u8]) -> usize;

pub(crate) fn run(folder: &Path, lines: usize) {
    let bytes = stream::generate(lines);
    let per_line = bytes.len() as f64 / lines as f64;
    println!("reading {lines} lines of {per_line:.0} bytes, ns a line, median of {ROUNDS} rounds");

    // Interleaved, so that what else the machine does falls on all alike.
    let measures: [(&str, Measure); 6] = [
        ("memchr split", split),
        ("split and UTF-8 check", utf8),
        ("serde_json::from_slice, owned derive", from_slice),
        (
            "serde_json::from_str after UTF-8 check, owned derive",
            from_str,
        ),
        ("decoder: bytes to strict verdict to event", decode),
        ("decoder and projector: bytes to records", project),
    ];
    let mut times = vec![Vec::new(); measures.len()];
    for _ in 0..ROUNDS {
        for (at, (name, measure)) in measures.iter().enumerate() {
            let start = Instant::now();
            let counted = measure(&bytes);
            times[at].push(start.elapsed().as_nanos() as f64 / lines as f64);
            assert_eq!(counted, lines, "{name}");
        }
    }
    let medians: Vec<f64> = times.into_iter().map(median).collect();
    for ((name, _), time) in measures.iter().zip(&medians) {
        println!("{time:>9.0}  {name}");
    }
    let [_, floor, slice, _, decode, project] = medians[..] else {
        unreachable!("there are six");
    };
    println!("{:>9.2}  decoder to from_slice (at most 1)", decode / slice);
    println!(
        "{:>9.2}  decoder to floor (split and UTF-8 check)",
        decode / floor
    );
    println!(
        "{:>9.2}  with projector to decoder alone (at most 1.2)",
        project / decode
    );

    match node(folder, &bytes, lines) {
        Ok(node) => {
            println!("{node:>9.0}  Node: readline, JSON.parse and the same checks");
            println!("{:>9.2}  Node to decoder (at least 3)", node / decode);
        }
        Err(why) => println!("  skipped  Node: {why}"),
    }
    memory(folder, &bytes);
}

fn split(bytes: &[u8]) -> usize {
    let mut count = 0;
    for end in memchr::memchr_iter(b'\n', bytes) {
        count += usize::from(black_box(end) > 0);
    }
    count
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut from = 0;
    memchr::memchr_iter(b'\n', bytes).map(move |end| {
        let line = &bytes[from..end];
        from = end + 1;
        line
    })
}

fn utf8(bytes: &[u8]) -> usize {
    lines(bytes)
        .filter(|line| black_box(std::str::from_utf8(line)).is_ok())
        .count()
}

/// What a reader with derive alone would have: the same fields, owned, and none of the checks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)] // made, dropped, and not looked at
struct Owned {
    schema_version: u64,
    event_id: String,
    source: String,
    source_epoch: String,
    child_id: String,
    lineage: OwnedLineage,
    kind: OwnedKind,
    state: Option<OwnedState>,
    observed_at: String,
    sequence: Option<u64>,
    activity: Option<String>,
    details: Option<Box<RawValue>>,
    capabilities: Option<OwnedCapabilities>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)]
struct OwnedLineage {
    root_child_id: String,
    attempt: u64,
    external: bool,
    parent_child_id: Option<String>,
    adopted_at: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[allow(dead_code)]
struct OwnedCapabilities {
    history: OwnedCapability,
    heartbeat: OwnedCapability,
    snapshot: OwnedCapability,
    cancel: OwnedCapability,
    terminal_cause: OwnedCapability,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OwnedCapability {
    Known,
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OwnedKind {
    Created,
    StateChanged,
    Activity,
    Heartbeat,
    Terminal,
    Reconciliation,
    Diagnostic,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OwnedState {
    Created,
    Starting,
    Running,
    Waiting,
    Completed,
    Failed,
    Cancelled,
    Lost,
}

fn from_slice(bytes: &[u8]) -> usize {
    lines(bytes)
        .filter(|line| black_box(serde_json::from_slice::<Owned>(line)).is_ok())
        .count()
}

fn from_str(bytes: &[u8]) -> usize {
    lines(bytes)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .filter(|line| black_box(serde_json::from_str::<Owned>(line)).is_ok())
        .count()
}

fn decode(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new(DecoderLimits::default());
    let mut count = 0;
    for chunk in bytes.chunks(CHUNK) {
        decoder.push(chunk, |line| {
            count += usize::from(matches!(black_box(line).decoded, Decoded::Event { .. }));
        });
    }
    count
}

fn project(bytes: &[u8]) -> usize {
    let mut decoder = Decoder::new(DecoderLimits::default());
    let mut settings = Settings::default();
    settings.scope = SequenceScope::Child;
    let mut projector = Projector::new(settings);
    let mut effects = Vec::new();
    let mut count = 0;
    for chunk in bytes.chunks(CHUNK) {
        decoder.push(chunk, |line| {
            if let Decoded::Event { event, .. } = line.decoded {
                black_box(projector.apply(&event, event.observed_at(), &mut effects));
                effects.clear();
                count += 1;
            }
        });
    }
    assert_eq!(projector.len(), 1000);
    count
}

/// Nanoseconds a line of a reader in Node, timed by itself without its start.
fn node(folder: &Path, bytes: &[u8], lines: usize) -> Result<f64, String> {
    let path = folder.join("stream.jsonl");
    std::fs::write(&path, bytes).map_err(|error| error.to_string())?;
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/jsonl/reader.mjs");
    let mut times = Vec::new();
    for _ in 0..3 {
        let output = Command::new("node")
            .arg(script)
            .arg(&path)
            .output()
            .map_err(|error| format!("node cannot be started: {error}"))?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (accepted, nanos) = text
            .trim()
            .split_once(' ')
            .ok_or_else(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        assert_eq!(
            accepted,
            lines.to_string(),
            "it accepts what the decoder accepts"
        );
        times.push(nanos.parse::<f64>().map_err(|error| error.to_string())? / lines as f64);
    }
    Ok(median(times))
}

/// How much more memory it takes to decode ten times as much.
fn memory(folder: &Path, bytes: &[u8]) {
    let path = folder.join("memory.jsonl");
    let tenth = bytes[..bytes.len() / 10]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    let mut peaks = Vec::new();
    for part in [&bytes[..tenth], bytes] {
        std::fs::write(&path, part).unwrap();
        let before = resident();
        let mut peak = before;
        let mut decoder = Decoder::new(DecoderLimits::default());
        let mut file = std::fs::File::open(&path).unwrap();
        let mut buffer = vec![0; CHUNK];
        let mut chunks = 0;
        loop {
            let read = std::io::Read::read(&mut file, &mut buffer).unwrap();
            if read == 0 {
                break;
            }
            decoder.push(&buffer[..read], |line| drop(black_box(line)));
            chunks += 1;
            if chunks % 64 == 0 {
                peak = peak.max(resident());
            }
        }
        peaks.push((part.len(), peak.saturating_sub(before)));
    }
    for (length, more) in peaks {
        println!(
            "{more:>9}  KiB more resident while decoding a file of {} MB",
            length / 1_000_000
        );
    }
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or_default() * 4
}
