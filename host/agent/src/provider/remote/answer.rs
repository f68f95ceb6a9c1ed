//! One response to a request: its status and its body, within limits of size and time. Does not interpret the
//! content.

use std::time::{Duration, SystemTime};

use reqwest::header::HeaderValue;
use reqwest::{Client, Request, Response};
use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::codes::refusal;
use super::super::error::Failure;
use super::super::reading::Inflate;
use super::super::settings::Timeouts;
use haft_core::net::chain;
use haft_core::net::retry_after;
use haft_core::usage::Usage;

/// 16 MiB for an unstreamed body: ten times a list of models.
const MAX_BODY: usize = 16 << 20;
/// Time limit for reading an open connection after the end of an answer, because its usage may follow.
const AFTER_END: Duration = Duration::from_secs(2);
/// 64 KiB for an error body: its message is at the start.
const MAX_ERROR_BODY: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Miss {
    pub(super) failure: Failure,
    /// The usage that was charged nevertheless.
    pub(super) usage: Usage,
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self { failure, usage: Usage::default() }
    }
}

/// A response whose headers have arrived.
pub(super) struct Answer {
    response: Response,
    timeouts: Timeouts,
    /// The deadline for the first piece.
    begins: Instant,
    began: bool,
    /// The deadline for the end of the body, once the answer is complete.
    ends: Option<Instant>,
    /// Whether a streamed response was requested: an unstreamed one arrives when it is complete.
    in_pieces: bool,
}

impl Answer {
    /// Sends `request` and waits for the headers. A streamed response must begin within `first_byte`.
    pub(super) async fn to(
        client: &Client,
        request: Request,
        timeouts: Timeouts,
        in_pieces: bool,
    ) -> Result<Self, Failure> {
        let begins = Instant::now() + timeouts.first_byte;
        let silent = |_| Failure::Silent { began: false, waited: timeouts.first_byte };
        let head = client.execute(request);
        // An unstreamed response arrives when it is complete: the client's limit `timeouts.total` applies.
        let response = if in_pieces { timeout_at(begins, head).await.map_err(silent)? } else { head.await };
        let response = response.map_err(|error| unanswered(&error, timeouts))?;
        Ok(Self { response, timeouts, begins, began: false, ends: None, in_pieces })
    }

    /// Returns the response if it is a success, or its failure.
    pub(super) async fn refusal(self) -> Result<Self, Failure> {
        if self.response.status().is_success() {
            return Ok(self);
        }
        let response = self.response;
        let status = response.status().as_u16();
        let asked = asked_wait(&response);
        // Following a redirect would send the key and the conversation to another host.
        let target = header(&response, "location")
            .map(|target| format!("redirect to `{target}` refused: haft follows no redirects here"));
        if let Some(text) = target.filter(|_| (300..400).contains(&status)) {
            return Err(refusal(status, &Value::Null, text));
        }
        // If the body does not arrive, the status alone is reported.
        let read = timeout(self.timeouts.idle, read(response, MAX_ERROR_BODY)).await;
        let body = read.ok().and_then(Result::ok).unwrap_or_default();
        let parsed = serde_json::from_slice(&body).unwrap_or_default();
        let mut failure = refusal(status, &parsed, explain(&parsed, &body));
        if let (Failure::Status { wait, .. }, Some(asked)) = (&mut failure, asked) {
            *wait = Some(asked);
        }
        Err(failure)
    }

    /// Returns the next piece of the body. `is_whole`: the answer is complete.
    pub(super) async fn piece(&mut self, is_whole: bool) -> Result<Option<Vec<u8>>, Failure> {
        let began = self.began;
        let read = self.response.chunk();
        let idle = self.timeouts.idle;
        if is_whole {
            self.ends.get_or_insert_with(|| Instant::now() + idle.min(AFTER_END));
        }
        let until = self.ends.unwrap_or_else(|| Instant::now() + idle);
        let (read, waited) = match (began, self.in_pieces || is_whole) {
            // The client's limit applies.
            (_, false) => (Ok(read.await), self.timeouts.total),
            (true, true) => (timeout_at(until, read).await, idle),
            (false, true) => (timeout_at(self.begins, read).await, self.timeouts.first_byte),
        };
        let read = read.map_err(|_| Failure::Silent { began, waited })?;
        let piece = read.map_err(|error| broken(&error, self.timeouts))?;
        self.began = true;
        Ok(piece.map(Into::into))
    }

    pub(super) async fn whole(self) -> Result<Vec<u8>, Failure> {
        let read = read(self.response, MAX_BODY + 1).await;
        let body = read.map_err(|error| broken(&error, self.timeouts))?;
        if body.len() > MAX_BODY { Err(Failure::TooLarge(MAX_BODY)) } else { Ok(body) }
    }
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok())
}

fn asked_wait(response: &Response) -> Option<Duration> {
    let exact = header(response, "retry-after-ms").and_then(|value| value.trim().parse().ok());
    exact
        .map(Duration::from_millis)
        .or_else(|| header(response, "retry-after").and_then(|value| retry_after(value, SystemTime::now())))
}

fn unanswered(error: &reqwest::Error, timeouts: Timeouts) -> Failure {
    // A connect timeout is also reported as a timeout; only the other timeouts mean a slow response.
    if error.is_timeout() && !error.is_connect() {
        return Failure::TimedOut(timeouts.total);
    }
    let text = chain(error);
    // The client forwards the error of `rustls` as text only.
    if text.contains("invalid peer certificate") { Failure::Untrusted(text) } else { Failure::Connect(text) }
}

fn broken(error: &reqwest::Error, timeouts: Timeouts) -> Failure {
    if error.is_timeout() { Failure::TimedOut(timeouts.total) } else { Failure::Interrupted(chain(error)) }
}

/// Reads the first `limit` bytes of a body, decompressed.
async fn read(mut response: Response, limit: usize) -> Result<Vec<u8>, reqwest::Error> {
    let (mut body, mut inflate) = (Vec::new(), Inflate::default());
    while body.len() < limit
        && let Some(chunk) = response.chunk().await?
    {
        let Ok(chunk) = inflate.take(&chunk, MAX_BODY) else { break };
        body.extend(chunk.iter().take(limit - body.len()));
    }
    Ok(body)
}

/// Returns the message of an error body: a member that vendors use, with its code, or otherwise the complete
/// body.
pub(super) fn explain(parsed: &Value, body: &[u8]) -> String {
    let text = |path: &str| parsed.pointer(path).and_then(Value::as_str);
    let message = ["/error/message", "/error", "/message", "/detail"].iter().find_map(|path| text(path));
    let code = ["/error/code", "/error/type", "/error/status"].iter().find_map(|path| text(path));
    match (message, code) {
        (Some(message), Some(code)) => format!("{message} ({code})"),
        (Some(message), None) => message.to_owned(),
        (None, _) if body.is_empty() => "(no body)".into(),
        (None, _) => String::from_utf8_lossy(body).into_owned(),
    }
}
