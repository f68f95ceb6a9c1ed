//! From the server to the client: every line passes byte for byte, but for tools that are held back and for lines that may
//! list tools in more ways than one.

use std::io::{self, BufRead, Read, Write};
use std::sync::Arc;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::listed::{self, Listed, may_list};
use super::{Output, first_byte};
use crate::cli::wrap::tools::Tools;
use haft_core::scan::Scan;

/// Bytes of a line that are held until its end has come: those of the longest list. Of a longer one the pieces pass as they
/// come, and it ends where it begins to list tools.
const MAX_LINE: usize = 8 << 20;
/// Bytes of a piece that are looked at again with the next one: more than the longest way to write the key of a list.
const OVERLAP: usize = 64;
/// What some clients end a line at, other than a newline and a carriage return, without its first bytes being JSON.
const OTHER_ENDS: &[&str] =
    &["\r", "\u{b}", "\u{c}", "\u{1c}", "\u{1d}", "\u{1e}", "\u{85}", "\u{2028}", "\u{2029}"];
/// Bytes that a buffer keeps for the next line.
const KEPT: usize = 64 << 10;

/// What passes on the server's lines.
pub(in crate::cli::wrap) struct Received {
    output: Arc<Output>,
    tools: Arc<Tools>,
    /// What the lines before left open, for clients that read values and not lines: such a client finds the rest of a list on
    /// another line than its beginning.
    open: Option<Scan>,
    /// The request that the client has an answer to, and the server will answer too.
    second: Option<Value>,
}

impl Received {
    pub(super) fn new(output: Arc<Output>, tools: Arc<Tools>) -> Self {
        Self { output, tools, open: None, second: None }
    }

    /// Leaves out the answer to the request `id`, which has one.
    pub(in crate::cli::wrap) fn leave_out(&mut self, id: Option<Value>) {
        self.second = id;
    }

    /// Passes on all that `server` writes, to its end or the client's.
    pub(super) fn run(&mut self, server: &mut impl BufRead) -> io::Result<()> {
        let mut line = Vec::new();
        while server.take(MAX_LINE as u64).read_until(b'\n', &mut line)? > 0 {
            if line.len() == MAX_LINE && !line.ends_with(b"\n") {
                self.long(&line, server)?;
            } else {
                self.line(&line)?;
            }
            line.clear();
            line.shrink_to(KEPT);
        }
        Ok(())
    }

    /// Passes on a line.
    pub(in crate::cli::wrap) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        if self.is_second(line) {
            return Ok(());
        }
        if !may_list(line) {
            return self.pass(line);
        }
        let (tools, is_open) = (&self.tools, self.open.is_some());
        match listed::read(line, |id| tools.is_other(id)) {
            Ok(_) if is_open => self.leave_out_line("lines before it belong to it"),
            Ok(lists) if lists.is_empty() => return self.pass(line),
            Ok(lists) => return self.lists(line, lists),
            // Without an object there is no list.
            Err(_) if !is_open && !line.contains(&b'{') => return self.pass(line),
            Err(why) => self.leave_out_line(why),
        }
        Ok(())
    }

    fn is_second(&mut self, line: &[u8]) -> bool {
        let Some(id) = &self.second else { return false };
        let scan = Scan::from_message(line);
        let is_second = scan.is_answer() && scan.id().as_ref() == Some(id);
        if is_second {
            self.second = None;
        }
        is_second
    }

    fn leave_out_line(&self, why: &str) {
        self.tools.tell(&format!("a line that may list tools was left out, since {why}"));
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

    fn pass(&mut self, line: &[u8]) -> io::Result<()> {
        if self.open.is_some() || matches!(first_byte(line), Some(b'{' | b'[')) {
            let is_within = self.open.is_some();
            let mut scan = self.open.take().unwrap_or_default();
            scan.feed(line);
            self.open = Some(scan).filter(|scan| scan.is_open() && (is_within || is_cut(line)));
        }
        self.output.write(line)
    }

    /// Passes on a line that begins so, as it comes.
    fn long(&mut self, beginning: &[u8], server: &mut impl BufRead) -> io::Result<()> {
        let output = self.output.clone();
        let mut output = output.lock();
        let may_be_several = self.open.is_some();
        let scan = self.open.take().unwrap_or_default();
        let mut long = Long { scan, may_be_several, ..Long::default() };
        let mut is_left_out = long.is_list(beginning);
        if !is_left_out {
            output.write_all(beginning)?;
        }
        let mut is_over = false;
        while !is_over {
            let bytes = server.fill_buf()?;
            let end = bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1);
            let piece = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default();
            is_over = end.is_some() || piece.is_empty();
            if !is_left_out && long.is_list(piece) {
                is_left_out = true;
                // What has passed is no message without the rest.
                output.write_all(b"\n")?;
            } else if !is_left_out {
                output.write_all(piece)?;
            }
            let count = piece.len();
            server.consume(count);
        }
        if is_left_out {
            self.leave_out_line("it has more than 8 MiB");
        }
        self.open = Some(long.scan).filter(Scan::is_open);
        Ok(())
    }
}

/// What is known of a line that passes in pieces.
#[derive(Default)]
struct Long {
    scan: Scan,
    /// The end of the last piece.
    last: Vec<u8>,
    may_list: bool,
    may_be_several: bool,
}

impl Long {
    /// Takes in a piece. Returns whether the line may list tools: it has the key where a list has it, or anywhere where it is
    /// several lines to some clients.
    fn is_list(&mut self, piece: &[u8]) -> bool {
        self.scan.feed(piece);
        let joined =
            [self.last.as_slice(), piece.get(..OVERLAP.min(piece.len())).unwrap_or_default()].concat();
        let end = piece.strip_suffix(b"\n").unwrap_or(piece);
        let end = end.strip_suffix(b"\r").unwrap_or(end);
        self.may_list |= may_list(piece) || may_list(&joined);
        self.may_be_several |= [end, joined.trim_ascii_end()].into_iter().any(has_other_end);
        self.last = piece.get(piece.len().saturating_sub(OVERLAP)..).unwrap_or_default().to_vec();
        self.scan.has_tools() || (self.may_list && self.may_be_several)
    }
}

/// Whether a line is the beginning of a value. A line of a log, such as `[a`, is none.
fn is_cut(line: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

fn has_other_end(piece: &[u8]) -> bool {
    let begins = |at: usize| {
        OTHER_ENDS.iter().any(|end| piece.get(at..).is_some_and(|rest| rest.starts_with(end.as_bytes())))
    };
    let may_begin = |byte: u8| matches!(byte, 0xb | 0xc | b'\r' | 0x1c..=0x1e | 0xc2 | 0xe2);
    piece.iter().enumerate().any(|(at, byte)| may_begin(*byte) && begins(at))
}
