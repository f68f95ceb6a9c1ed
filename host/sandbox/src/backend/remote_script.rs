//! Runs one script on a target and reads its output to the end. The end of the transport process does not count
//! as the end of the script: only the status line does.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backend::marker::Marker;
use crate::backend::marker::Preamble;
use crate::backend::script::Script;
use crate::backend::transport::{Line, RunAs, Transport};
use crate::confine::{HelperEvent, HelperSession};
use crate::error::BackendError;
use crate::process::start::{command, started};
use crate::process::{ProcessError, watch};
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;

/// Time limit for a script to stop its processes after its input was closed: TERM, a grace period of 1 s, KILL,
/// and time for a slow connection.
const HANG_UP: Duration = Duration::from_secs(5);
/// Time for reading the pipes of a transport process after it has ended.
const DRAIN: Duration = Duration::from_millis(300);
/// Time for reading standard output after the status line.
const REST: Duration = Duration::from_secs(2);
/// Time limit for stopping a transport process.
const STOP: Duration = Duration::from_secs(3);
/// Limit on the bytes of one read: the capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// Limit on the bytes of a transport process's messages that explain a failure.
const MAX_WORDS: usize = 2000;

/// The standard input after the script itself.
#[derive(Debug)]
pub(crate) enum Feed {
    /// Nothing, but open: it is closed when the script is no longer needed.
    Open,
    /// These bytes, then the end.
    Data(Vec<u8>),
}

/// A sink that discards all output.
pub(crate) struct Nowhere;

impl OutputSink for Nowhere {
    fn take(&self, _: Stream, _: &[u8]) {}
}

#[derive(Debug)]
pub(crate) enum Report {
    /// The content of the status line.
    Status(String),
    /// The script was stopped, or its status line did not arrive after it was asked to stop.
    Stopped,
}

/// Runs `script`. When `stop` is cancelled, the script's input is closed and it has 5 seconds to end.
pub(crate) async fn run(
    transport: &dyn Transport,
    run_as: RunAs<'_>,
    script: &Script,
    feed: Feed,
    out: &dyn OutputSink,
    stop: &CancellationToken,
) -> Result<Report, BackendError> {
    let line = transport.line(run_as).await?;
    let captured = Captured::new(script.nonce(), out);
    let mut process = RemoteScript::start(line, script, feed).await?;
    let is_over = tokio::select! {
        biased;
        () = process.read_until_end(&captured) => true,
        () = stop.cancelled() => false,
    };
    if !is_over {
        process.hang_up();
        // After the time limit only this end of the connection can be stopped.
        let _: Result<(), _> = timeout(HANG_UP, process.read_until_end(&captured)).await;
    }
    process.end(&captured).await;
    if let Some(path) = process.session.replaced() {
        return Err(ProcessError::Replaced { path }.into());
    }
    let (status, words) = captured.finish();
    match status {
        Some(status) => Ok(Report::Status(status)),
        None if !is_over => Ok(Report::Stopped),
        None => Err(BackendError::Unreachable(transport.lost(words.trim()).await)),
    }
}

/// Captures a script's output: passes it to the sink and parses the status line.
struct Captured<'a> {
    out: &'a dyn OutputSink,
    state: Lock<Streams>,
}

/// The state of both streams.
struct Streams {
    before_output: Preamble,
    before_errors: Preamble,
    marker: Marker,
    /// The first bytes of standard error, including messages of the target's shell.
    words: Vec<u8>,
}

impl<'a> Captured<'a> {
    fn new(nonce: &str, out: &'a dyn OutputSink) -> Self {
        let (before_output, before_errors) = (Preamble::new(nonce), Preamble::new(nonce));
        let state = Streams { before_output, before_errors, marker: Marker::new(nonce), words: Vec::new() };
        Self { out, state: Lock::new(state) }
    }

    fn take(&self, stream: Stream, bytes: &[u8]) {
        let mut state = self.state.lock();
        let Streams { before_output, before_errors, marker, words } = &mut *state;
        match stream {
            Stream::Output => pass(self.out, stream, &before_output.strip(bytes, |_| {})),
            Stream::Errors => {
                let bytes = before_errors.strip(bytes, |skipped| keep(words, skipped));
                marker.push(&bytes, |text| errors(self.out, words, text));
            }
        }
    }

    fn is_over(&self) -> bool {
        self.state.lock().marker.is_whole()
    }

    fn finish(self) -> (Option<String>, String) {
        let state = self.state.into_inner();
        let Streams { before_errors, marker, mut words, .. } = state;
        keep(&mut words, &before_errors.finish());
        let status = marker.finish(|text| errors(self.out, &mut words, text));
        (status, String::from_utf8_lossy(&words).into_owned())
    }
}

/// Passes on output before the status line, and keeps its first bytes.
fn errors(out: &dyn OutputSink, words: &mut Vec<u8>, text: &[u8]) {
    keep(words, text);
    pass(out, Stream::Errors, text);
}

fn keep(words: &mut Vec<u8>, text: &[u8]) {
    let room = MAX_WORDS.saturating_sub(words.len());
    words.extend(text.iter().take(room));
}

fn pass(out: &dyn OutputSink, stream: Stream, text: &[u8]) {
    if !text.is_empty() {
        out.take(stream, text);
    }
}

/// The process that runs a script remotely. Dropping it closes the script's input.
struct RemoteScript {
    session: HelperSession,
    streams: [Option<Receiver>; 2],
    /// The task that writes the input and then keeps it open.
    input: Option<JoinHandle<()>>,
    ended: bool,
    gone: bool,
    /// The slot of the connection, held until the end.
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Drop for RemoteScript {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl RemoteScript {
    async fn start(line: Line, script: &Script, feed: Feed) -> Result<Self, ProcessError> {
        let command = command(&line.program, &line.arguments, &line.environment, &line.grant)?;
        let pipe = || io::pipe().map_err(watch("open a pipe"));
        let ((theirs, input), (output, their_output), (errors, their_errors)) = (pipe()?, pipe()?, pipe()?);
        let receiver = |pipe: io::PipeReader| Receiver::from_owned_fd(OwnedFd::from(pipe));
        let streams =
            [receiver(output), receiver(errors)].map(|stream| stream.map_err(watch("read from a pipe")));
        let [output, errors] = streams;
        let input = Sender::from_owned_fd(input.into()).map_err(watch("write to a pipe"))?;
        let pipes = [theirs.into(), their_output.into(), their_errors.into()];
        let session = started(&line.confiner, &line.grant, &command, pipes).await?;
        line.confiner.refill(&line.grant);
        let input = tokio::spawn(fed(input, script.clone(), feed));
        let streams = [Some(output?), Some(errors?)];
        Ok(Self { session, streams, input: Some(input), ended: false, gone: false, _place: line.place })
    }

    /// Closes the input: the script is no longer needed.
    fn hang_up(&mut self) {
        if let Some(input) = self.input.take() {
            input.abort();
        }
    }

    /// Reads until the status line is complete, or the process has ended and its pipes are drained.
    async fn read_until_end(&mut self, captured: &Captured<'_>) {
        let Self { session, streams, ended, gone, .. } = self;
        let mut reading = std::pin::pin!(read_both(streams, captured));
        while !*ended {
            tokio::select! {
                biased;
                () = &mut reading => return,
                news = session.change() => {
                    *gone = !matches!(&news, Ok(HelperEvent::Ended(ended)) if ended.left);
                    *ended = true;
                }
            }
        }
        // An escaped process may keep the pipes open forever.
        let _: Result<_, _> = timeout(DRAIN, reading).await;
    }

    /// Ends the remaining processes; reads on, so that none of them blocks on output.
    async fn end(&mut self, captured: &Captured<'_>) {
        self.hang_up();
        if self.gone || (!self.ended && self.ended_soon().await) || self.session.stop().is_err() {
            return;
        }
        let session = &mut self.session;
        let gone = async { while matches!(session.change().await, Ok(HelperEvent::Ended(_))) {} };
        let reading = timeout(DRAIN, read_both(&mut self.streams, captured));
        // Processes that still exist after the limit cannot be killed by the kernel.
        let _: Result<_, _> = timeout(STOP, async { tokio::join!(gone, reading) }).await;
    }

    /// Reports whether the process ends by itself shortly, as it does after the script's end.
    async fn ended_soon(&mut self) -> bool {
        match timeout(DRAIN, self.session.change()).await {
            Ok(news) => !matches!(news, Ok(HelperEvent::Ended(ended)) if ended.left),
            Err(_) => false,
        }
    }
}

/// Writes the script and the following data. The input stays open until this future is dropped.
async fn fed(mut input: Sender, script: Script, feed: Feed) {
    // A write fails if the reader has ended, which is detected elsewhere.
    let _ = match feed {
        Feed::Open => {
            let written = input.write_all(&script.alone()).await;
            std::future::pending::<()>().await;
            written
        }
        Feed::Data(data) => match input.write_all(&script.before_data()).await {
            Ok(()) => input.write_all(&data).await,
            failed => failed,
        },
    };
}

/// Reads both streams to their ends. After the status line the remaining output is in transit: an escaped
/// process may keep the other stream open forever.
async fn read_both(streams: &mut [Option<Receiver>; 2], captured: &Captured<'_>) {
    let [output, errors] = streams;
    let mut output = std::pin::pin!(read(output, Stream::Output, captured));
    let mut errors = std::pin::pin!(read(errors, Stream::Errors, captured));
    tokio::select! {
        () = &mut output => errors.await,
        () = &mut errors => drop(timeout(REST, output).await),
    }
}

/// Reads a stream to its end, or up to the script's status line.
async fn read(pipe: &mut Option<Receiver>, stream: Stream, captured: &Captured<'_>) {
    let mut buffer = vec![0; CHUNK].into_boxed_slice();
    while let Some(open) = &pipe {
        // Either error means that the pipe is closed.
        let read = match open.readable().await {
            Ok(()) => open.try_read(&mut buffer),
            Err(error) => Err(error),
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Ok(count) if count > 0 => {
                captured.take(stream, buffer.get(..count).unwrap_or_default());
                if stream == Stream::Errors && captured.is_over() {
                    return;
                }
            }
            Ok(_) | Err(_) => *pipe = None,
        }
    }
}
