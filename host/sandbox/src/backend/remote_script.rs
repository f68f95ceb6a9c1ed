//! Runs one script on a target and reads its output to the end. It refuses to take the end of a transport process
//! for the end of the script: only the script's last line says that.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backend::marker::Marker;
use crate::backend::preamble::Preamble;
use crate::backend::script::Script;
use crate::backend::transport::{Line, RunAs, Transport};
use crate::confine::{HelperEvent, HelperSession};
use crate::error::BackendError;
use crate::process::start::{command, started};
use crate::process::{ProcessError, watch};
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;

/// How long a script may take to stop what it started, once it was hung up on: TERM, a grace of a
/// second, KILL, and some for a slow connection.
const HANG_UP: Duration = Duration::from_secs(5);
/// How long a transport process's pipes are read on after it has ended.
const DRAIN: Duration = Duration::from_millis(300);
/// How long standard output is read on after the last line.
const REST: Duration = Duration::from_secs(2);
/// How long stopping a transport process may take.
const STOP: Duration = Duration::from_secs(3);
/// What one read takes at most; the capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// Bytes of what a transport process says that are kept to explain a failure.
const MAX_WORDS: usize = 2000;

/// What a script is given on standard input after itself.
#[derive(Debug)]
pub(crate) enum Feed {
    /// Nothing, and no end: it ends when the script is no longer wanted.
    Open,
    /// This, and then the end.
    Data(Vec<u8>),
}

/// Takes in nothing.
pub(crate) struct Nowhere;

impl OutputSink for Nowhere {
    fn take(&self, _: Stream, _: &[u8]) {}
}

/// How a script ended.
#[derive(Debug)]
pub(crate) enum Report {
    /// What the script reports with its last line.
    Status(String),
    /// The script was stopped, or its last line was not read after it was asked to stop.
    Stopped,
}

/// Runs `script`. When `stop` is cancelled it is hung up on and has a few seconds to end.
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
        // What does not end by then is stopped here, and that is all that can be done.
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

/// What a script writes: its output goes to the sink, the last line is parsed.
struct Captured<'a> {
    out: &'a dyn OutputSink,
    state: Lock<Streams>,
}

/// Where both streams are.
struct Streams {
    before_output: Preamble,
    before_errors: Preamble,
    marker: Marker,
    /// The first words on standard error, those of the target's own shell too.
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

/// Passes on what is no part of the last line, and keeps the first words of it.
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

/// The process that carries a script. Dropping it ends it.
struct RemoteScript {
    session: HelperSession,
    streams: [Option<Receiver>; 2],
    /// Writes the input and then holds it open.
    input: Option<JoinHandle<()>>,
    ended: bool,
    gone: bool,
    /// Held until the end.
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

    /// Ends its input: what it was sent for is no longer wanted.
    fn hang_up(&mut self) {
        if let Some(input) = self.input.take() {
            input.abort();
        }
    }

    /// Reads until the last line is there, or it has ended and can write no more.
    async fn read_until_end(&mut self, captured: &Captured<'_>) {
        let Self { session, streams, ended, gone, .. } = self;
        let mut both = std::pin::pin!(read_both(streams, captured));
        while !*ended {
            tokio::select! {
                biased;
                () = &mut both => return,
                news = session.news() => {
                    *gone = !matches!(&news, Ok(HelperEvent::Ended(ended)) if ended.left);
                    *ended = true;
                }
            }
        }
        // A process that escaped may hold the pipes open for ever.
        let _: Result<_, _> = timeout(DRAIN, both).await;
    }

    /// Ends what is left, reading on so that nothing is held up.
    async fn end(&mut self, captured: &Captured<'_>) {
        self.hang_up();
        if self.gone || (!self.ended && self.ended_soon().await) || self.session.stop().is_err() {
            return;
        }
        let session = &mut self.session;
        let gone = async { while matches!(session.news().await, Ok(HelperEvent::Ended(_))) {} };
        let reading = timeout(DRAIN, read_both(&mut self.streams, captured));
        // What is not gone by then the kernel cannot end.
        let _: Result<_, _> = timeout(STOP, async { tokio::join!(gone, reading) }).await;
    }

    /// Whether it ends by itself within a moment, as it does when the script has ended.
    async fn ended_soon(&mut self) -> bool {
        match timeout(DRAIN, self.session.news()).await {
            Ok(news) => !matches!(news, Ok(HelperEvent::Ended(ended)) if ended.left),
            Err(_) => false,
        }
    }
}

/// Writes the script and what follows it. The input stays open while this is not dropped.
async fn fed(mut input: Sender, script: Script, feed: Feed) {
    // A write fails when the reader has ended, which is noticed elsewhere.
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

/// Reads both streams to their ends. Once the last line is there the rest is on its way: a process
/// that escaped may hold the other stream open for ever.
async fn read_both(streams: &mut [Option<Receiver>; 2], captured: &Captured<'_>) {
    let [output, errors] = streams;
    let mut output = std::pin::pin!(read(output, Stream::Output, captured));
    let mut errors = std::pin::pin!(read(errors, Stream::Errors, captured));
    tokio::select! {
        () = &mut output => errors.await,
        () = &mut errors => drop(timeout(REST, output).await),
    }
}

/// Reads a stream to its end, or until the last line of the script is there.
async fn read(pipe: &mut Option<Receiver>, stream: Stream, captured: &Captured<'_>) {
    let mut buffer = vec![0; CHUNK].into_boxed_slice();
    while let Some(open) = &pipe {
        // An error of either means that the pipe gives no more.
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
