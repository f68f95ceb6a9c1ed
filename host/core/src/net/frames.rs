//! Splits a streamed body into frames: server-sent events (HTML Living Standard, section 9.2.6) or JSON lines.
//! Holds at most one frame, and fails for a frame without end.

/// The framing of a streamed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events.
    Events,
    /// One frame a line.
    Lines,
}

/// The error for a frame that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The state of splitting a body into frames.
#[derive(Debug)]
pub struct Frames {
    framing: Framing,
    /// The maximum size of a frame in bytes.
    most: usize,
    line: Vec<u8>,
    /// The data of the current event; `None` before its first line.
    data: Option<Vec<u8>>,
    /// Whether the last byte was a carriage return: a line feed after it belongs to the same line end.
    after_return: bool,
    is_first_line: bool,
}

impl Frames {
    /// Splits a body into frames of at most `most` bytes each.
    pub fn new(framing: Framing, most: usize) -> Self {
        Self { framing, most, line: Vec::new(), data: None, after_return: false, is_first_line: true }
    }

    /// Adds a piece of the body, and appends completed frames to `frames`.
    ///
    /// # Errors
    /// A frame exceeds the limit; nothing more can be added.
    pub fn push(&mut self, piece: &[u8], frames: &mut Vec<Vec<u8>>) -> Result<(), TooLong> {
        for line in piece.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
            let after_return = std::mem::replace(&mut self.after_return, line.ends_with(b"\r"));
            let (text, ends) = match line.split_last() {
                Some((b'\n' | b'\r', text)) => (text, true),
                _ => (line, false),
            };
            if self.line.len() + self.data.as_ref().map_or(0, Vec::len) + text.len() > self.most {
                return Err(TooLong);
            }
            self.line.extend_from_slice(text);
            if ends && !(after_return && line == b"\n") {
                self.end_line(frames);
            }
        }
        Ok(())
    }

    /// Ends the body. Some servers omit the empty line after the last event, or the end of the last line.
    pub fn finish(&mut self, frames: &mut Vec<Vec<u8>>) {
        self.end_line(frames);
        frames.extend(self.data.take());
    }

    fn end_line(&mut self, frames: &mut Vec<Vec<u8>>) {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::replace(&mut self.is_first_line, false) && line.starts_with(b"\xEF\xBB\xBF") {
            line.drain(..3);
        }
        match self.framing {
            Framing::Lines if line.iter().all(u8::is_ascii_whitespace) => {}
            Framing::Lines => frames.push(line),
            Framing::Events if line.is_empty() => frames.extend(self.data.take()),
            Framing::Events => self.field(&line),
        }
    }

    /// Adds a line of an event. Only `data` matters: every vendor repeats the event's name in it.
    fn field(&mut self, line: &[u8]) {
        let Some(value) = line.strip_prefix(b"data") else { return };
        let value = match value.split_first() {
            None => value,
            Some((b':', value)) => value.strip_prefix(b" ").unwrap_or(value),
            Some(_) => return,
        };
        if let Some(data) = &mut self.data {
            data.push(b'\n');
            data.extend_from_slice(value);
        } else {
            self.data = Some(value.to_vec());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: usize = 1 << 20;

    fn cut(framing: Framing, pieces: &[&[u8]]) -> Vec<String> {
        let (mut cutter, mut frames) = (Frames::new(framing, MOST), Vec::new());
        for piece in pieces {
            cutter.push(piece, &mut frames).unwrap();
        }
        cutter.finish(&mut frames);
        frames.into_iter().map(|frame| String::from_utf8(frame).unwrap()).collect()
    }

    #[test]
    fn events_are_cut_as_the_standard_says() {
        let body = b"\xEF\xBB\xBFevent: x\ndata: one\n\n: comment\r\n\r\ndata:two\ndata: more\r\rdatax: 1\ndata\n\nid: 7\nretry: 1\n\ndata:  last";
        let expected = ["one", "two\nmore", "", " last"];
        assert_eq!(cut(Framing::Events, &[body]), expected);
    }

    #[test]
    fn lines_are_cut_where_they_end() {
        assert_eq!(cut(Framing::Lines, &[b"{}\n\n  \r\n{\"a\":", b"1}\r\n{}"]), ["{}", "{\"a\":1}", "{}"]);
    }

    /// A frame without end is rejected in either framing.
    #[test]
    fn a_frame_is_bounded() {
        let long = vec![b'x'; MOST + 1];
        for framing in [Framing::Events, Framing::Lines] {
            assert_eq!(Frames::new(framing, MOST).push(&long, &mut Vec::new()), Err(TooLong));
        }
        let mut many = Frames::new(Framing::Events, MOST);
        let line = [b"data: ".as_slice(), &vec![b'x'; MOST / 8], b"\n"].concat();
        let refused = (0..16).any(|_| many.push(&line, &mut Vec::new()).is_err());
        assert!(refused);
    }

    proptest! {
        /// The frames do not depend on how the network splits the body.
        #[test]
        fn frames_do_not_depend_on_the_pieces(
            body in "(data: ?[a-z{}\":é]{0,6}|:x|event: y|)(\r\n|\n|\r|\n\n){1,2}(data: [a-z]{0,3}\n\n){0,3}",
            cuts in prop::collection::vec(0_usize..60, 0..4),
        ) {
            let bytes = body.as_bytes();
            let mut cuts: Vec<_> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
            cuts.sort_unstable();
            let ends = cuts.iter().copied().chain([bytes.len()]);
            let starts = std::iter::once(0).chain(cuts.iter().copied());
            let pieces: Vec<_> = starts.zip(ends).map(|(from, to)| &bytes[from..to]).collect();
            for framing in [Framing::Events, Framing::Lines] {
                prop_assert_eq!(cut(framing, &pieces), cut(framing, &[bytes]));
            }
        }
    }
}
