//! The reading thread: splits standard input into lines and parses them as messages. Holds one line at a time; of a
//! line that is too long it keeps only the request id. Stops reading while the client reads no answers.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use super::{Burst, Client, Hangup};
use crate::server::message::{self, MAX_BATCH, MAX_LINE};
use haft_core::json;
use haft_core::scan::Scan;
use haft_core::tool::inline::{self, ThreadLoad};

/// The event flag for `poll(2)`.
#[cfg(target_os = "linux")]
const HUNG_UP: PollFlags = PollFlags::RDHUP;
/// The event flag for `poll(2)`: `POLLHUP`, which is always reported.
#[cfg(target_os = "macos")]
const HUNG_UP: PollFlags = PollFlags::HUP;

/// Number of bytes of one read.
const BUFFER: usize = 64 << 10;

/// Maximum number of counted messages ahead.
const AHEAD: usize = 8;

/// Capacity in bytes of the line buffer that is reused for the next line.
const KEPT_CAPACITY: usize = 1 << 20;

/// The source of messages.
pub trait Input: Read + Send + 'static {
    /// Returns whether the other end is closed, if that can be determined without reading the rest.
    fn has_hung_up(&self) -> bool {
        false
    }
}

impl Input for File {
    fn has_hung_up(&self) -> bool {
        let mut descriptors = [PollFd::new(self, HUNG_UP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let hung_up = PollFlags::HUP | HUNG_UP | PollFlags::ERR;
        poll(&mut descriptors, Some(&now)).is_ok()
            && descriptors.iter().any(|one| one.revents().intersects(hung_up))
    }
}

/// A message and the length of its text; or the answer to an invalid or rejected one.
type Incoming = Result<(ClientJsonRpcMessage, usize), (Option<RequestId>, ErrorData)>;

/// Starts reading messages for `client` until `stop` is cancelled; `hangup` records the end.
pub(super) fn start(
    input: impl Input,
    client: Client,
    (hangup, stop): (Arc<Hangup>, CancellationToken),
) -> io::Result<()> {
    let read = move || {
        // This thread reads, makes calls and answers them, and does nothing else.
        inline::enable();
        let input = BufReader::with_capacity(BUFFER, input);
        let mut reader = Reader { input, client, burst: Burst::default(), stop, hangup };
        if let Err(error) = reader.read() {
            tracing::warn!(%error, "cannot read from standard input");
        }
    };
    std::thread::Builder::new().name("haft-input".into()).spawn(read).map(drop)
}

struct Reader<I> {
    input: BufReader<I>,
    client: Client,
    burst: Burst,
    stop: CancellationToken,
    hangup: Arc<Hangup>,
}

/// Also runs after a panic of a request: a server that does not read has to end.
impl<I> Drop for Reader<I> {
    fn drop(&mut self) {
        self.hangup.input_has_ended(&self.burst);
    }
}

impl<I: Input> Reader<I> {
    fn read(&mut self) -> io::Result<()> {
        let mut line = Vec::new();
        loop {
            if !self.input.buffer().contains(&b'\n') {
                // Before this thread blocks, held answers are written and deferred cleanups run.
                self.client.writer().flush_held();
                inline::run_cleanups(ThreadLoad::Idle);
            }
            let taken = (&mut self.input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut line)?;
            if taken == 0 {
                return Ok(());
            }
            let goes_on = if line.len() > MAX_LINE {
                let id = Scan::id_of_long(&mut self.input, std::mem::take(&mut line))?;
                self.forward(Err((id, message::too_long())))
            } else {
                // A last line without a newline is an incomplete message, or the complete one of a careless client.
                messages(line.trim_ascii()).into_iter().all(|incoming| self.forward(incoming))
            };
            if !goes_on {
                return Ok(());
            }
            line.clear();
            line.shrink_to(KEPT_CAPACITY);
        }
    }

    /// Forwards a message once there is room for its answer. Returns whether to continue reading.
    fn forward(&mut self, incoming: Incoming) -> bool {
        if let Ok((JsonRpcMessage::Request(_), _)) = &incoming {
            self.burst.request_was_read();
        }
        // A client that has hung up has written little to the pipe, and waits for the end of haft.
        self.client.writer().wait_for_room(|| self.input.get_ref().has_hung_up());
        if self.stop.is_cancelled() {
            return false;
        }
        match incoming {
            Ok((message, bytes)) => self.client.take(message, bytes, ahead(self.input.buffer())),
            Err((id, error)) => self.client.refuse(id, error),
        }
        self.burst.is_ready();
        true
    }
}

/// Returns the number of messages after the current one in `buffer`; `None` if it is empty.
fn ahead(buffer: &[u8]) -> Option<usize> {
    let whole = buffer.split(|byte| *byte == b'\n').skip(1).take(AHEAD);
    (!buffer.is_empty()).then(|| whole.count())
}

/// Returns the messages of a line: one, or those of a batch (2025-03-26).
fn messages(line: &[u8]) -> Vec<Incoming> {
    // Some put a byte order mark before everything.
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if line.is_empty() {
        return Vec::new();
    }
    let scan = Scan::from_message(line);
    if scan.is_batch() && message::excess(&scan).is_none() {
        return batch(line);
    }
    read(line, &scan).into_iter().collect()
}

fn batch(line: &[u8]) -> Vec<Incoming> {
    let line = &*json::whole_characters(line);
    let error = match serde_json::from_slice::<Vec<&RawValue>>(line) {
        Ok(batch) if batch.is_empty() => ErrorData::invalid_request("a batch without messages", None),
        Ok(batch) if batch.len() > MAX_BATCH => {
            ErrorData::invalid_request(format!("a batch of more than {MAX_BATCH} messages"), None)
        }
        Ok(batch) => {
            let messages = batch.iter().map(|one| one.get().as_bytes());
            return messages.filter_map(|one| read(one, &Scan::from_message(one))).collect();
        }
        Err(_) => match json::read(line) {
            Ok(_) => ErrorData::invalid_request("not a batch of messages", None),
            Err(error) => ErrorData::parse_error(error.to_string(), None),
        },
    };
    vec![Err((None, error))]
}

/// Returns the message, or the answer to an invalid one.
fn read(line: &[u8], scan: &Scan) -> Option<Incoming> {
    match message::parse(line, scan) {
        Ok(message) => Some(Ok((message, line.len()))),
        Err(invalid) if invalid.is_unanswered => None,
        Err(invalid) => Some(Err((invalid.id, invalid.error))),
    }
}
