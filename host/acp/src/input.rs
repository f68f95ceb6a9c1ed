//! Reads the lines of the editor on a thread. Holds one line at a time, and of a line that is too long only the id.

use std::io::{self, BufRead, BufReader, Read};

use agent_client_protocol_schema::v1::RequestId;
use tokio::sync::mpsc;

use crate::bounds::{MAX_LINE, QUEUE};
use haft_core::scan::Scan;

/// A line of input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line that is not empty, without its end.
    Whole(Vec<u8>),
    /// A line that exceeds the limit; its id, if it is a request.
    TooLong(Option<RequestId>),
}

/// Starts reading. The channel closes at the end of the input.
pub(crate) fn start(input: impl Read + Send + 'static) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(QUEUE);
    let read = move || {
        let mut input = BufReader::new(input);
        loop {
            match next(&mut input) {
                Ok(Some(line)) => {
                    // The receiver was dropped.
                    if sender.blocking_send(line).is_err() {
                        return;
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "standard input cannot be read any more");
                    return;
                }
            }
        }
    };
    std::thread::Builder::new().name("haft-input".into()).spawn(read)?;
    Ok(lines)
}

/// Returns the next line that is not empty.
fn next(input: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut line = Vec::new();
    loop {
        let taken = input.by_ref().take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
        if taken == 0 {
            return Ok(None);
        }
        if line.len() > MAX_LINE {
            return Ok(Some(Line::TooLong(id_of_long(input, line)?)));
        }
        let text = line.trim_ascii();
        if !text.is_empty() {
            return Ok(Some(Line::Whole(text.to_vec())));
        }
        line.clear();
    }
}

/// Skips to the end of a line that begins with `beginning`; returns the id of the request.
fn id_of_long(input: &mut impl BufRead, beginning: Vec<u8>) -> io::Result<Option<RequestId>> {
    let mut scan = Scan::from_message(&beginning);
    let mut is_end = beginning.ends_with(b"\n");
    drop(beginning);
    while !is_end {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(buffer.len(), |end| end + 1);
        is_end = end.is_some() || buffer.is_empty();
        scan.feed(buffer.get(..used).unwrap_or_default());
        input.consume(used);
    }
    Ok(scan.id().filter(|_| !scan.is_answer()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_too_long_leaves_its_id_and_the_next_line() {
        let mut text = br#"{"jsonrpc":"2.0","id":7,"method":"x","params":""#.to_vec();
        text.resize(MAX_LINE + 100, b'a');
        text.extend_from_slice(b"\"}\n\n  \n{\"id\":8}\r\nhalf");
        let mut input = text.as_slice();
        let mut lines = Vec::new();
        while let Some(line) = next(&mut input).unwrap() {
            lines.push(line);
        }
        let whole = |text: &str| Line::Whole(text.into());
        assert_eq!(lines, [Line::TooLong(Some(RequestId::Number(7))), whole("{\"id\":8}"), whole("half")]);
    }
}
