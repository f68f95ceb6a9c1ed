//! Lines out of a pipe, one after the other, none longer than [`MAX_LINE`]. Of a longer one only
//! what it answers is found out; it refuses to keep the rest.

use std::io;

use rmcp::model::RequestId;
use tokio::net::unix::pipe::Receiver;

/// 16 MiB: a picture in a message is a tenth of that, and it is what is read over HTTP too.
pub(super) const MAX_LINE: usize = 16 << 20;
/// What one read takes at most; the capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// Bytes at either end of a line in which the id of a message stands: all who write them put it
/// first or last.
const EDGE: usize = 128;

/// One line.
pub(super) enum Line {
    /// All of it, without its end.
    Whole(Vec<u8>),
    /// It is longer than any that is read.
    TooLong {
        /// The request that it answers, where that can be told.
        answers: Option<RequestId>,
        /// Bytes.
        length: usize,
    },
}

/// Reads lines.
pub(super) struct LineReader {
    pipe: Receiver,
    buffer: Box<[u8]>,
    /// What was read and not looked at, in `buffer`.
    unread: std::ops::Range<usize>,
    line: Vec<u8>,
    /// Where the line is too long: its beginning, and how long it is.
    long: Option<(Vec<u8>, usize)>,
}

impl LineReader {
    pub(super) fn new(pipe: Receiver) -> Self {
        let buffer = vec![0; CHUNK].into_boxed_slice();
        Self { pipe, buffer, unread: 0..0, line: Vec::new(), long: None }
    }

    /// The next line; `None` once nobody can write any more. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.take() {
                return Some(line);
            }
            let read = match self.pipe.readable().await {
                Ok(()) => self.pipe.try_read(&mut self.buffer),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => return None,
                Ok(count) => self.unread = 0..count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    tracing::debug!(%error, "cannot read what a server writes");
                    return None;
                }
            }
        }
    }

    /// A line, if what was read ends one.
    fn take(&mut self) -> Option<Line> {
        let unread = self.buffer.get(self.unread.clone()).unwrap_or_default();
        if unread.is_empty() {
            return None;
        }
        let end = unread.iter().position(|byte| *byte == b'\n');
        let piece = unread.get(..end.unwrap_or(unread.len())).unwrap_or_default();
        self.line.extend_from_slice(piece);
        self.unread.start += piece.len() + usize::from(end.is_some());
        self.shorten(end.is_some());
        end?;
        let line = std::mem::take(&mut self.line);
        Some(match self.long.take() {
            None => Line::Whole(line),
            Some((head, before)) => {
                Line::TooLong { answers: answered(&head, &line), length: before + line.len() }
            }
        })
    }

    /// Drops the middle of a line that is too long.
    fn shorten(&mut self, is_end: bool) {
        if self.long.is_none() && self.line.len() <= MAX_LINE {
            return;
        }
        let head = self.line.get(..EDGE).unwrap_or(&self.line).to_vec();
        let (_, length) = self.long.get_or_insert((head, 0));
        let spare = self.line.len().saturating_sub(EDGE);
        *length += spare;
        self.line.drain(..spare);
        if is_end || self.line.capacity() > CHUNK * 4 {
            self.line.shrink_to(EDGE);
        }
    }
}

/// The id that stands first or last in an answer.
fn answered(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    first_id(&String::from_utf8_lossy(head)).or_else(|| last_id(&String::from_utf8_lossy(tail)))
}

/// `{"jsonrpc":"2.0","id":7,"result":…`
fn first_id(head: &str) -> Option<RequestId> {
    let rest = head.trim_start().strip_prefix('{')?.trim_start();
    let rest = match rest.strip_prefix("\"jsonrpc\"") {
        Some(rest) => rest.split_once(',')?.1.trim_start(),
        None => rest,
    };
    let (id, after) = rest.strip_prefix("\"id\"")?.trim_start().strip_prefix(':')?.split_once(',')?;
    let is_answer = ["\"result\"", "\"error\""].iter().any(|key| after.trim_start().starts_with(key));
    serde_json::from_str(id.trim()).ok().filter(|_| is_answer)
}

/// `…},"jsonrpc":"2.0","id":7}`
fn last_id(tail: &str) -> Option<RequestId> {
    let (_, id) = tail.trim_end().strip_suffix('}')?.rsplit_once("\"id\"")?;
    serde_json::from_str(id.trim_start().strip_prefix(':')?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mc12_the_id_of_an_answer_is_found_at_either_end() {
        let number = |number| Some(RequestId::Number(number));
        assert_eq!(first_id(r#"{"jsonrpc":"2.0","id":7,"result":{"content":["#), number(7));
        assert_eq!(first_id(r#" { "id" : "7" , "error": {"#), Some(RequestId::String("7".into())));
        assert_eq!(first_id(r#"{"jsonrpc":"2.0","id":7,"method":"x""#), None, "a request");
        assert_eq!(last_id(r#"aaa"}],"x":1},"jsonrpc":"2.0","id":12}"#), number(12));
        assert_eq!(last_id(r#"aaa"}]}}"#), None);
    }
}
