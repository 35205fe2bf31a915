use proptest::prelude::*;

use super::*;

/// The lines of the chunks: text, then `+` if cut and `?` if lossy.
fn lines(chunks: &[&[u8]], cap: usize, carriage_return: CarriageReturn) -> Vec<String> {
    let mut splitter = Splitter::new(OutputStream::Stdout, cap, carriage_return);
    let at = Timestamp::UNIX_EPOCH;
    let mut batches: Vec<_> = chunks.iter().filter_map(|c| splitter.feed(c, at)).collect();
    batches.extend(splitter.finish(at));
    let lines = batches.iter().flat_map(LogBatch::lines);
    lines
        .enumerate()
        .map(|(at, line)| {
            assert_eq!(line.number, at as u64 + 1);
            let cut = if line.truncated { "+" } else { "" };
            let lossy = if line.lossy { "?" } else { "" };
            format!("{}{cut}{lossy}", line.text)
        })
        .collect()
}

#[test]
fn splits_as_stated() {
    use CarriageReturn::{EndsLine, Keep};
    type Row<'a> = (&'a [&'a [u8]], usize, CarriageReturn, &'a [&'a str]);
    let table: &[Row] = &[
        (&[b"a\nb\n"], 99, EndsLine, &["a", "b"]),
        (&[b"a\n\nb"], 99, EndsLine, &["a", "", "b"]),
        (&[b"a", b"b\nc", b"d"], 99, EndsLine, &["ab", "cd"]),
        (&[b"tail"], 99, EndsLine, &["tail"]),
        (&[b"a\r\nb\r\n"], 99, EndsLine, &["a", "b"]),
        (&[b"a\r\nb\r\n"], 99, Keep, &["a", "b"]),
        (&[b"a\r", b"\nb"], 99, EndsLine, &["a", "b"]),
        (&[b"a\r", b"\nb"], 99, Keep, &["a", "b"]),
        (&[b"1%\r2%\r", b"3%\n"], 99, EndsLine, &["1%", "2%", "3%"]),
        (&[b"\r1%\r2%"], 99, EndsLine, &["1%", "2%"]),
        (&[b"1%\r2%\n"], 99, Keep, &["1%\r2%"]),
        (&[b"a\n\r\n\r", b"\nb"], 99, EndsLine, &["a", "", "", "b"]),
        (&[b"abc\nabcd\nab\n"], 3, EndsLine, &["abc", "abc+", "ab"]),
        (&[b"abc", b"d", b"e", b"\nf"], 3, EndsLine, &["abc+", "f"]),
        (&[b"abc\r", b"\nf"], 3, EndsLine, &["abc", "f"]),
        (&[b"abc\r", b"\nf"], 3, Keep, &["abc", "f"]),
        (&[b"abc\r", b"d\nf"], 3, Keep, &["abc+", "f"]),
        (&[b"abcdef"], 3, EndsLine, &["abc+"]),
        (&["aé\nx".as_bytes()], 2, EndsLine, &["a+", "x"]),
        (&["aé\nx".as_bytes()], 3, EndsLine, &["aé", "x"]),
        (&["😀😀".as_bytes()], 7, EndsLine, &["😀+"]),
        (&["é".as_bytes()], 1, EndsLine, &["\u{fffd}+?"]),
        (&[b"\xc3", b"\xa9\n"], 99, EndsLine, &["é"]),
        (
            &[b"bad \xff byte\nnext\n"],
            99,
            EndsLine,
            &["bad \u{fffd} byte?", "next"],
        ),
        (
            &[b"\x1b[31mred\x1b[0m\n"],
            99,
            EndsLine,
            &["\x1b[31mred\x1b[0m"],
        ),
        (&[b"a\0b\n"], 99, EndsLine, &["a\0b"]),
    ];
    for (chunks, cap, carriage_return, expected) in table {
        let seen = lines(chunks, *cap, *carriage_return);
        assert_eq!(seen, *expected, "{chunks:?} cap {cap} {carriage_return:?}");
    }
}

#[test]
fn a_line_beyond_the_cap_is_delivered_before_its_end_is_seen() {
    let mut splitter = Splitter::new(OutputStream::Stderr, 4, CarriageReturn::EndsLine);
    let batch = splitter.feed(b"abcdefgh", Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(batch.last().unwrap().text, "abcd");
    assert!(splitter.feed(b"ijkl\n", Timestamp::UNIX_EPOCH).is_none());
}

#[test]
fn nothing_is_held_after_a_finished_line_and_never_more_than_the_cap() {
    let mut splitter = Splitter::new(OutputStream::Stdout, 1024, CarriageReturn::EndsLine);
    let at = Timestamp::UNIX_EPOCH;
    let chunk = vec![b'x'; 1 << 16];
    for _ in 0..1024 {
        splitter.feed(&chunk, at);
        assert!(splitter.partial.capacity() <= 4096);
    }
    splitter.feed(b"\nshort\n", at);
    assert_eq!(splitter.partial.capacity(), 0);
}

/// What the lines of these bytes are, found byte by byte.
fn model(bytes: &[u8], cap: usize, carriage_return: CarriageReturn) -> Vec<String> {
    let mut raw = Vec::new();
    let mut line = Vec::new();
    let mut rest = bytes.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        match byte {
            b'\n' => raw.push(std::mem::take(&mut line)),
            b'\r' if carriage_return == CarriageReturn::EndsLine => {
                let with_line_feed = rest.next_if_eq(&b'\n').is_some();
                // A `\r` that ends nothing only moves the cursor.
                if with_line_feed || !line.is_empty() {
                    raw.push(std::mem::take(&mut line));
                }
            }
            other => line.push(other),
        }
    }
    if !line.is_empty() {
        raw.push(line);
    }
    raw.iter()
        .map(|line| {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            let kept = &line[..cut_at(line, cap)];
            let cut = if kept.len() < line.len() { "+" } else { "" };
            let lossy = if std::str::from_utf8(kept).is_err() {
                "?"
            } else {
                ""
            };
            format!("{}{cut}{lossy}", String::from_utf8_lossy(kept))
        })
        .collect()
}

/// Text, line ends of all kinds and bytes that are no text, long enough for many blocks.
fn output() -> impl Strategy<Value = Vec<u8>> {
    const PIECES: &[&[u8]] = &[
        b"\n",
        b"\r",
        b"\r\n",
        b"a",
        b"0123456789",
        b"a line of some length, as most of them are\n",
        "é😀".as_bytes(),
        b"\xff",
        b"\xf0\x9f",
    ];
    let run = (prop::sample::select(PIECES), 1_usize..600).prop_map(|(piece, n)| piece.repeat(n));
    prop::collection::vec(run, 0..24).prop_map(|runs| runs.concat())
}

proptest! {
    /// Blocks, whole lines taken at once, lines that are cut: nothing of it shows.
    #[test]
    fn lines_are_what_they_are_byte_by_byte(
        bytes in output(),
        chunk in 1_usize..100_000,
        cap in prop::sample::select(&[1_usize, 7, 42, 4096, 1 << 20][..]),
        keep in any::<bool>(),
    ) {
        let carriage_return = if keep { CarriageReturn::Keep } else { CarriageReturn::EndsLine };
        let chunks: Vec<_> = bytes.chunks(chunk).collect();
        prop_assert_eq!(
            lines(&chunks, cap, carriage_return),
            model(&bytes, cap, carriage_return)
        );
    }

    /// However the bytes are cut into reads, the lines are the same.
    #[test]
    fn reads_do_not_show(
        bytes in prop::collection::vec(prop::sample::select(&b"ab\n\r\xc3\xa9\xff"[..]), 0..64),
        cuts in prop::collection::vec(0_usize..64, 0..8),
        cap in 1_usize..12,
        keep in any::<bool>(),
    ) {
        let carriage_return = if keep { CarriageReturn::Keep } else { CarriageReturn::EndsLine };
        let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let chunks: Vec<_> = cuts.windows(2).map(|w| &bytes[w[0]..w[1]]).collect();
        prop_assert_eq!(
            lines(&chunks, cap, carriage_return),
            lines(&[&bytes], cap, carriage_return)
        );
    }
}
