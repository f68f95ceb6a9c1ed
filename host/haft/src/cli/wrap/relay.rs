//! Relays the messages of client and server: one thread for each direction reads a line, inspects it and writes it. A
//! thread that cannot write does not read, so that backpressure is the same as without haft.

mod listed;
mod received;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use anyhow::Context;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, spawn_blocking};

use super::tools::Tools;
use super::{Start, question};
use haft_core::scan::Scan;
use haft_core::sync::Lock;
use haft_sandbox::attached;

pub(super) use self::received::Received;

/// Bytes of one read: the capacity of a pipe. A buffer keeps this capacity for the next line.
const CHUNK: usize = 64 << 10;

/// The client's messages, as haft reads them.
pub(super) type Client = BufReader<File>;

/// The relay for both directions.
pub(super) struct Relay {
    pub(super) sent: Sent,
    pub(super) received: Received,
    pub(super) output: Arc<Output>,
}

/// The output to the client. Each line is written as a whole.
pub(super) struct Output {
    client: Lock<Option<File>>,
    is_used: AtomicBool,
}

/// One end of a pipe, with bytes that were read from it already, or that are written to it first.
pub(super) struct End {
    pub(super) before: Vec<u8>,
    pub(super) pipe: OwnedFd,
}

impl Relay {
    /// # Errors
    /// Standard output is closed.
    pub(super) fn new(start: &Start) -> anyhow::Result<Self> {
        let output = io::stdout().as_fd().try_clone_to_owned().context("cannot write to the client")?;
        let output = Arc::new(Output::new(output.into()));
        let tools = Arc::new(Tools::new(start));
        let (sent, received) =
            (Sent::new(output.clone(), tools.clone()), Received::new(output.clone(), tools));
        Ok(Self { sent, received, output })
    }

    /// Begins to relay. The returned handle ends with the server's output, which is then closed for the client.
    pub(super) fn begin(self, mut client: Client, input: End, output: End) -> JoinHandle<()> {
        let Self { sent, mut received, output: to_client } = self;
        spawn_blocking(move || {
            // Either side may end first. The other side detects that by its closed pipe.
            let mut lines = BufReader::with_capacity(CHUNK, Cursor::new(input.before).chain(&mut client));
            let _: io::Result<()> = sent.run(&mut lines, input.pipe.into());
        });
        spawn_blocking(move || {
            let pipe = Cursor::new(output.before).chain(File::from(output.pipe));
            let _: io::Result<()> = received.run(&mut BufReader::with_capacity(CHUNK, pipe));
            to_client.close();
        })
    }
}

impl End {
    pub(super) fn new(pipe: OwnedFd) -> Self {
        Self { before: Vec::new(), pipe }
    }
}

impl Output {
    fn new(client: File) -> Self {
        Self { client: Lock::new(Some(client)), is_used: AtomicBool::new(false) }
    }

    /// Returns whether a line was written.
    pub(super) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        self.lock().write_all(bytes)
    }

    fn lock(&self) -> Guard<'_> {
        self.is_used.store(true, Ordering::Relaxed);
        Guard(self.client.lock())
    }

    fn close(&self) {
        *self.client.lock() = None;
        // Without `/dev/null` the output is closed when haft ends.
        let _ = attached::close_output();
    }
}

/// The output to the client while a line is written.
struct Guard<'o>(MutexGuard<'o, Option<File>>);

impl Write for Guard<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the client's messages.
///
/// # Errors
/// Standard input is closed.
pub(super) fn client() -> anyhow::Result<Client> {
    let input = io::stdin().as_fd().try_clone_to_owned().context("cannot read from the client")?;
    Ok(BufReader::with_capacity(CHUNK, input.into()))
}

/// Returns the line that answers the request `id` with an error of JSON-RPC.
pub(super) fn error_line(id: &Value, code: i32, message: &str) -> Vec<u8> {
    let error = json!({ "code": code, "message": message });
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })).into_bytes()
}

/// Returns a line without the byte order mark that some programs write first.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns the first byte of a line that is neither white space nor part of a byte order mark.
fn first_byte(line: &[u8]) -> Option<u8> {
    without_mark(line).iter().find(|byte| !byte.is_ascii_whitespace()).copied()
}

/// Maximum bytes of a line that is held until its end: the size of the longest list, and of a call until it is known whether
/// it must not pass. Clients write the name of the tool before its arguments.
const MAX_LINE: usize = 8 << 20;

/// Passes each line of `input` with its newline to `relay`, or the beginning of a longer one with the input of its rest.
fn each_line<I: BufRead>(
    input: &mut I,
    mut relay: impl FnMut(&[u8], Option<&mut I>) -> io::Result<()>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while (&mut *input).take(MAX_LINE as u64).read_until(b'\n', &mut line)? > 0 {
        let is_long = line.len() == MAX_LINE && !line.ends_with(b"\n");
        relay(&line, is_long.then_some(&mut *input))?;
        line.clear();
        line.shrink_to(CHUNK);
    }
    Ok(())
}

/// The error code of JSON-RPC for invalid parameters: MCP uses it for an unknown tool.
const NO_TOOL: i32 = -32_602;
/// The answer to a call without a tool name, or with a name that no tool in a list can have.
const UNREADABLE: &str = "the call was not made: haft cannot compare its tool name with the approved tools";
/// The answer to a longer call whose tool name follows too late.
const UNNAMED: &str = "the call was not made: its tool name follows 8 MiB of arguments, so haft cannot \
    compare the name with the approved tools";

pub(in crate::cli::wrap) struct Sent {
    output: Arc<Output>,
    tools: Arc<Tools>,
}

pub(in crate::cli::wrap) enum Line {
    Passes,
    /// The line is replaced by other bytes, or dropped if there are none.
    Replaced(Vec<u8>),
}

impl Sent {
    pub(super) fn new(output: Arc<Output>, tools: Arc<Tools>) -> Self {
        Self { output, tools }
    }

    /// Relays the client's input until its end. A server that has closed its input receives no further lines.
    pub(super) fn run(&self, client: &mut impl BufRead, server: File) -> io::Result<()> {
        let mut server = Server(Some(server));
        each_line(client, |line, rest| {
            match rest {
                Some(client) => self.long(line, client, &mut server)?,
                None => match self.judge(line)? {
                    Line::Passes => server.write(line),
                    Line::Replaced(other) => server.write(&other),
                },
            }
            Ok(())
        })
    }

    /// Inspects a line, and answers the messages in it that must not pass.
    pub(in crate::cli::wrap) fn judge(&self, line: &[u8]) -> io::Result<Line> {
        if first_byte(line) == Some(b'[') {
            return self.batch(line);
        }
        if self.passes(&Scan::from_message(line), line)? {
            Ok(Line::Passes)
        } else {
            Ok(Line::Replaced(Vec::new()))
        }
    }

    fn batch(&self, line: &[u8]) -> io::Result<Line> {
        let text = haft_core::json::whole_characters(line);
        let Ok(messages) = serde_json::from_slice::<Vec<&RawValue>>(&text) else { return Ok(Line::Passes) };
        let (mut kept, count) = (Vec::new(), messages.len());
        for message in messages {
            if self.passes(&Scan::from_message(message.get().as_bytes()), message.get().as_bytes())? {
                kept.push(message.get());
            }
        }
        if kept.len() == count {
            return Ok(Line::Passes);
        }
        let rest = if kept.is_empty() { String::new() } else { format!("[{}]\n", kept.join(",")) };
        Ok(Line::Replaced(rest.into_bytes()))
    }

    /// Returns whether a message may pass. Answers it otherwise.
    fn passes(&self, scan: &Scan, message: &[u8]) -> io::Result<bool> {
        let id = scan.id::<Value>();
        match (scan.method(), id) {
            (Some("tools/list"), id) => self.tools.list_requested(id.as_ref(), !scan.has_cursor),
            (None, Some(id)) if self.tools.is_asked(&id) => {
                self.answered(message)?;
                return Ok(false);
            }
            (Some(method), id) => {
                if method == "tools/call"
                    && let Some(why) = self.refusal(scan)
                {
                    self.refuse(id, &why)?;
                    return Ok(false);
                }
                if method == "initialize" && is_of_forms(message) {
                    self.tools.client_can_ask();
                }
                if let Some(id) = id {
                    self.tools.other_requested(id);
                }
            }
            (None, _) => {}
        }
        Ok(true)
    }

    /// Returns the reason why a call is refused.
    fn refusal(&self, call: &Scan) -> Option<String> {
        match call.name() {
            Some(name) => self.tools.refusal(name),
            None => self.tools.has_pins().then(|| UNREADABLE.to_owned()),
        }
    }

    /// Handles the client's answer to haft's own question.
    fn answered(&self, message: &[u8]) -> io::Result<()> {
        let answer = serde_json::from_slice(message).unwrap_or_default();
        if self.tools.answered(&answer) {
            let news = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
            self.output.write(format!("{news}\n").as_bytes())?;
        }
        Ok(())
    }

    fn refuse(&self, id: Option<Value>, why: &str) -> io::Result<()> {
        self.tools.tell(why);
        id.map_or(Ok(()), |id| self.output.write(&error_line(&id, NO_TOOL, why)))
    }

    /// Relays a long line that starts with `beginning`, as it arrives, unless it may be a call that must not pass.
    fn long(&self, beginning: &[u8], client: &mut impl BufRead, server: &mut Server) -> io::Result<()> {
        let mut scan = Scan::from_message(beginning);
        let is_call = !scan.is_answer && scan.method().is_none_or(|method| method == "tools/call");
        let passes = match scan.name() {
            _ if !is_call || !self.tools.has_pins() => true,
            Some(name) => self.tools.refusal(name).is_none(),
            None => false,
        };
        if passes {
            server.write(beginning);
        }
        let mut is_over = false;
        while !is_over {
            let bytes = client.fill_buf()?;
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            is_over = end.is_some() || piece.is_empty();
            scan.feed(piece);
            if passes {
                server.write(piece);
            }
            let count = piece.len();
            client.consume(count);
        }
        if passes {
            self.passes(&scan, b"").map(drop)
        } else {
            let why = scan.name().and_then(|name| self.tools.refusal(name));
            self.refuse(scan.id(), &why.unwrap_or_else(|| UNNAMED.to_owned()))
        }
    }
}

/// The server's input. `None` after the server has closed it.
struct Server(Option<File>);

impl Server {
    fn write(&mut self, bytes: &[u8]) {
        if self.0.as_mut().is_some_and(|server| server.write_all(bytes).is_err()) {
            self.0 = None;
        }
    }
}

fn is_of_forms(message: &[u8]) -> bool {
    serde_json::from_slice(message).is_ok_and(|request| question::shows_forms(&request))
}
