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

/// Maximum bytes of a line that is held until it is known whether it is a call that must not pass. Clients write the
/// name of the tool before its arguments.
const MAX_LINE: usize = 8 << 20;
/// Bytes of a buffer's capacity that are kept for the next line.
const KEPT: usize = 64 << 10;
/// The error code of JSON-RPC for invalid parameters: MCP uses it for an unknown tool.
const NO_TOOL: i32 = -32_602;
/// The answer to a call without a tool name, or with a name that no tool in a list can have.
const UNREADABLE: &str = "the call was not made: haft cannot compare its tool name with the approved tools";
/// The answer to a longer call whose tool name follows too late.
const UNNAMED: &str = "the call was not made: its tool name follows 8 MiB of arguments, so haft cannot \
    compare the name with the approved tools";

/// Relays the client's lines.
pub(in crate::cli::wrap) struct Sent {
    output: Arc<Output>,
    tools: Arc<Tools>,
}

/// The decision about a line.
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
        let Some(id) = id else { return Ok(()) };
        let error = json!({ "code": NO_TOOL, "message": why });
        self.output.write(format!("{}\n", json!({ "jsonrpc": "2.0", "id": id, "error": error })).as_bytes())
    }

    /// Relays a long line that starts with `beginning`, as it arrives, unless it may be a call that must not pass.
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
