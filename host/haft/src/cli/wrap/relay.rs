//! Relays the messages of client and server: one thread for each direction reads a line, inspects it and writes it. A
//! thread that cannot write does not read, so that backpressure is the same as without haft.

mod listed;
mod received;
mod sent;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};

use anyhow::Context;
use tokio::task::{JoinHandle, spawn_blocking};

pub(super) use self::received::Received;
pub(super) use self::sent::{Line, Sent};
use super::Start;
use super::tools::Tools;
use haft_core::sync::Lock;
use haft_sandbox::attached;

/// Bytes of one read: the capacity of a pipe.
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

    /// Closes the output.
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

/// Returns a line without the byte order mark that some programs write first.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line)
}

/// Returns the first byte of a line that is neither white space nor part of a byte order mark.
fn first_byte(line: &[u8]) -> Option<u8> {
    without_mark(line).iter().find(|byte| !byte.is_ascii_whitespace()).copied()
}
