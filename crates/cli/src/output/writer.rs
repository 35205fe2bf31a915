//! Standard output on a thread of its own: a reader that does not read must not keep us from
//! hearing Ctrl-C, and what waits for it is bounded.

use std::io::{self, Write};

use tokio::sync::{mpsc, oneshot, watch};

/// How many bytes are handed to the thread at once, at most.
pub(crate) const PIECE: usize = 64 * 1024;

/// How many pieces may wait to be written: a MiB.
const WAITING: usize = 16;

/// Writes text to standard output in order.
#[derive(Debug)]
pub(crate) struct Writer {
    /// None once nothing more will come.
    pieces: Option<mpsc::Sender<String>>,
    pending: Pending,
    /// How many lines the thread was given.
    given: u64,
    /// How many of them it has written.
    written: watch::Receiver<u64>,
    done: oneshot::Receiver<io::Result<()>>,
}

impl Writer {
    /// Begins a thread that writes to standard output.
    pub(crate) fn start() -> Self {
        Self::to(|| io::stdout().lock())
    }

    fn to<W: Write>(open: impl FnOnce() -> W + Send + 'static) -> Self {
        let (pieces, mut waiting) = mpsc::channel::<String>(WAITING);
        let (count, written) = watch::channel(0);
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            let mut out = open();
            let mut result = Ok(());
            while let Some(piece) = waiting.blocking_recv() {
                result = out.write_all(piece.as_bytes()).and_then(|()| out.flush());
                if result.is_err() {
                    break;
                }
                count.send_modify(|written| *written += lines(&piece));
            }
            // Whoever waited for it may have given up.
            let _ = tell.send(result);
        });
        Self {
            pieces: Some(pieces),
            pending: Pending::default(),
            given: 0,
            written,
            done,
        }
    }

    /// Where text is added; what is there already is handed on first.
    pub(crate) fn text(&mut self) -> &mut String {
        &mut self.pending.text
    }

    /// How many bytes are yet to be handed on.
    pub(crate) fn pending(&self) -> usize {
        self.pending.rest().len()
    }

    /// Hands on one piece once there is room; an error means that writing has failed, and
    /// [`finish`](Self::finish) tells why. Nothing is lost if this is not waited for.
    pub(crate) async fn hand_on(&mut self) -> Result<(), WriterGone> {
        let pieces = self.pieces.as_ref().ok_or(WriterGone)?;
        let room = pieces.reserve().await.map_err(|_| WriterGone)?;
        let piece = self.pending.take(PIECE);
        self.given += lines(&piece);
        room.send(piece);
        Ok(())
    }

    /// Throws away what was not handed on, and returns how many lines that was.
    pub(crate) fn discard(&mut self) -> u64 {
        let lines = lines(self.pending.rest());
        self.pending.clear();
        lines
    }

    /// How many lines are not yet written. Of the piece being written, none counts as written.
    pub(crate) fn unwritten(&self) -> u64 {
        lines(self.pending.rest()) + (self.given - *self.written.borrow())
    }

    /// Says that nothing more will be handed on, and waits: for the next piece to be written, or
    /// for the end of writing and its fault. Nothing is lost if this is not waited for.
    pub(crate) async fn finish(&mut self) -> Progress {
        self.pieces = None;
        tokio::select! {
            biased;
            // The thread answers before it ends, unless it panicked: then nothing more was written.
            result = &mut self.done => Progress::Ended(
                result.unwrap_or_else(|_| Err(io::Error::other("the writer has ended"))),
            ),
            Ok(()) = self.written.changed() => Progress::Piece,
        }
    }
}

/// What [`Writer::finish`] waited for.
#[derive(Debug)]
pub(crate) enum Progress {
    /// A piece was written.
    Piece,
    /// Everything is written, or what follows cannot be.
    Ended(io::Result<()>),
}

/// Writing has failed; [`Writer::finish`] tells why.
#[derive(Debug)]
pub(crate) struct WriterGone;

/// Text of which the beginning may have been taken: taking it from the front would move the rest
/// of it each time.
#[derive(Debug, Default)]
struct Pending {
    text: String,
    taken: usize,
}

impl Pending {
    fn rest(&self) -> &str {
        &self.text[self.taken..]
    }

    /// Takes at most so many bytes: whole lines, unless the first of them is longer.
    fn take(&mut self, bytes: usize) -> String {
        let rest = self.rest();
        let most = rest.floor_char_boundary(bytes);
        let end = if most == rest.len() {
            most
        } else {
            rest[..most].rfind('\n').map_or(most, |at| at + 1)
        };
        let piece = rest[..end].to_owned();
        self.taken += end;
        if self.taken == self.text.len() {
            self.clear();
        }
        piece
    }

    fn clear(&mut self) {
        // The room that one large change needed is not kept for good.
        self.text.truncate(0);
        self.text.shrink_to(PIECE);
        self.taken = 0;
    }
}

/// How many line ends there are.
pub(super) fn lines(text: &str) -> u64 {
    text.bytes().map(|byte| u64::from(byte == b'\n')).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_whole_lines_where_lines_are_short() {
        for (text, bytes, pieces) in [
            ("", 4, &[][..]),
            ("a\nb\n", 4, &["a\nb\n"]),
            ("a\nbc\nd\n", 4, &["a\n", "bc\n", "d\n"]),
            ("abcdef\ng\n", 4, &["abcd", "ef\n", "g\n"]),
            ("日本\n", 4, &["日", "本\n"]),
        ] {
            let mut pending = Pending {
                text: text.to_owned(),
                taken: 0,
            };
            let mut taken = Vec::new();
            while !pending.rest().is_empty() {
                taken.push(pending.take(bytes));
            }
            assert_eq!(taken, pieces, "{text:?}");
        }
    }

    /// A write that lasts until the test is over.
    struct Blocked(std::sync::mpsc::Receiver<()>);

    impl Write for Blocked {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _ = self.0.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn what_waits_for_a_blocked_reader_is_bounded() {
        let (release, blocked) = std::sync::mpsc::channel();
        let mut writer = Writer::to(move || Blocked(blocked));
        writer.text().push_str(&"0123456\n".repeat(1_000_000));
        let patience = std::time::Duration::from_millis(200);
        while let Ok(handed) = tokio::time::timeout(patience, writer.hand_on()).await {
            handed.unwrap();
        }
        let waiting = 8_000_000 - writer.pending();
        // One more is in the hands of the thread.
        assert!(waiting <= (WAITING + 1) * PIECE, "{waiting} bytes wait");
        assert_eq!(writer.unwritten(), 1_000_000);
        assert_eq!(writer.discard(), writer.given.abs_diff(1_000_000));
        drop(release);
        while let Progress::Piece = writer.finish().await {}
        assert_eq!(writer.unwritten(), 0);
    }
}
