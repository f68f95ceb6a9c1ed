//! Messages from the server to the client: every line that is one JSON value in UTF-8, as MCP demands, passes byte
//! for byte, except tools that are held back and lines that may list tools in several ways. A client that reads
//! values instead of lines finds the same values: no value continues on the next line, and no value begins after
//! another on the same line.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use serde::Deserialize as _;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::listed::{self, Listed, may_list};
use super::{Output, each_line, error_line, without_mark};
use crate::cli::wrap::tools::Tools;
use haft_core::scan::Scan;

/// The error code of JSON-RPC for an answer that cannot be given.
const INTERNAL: i32 = -32_603;

pub(in crate::cli::wrap) struct Received {
    output: Arc<Output>,
    tools: Arc<Tools>,
    /// The request with an answer already, which the server will answer too.
    second: Option<Value>,
}

impl Received {
    pub(super) fn new(output: Arc<Output>, tools: Arc<Tools>) -> Self {
        Self { output, tools, second: None }
    }

    /// Omits the server's answer to the request `id`, which has an answer already.
    pub(in crate::cli::wrap) fn leave_out(&mut self, id: Option<Value>) {
        self.second = id;
    }

    /// Relays the output of `server`, until its end or the client's. Parts of a long line pass as they arrive; the session ends
    /// where such a line begins to list tools, or is not JSON.
    pub(super) fn run(&mut self, server: &mut impl BufRead) -> io::Result<()> {
        each_line(server, |line, rest| match rest {
            Some(server) => self.long(line, server),
            None => self.line(line),
        })
    }

    pub(in crate::cli::wrap) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        let line = without_mark(line);
        if self.is_second(line) {
            return Ok(());
        }
        let tools = &self.tools;
        let lists = match kind(line) {
            Ok(Kind::Words) => Ok(Vec::new()),
            Ok(Kind::Value) if !may_list(line) => Ok(Vec::new()),
            Ok(Kind::Value) => listed::read(line, |id| tools.is_other(id)),
            Err(why) => Err(why),
        };
        match lists {
            Ok(lists) if lists.is_empty() => self.output.write(line),
            Ok(lists) => self.lists(line, lists),
            Err(why) => self.leave_out_line(line, why),
        }
    }

    fn is_second(&mut self, line: &[u8]) -> bool {
        let Some(id) = &self.second else { return false };
        let scan = Scan::from_message(line);
        let is_second = scan.is_answer && scan.id().as_ref() == Some(id);
        if is_second {
            self.second = None;
        }
        is_second
    }

    /// Reports a line that is dropped. If it answers a request, the client receives an error as the answer.
    fn leave_out_line(&self, line: &[u8], why: &str) -> io::Result<()> {
        self.tools.tell(&format!("a line was dropped: {why}"));
        let scan = Scan::from_message(line);
        let Some(id) = scan.id::<Value>().filter(|_| scan.is_answer) else { return Ok(()) };
        self.output.write(&error_line(&id, INTERNAL, &format!("haft dropped the answer: {why}")))
    }

    fn lists(&mut self, line: &[u8], lists: Vec<Listed>) -> io::Result<()> {
        let judge = |mut listed: Listed| {
            let held = self.tools.page(std::mem::take(&mut listed.tools), listed.is_last);
            (listed, held)
        };
        let lists: Vec<(Listed, Vec<bool>)> = lists.into_iter().map(judge).collect();
        if lists.iter().any(|(_, held)| held.contains(&true)) {
            self.output.write(&listed::without(line, &lists))?;
        } else {
            self.output.write(line)?;
        }
        match self.tools.question() {
            Some(question) => self.output.write(&question),
            None => Ok(()),
        }
    }

    /// Relays a long line that starts with `beginning`, as it arrives. An error ends the session, because the relayed
    /// part has no end.
    fn long(&self, beginning: &[u8], server: &mut impl BufRead) -> io::Result<()> {
        let mut long = Long::new(self.output.lock(), without_mark(beginning).chain(server));
        let mut values = serde_json::Deserializer::from_reader(&mut long);
        let Err(error) = IgnoredAny::deserialize(&mut values).and_then(|_| values.end()) else {
            return Ok(());
        };
        let error = io::Error::from(error);
        if error.kind() != io::ErrorKind::BrokenPipe {
            self.tools.tell(&format!("the session ends at a line of more than 8 MiB: {error}"));
        }
        Err(error)
    }
}

/// The kind of a line that may pass.
enum Kind {
    /// One JSON value.
    Value,
    /// Text without characters of JSON, or an empty line.
    Words,
}

/// Returns the kind of a line, or the reason why it must not pass.
fn kind(line: &[u8]) -> Result<Kind, &'static str> {
    if std::str::from_utf8(line).is_err() {
        return Err("it is not UTF-8");
    }
    if serde_json::from_slice::<IgnoredAny>(line).is_ok() {
        return Ok(Kind::Value);
    }
    // A client that reads the bytes in another encoding finds JSON after a zero byte.
    let is_sign = |byte: &u8| b"{[\",:]}\0".contains(byte);
    if line.iter().any(is_sign) { Err("it is not one JSON value") } else { Ok(Kind::Words) }
}

/// Bytes of a part that are inspected again with the next part: more than the longest spelling of the key of a list.
const OVERLAP: usize = 64;
/// Maximum depth of objects and arrays. The parser stores each level, and no result has a hundredth of them.
const MAX_DEPTH: usize = 10_000;
/// Maximum bytes of a character in UTF-8 after its first byte.
const MAX_CONTINUED: usize = 3;
/// Further characters that end a line for some clients, besides newline and carriage return. Their first bytes are
/// not JSON.
const OTHER_ENDS: &[&str] =
    &["\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}"];

/// The rest of a line, for a parser. Bytes that the parser has read are written to `output`.
pub(super) struct Long<O, R> {
    output: O,
    server: R,
    /// The end of the previous parts, and from `begin` on the present part. The parser has read up to `at`.
    window: Vec<u8>,
    begin: usize,
    at: usize,
    scan: Scan,
    may_list: bool,
    may_be_several: bool,
    is_over: bool,
}

impl<O: Write, R: BufRead> Long<O, R> {
    pub(super) fn new(output: O, server: R) -> Self {
        Self {
            output,
            server,
            window: Vec::new(),
            begin: 0,
            at: 0,
            scan: Scan::default(),
            may_list: false,
            may_be_several: false,
            is_over: false,
        }
    }

    /// Writes the present part, which was read, and reads the next one.
    fn advance(&mut self) -> io::Result<()> {
        self.output.write_all(self.window.get(self.begin..).unwrap_or_default())?;
        self.window.drain(..self.window.len().saturating_sub(OVERLAP));
        (self.begin, self.at) = (self.window.len(), self.window.len());
        if self.is_over {
            return Ok(());
        }
        let bytes = self.server.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
        let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
        self.is_over = end.is_some() || piece.is_empty();
        self.window.extend_from_slice(piece);
        let count = piece.len();
        self.server.consume(count);
        self.check().map_err(io::Error::other)
    }

    /// Returns an error if the line must not continue: it has the key of a list at the place of a list, or anywhere
    /// in a line that some clients read as several lines.
    fn check(&mut self) -> Result<(), &'static str> {
        if !is_text(&self.window) {
            return Err("it is not UTF-8");
        }
        self.scan.feed(self.window.get(self.begin..).unwrap_or_default());
        self.may_list |= may_list(&self.window);
        self.may_be_several |= has_other_end(&self.window);
        if self.scan.has_tools || (self.may_list && self.may_be_several) {
            return Err("it may list tools");
        }
        if self.scan.depth > MAX_DEPTH { Err("it is nested too deeply") } else { Ok(()) }
    }
}

impl<O: Write, R: BufRead> Read for Long<O, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.window.len() {
            self.advance()?;
        }
        let count = self.window.get(self.at..).unwrap_or_default().read(buffer)?;
        self.at += count;
        Ok(count)
    }
}

/// Returns whether a part of a line is UTF-8. The part may begin and end within a character.
fn is_text(part: &[u8]) -> bool {
    let is_continued = |byte: &&u8| **byte & 0xc0 == 0x80;
    let continued = part.iter().take(MAX_CONTINUED).take_while(is_continued).count();
    match std::str::from_utf8(part.get(continued..).unwrap_or_default()) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    }
}

/// Returns whether a part of a line contains characters that end a line for some clients. A carriage return at its
/// end belongs to the next part.
fn has_other_end(part: &[u8]) -> bool {
    let begins = |at: usize| {
        let rest = part.get(at..).unwrap_or_default();
        OTHER_ENDS.iter().any(|end| rest.starts_with(end.as_bytes()))
            || matches!(rest, [b'\r', next, ..] if *next != b'\n')
    };
    let may_begin = |byte: u8| matches!(byte, 0xb | 0xc | b'\r' | 0x1c..=0x1e | 0xc2 | 0xe2);
    part.iter().enumerate().any(|(at, byte)| may_begin(*byte) && begins(at))
}
