//! Finds the last line of a script in what it writes to standard error, and passes on everything before it. Only a
//! line that begins with the script's nonce is taken for it, which only the script's shell knows.

/// A stream that ends with a marked line.
#[derive(Debug)]
pub(crate) struct Marker {
    word: Vec<u8>,
    /// What may be the beginning of the word.
    held: Vec<u8>,
    /// What came from the word on.
    last: Option<Vec<u8>>,
}

/// Bytes of the last line that are looked at.
const MAX_LAST: usize = 4096;

impl Marker {
    /// One whose last line begins with `word`.
    pub(crate) fn new(word: &str) -> Self {
        Self { word: word.as_bytes().to_vec(), held: Vec::new(), last: None }
    }

    /// Takes in a piece; passes on what is not part of the last line.
    pub(crate) fn push(&mut self, bytes: &[u8], pass: impl FnOnce(&[u8])) {
        if let Some(last) = &mut self.last {
            let room = MAX_LAST.saturating_sub(last.len());
            last.extend(bytes.iter().take(room));
            return;
        }
        self.held.extend_from_slice(bytes);
        let found = self.held.windows(self.word.len()).position(|window| window == self.word);
        if let Some(at) = found {
            let mut last = self.held.split_off(at);
            last.truncate(MAX_LAST);
            self.last = Some(last);
            pass(&std::mem::take(&mut self.held));
        } else {
            let rest = self.held.split_off(self.held.len() - self.beginning());
            pass(&std::mem::replace(&mut self.held, rest));
        }
    }

    /// How many bytes at the end may be the beginning of the word.
    fn beginning(&self) -> usize {
        let longest = self.held.len().min(self.word.len() - 1);
        let is_beginning = |length: &usize| {
            let end = self.held.get(self.held.len() - length..).unwrap_or_default();
            self.word.starts_with(end)
        };
        (1..=longest).rev().find(is_beginning).unwrap_or(0)
    }

    /// Whether the last line is there, whole.
    pub(crate) fn is_whole(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.ends_with(b"\n"))
    }

    /// What the last line says after its word; what was held back goes to `pass` where it never came.
    pub(crate) fn finish(self, pass: impl FnOnce(&[u8])) -> Option<String> {
        let Some(last) = self.last else {
            pass(&self.held);
            return None;
        };
        let text = String::from_utf8_lossy(last.get(self.word.len()..).unwrap_or_default()).into_owned();
        let line = text.lines().next().unwrap_or_default();
        text.contains('\n').then(|| line.trim().to_owned())
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

    /// MK02, MK04: the line is found however it is cut, and nothing that only looks like it.
    #[test]
    fn mk04_only_the_word_itself_ends_a_stream() {
        assert_eq!(read(&["err\n0a1b 42 left\n"]), ("err\n".into(), Some("42 left".into())));
        assert_eq!(read(&["err0", "a", "1b", " 0", "\n"]), ("err".into(), Some("0".into())));
        assert_eq!(read(&["0a1", "0a1b 3\nrest"]), ("0a1".into(), Some("3".into())));
        assert_eq!(read(&["0a1c 0\n0a1"]), ("0a1c 0\n0a1".into(), None));
        assert_eq!(read(&["x0a1b 0"]), ("x".into(), None));
        assert_eq!(read(&[""]), (String::new(), None));
    }
}
