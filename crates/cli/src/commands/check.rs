//! `headcount check`: judge a stream line by line, for those who write one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Read, StdoutLock, Write};
use std::path::Path;

use headcount::jsonl::{Decoded, DecodedLine, Decoder, DecoderLimits};
use headcount::projector::{Projector, Settings, SnapshotVerdict, Verdict};
use headcount_contract::SequenceScope;
use serde_json::json;

use crate::args::{Check, Common, Limits, Output, Scope};
use crate::exit::{Exit, Failure};
use crate::text::visible;

pub(super) fn run(common: &Common, check: &Check) -> Result<Exit, Failure> {
    let mut source = open(&check.file)?;
    let mut decoder = Decoder::new((&check.limits).into());
    let mut judge = Judge::new(check.limits.scope.into(), common.output == Output::Json);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = match source.read(&mut buffer) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read.map_err(|error| unreadable(&check.file, &error))?,
        };
        if read == 0 {
            break;
        }
        decoder.push(&buffer[..read], |line| judge.line(&line));
        judge.written()?;
    }
    decoder.finish(|line| judge.line(&line));
    judge.finish()
}

impl From<Scope> for SequenceScope {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Child => Self::Child,
            Scope::Epoch => Self::Epoch,
        }
    }
}

impl From<&Limits> for DecoderLimits {
    fn from(limits: &Limits) -> Self {
        Self::default()
            .with_max_line(limits.max_line)
            .with_max_depth(limits.max_depth)
    }
}

fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(io::stdin().lock()));
    }
    match File::open(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => Err(unreadable(path, &error)),
    }
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::usage(format_args!("{} cannot be read: {error}", path.display()))
}

/// Projects the stream and writes what becomes of each line.
struct Judge {
    projector: Projector,
    effects: Vec<headcount::projector::Effect>,
    json: bool,
    out: BufWriter<StdoutLock<'static>>,
    write_error: Option<io::Error>,
    counts: BTreeMap<String, u64>,
    capabilities_absent: u64,
    rejected: u64,
}

impl Judge {
    fn new(scope: SequenceScope, json: bool) -> Self {
        let mut settings = Settings::default();
        settings.scope = scope;
        Self {
            projector: Projector::new(settings),
            effects: Vec::new(),
            json,
            out: BufWriter::new(io::stdout().lock()),
            write_error: None,
            counts: BTreeMap::new(),
            capabilities_absent: 0,
            rejected: 0,
        }
    }

    fn line(&mut self, line: &DecodedLine) {
        let (verdict, why) = self.verdict(&line.decoded);
        self.rejected += u64::from(verdict.starts_with("reject:"));
        *self.counts.entry(verdict.clone()).or_default() += 1;
        if self.write_error.is_none() {
            self.write_error = self.write(line, &verdict, &why).err();
        }
    }

    fn verdict(&mut self, decoded: &Decoded) -> (String, String) {
        self.effects.clear();
        match decoded {
            Decoded::Event {
                event,
                capabilities_absent,
            } => {
                self.capabilities_absent += u64::from(*capabilities_absent);
                // The stream is judged by its own times: when it is read says nothing about it.
                let verdict = self
                    .projector
                    .apply(event, event.observed_at(), &mut self.effects);
                (verdict.to_string(), audit(&self.effects))
            }
            Decoded::Snapshot(snapshot) => {
                let at = snapshot.observed_at();
                let verdict = match self
                    .projector
                    .apply_snapshot(snapshot, at, &mut self.effects)
                {
                    SnapshotVerdict::Applied => Verdict::Accepted.as_str(),
                    SnapshotVerdict::Duplicate => Verdict::Duplicate.as_str(),
                    SnapshotVerdict::SupersededEpoch => "no-effect:superseded-epoch",
                    _ => "no-effect:too-many-sources",
                };
                (verdict.to_owned(), audit(&self.effects))
            }
            Decoded::Fault(fault) => (
                format!("reject:{}", fault.class()),
                fault.fault().to_string(),
            ),
        }
    }

    fn write(&mut self, line: &DecodedLine, verdict: &str, why: &str) -> io::Result<()> {
        if self.json {
            let line = json!({ "line": line.number, "offset": line.offset, "verdict": verdict });
            return writeln!(self.out, "{line}");
        }
        // A line that is just right needs no line of ours.
        if verdict == Verdict::Accepted.as_str() {
            return Ok(());
        }
        write!(
            self.out,
            "line {}, byte {}: {verdict}",
            line.number, line.offset
        )?;
        if why.is_empty() {
            writeln!(self.out)
        } else {
            writeln!(self.out, " ({})", visible(why))
        }
    }

    /// Fails as soon as nobody reads what is written.
    fn written(&mut self) -> io::Result<()> {
        self.write_error.take().map_or(Ok(()), Err)
    }

    fn finish(mut self) -> Result<Exit, Failure> {
        self.written()?;
        if !self.json {
            let lines: u64 = self.counts.values().sum();
            let counts: Vec<_> = self
                .counts
                .iter()
                .map(|(v, n)| format!("{n} {v}"))
                .collect();
            writeln!(
                self.out,
                "{lines} lines: {}",
                if counts.is_empty() {
                    "none".into()
                } else {
                    counts.join(", ")
                }
            )?;
            if self.capabilities_absent > 0 {
                let events = self.capabilities_absent;
                writeln!(
                    self.out,
                    "{events} events have no capabilities; read as all unknown"
                )?;
            }
        }
        self.out.flush()?;
        Ok(if self.rejected == 0 {
            Exit::OK
        } else {
            Exit::NEGATIVE
        })
    }
}

/// What the projector has to remark.
fn audit(effects: &[headcount::projector::Effect]) -> String {
    let remarks: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            headcount::projector::Effect::Audit(entry) => Some(entry.to_string()),
            _ => None,
        })
        .collect();
    remarks.join("; ")
}
