//! Messages from the client to the server: every line passes byte for byte, except calls of tools that are held
//! back, which haft answers. The client is trusted to send JSON and to use each id once; the spelling of its JSON
//! does not matter.

use std::fs::File;
use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::{Output, first_byte};
use crate::cli::wrap::question;
use crate::cli::wrap::tools::Tools;
use haft_core::scan::Scan;

/// Bytes of a line that are held until it is known whether it is a call that does not pass. Clients write the name of the tool
/// before its arguments.
const MAX_LINE: usize = 8 << 20;
/// Bytes that a buffer keeps for the next line.
const KEPT: usize = 64 << 10;
/// The error code of JSON-RPC for parameters that are not taken: MCP's for a tool that does not exist.
const NO_TOOL: i32 = -32_602;
/// What becomes of a call without the name of a tool, or with one that no tool in a list has.
const UNREADABLE: &str = "the call was not made: haft cannot compare its tool name with the approved tools";
/// What becomes of a longer one that names its tool too late.
const UNNAMED: &str = "the call was not made: its tool name follows 8 MiB of arguments, so haft cannot \
    compare the name with the approved tools";

/// What passes on the client's lines.
pub(in crate::cli::wrap) struct Sent {
    output: Arc<Output>,
    tools: Arc<Tools>,
}

/// What becomes of a line.
pub(in crate::cli::wrap) enum Line {
    Passes,
    /// It does not, or something else in its place.
    Replaced(Vec<u8>),
}

impl Sent {
    pub(super) fn new(output: Arc<Output>, tools: Arc<Tools>) -> Self {
        Self { output, tools }
    }

    /// Passes on all that the client sends, to its end. A server that has closed its input gets no more.
    pub(super) fn run(&self, client: &mut impl BufRead, server: File) -> io::Result<()> {
        let mut server = Server(Some(server));
        let mut line = Vec::new();
        while client.take(MAX_LINE as u64).read_until(b'\n', &mut line)? > 0 {
            if line.len() == MAX_LINE && !line.ends_with(b"\n") {
                self.long(&line, client, &mut server)?;
            } else {
                match self.judge(&line)? {
                    Line::Passes => server.write(&line),
                    Line::Replaced(other) => server.write(&other),
                }
            }
            line.clear();
            line.shrink_to(KEPT);
        }
        Ok(())
    }

    /// Takes note of a line, and answers what of it does not pass.
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

    /// Whether a message passes; if not, it is answered.
    fn passes(&self, scan: &Scan, message: &[u8]) -> io::Result<bool> {
        let id = scan.id::<Value>();
        match (scan.method(), id) {
            (Some("tools/list"), id) => self.tools.list_requested(id.as_ref(), !scan.has_cursor()),
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

    /// Why a call is not made.
    fn refusal(&self, call: &Scan) -> Option<String> {
        match call.name() {
            Some(name) => self.tools.refusal(name),
            None => self.tools.has_pins().then(|| UNREADABLE.to_owned()),
        }
    }

    /// Takes in the answer to haft's own question.
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
        let Some(id) = id else { return Ok(()) };
        let error = json!({ "code": NO_TOOL, "message": why });
        self.output.write(format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })).as_bytes())
    }

    /// Passes on a line that begins so, as it comes, unless it may be a call that does not pass.
    fn long(&self, beginning: &[u8], client: &mut impl BufRead, server: &mut Server) -> io::Result<()> {
        let mut scan = Scan::from_message(beginning);
        let is_call = !scan.is_answer() && scan.method().is_none_or(|method| method == "tools/call");
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

/// The server's input; `None` once it has closed that.
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
