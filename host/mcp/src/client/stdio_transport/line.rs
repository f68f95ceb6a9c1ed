//! Reads lines from a pipe, each at most [`MAX_LINE`] long. Of a longer line only the id of the answered request is
//! kept.

use std::io;

use rmcp::model::RequestId;
use tokio::net::unix::pipe::Receiver;

use haft_core::scan::Scan;

/// 16 MiB: a picture in a message is a tenth of that; the limit over HTTP is equal.
pub(super) const MAX_LINE: usize = 16 << 20;
/// Maximum size in bytes of one read; the capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// A line.
pub(super) enum Line {
    /// The complete line, without its end.
    Whole(Vec<u8>),
    /// The line exceeds the limit.
    TooLong {
        /// The id of the request that the line answers, if found.
        answers: Option<RequestId>,
        /// Bytes.
        length: usize,
    },
}

/// Reads lines.
pub(super) struct LineReader {
    pipe: Receiver,
    buffer: Box<[u8]>,
    /// The bytes of `buffer` that were read and not split yet.
    unread: std::ops::Range<usize>,
    line: Vec<u8>,
    /// For a line that is too long: the scan so far, and the number of dropped bytes.
    long: Option<(Scan, usize)>,
}

impl LineReader {
    pub(super) fn new(pipe: Receiver) -> Self {
        let buffer = vec![0; CHUNK].into_boxed_slice();
        Self { pipe, buffer, unread: 0..0, line: Vec::new(), long: None }
    }

    /// Returns the next line; `None` at the end of input. Cancel safe.
    pub(super) async fn next(&mut self) -> Option<Line> {
        loop {
            if let Some(line) = self.take_line() {
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
                    tracing::debug!(%error, "cannot read a server's output");
                    return None;
                }
            }
        }
    }

    /// Returns a line, if the read bytes complete a line.
    fn take_line(&mut self) -> Option<Line> {
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
            Some((scan, length)) => Line::TooLong { answers: scan.id().filter(|_| scan.is_answer()), length },
        })
    }

    /// Drops the read bytes of a line that is too long, after scanning them.
    fn shorten(&mut self, is_end: bool) {
        let is_much = self.line.len() > CHUNK || is_end;
        if self.line.len() > MAX_LINE || (self.long.is_some() && is_much) {
            let (scan, length) = self.long.get_or_insert_default();
            scan.feed(&self.line);
            *length += self.line.len();
            self.line = Vec::new();
        }
    }
}
