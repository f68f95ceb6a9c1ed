//! Strips the output before a script starts: start-up files of the login shell, a banner. A file's content must
//! not begin with it. The script first prints its nonce as a line on each stream.

use std::borrow::Cow;

/// A stream up to the nonce line.
#[derive(Debug)]
pub(crate) struct Preamble {
    line: Vec<u8>,
    /// Bytes that may be the start of the line.
    held: Vec<u8>,
    is_over: bool,
}

impl Preamble {
    /// Creates a preamble that ends with the line `word`.
    pub(crate) fn new(word: &str) -> Self {
        Self { line: format!("{word}\n").into_bytes(), held: Vec::new(), is_over: false }
    }

    /// Returns the script's part of the bytes; `skip` gets the part before.
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

    /// Returns the retained bytes, if the line never came.
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

    /// The line is found once, in any division into chunks, and similar text is not taken for it.
    #[test]
    fn be04_only_the_line_itself_begins_a_stream() {
        assert_eq!(read(&["0a1b\nout\n"]), owned("", "out\n"));
        assert_eq!(read(&["welcome\n0a1b\nout", "\n"]), owned("welcome\n", "out\n"));
        assert_eq!(read(&["hi0", "a", "1b", "\no", "ut"]), owned("hi", "out"));
        assert_eq!(read(&["0a1b 3\n0a1b\n0a1b\n"]), owned("0a1b 3\n", "0a1b\n"));
        assert_eq!(read(&["not available\n", "0a1"]), owned("not available\n0a1", ""));
        assert_eq!(read(&[""]), owned("", ""));
    }

    /// Fewer bytes are retained than the line has, however long the preamble.
    #[test]
    fn be04_what_is_held_of_a_preamble_is_bounded() {
        let mut preamble = Preamble::new("0a1b");
        for _ in 0..100 {
            preamble.strip(&[b'x'; 1000], |_| {});
            assert!(preamble.held.len() < 5);
        }
    }
}
