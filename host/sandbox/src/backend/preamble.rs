//! What a target writes before a script begins: its login shell's start-up files, a banner. None of it is what the
//! script writes, and a file that is read must not begin with it. The script's first line on each stream is its nonce.

use std::borrow::Cow;

/// A stream up to the line that a script begins with.
#[derive(Debug)]
pub(crate) struct Preamble {
    line: Vec<u8>,
    /// What may be the beginning of the line.
    held: Vec<u8>,
    is_over: bool,
}

impl Preamble {
    /// One that ends with the line `word`.
    pub(crate) fn new(word: &str) -> Self {
        Self { line: format!("{word}\n").into_bytes(), held: Vec::new(), is_over: false }
    }

    /// What of a piece belongs to the script; `skip` gets what does not.
    pub(crate) fn strip<'a>(&mut self, bytes: &'a [u8], skip: impl FnOnce(&[u8])) -> Cow<'a, [u8]> {
        if self.is_over {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        let found = self.held.windows(self.line.len()).position(|window| window == self.line);
        if let Some(at) = found {
            self.is_over = true;
            let rest = self.held.split_off(at + self.line.len());
            self.held.truncate(at);
            skip(&std::mem::take(&mut self.held));
            return Cow::Owned(rest);
        }
        let rest = self.held.split_off(self.held.len().saturating_sub(self.line.len() - 1));
        skip(&std::mem::replace(&mut self.held, rest));
        Cow::Borrowed(&[])
    }

    /// What is still held where the line never came.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (String, String) {
        let mut preamble = Preamble::new("0a1b");
        let (mut skipped, mut text) = (Vec::new(), Vec::new());
        for piece in pieces {
            let rest = preamble.strip(piece.as_bytes(), |bytes| skipped.extend_from_slice(bytes));
            text.extend_from_slice(&rest);
        }
        skipped.extend(preamble.finish());
        (String::from_utf8(skipped).unwrap(), String::from_utf8(text).unwrap())
    }

    fn owned(skipped: &str, text: &str) -> (String, String) {
        (skipped.into(), text.into())
    }

    /// The line is found however it is cut, once, and nothing that only looks like it.
    #[test]
    fn be04_only_the_line_itself_begins_a_stream() {
        assert_eq!(read(&["0a1b\nout\n"]), owned("", "out\n"));
        assert_eq!(read(&["welcome\n0a1b\nout", "\n"]), owned("welcome\n", "out\n"));
        assert_eq!(read(&["hi0", "a", "1b", "\no", "ut"]), owned("hi", "out"));
        assert_eq!(read(&["0a1b 3\n0a1b\n0a1b\n"]), owned("0a1b 3\n", "0a1b\n"));
        assert_eq!(read(&["not available\n", "0a1"]), owned("not available\n0a1", ""));
        assert_eq!(read(&[""]), owned("", ""));
    }

    /// However much comes before it, what is held is shorter than the line.
    #[test]
    fn be04_what_is_held_of_a_preamble_is_bounded() {
        let mut preamble = Preamble::new("0a1b");
        for _ in 0..100 {
            preamble.strip(&[b'x'; 1000], |_| {});
            assert!(preamble.held.len() < 5);
        }
    }
}
