//! A trial of a server behind haft's own pipes: records its answer to the client's first request, and the accesses
//! that it was refused before. The server continues as the client's server, or is ended.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use super::Start;
use super::relay::End;
use super::watch::{self, Watcher};
use haft_core::grant::Grant;
use haft_core::sync::Lock;
use haft_sandbox::attached::Attached;
use haft_sandbox::confine::Refusal;
use haft_sandbox::process::ProcessError;

/// Maximum bytes of a line that haft reads as a message. A longer line passes and is not read as a message.
pub(super) const MAX_LINE: u64 = 1 << 20;
/// Maximum bytes before the answer to the first request. Later output is not inspected.
const MAX_BEFORE: usize = 16 << 20;
/// Maximum bytes of standard error that are stored: enough for the final messages of a program.
const MAX_WORDS: usize = 64 << 10;
/// Time limit for the answer of a server without refusals. Clients wait 10 s or longer.
const SILENT: Duration = Duration::from_secs(8);
/// Time limit for the answer of a server that was just fetched: its client has an answer already.
const SILENT_AFTER_FETCH: Duration = Duration::from_secs(30);
/// Time limit for the answer after the network was refused. Programs retry the network many times.
const WITHOUT_NETWORK: Duration = Duration::from_secs(3);
/// Time limit for refusals after the answer: they arrive through another channel.
const LATE: Duration = Duration::from_millis(50);
/// Time limit for a server's last output.
const LAST: Duration = Duration::from_millis(500);
/// Maximum number of pages of a displayed list.
const MAX_PAGES: u32 = 100;
/// Bytes of one read.
const CHUNK: usize = 64 << 10;

/// The input and the output of a server.
type Streams = (Sender, BufReader<Receiver>);

pub(super) struct Trial {
    pub(super) grant: Grant,
    /// The server. `None` after `ended` has its end.
    server: Option<Attached>,
    ended: Option<Result<ExitStatus, ProcessError>>,
    /// The pipes of the server. `None` after the relay has taken them.
    streams: Option<Streams>,
    /// The server's output before its answer.
    pub(super) before: Vec<u8>,
    /// The server's answer to the first request, as a line.
    pub(super) answer: Option<Vec<u8>>,
    /// The refused accesses, in order.
    pub(super) refused: Vec<Refusal>,
    pub(super) has_ended: bool,
    silent: Duration,
    script: Option<PathBuf>,
    words: Arc<Lock<Vec<u8>>>,
    /// Copies the server's standard error. `None` after its end.
    errors: Option<JoinHandle<()>>,
}

impl Trial {
    /// Starts the server with the agreed rights.
    pub(super) async fn start(start: &Start) -> anyhow::Result<Self> {
        let (grant, job) = start.prepared()?;
        let (input, output, [their_input, their_output]) = pipes()?;
        let (errors, their_errors) = io::pipe().context("cannot open a pipe")?;
        let streams = [their_input, their_output, their_errors.into()];
        let server = Attached::start(&start.confiner, &grant, &job, streams).await?;
        let words = Arc::<Lock<Vec<u8>>>::default();
        let errors = tokio::spawn(pass_on_errors(receiver(errors.into())?, words.clone()));
        Ok(Self {
            grant,
            server: Some(server),
            ended: None,
            streams: Some((
                Sender::from_owned_fd(input.into()).context("cannot write to a pipe")?,
                BufReader::with_capacity(CHUNK, receiver(output.into())?),
            )),
            before: Vec::new(),
            answer: None,
            refused: Vec::new(),
            has_ended: false,
            silent: if start.fetch.was_agreed { SILENT_AFTER_FETCH } else { SILENT },
            script: start.command.script.clone(),
            words,
            errors: Some(errors),
        })
    }

    /// Sends the first `request` of a client, with the id `id`. Waits for the answer, the server's end, or the time
    /// limit.
    pub(super) async fn ask(&mut self, request: &[u8], id: &Value) -> anyhow::Result<()> {
        if !request.is_empty() {
            self.exchange(request, id).await?;
        }
        if self.answer.is_some() {
            self.refused.retain(|refusal| !refusal.is_folder_of(self.script.as_deref()));
        } else if self.has_ended {
            self.hear_out().await;
            if let Some(server) = self.server.take() {
                self.ended = Some(server.finish().await);
            }
        }
        Ok(())
    }

    /// Begins a session in place of a client, after the server has answered `initialize`, and requests its tools.
    pub(super) async fn tools(&mut self) -> anyhow::Result<Vec<Value>> {
        let begun = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let (mut tools, mut parameters) = (Vec::new(), json!({}));
        for page in 0..MAX_PAGES {
            let request =
                json!({ "jsonrpc": "2.0", "id": page, "method": "tools/list", "params": parameters });
            let request = if page == 0 { format!("{begun}\n{request}\n") } else { format!("{request}\n") };
            self.answer = None;
            self.ask(request.as_bytes(), &page.into()).await?;
            let answer: Value =
                serde_json::from_slice(&self.answer.take().unwrap_or_default()).unwrap_or_default();
            tools.extend(
                answer.pointer("/result/tools").and_then(Value::as_array).into_iter().flatten().cloned(),
            );
            let next = answer.pointer("/result/nextCursor").and_then(Value::as_str);
            let Some(next) = next.filter(|next| !next.is_empty()) else { break };
            parameters = json!({ "cursor": next });
        }
        Ok(tools)
    }

    async fn exchange(&mut self, request: &[u8], id: &Value) -> anyhow::Result<()> {
        let Self { server: Some(server), streams: Some((input, output)), before, refused, silent, .. } = self
        else {
            return Ok(());
        };
        let mut deadline = Instant::now() + *silent;
        let exchange = async {
            // A server that has ended reads nothing.
            let _: io::Result<()> = input.write_all(request).await;
            answer(output, before, id).await
        };
        let mut exchange = std::pin::pin!(exchange);
        let mut is_over = false;
        loop {
            tokio::select! {
                answered = &mut exchange, if !is_over => {
                    self.answer = answered?;
                    is_over = true;
                    if self.answer.is_some() {
                        deadline = Instant::now() + LATE;
                    }
                }
                refusal = server.refusal() => {
                    let Some(refusal) = refusal? else {
                        self.has_ended = true;
                        break;
                    };
                    if matches!(refusal, Refusal::Connect(_)) && self.answer.is_none() {
                        deadline = deadline.min(Instant::now() + WITHOUT_NETWORK);
                    }
                    refused.push(refusal);
                }
                () = sleep_until(deadline) => break,
            }
        }
        if self.has_ended && !is_over {
            // The output before the server's end.
            if let Ok(answered) = timeout(LAST, exchange).await {
                self.answer = answered?;
            }
        }
        Ok(())
    }

    /// Copies the rest of the server's standard error.
    async fn hear_out(&mut self) {
        if let Some(errors) = self.errors.take() {
            let _: Result<_, _> = timeout(LAST, errors).await;
        }
    }

    /// Returns the server's standard error, if it has not answered.
    pub(super) fn words(&self) -> Option<String> {
        let words = || String::from_utf8_lossy(&self.words.lock()).into_owned();
        self.answer.is_none().then(words)
    }

    /// Returns how the server ended, if it has not answered.
    pub(super) fn ending(&self) -> Option<String> {
        self.ended.as_ref()?.as_ref().ok().map(|status| watch::unanswered(*status))
    }

    /// Returns the server's input and output for a relay, with the bytes that were read from the output.
    pub(super) fn ends(&mut self) -> anyhow::Result<Option<(End, End)>> {
        let Some((input, output)) = self.streams.take() else { return Ok(None) };
        let before = [std::mem::take(&mut self.before), output.buffer().to_vec()];
        let blocking = "cannot use a pipe";
        let input = End::new(input.into_blocking_fd().context(blocking)?);
        let output = output.into_inner().into_blocking_fd().context(blocking)?;
        Ok(Some((input, End { before: before.concat(), pipe: output })))
    }

    pub(super) async fn finish(mut self, watcher: &mut Watcher) -> anyhow::Result<ExitStatus> {
        let Some(mut server) = self.server.take() else {
            return Ok(self.ended.context("the server was not started")??);
        };
        if !self.has_ended {
            watcher.watch(&mut server).await?;
        }
        self.hear_out().await;
        Ok(server.finish().await?)
    }

    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        self.streams = None;
        let Some(mut server) = self.server.take() else { return Ok(()) };
        server.stop();
        while !self.has_ended && server.refusal().await?.is_some() {}
        // The exit status does not matter.
        let _ = server.finish().await;
        Ok(())
    }
}

/// Returns the line that answers the request `id`, and appends earlier lines to `before`. Returns `None` at the end
/// of the output.
async fn answer(
    output: &mut (impl AsyncBufRead + Unpin),
    before: &mut Vec<u8>,
    id: &Value,
) -> io::Result<Option<Vec<u8>>> {
    let mut pieces = Pieces::default();
    while before.len() < MAX_BEFORE {
        let Some(piece) = pieces.next(output).await? else { return Ok(None) };
        if pieces.is_answer(&piece, id) {
            return Ok(Some(piece));
        }
        before.extend(piece);
    }
    std::future::pending().await
}

/// Returns a pipe to a server, a pipe from it, and the server's ends of both.
pub(super) fn pipes() -> anyhow::Result<(PipeWriter, PipeReader, [OwnedFd; 2])> {
    let pipe = || io::pipe().context("cannot open a pipe");
    let ((their_input, input), (output, their_output)) = (pipe()?, pipe()?);
    Ok((input, output, [their_input.into(), their_output.into()]))
}

/// Reads the lines of a server. A long line is divided into pieces, none of which is a message.
#[derive(Default)]
struct Pieces {
    is_within: bool,
    was_within: bool,
}

impl Pieces {
    /// Returns the next line or piece. `None` at the end of the output.
    async fn next(&mut self, output: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        (&mut *output).take(MAX_LINE).read_until(b'\n', &mut piece).await?;
        self.was_within = std::mem::replace(&mut self.is_within, !piece.ends_with(b"\n"));
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }

    /// Returns whether the last piece answers the request `id`.
    fn is_answer(&self, piece: &[u8], id: &Value) -> bool {
        let message: Value = serde_json::from_slice(piece).unwrap_or_default();
        !self.was_within && message.get("id") == Some(id) && message.get("method").is_none()
    }
}

fn receiver(pipe: OwnedFd) -> anyhow::Result<Receiver> {
    Receiver::from_owned_fd(pipe).context("cannot read from a pipe")
}

/// Copies a server's standard error, and stores its beginning.
async fn pass_on_errors(mut errors: Receiver, words: Arc<Lock<Vec<u8>>>) {
    let mut out = tokio::io::stderr();
    let mut chunk = vec![0; CHUNK].into_boxed_slice();
    while let Ok(count @ 1..) = errors.read(&mut chunk).await {
        let bytes = chunk.get(..count).unwrap_or_default();
        {
            let mut words = words.lock();
            let room = MAX_WORDS - words.len();
            words.extend(bytes.iter().take(room));
        }
        // Standard error may be closed.
        let _ = out.write_all(bytes).await;
        let _ = out.flush().await;
    }
}
