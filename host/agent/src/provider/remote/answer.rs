//! One answer to one request: its status, and its body within bounds of size and time. Knows nothing
//! of what it says.

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

/// 16 MiB of a body that is read as one: a list of models is a tenth of that.
const MAX_BODY: usize = 16 << 20;
/// How long a connection that stays open is listened to after the end of an answer: what it cost may come then.
const AFTER_END: Duration = Duration::from_secs(2);
/// 64 KiB of an error's body are read: its message is at the start.
const MAX_ERROR_BODY: usize = 64 << 10;

/// An attempt that failed.
#[derive(Debug)]
pub(super) struct Miss {
    pub(super) failure: Failure,
    /// What it cost all the same.
    pub(super) usage: Usage,
}

impl Miss {
    /// Whether the server is there, and has nothing where it was asked.
    pub(super) fn is_without_list(&self) -> bool {
        matches!(self.failure, Failure::Status { status: 404 | 405, .. })
    }
}

impl From<Failure> for Miss {
    fn from(failure: Failure) -> Self {
        Self { failure, usage: Usage::default() }
    }
}

/// An answer whose head has come.
pub(super) struct Answer {
    response: Response,
    timeouts: Timeouts,
    /// When its first piece must have come.
    begins: Instant,
    began: bool,
    /// When it is over at the latest, once it has ended by its own account.
    ends: Option<Instant>,
    /// Whether it was asked for in pieces: a whole one comes when it is complete.
    in_pieces: bool,
}

impl Answer {
    /// The answer to `request`. One that was asked for in pieces has to begin within its own time.
    pub(super) async fn to(
        client: &Client,
        request: Request,
        timeouts: Timeouts,
        in_pieces: bool,
    ) -> Result<Self, Failure> {
        let begins = Instant::now() + timeouts.first_byte;
        let silent = |_| Failure::Silent { began: false, waited: timeouts.first_byte };
        let head = client.execute(request);
        // Whole answers come when they are complete: the client's own limit, `timeouts.total`, is theirs.
        let response = if in_pieces { timeout_at(begins, head).await.map_err(silent)? } else { head.await };
        let response = response.map_err(|error| unanswered(&error, timeouts))?;
        Ok(Self { response, timeouts, begins, began: false, ends: None, in_pieces })
    }

    /// Itself where it is a success.
    pub(super) async fn refusal(self) -> Result<Self, Failure> {
        if self.response.status().is_success() { Ok(self) } else { Err(refused(self).await) }
    }

    /// The next piece of the body. `is_whole`: the answer has ended, by its own account.
    pub(super) async fn piece(&mut self, is_whole: bool) -> Result<Option<Vec<u8>>, Failure> {
        let began = self.began;
        let read = self.response.chunk();
        let idle = self.timeouts.idle;
        if is_whole {
            self.ends.get_or_insert_with(|| Instant::now() + idle.min(AFTER_END));
        }
        let until = self.ends.unwrap_or_else(|| Instant::now() + idle);
        let (read, waited) = match (began, self.in_pieces || is_whole) {
            // The client's own limit holds.
            (_, false) => (Ok(read.await), self.timeouts.total),
            (true, true) => (timeout_at(until, read).await, idle),
            (false, true) => (timeout_at(self.begins, read).await, self.timeouts.first_byte),
        };
        let read = read.map_err(|_| Failure::Silent { began, waited })?;
        let piece = read.map_err(|error| broken(&error, self.timeouts))?;
        self.began = true;
        Ok(piece.map(Into::into))
    }

    /// The whole body.
    pub(super) async fn whole(self) -> Result<Vec<u8>, Failure> {
        let read = read(self.response, MAX_BODY + 1).await;
        let body = read.map_err(|error| broken(&error, self.timeouts))?;
        if body.len() > MAX_BODY { Err(Failure::TooLarge(MAX_BODY)) } else { Ok(body) }
    }
}

fn header<'r>(response: &'r Response, name: &str) -> Option<&'r str> {
    response.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok())
}

/// What a status that is not success says.
async fn refused(answer: Answer) -> Failure {
    let response = answer.response;
    let status = response.status().as_u16();
    let asked = asked_wait(&response);
    // Following the redirect would send the key and the conversation to another host.
    let target = header(&response, "location")
        .map(|target| format!("redirected to `{target}`, which haft does not follow"));
    if let Some(text) = target.filter(|_| (300..400).contains(&status)) {
        return refusal(status, &Value::Null, text);
    }
    // Only the status is of interest where its explanation does not come.
    let read = timeout(answer.timeouts.idle, read(response, MAX_ERROR_BODY)).await;
    let body = read.ok().and_then(Result::ok).unwrap_or_default();
    let parsed = serde_json::from_slice(&body).unwrap_or_default();
    let mut failure = refusal(status, &parsed, explain(&parsed, &body));
    if let (Failure::Status { wait, .. }, Some(asked)) = (&mut failure, asked) {
        *wait = Some(asked);
    }
    failure
}

/// How long the headers ask to wait.
fn asked_wait(response: &Response) -> Option<Duration> {
    let exact = header(response, "retry-after-ms").and_then(|value| value.trim().parse().ok());
    exact
        .map(Duration::from_millis)
        .or_else(|| header(response, "retry-after").and_then(|value| retry_after(value, SystemTime::now())))
}

/// There was no answer.
fn unanswered(error: &reqwest::Error, timeouts: Timeouts) -> Failure {
    // The limit for connecting reports itself as both; it is the other that means "too slow".
    if error.is_timeout() && !error.is_connect() {
        return Failure::TimedOut(timeouts.total);
    }
    let text = chain(error);
    // The client hands on what `rustls` says as text only.
    if text.contains("invalid peer certificate") { Failure::Untrusted(text) } else { Failure::Connect(text) }
}

/// The answer broke off.
fn broken(error: &reqwest::Error, timeouts: Timeouts) -> Failure {
    if error.is_timeout() { Failure::TimedOut(timeouts.total) } else { Failure::Interrupted(chain(error)) }
}

/// The first `limit` bytes of a body, unpacked.
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

/// What an error's body says: the message that vendors put in one of these places, with its
/// code, or else all of it.
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
