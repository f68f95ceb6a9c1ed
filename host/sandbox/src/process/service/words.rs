//! The standard error of a service: passed on line by line, and the last lines kept: at most [`MAX_LINES`]
//! lines of [`MAX_LINE`] bytes.

use std::collections::VecDeque;

/// Limit on the kept lines: a stack trace and its context.
const MAX_LINES: usize = 20;
/// Limit on the bytes of a line. The rest of a longer line is dropped.
const MAX_LINE: usize = 500;

/// The last lines of a stream.
#[derive(Debug, Default)]
pub(super) struct LastLines {
    lines: VecDeque<String>,
    /// The first [`MAX_LINE`] bytes of the incomplete line.
    line: Vec<u8>,
}

impl LastLines {
    /// Adds bytes, and calls `on_line` with every complete line.
    pub(super) fn push(&mut self, bytes: &[u8], on_line: &(impl Fn(&str) + ?Sized)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at(end);
            self.extend(line);
            self.end_line(on_line);
            rest = after.get(1..).unwrap_or_default();
        }
        self.extend(rest);
    }

    fn extend(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.line.len();
        self.line.extend(bytes.iter().take(room));
    }

    fn end_line(&mut self, on_line: &(impl Fn(&str) + ?Sized)) {
        let line = shown(&std::mem::take(&mut self.line));
        if line.is_empty() {
            return;
        }
        on_line(&line);
        if self.lines.len() == MAX_LINES {
            self.lines.pop_front();
        }
        self.lines.push_back(line);
    }

    /// Returns the kept lines, including the incomplete one.
    pub(super) fn last(&self) -> String {
        let unfinished = shown(&self.line);
        let unfinished = Some(unfinished.as_str()).filter(|line| !line.is_empty());
        let lines: Vec<&str> = self.lines.iter().map(String::as_str).chain(unfinished).collect();
        lines.join("\n")
    }
}

/// Returns a line without control characters.
fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text: String =
        text.chars().map(|c| if c == '\t' { ' ' } else { c }).filter(|c| !c.is_control()).collect();
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn mc11_lines_are_told_once_and_the_last_are_kept() {
        let lines = RefCell::new(Vec::new());
        let on_line = |line: &str| lines.borrow_mut().push(line.to_owned());
        let mut words = LastLines::default();
        words.push(b"one\ntw", &on_line);
        words.push(b"o\r\n\n\x1b[31mred\x1b[0m", &on_line);
        assert_eq!(*lines.borrow(), ["one", "two"]);
        assert_eq!(words.last(), "one\ntwo\n[31mred[0m");
    }

    #[test]
    fn mc11_a_megabyte_is_not_kept() {
        let mut words = LastLines::default();
        for number in 0..1000 {
            words.push(format!("{number} {}\n", "x".repeat(2000)).as_bytes(), &|_: &str| {});
        }
        words.push(&vec![b'y'; 1 << 20], &|_: &str| {});
        let last = words.last();
        assert!(last.len() <= (MAX_LINES + 1) * (MAX_LINE + 1) && last.starts_with("980 "), "{last}");
    }
}
