//! JSONL lifecycle streams in, and the append-only journal.

mod decoder;
mod diagnostic;
mod framing;
mod journal;
mod lock;

pub use decoder::{Decoded, DecodedLine, Decoder, DecoderLimits};
pub use diagnostic::{DEFAULT_KEPT, Diagnostic, Diagnostics};
pub use framing::{DEFAULT_MAX_LINE, Framed, FramedLine, LineSplitter};
pub use journal::{
    Blocked, BlockedReason, Durability, Held, JOURNAL_SEQUENCE, Journal, JournalEntry,
    JournalError, JournalOptions, JournalReader, JournalReport, Repair, Sequencing, repair_journal,
    verify_journal,
};
pub use lock::{LockError, LockOptions};
