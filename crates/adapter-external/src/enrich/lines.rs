//! Whole lines out of chunks of bytes, with a cap.

/// The longest line that is read, in bytes.
pub(super) const MAX_LINE: usize = 1 << 20;

/// Puts lines together.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// The present line is too long: the rest of it is passed over.
    skipping: bool,
}

impl Lines {
    /// Takes a chunk and hands each line that ends in it to `each`: `None` for one that is too long.
    pub(super) fn push(&mut self, chunk: &[u8], mut each: impl FnMut(Option<&[u8]>)) {
        let mut rest = chunk;
        while let Some(end) = rest.iter().position(|&b| b == b'\n') {
            let (head, tail) = rest.split_at(end);
            self.add(head);
            if std::mem::take(&mut self.skipping) {
                each(None);
            } else if !self.partial.is_empty() {
                each(Some(&self.partial));
            }
            self.partial.clear();
            rest = &tail[1..];
        }
        self.add(rest);
    }

    fn add(&mut self, part: &[u8]) {
        if self.skipping || self.partial.len() + part.len() > MAX_LINE {
            self.skipping = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let long = vec![b'x'; MAX_LINE + 1];
        let text = [b"one\n\ntwo\r\n".as_slice(), &long, b"\nthree\nrest"].concat();
        let read = |size: usize| {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            for chunk in text.chunks(size) {
                lines.push(chunk, |line| seen.push(line.map(<[u8]>::to_vec)));
            }
            seen
        };
        let expected = [
            Some(b"one".to_vec()),
            Some(b"two\r".to_vec()),
            None,
            Some(b"three".to_vec()),
        ];
        for size in [1000, 4096, MAX_LINE, text.len()] {
            assert_eq!(read(size), expected);
        }
    }
}
