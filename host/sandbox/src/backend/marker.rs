//! The lines with a script's nonce, which only the script's shell knows. The script first prints its nonce as
//! a line on each stream: the output before it, such as a banner or the output of start-up files, is removed
//! ([`Preamble`]). Its status line ends its standard error ([`Marker`]).

use std::borrow::Cow;

/// A stream that ends with a status line.
#[derive(Debug)]
pub(crate) struct Marker {
    /// The stream up to the nonce.
    text: Preamble,
    /// The bytes after the nonce.
    last: Vec<u8>,
}

/// Limit on the bytes of the status line.
const MAX_LAST: usize = 4096;

impl Marker {
    pub(crate) fn new(word: &str) -> Self {
        Self { text: Preamble::up_to(word.to_owned()), last: Vec::new() }
    }

    /// Processes bytes; passes on those before the status line.
    pub(crate) fn push(&mut self, bytes: &[u8], pass: impl FnOnce(&[u8])) {
        let room = MAX_LAST.saturating_sub(self.last.len());
        self.last.extend(self.text.strip(bytes, pass).iter().take(room));
    }

    /// Reports whether the status line is complete.
    pub(crate) fn is_whole(&self) -> bool {
        self.last.ends_with(b"\n")
    }

    /// Returns the status line after its nonce; without a nonce, passes the retained bytes to `pass`.
    pub(crate) fn finish(self, pass: impl FnOnce(&[u8])) -> Option<String> {
        pass(&self.text.finish());
        let text = String::from_utf8_lossy(&self.last);
        let (line, _) = text.split_once('\n')?;
        Some(line.trim().to_owned())
    }
}

/// A stream up to the nonce line.
#[derive(Debug)]
pub(crate) struct Preamble {
    end: Vec<u8>,
    /// Bytes that may be the start of the end.
    held: Vec<u8>,
    is_over: bool,
}

impl Preamble {
    pub(crate) fn new(word: &str) -> Self {
        Self::up_to(format!("{word}\n"))
    }

    fn up_to(end: String) -> Self {
        Self { end: end.into_bytes(), held: Vec::new(), is_over: false }
    }

    /// Returns the part of the bytes after the end; `skip` gets the part before.
    pub(crate) fn strip<'a>(&mut self, bytes: &'a [u8], skip: impl FnOnce(&[u8])) -> Cow<'a, [u8]> {
        if self.is_over {
            return Cow::Borrowed(bytes);
        }
        self.held.extend_from_slice(bytes);
        let found = self.held.windows(self.end.len()).position(|window| window == self.end);
        let mut rest = self.held.split_off(found.unwrap_or(self.held.len() - self.beginning()));
        skip(&std::mem::take(&mut self.held));
        self.is_over = found.is_some();
        if self.is_over {
            return Cow::Owned(rest.split_off(self.end.len()));
        }
        self.held = rest;
        Cow::Borrowed(&[])
    }

    /// Returns the number of trailing bytes that may be the start of the end.
    fn beginning(&self) -> usize {
        let longest = self.held.len().min(self.end.len() - 1);
        let is_beginning = |length: &usize| {
            let last = self.held.get(self.held.len() - length..).unwrap_or_default();
            self.end.starts_with(last)
        };
        (1..=longest).rev().find(is_beginning).unwrap_or(0)
    }

    /// Returns the retained bytes, if the end never came.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&str]) -> (String, Option<String>) {
        let mut marker = Marker::new("0a1b");
        let mut text = Vec::new();
        for piece in pieces {
            marker.push(piece.as_bytes(), |bytes| text.extend_from_slice(bytes));
        }
        let last = marker.finish(|bytes| text.extend_from_slice(bytes));
        (String::from_utf8(text).unwrap(), last)
    }

    /// MK02, MK04: the line is found in any division into chunks, and similar text is not taken for it.
    #[test]
    fn only_the_word_itself_ends_a_stream() {
        assert_eq!(read(&["err\n0a1b 42 left\n"]), ("err\n".into(), Some("42 left".into())));
        assert_eq!(read(&["err0", "a", "1b", " 0", "\n"]), ("err".into(), Some("0".into())));
        assert_eq!(read(&["0a1", "0a1b 3\nrest"]), ("0a1".into(), Some("3".into())));
        assert_eq!(read(&["0a1c 0\n0a1"]), ("0a1c 0\n0a1".into(), None));
        assert_eq!(read(&["x0a1b 0"]), ("x".into(), None));
        assert_eq!(read(&[""]), (String::new(), None));
    }

    fn split(pieces: &[&str]) -> (String, String) {
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

    /// BE04: the line is found once, in any division into chunks, and similar text is not taken for it.
    #[test]
    fn only_the_line_itself_begins_a_stream() {
        assert_eq!(split(&["0a1b\nout\n"]), owned("", "out\n"));
        assert_eq!(split(&["welcome\n0a1b\nout", "\n"]), owned("welcome\n", "out\n"));
        assert_eq!(split(&["hi0", "a", "1b", "\no", "ut"]), owned("hi", "out"));
        assert_eq!(split(&["0a1b 3\n0a1b\n0a1b\n"]), owned("0a1b 3\n", "0a1b\n"));
        assert_eq!(split(&["not available\n", "0a1"]), owned("not available\n0a1", ""));
        assert_eq!(split(&[""]), owned("", ""));
    }

    /// BE04: Fewer bytes are retained than the line has, however long the preamble.
    #[test]
    fn what_is_held_of_a_preamble_is_bounded() {
        let mut preamble = Preamble::new("0a1b");
        for _ in 0..100 {
            preamble.strip(&[b'x'; 1000], |_| {});
            assert!(preamble.held.len() < 5);
        }
    }
}
