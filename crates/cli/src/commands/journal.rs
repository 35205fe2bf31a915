//! `headcount journal`: verify, print, repair.

use headcount::jsonl::{
    BlockedReason, DecoderLimits, JournalOptions, JournalReader, Repair, Sequencing,
    repair_journal, verify_journal,
};

use std::path::Path;

use crate::args::{Common, JournalAction, Output};
use crate::commands::journal_failure;
use crate::exit::{Exit, Failure};
use crate::term;
use crate::text::visible;

pub(super) fn run(common: &Common, action: JournalAction) -> Result<Exit, Failure> {
    match action {
        JournalAction::Verify {
            file,
            no_journal_sequence,
            limits,
        } => {
            let sequencing = if no_journal_sequence {
                Sequencing::Events(limits.scope.into())
            } else {
                Sequencing::Journal
            };
            verify(common, &file, (&limits).into(), sequencing)
        }
        JournalAction::Cat { file } => cat(&file),
        JournalAction::Repair { file } => repair(&file),
    }
}

fn verify(
    common: &Common,
    file: &Path,
    limits: DecoderLimits,
    sequencing: Sequencing,
) -> Result<Exit, Failure> {
    let report = verify_journal(file, limits, sequencing).map_err(|e| journal_failure(&e))?;
    let exit = if report.ok { Exit::OK } else { Exit::NEGATIVE };
    let name = file.display();
    if common.output == Output::Json {
        term::lines([serde_json::to_string(&report).map_err(Failure::ours)?])?;
        return Ok(exit);
    }
    let Some(reason) = report.blocked else {
        let line = format!("{name}: sound, {} entries", report.entries);
        term::lines([visible(&line)])?;
        return Ok(exit);
    };
    let line = format!(
        "{name}: append-blocked ({}) at line {}, byte {}, after {} entries: {}",
        reason.as_str(),
        report.line.unwrap_or_default(),
        report.offset.unwrap_or_default(),
        report.entries,
        report.what.as_deref().unwrap_or_default(),
    );
    term::lines([visible(&line)])?;
    if reason == BlockedReason::Truncated {
        term::note(format_args!("help: headcount journal repair {name}"));
    }
    Ok(exit)
}

/// Prints the events before the first fault, and says so if there is one.
fn cat(file: &Path) -> Result<Exit, Failure> {
    let source = std::fs::File::open(file).map_err(|error| {
        Failure::usage(format_args!(
            "the journal {} cannot be read: {error}",
            file.display()
        ))
    })?;
    let mut reader = JournalReader::new(source, DecoderLimits::default(), Sequencing::Journal);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for entry in reader.by_ref() {
        use std::io::Write;
        writeln!(out, "{}", entry.event.to_json())?;
    }
    std::io::Write::flush(&mut out)?;
    if let Some(error) = reader.failed() {
        return Err(Failure::ours(format_args!(
            "{} cannot be read: {error}",
            file.display()
        )));
    }
    match reader.blocked() {
        None => Ok(Exit::OK),
        Some(blocked) => Err(Failure::negative(format_args!(
            "{}: {blocked}",
            file.display()
        ))),
    }
}

fn repair(file: &Path) -> Result<Exit, Failure> {
    let repair =
        repair_journal(file, JournalOptions::default()).map_err(|error| journal_failure(&error))?;
    let line = match repair {
        Repair::Sound { entries } => {
            format!(
                "{}: sound, {entries} entries; nothing to repair",
                file.display()
            )
        }
        Repair::Cut {
            entries,
            bytes,
            original,
        } => format!(
            "{}: cut {bytes} bytes of a torn last line, {entries} entries are left; as it was: {}",
            file.display(),
            original.display()
        ),
        _ => format!("{}: repaired", file.display()),
    };
    term::lines([visible(&line)])?;
    Ok(Exit::OK)
}
