//! MCP's stdio transport to a child process: one JSON-RPC message per line. Invalid lines do not end the connection,
//! lines are bounded in length (of a longer line only the id of the answered request is kept), and answers that no
//! request waits for are dropped.

use std::collections::{HashSet, VecDeque};
use std::io;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientNotification, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};

use super::child::Wire;
use super::handler::ServerNews;
use super::message::{self, failure};
use haft_core::scan::Scan;

/// Maximum number of messages that wait to be written. Beyond it, a server that sends requests and reads no answers
/// gets no more answers.
const MAX_UNWRITTEN: usize = 256;
/// Number of received messages before other tasks run: rmcp creates a task for each message, and tasks would
/// accumulate for a server that writes without a pause.
const YIELD_AFTER: usize = 32;

/// Maximum length of a line: a picture in a message is a tenth of that; the limit over HTTP is equal.
const MAX_LINE: usize = 16 << 20;
/// Maximum size in bytes of one read; the capacity of a pipe.
const CHUNK: usize = 64 << 10;

pub(super) struct StdioTransport {
    /// The writer; `None` once closed.
    writer: Option<mpsc::Sender<Outgoing>>,
    reader: LineReader,
    /// Requests that were not answered yet.
    awaited: HashSet<RequestId>,
    /// The messages of a batch after its first one.
    queued: VecDeque<ServerJsonRpcMessage>,
    pub(super) wire: Arc<Wire>,
    news: Arc<ServerNews>,
    /// Number of messages since the last yield.
    received: usize,
}

struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl StdioTransport {
    /// Creates a transport to the process at the other ends of `input` and `output`. Must be called inside a
    /// runtime.
    pub(super) fn new(input: Sender, output: Receiver, news: Arc<ServerNews>) -> Self {
        let (writer, lines) = mpsc::channel(MAX_UNWRITTEN);
        let wire = Arc::<Wire>::default();
        tokio::spawn(write_all(input, lines, wire.clone()));
        Self {
            writer: Some(writer),
            reader: LineReader::new(output),
            awaited: HashSet::new(),
            queued: VecDeque::new(),
            wire,
            news,
            received: 0,
        }
    }

    /// Queues a message without waiting, so that messages are sent in order.
    fn queue(&self, outgoing: Outgoing) -> io::Result<()> {
        let writer = self.writer.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let full = || io::Error::new(io::ErrorKind::WouldBlock, "the server does not read its input");
        let bytes = outgoing.line.len();
        if !self.wire.begin(bytes) {
            return Err(full());
        }
        writer.try_send(outgoing).map_err(|_| {
            self.wire.written(bytes);
            full()
        })
    }

    fn track_request(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                // Earlier requests are no longer awaited: a server that was slow to start may answer an earlier
                // attempt now.
                if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                    self.awaited.clear();
                }
                self.awaited.insert(request.id.clone());
            }
            ClientJsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.awaited.remove(id);
                }
            }
            ClientJsonRpcMessage::Response(_) | ClientJsonRpcMessage::Error(_) => {}
        }
    }

    /// Returns the message, unless it is an answer that no request waits for.
    fn if_awaited(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        self.news.note(&message);
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else { return Some(message) };
        if self.awaited.remove(id) || number(id).is_some_and(|id| self.awaited.remove(&id)) {
            self.wire.clear_noise();
            return Some(message);
        }
        tracing::debug!(%id, "skipped an answer without a request");
        None
    }

    fn parse_line(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if let Ok(messages) = message::read(line) {
            self.queued.extend(messages);
            return self.queued.pop_front();
        }
        if !line.is_empty() {
            self.wire.record_noise(line);
            tracing::debug!(line = self.wire.noise(), "skipped a line that is not a message");
        }
        None
    }
}

/// Returns the number in an id: some servers write numbers as texts.
fn number(id: &RequestId) -> Option<RequestId> {
    match id {
        RequestId::String(text) => text.parse().ok().map(RequestId::Number),
        RequestId::Number(_) => None,
    }
}

/// Writes complete lines until all senders are dropped.
async fn write_all(mut input: Sender, mut lines: mpsc::Receiver<Outgoing>, wire: Arc<Wire>) {
    while let Some(Outgoing { line, written }) = lines.recv().await {
        let done = input.write_all(&line).await;
        wire.written(line.len());
        // The sender may have stopped waiting; the line is written nevertheless.
        drop(written.send(done));
    }
}

fn encoded(message: &ClientJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.track_request(&message);
        self.news.calls.note(&message);
        let (written, done) = oneshot::channel();
        let queued = encoded(&message).and_then(|line| self.queue(Outgoing { line, written }));
        async move {
            queued?;
            done.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            self.received += 1;
            if self.received > YIELD_AFTER {
                self.received = 0;
                tokio::task::yield_now().await;
            }
            if let Some(message) = self.queued.pop_front()
                && let Some(message) = self.if_awaited(message)
            {
                return Some(message);
            }
            if !self.queued.is_empty() {
                continue;
            }
            let message = match self.reader.next().await? {
                Line::Whole(line) => self.parse_line(&line),
                Line::TooLong { answers, length } => answers.map(|id| {
                    let most = MAX_LINE >> 20;
                    failure(format!("the answer has {length} bytes; the limit is {most} MiB"), id)
                }),
            };
            if let Some(message) = message.and_then(|message| self.if_awaited(message)) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // Once everything is written the pipe is closed, which asks the server to end.
        self.writer = None;
        Ok(())
    }
}

enum Line {
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

struct LineReader {
    pipe: Receiver,
    buffer: Box<[u8]>,
    /// The bytes of `buffer` that were read and not split yet.
    unread: std::ops::Range<usize>,
    line: Vec<u8>,
    /// For a line that is too long: the scan so far, and the number of dropped bytes.
    long: Option<(Scan, usize)>,
}

impl LineReader {
    fn new(pipe: Receiver) -> Self {
        let buffer = vec![0; CHUNK].into_boxed_slice();
        Self { pipe, buffer, unread: 0..0, line: Vec::new(), long: None }
    }

    /// Returns the next line; `None` at the end of input. Cancel safe.
    async fn next(&mut self) -> Option<Line> {
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
            Some((scan, length)) => Line::TooLong { answers: scan.id().filter(|_| scan.is_answer), length },
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

#[cfg(test)]
mod tests;
