//! Reads a child's output as it arrives: forwards it live and keeps a truncated copy. The caller decides when
//! to stop; a pipe may stay open for longer than the call.

use std::convert::Infallible;
use std::io;
use std::os::fd::OwnedFd;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use haft_core::event::{Event, Events};
use haft_core::tool::{Clipper, Keep};

/// Limit on the bytes of one read: the capacity of a pipe.
const CHUNK: usize = 64 << 10;

pub(crate) struct Capture {
    stdout: Stream,
    stderr: Option<Stream>,
}

#[derive(Clone, Copy)]
pub(crate) struct Listener<'a> {
    /// The id of the call.
    pub call: &'a str,
    /// The events of the call.
    pub events: &'a Events,
}

impl Capture {
    /// Reads from these pipes and keeps at most `limit` characters of each. Must be called inside a tokio
    /// runtime.
    pub(crate) fn new(stdout: OwnedFd, stderr: Option<OwnedFd>, limit: usize) -> io::Result<Self> {
        let stderr = stderr.map(|pipe| Stream::new(pipe, limit)).transpose()?;
        Ok(Self { stdout: Stream::new(stdout, limit)?, stderr })
    }

    /// Reads until all write ends are closed. Cancel-safe.
    pub(crate) async fn read_to_end(&mut self, to: Listener<'_>) {
        let emit_stdout =
            |chunk: &str| to.events.emit(|| Event::Stdout { call: to.call.into(), chunk: chunk.into() });
        let emit_stderr =
            |chunk: &str| to.events.emit(|| Event::Stderr { call: to.call.into(), chunk: chunk.into() });
        let stdout = self.stdout.read_to_end(emit_stdout);
        match &mut self.stderr {
            Some(stderr) => drop(tokio::join!(stdout, stderr.read_to_end(emit_stderr))),
            None => stdout.await,
        }
    }

    /// Reads while it is polled, so that a full pipe never blocks the child.
    pub(crate) async fn read_on(&mut self, to: Listener<'_>) -> Infallible {
        self.read_to_end(to).await;
        std::future::pending().await
    }

    /// Returns the kept standard output, or both streams if they were merged, and the kept standard error.
    pub(crate) fn into_parts(self) -> (Clipper, Option<Clipper>) {
        let ended = |mut stream: Stream| {
            stream.text.end();
            stream.text
        };
        (ended(self.stdout), self.stderr.map(ended))
    }
}

struct Stream {
    /// `None` after all write ends are closed.
    pipe: Option<Receiver>,
    buffer: Box<[u8]>,
    text: Clipper,
}

impl Stream {
    fn new(pipe: OwnedFd, limit: usize) -> io::Result<Self> {
        let buffer = vec![0; CHUNK].into_boxed_slice();
        let text = Clipper::new(limit, Keep::Ends).as_terminal();
        Ok(Self { pipe: Some(Receiver::from_owned_fd(pipe)?), buffer, text })
    }

    async fn read_to_end(&mut self, emit: impl Fn(&str)) {
        while let Some(pipe) = &mut self.pipe {
            match pipe.read(&mut self.buffer).await {
                Ok(count) if count > 0 => {
                    let text = self.text.push(self.buffer.get(..count).unwrap_or_default());
                    if !text.is_empty() {
                        emit(&text);
                    }
                }
                // Either means that the pipe is closed.
                Ok(_) | Err(_) => self.pipe = None,
            }
        }
    }
}
