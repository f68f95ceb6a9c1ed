//! The reading side: bytes to lines, lines to messages. Holds one line at a time, and of a line that
//! is too long nothing.

use std::io::{self, BufRead, BufReader, Read};

use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage, ClientRequest,
    ErrorData, GetMeta, JsonRpcVersion2_0, RequestId,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::brief::{Brief, Next};
use crate::plugin::lent::{self, Whose};

/// Bytes of one message: a file to be written, in JSON. What clients take from servers, too.
const MAX_LINE: usize = 16 << 20;

/// Messages that were read and not looked at yet. A client that sends more waits.
const QUEUE: usize = 64;

/// Bytes read at once.
const BUFFER: usize = 64 << 10;

/// Messages ahead that are counted.
const AHEAD: usize = 8;

/// Bytes that the buffer of a line keeps for the next one.
const KEPT: usize = 1 << 20;

/// What was read.
pub(super) enum Incoming {
    Message(Box<ClientJsonRpcMessage>),
    /// JSON, and no message; the answer to it.
    Invalid(Option<RequestId>, ErrorData),
}

/// Starts reading.
pub(super) fn start(
    input: impl Read + Send + 'static,
    brief: Brief,
    ended: CancellationToken,
) -> io::Result<mpsc::Receiver<Incoming>> {
    let (sender, receiver) = mpsc::channel(QUEUE);
    let read = move || {
        // This thread reads, makes calls and answers them, and does nothing else.
        lent::lend();
        if let Err(error) = read(BufReader::with_capacity(BUFFER, input), &brief, &sender) {
            tracing::warn!(%error, "standard input cannot be read any more");
        }
        ended.cancel();
    };
    std::thread::Builder::new().name("haft-input".into()).spawn(read)?;
    Ok(receiver)
}

fn read(mut input: BufReader<impl Read>, brief: &Brief, sender: &mpsc::Sender<Incoming>) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        if !input.buffer().contains(&b'\n') {
            // Nothing is held back, or left, by somebody who waits.
            brief.let_go();
            lent::clear(Whose::Nobodys);
        }
        let taken = (&mut input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(());
        }
        let is_whole = line.ends_with(b"\n");
        if line.len() > MAX_LINE {
            if !is_whole {
                skip_line(&mut input)?;
            }
            let error =
                ErrorData::invalid_request(format!("a message longer than {} MiB", MAX_LINE >> 20), None);
            line = Vec::new();
            if sender.blocking_send(Incoming::Invalid(None, error)).is_err() {
                return Ok(());
            }
        } else {
            // What ends without a newline is half a message, or the last one of somebody careless.
            let next = next(input.buffer());
            for incoming in messages(line.trim_ascii()) {
                let Some(incoming) = brief.make(incoming, next) else { continue };
                if sender.blocking_send(incoming).is_err() {
                    return Ok(());
                }
            }
        }
        line.clear();
        line.shrink_to(KEPT);
    }
}

/// What comes after a message where `buffer` is read already.
fn next(buffer: &[u8]) -> Next {
    let whose = if buffer.is_empty() { Whose::Nobodys } else { Whose::Callers };
    Next { whose, ahead: buffer.split(|byte| *byte == b'\n').skip(1).take(AHEAD).count() }
}

/// Reads to the end of a line without keeping it.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (used, is_end) = end.map_or((buffer.len(), buffer.is_empty()), |end| (end + 1, true));
        input.consume(used);
        if is_end {
            return Ok(());
        }
    }
}

/// The messages of a line: one, or those of a batch (2025-03-26).
fn messages(line: &[u8]) -> Vec<Incoming> {
    // Some put a byte order mark before everything.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    match line.first() {
        None => Vec::new(),
        Some(b'[') => {
            let batch: Result<Vec<Value>, _> = serde_json::from_slice(line);
            batch.map(|batch| batch.iter().filter_map(message_of).collect()).unwrap_or_default()
        }
        Some(_) => match call(line).map_or_else(|| serde_json::from_slice(line), Ok) {
            Ok(message) => vec![Incoming::Message(Box::new(message))],
            Err(error) => no_message(line, &error).into_iter().collect(),
        },
    }
}

/// Bytes of a line in which its method is looked for.
const HEAD: usize = 256;

const CALL: &[u8] = b"\"tools/call\"";

/// A call, as nearly all lines are. rmcp tries every other method first, each on a copy of the whole.
#[derive(Deserialize)]
struct Call {
    #[serde(rename = "jsonrpc")]
    _jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    #[serde(rename = "method")]
    _method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

fn call(line: &[u8]) -> Option<ClientJsonRpcMessage> {
    let head = line.get(..HEAD).unwrap_or(line);
    if !head.windows(CALL.len()).any(|part| part == CALL) {
        return None;
    }
    let Call { id, mut params, .. } = serde_json::from_slice(line).ok()?;
    let meta = params.meta.take();
    let mut request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    if let Some(meta) = meta {
        *request.get_meta_mut() = meta;
    }
    Some(ClientJsonRpcMessage::request(request, id))
}

fn message_of(value: &Value) -> Option<Incoming> {
    match ClientJsonRpcMessage::deserialize(value) {
        Ok(message) => Some(Incoming::Message(Box::new(message))),
        Err(error) => invalid(value, &error),
    }
}

/// The answer to a line that is no message. What is not even JSON gets none: two programs that
/// answer each other's garbage never stop.
fn no_message(line: &[u8], error: &serde_json::Error) -> Option<Incoming> {
    match serde_json::from_slice::<Value>(line) {
        Ok(value) => invalid(&value, error),
        Err(error) => {
            tracing::debug!(%error, "a line that is not JSON");
            None
        }
    }
}

fn invalid(value: &Value, error: &serde_json::Error) -> Option<Incoming> {
    tracing::debug!(%error, "a line that is no message");
    let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
    let is_notification = id.is_none() && value.get("method").is_some();
    let error = if value.get("method").is_some_and(Value::is_string) {
        ErrorData::invalid_params(format!("not what this method takes: {error}"), None)
    } else {
        ErrorData::invalid_request("not a message of JSON-RPC 2.0", None)
    };
    (!is_notification).then_some(Incoming::Invalid(id, error))
}
