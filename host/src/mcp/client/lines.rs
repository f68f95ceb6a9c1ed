//! The pipes of a child as MCP's stdio transport: a JSON-RPC message a line. It refuses to let
//! anything that a server writes end the connection, to keep a line without end, and to pass on an
//! answer that nobody waits for.

use std::collections::{HashSet, VecDeque};
use std::io;

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{mpsc, oneshot};

use self::line::{Line, LineReader};

mod line;

/// Messages that wait to be written. A server that sends requests and reads no answers is not
/// answered any more.
const MAX_UNWRITTEN: usize = 256;
/// Messages of one line, which may hold a batch of them.
const MAX_BATCH: usize = 1000;

/// The transport.
pub(super) struct Lines {
    /// `None` once it was closed.
    writer: Option<mpsc::Sender<Outgoing>>,
    reader: LineReader,
    /// Requests that were not answered yet.
    awaited: HashSet<RequestId>,
    /// What a batch held besides its first message.
    queued: VecDeque<ServerJsonRpcMessage>,
}

struct Outgoing {
    line: Vec<u8>,
    written: oneshot::Sender<io::Result<()>>,
}

impl Lines {
    /// Talks to whoever reads `input` and writes `output`. Must be made inside a runtime.
    pub(super) fn new(input: Sender, output: Receiver) -> Self {
        let (writer, lines) = mpsc::channel(MAX_UNWRITTEN);
        tokio::spawn(write_all(input, lines));
        Self {
            writer: Some(writer),
            reader: LineReader::new(output),
            awaited: HashSet::new(),
            queued: VecDeque::new(),
        }
    }

    fn note(&mut self, message: &ClientJsonRpcMessage) {
        match message {
            ClientJsonRpcMessage::Request(request) => {
                // Whatever was asked before is not waited for: a server that was slow to start may
                // answer an earlier attempt now.
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

    /// The message, unless it answers what was not asked, or is not waited for any more.
    fn wanted(&mut self, message: ServerJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
        let id = match &message {
            ServerJsonRpcMessage::Response(response) => Some(&response.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref(),
            ServerJsonRpcMessage::Request(_) | ServerJsonRpcMessage::Notification(_) => None,
        };
        let Some(id) = id else { return Some(message) };
        if self.awaited.remove(id) || number(id).is_some_and(|id| self.awaited.remove(&id)) {
            return Some(message);
        }
        tracing::debug!(%id, "an answer that nobody waits for was passed over");
        None
    }

    /// What a line says, as far as it says anything.
    fn parsed(&mut self, line: &[u8]) -> Option<ServerJsonRpcMessage> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii();
        if line.first() == Some(&b'[') {
            let batch: Vec<Value> = serde_json::from_slice(line).unwrap_or_default();
            let messages = batch.into_iter().take(MAX_BATCH);
            self.queued.extend(messages.filter_map(|value| serde_json::from_value(value).ok()));
            return self.queued.pop_front();
        }
        match serde_json::from_slice(line) {
            Ok(message) => Some(message),
            Err(error) => {
                let malformed = malformed(line, &error);
                if malformed.is_none() && !line.is_empty() {
                    let shown = String::from_utf8_lossy(line.get(..200).unwrap_or(line)).into_owned();
                    tracing::debug!(line = shown, "a line that is no message was passed over");
                }
                malformed
            }
        }
    }
}

/// Some write numbers as texts.
fn number(id: &RequestId) -> Option<RequestId> {
    match id {
        RequestId::String(text) => text.parse().ok().map(RequestId::Number),
        RequestId::Number(_) => None,
    }
}

/// An answer that is not one, as an error, so that whoever waits for it does so no longer.
fn malformed(line: &[u8], error: &serde_json::Error) -> Option<ServerJsonRpcMessage> {
    let value: Value = serde_json::from_slice(line).ok()?;
    let answers = value.get("result").is_some() || value.get("error").is_some();
    let id = value.get("id").filter(|_| answers)?;
    let id = serde_json::from_value(id.clone()).ok()?;
    Some(failed(format!("the server's answer is malformed: {error}"), id))
}

fn failed(message: String, id: RequestId) -> ServerJsonRpcMessage {
    ServerJsonRpcMessage::error(ErrorData::internal_error(message, None), Some(id))
}

/// Writes line after line, each one whole, until nobody has any more to write.
async fn write_all(mut input: Sender, mut lines: mpsc::Receiver<Outgoing>) {
    while let Some(Outgoing { line, written }) = lines.recv().await {
        // Whoever waited may have given up; the line is written all the same.
        drop(written.send(input.write_all(&line).await));
    }
}

fn encoded(message: &ClientJsonRpcMessage) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message).map_err(io::Error::other)?;
    line.push(b'\n');
    Ok(line)
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.note(&message);
        let (written, done) = oneshot::channel();
        let queued = encoded(&message).and_then(|line| {
            let writer = self.writer.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            // At once, so that messages go out in the order in which they were sent.
            writer.try_send(Outgoing { line, written }).map_err(|_| {
                io::Error::new(io::ErrorKind::WouldBlock, "the server does not read what it is sent")
            })
        });
        async move {
            queued?;
            done.await.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.queued.pop_front()
                && let Some(message) = self.wanted(message)
            {
                return Some(message);
            }
            if !self.queued.is_empty() {
                continue;
            }
            let message = match self.reader.next().await? {
                Line::Whole(line) => self.parsed(&line),
                Line::TooLong { answers, length } => answers.map(|id| {
                    let most = line::MAX_LINE >> 20;
                    failed(format!("the answer has {length} bytes, and at most {most} MiB are read"), id)
                }),
            };
            if let Some(message) = message.and_then(|message| self.wanted(message)) {
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

#[cfg(test)]
mod tests;
