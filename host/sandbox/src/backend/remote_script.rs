//! Runs one script on a target and reads its output to the end. The end of the transport process does not count
//! as the end of the script: only the status line does.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::backend::marker::{Marker, Preamble};
use crate::backend::script::Script;
use crate::backend::transport::{Line, RunAs, Transport};
use crate::error::BackendError;
use crate::process::start::{Piped, command, piped};
use crate::process::{ProcessError, Watched};
use crate::{OutputSink, Stream};
use haft_core::sync::Lock;

/// Time limit for a script to stop its processes after its input was closed: TERM, a grace period of 1 s, KILL,
/// and time for a slow connection.
const HANG_UP: Duration = Duration::from_secs(5);
/// Time for reading the pipes of a transport process after it has ended.
const DRAIN: Duration = Duration::from_millis(300);
/// Time for reading standard output after the status line.
const REST: Duration = Duration::from_secs(2);
/// Limit on the bytes of one read: the capacity of a pipe.
const CHUNK: usize = 64 << 10;
/// Limit on the bytes of a transport process's messages that explain a failure.
const MAX_WORDS: usize = 2000;

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

/// Runs `script` with `data` as the rest of its standard input, which without data stays open. When `stop` is
/// cancelled, the script's input is closed and it has 5 seconds to end.
pub(crate) async fn run(
    transport: &dyn Transport,
    run_as: RunAs<'_>,
    script: &Script,
    data: Option<Vec<u8>>,
    out: &dyn OutputSink,
    stop: &CancellationToken,
) -> Result<Report, BackendError> {
    let line = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(Report::Stopped),
        line = transport.line(run_as) => line?,
    };
    let captured = Captured::new(&script.nonce, out);
    let mut process = RemoteScript::start(line, script, data).await?;
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
    if let Some(path) = process.watched.session.replaced() {
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
    watched: Watched,
    streams: [Option<Receiver>; 2],
    /// The task that writes the input and then keeps it open.
    input: JoinHandle<()>,
    /// The slot of the connection, held until the end.
    _place: Option<tokio::sync::OwnedSemaphorePermit>,
}

impl Drop for RemoteScript {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl RemoteScript {
    async fn start(line: Line, script: &Script, data: Option<Vec<u8>>) -> Result<Self, ProcessError> {
        let command = command(&line.program, &line.arguments, &line.environment, &line.grant)?;
        let Piped { session, input, output, errors } = piped(&line.confiner, &line.grant, &command).await?;
        let input = tokio::spawn(fed(input, script.clone(), data));
        let streams = [Some(output), Some(errors)];
        Ok(Self { watched: Watched::new(session), streams, input, _place: line.place })
    }

    fn hang_up(&self) {
        self.input.abort();
    }

    /// Reads until the status line is complete, or the process has ended and its pipes are drained.
    async fn read_until_end(&mut self, captured: &Captured<'_>) {
        let mut reading = std::pin::pin!(read_both(&mut self.streams, captured));
        tokio::select! {
            biased;
            () = &mut reading => return,
            // An error means that it is no longer supervised.
            _ = self.watched.ended() => {}
        }
        // An escaped process may keep the pipes open forever.
        let _: Result<_, _> = timeout(DRAIN, reading).await;
    }

    /// Ends the remaining processes; reads on, so that none of them blocks on output.
    async fn end(&mut self, captured: &Captured<'_>) {
        self.hang_up();
        // It ends by itself shortly, as it does after the script's end.
        let _: Result<_, _> = timeout(DRAIN, self.watched.ended()).await;
        if !self.watched.gone {
            let reading = timeout(DRAIN, read_both(&mut self.streams, captured));
            let _ = tokio::join!(self.watched.stop(), reading);
        }
    }
}

/// Writes the script and the following data. The input stays open until this future is dropped.
async fn fed(mut input: Sender, script: Script, data: Option<Vec<u8>>) {
    // A write fails if the reader has ended, which is detected elsewhere.
    let _ = match data {
        None => {
            let written = input.write_all(&script.alone()).await;
            std::future::pending::<()>().await;
            written
        }
        Some(data) => match input.write_all(&script.before_data()).await {
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
    while let Some(open) = pipe {
        match open.read(&mut buffer).await {
            Ok(count) if count > 0 => {
                captured.take(stream, buffer.get(..count).unwrap_or_default());
                if stream == Stream::Errors && captured.is_over() {
                    return;
                }
            }
            // Either means that the pipe is closed.
            Ok(_) | Err(_) => *pipe = None,
        }
    }
}
